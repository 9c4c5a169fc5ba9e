/*
 * Arguments of train (trainer/config/args_table.h) for a command with flags of its own. They come
 * from a file before the flags, as key=value words after the file, or as flags that the command
 * lacks. So LLaMA-Factory's files for export and inference work unchanged.
 */
#ifndef TR_CLI_ARG_MAP_H
#define TR_CLI_ARG_MAP_H

#include "trainer/cli/cli.h"
#include "trainer/config/args_table.h"

enum tr_arg_effect {
    TR_ARG_GIVES, /* sets the flag `to`, with `unit` appended */
    TR_ARG_TOLD,  /* accepted, with a note unless it is the default: `to` is the reason */
    TR_ARG_BARRED /* only the default is accepted: `to` is the reason */
};

/* How a command treats an argument of train. Without a rule, the value goes to the flag of the same
 * name. Without that flag, the argument gets a note, or is refused as by train. */
struct tr_arg_rule {
    const char *arg;
    enum tr_arg_effect effect;
    const char *to, *unit; /* unit NULL: none */
};

/* Prints the notes. */
void tr_arg_map_tell(const struct tr_call *call);

/* Reads the file's arguments into call->text; the command has rules. Messages of FR_USAGE and
 * FR_UNSUPPORTED begin with file, line and column. */
enum fr_rc tr_arg_map_file(struct tr_call *call, const char *path, struct fr_err *err);
/* Reads a word key=value that follows the file. */
enum fr_rc tr_arg_map_word(struct tr_call *call, const char *word, struct fr_err *err);
/* Reads a flag that the command lacks; value NULL: the flag has no value. */
enum fr_rc tr_arg_map_flag(struct tr_call *call, const struct tr_arg *arg, const char *value,
                           struct fr_err *err);

#endif
