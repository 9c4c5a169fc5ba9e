#include "trainer/cli/cli.h"

const struct tr_command *const tr_commands[] = {
    &tr_cmd_init,     &tr_cmd_train,   &tr_cmd_launch,   &tr_cmd_forward, &tr_cmd_eval,
    &tr_cmd_generate, &tr_cmd_export,  &tr_cmd_convert,  &tr_cmd_merge,   &tr_cmd_plan,
    &tr_cmd_probe,    &tr_cmd_inspect, &tr_cmd_tokenize,
};

const size_t tr_ncommands = sizeof(tr_commands) / sizeof(tr_commands[0]);

const struct tr_exit tr_exits[] = {
    {0, "done"},
    {1, "failed: disk, memory, port …; the message says what"},
    {2, "wrong arguments, configuration, model or data, or numbers that are not finite: the same "
        "again ends the same"},
    {3, "stopped as asked (SIGTERM, SIGINT); train has written its resume state"},
    {4, "another rank ended, was silent for too long, or did not let this one in"},
};

const size_t tr_nexits = sizeof(tr_exits) / sizeof(tr_exits[0]);

int tr_exit_status(enum fr_rc rc)
{
    switch (rc) {
    case FR_OK:
        return 0;
    case FR_USAGE:
    case FR_NOTFOUND:
    case FR_CORRUPT:
    case FR_SHAPE:
    case FR_DTYPE:
    case FR_UNSUPPORTED:
        return 2;
    case FR_STOPPED:
        return 3;
    case FR_UNREACHABLE:
    case FR_PROTO:
    case FR_TIMEOUT:
    case FR_PEER:
        return 4;
    case FR_IO:
    case FR_FULL:
    case FR_NOMEM:
    case FR_BUSY:
    case FR_DENIED:
    case FR_BUG:
        break;
    }
    return 1;
}
