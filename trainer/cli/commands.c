#include "trainer/cli/cli.h"

const struct tr_command tr_commands[] = {
    {"init", "make a model folder from a config.json and a seed, or a small example", tr_cmd_init},
    {"train", "fine-tune a model: one rank of a run", tr_cmd_train},
    {"launch", "start the ranks of one node, as torchrun does", tr_cmd_launch},
    {"forward", "logits, loss and gradients of one batch", tr_cmd_forward},
    {"probe", "check and time the connections between ranks", tr_cmd_probe},
    {"inspect", "tell what a model or an adapter holds, and check it", tr_cmd_inspect},
    {"tokenize", "turn JSON strings into token ids", tr_cmd_tokenize},
};

const size_t tr_ncommands = sizeof(tr_commands) / sizeof(tr_commands[0]);
