/*
 * Arguments of train's table (trainer/config/args_table.h) for a command that has flags of its own:
 * from a file in front of them, as key=value words behind the file, or as flags that the command
 * lacks. LLaMA-Factory's files for export and inference are read in this way, unchanged.
 */
#ifndef TR_CLI_ARG_MAP_H
#define TR_CLI_ARG_MAP_H

#include "trainer/cli/cli.h"
#include "trainer/config/args_table.h"

enum tr_arg_effect {
    TR_ARG_GIVES, /* the value of the flag `to`, with `unit` behind it */
    TR_ARG_TOLD,  /* accepted, and told unless it is the default: `to` says why */
    TR_ARG_BARRED /* only the default is accepted: `to` says why */
};

/* What a command makes of an argument. Without a rule the flag of the same name gets the value;
 * without that flag either the argument is told, or refused as train refuses it. */
struct tr_arg_rule {
    const char *arg;
    enum tr_arg_effect effect;
    const char *to, *unit; /* unit NULL: none */
};

/* Prints the notes. */
void tr_arg_map_tell(const struct tr_call *call);

/* The file's values go to the flags of the command, which has rules. FR_USAGE, FR_UNSUPPORTED begin
 * with file, line and column. */
enum fr_rc tr_arg_map_file(struct tr_call *call, const char *path, struct fr_err *err);
/* A word key=value behind the file. */
enum fr_rc tr_arg_map_word(struct tr_call *call, const char *word, struct fr_err *err);
/* A flag that the command lacks; value NULL: it stands alone. */
enum fr_rc tr_arg_map_flag(struct tr_call *call, const struct tr_arg *arg, const char *value,
                           struct fr_err *err);

#endif
