/*
 * flowtrain's commands: one file and one line of the table in commands.c each.
 */
#ifndef TR_CLI_CLI_H
#define TR_CLI_CLI_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct tr_command {
    const char *name, *summary;
    /* argv[0] is the word behind the command's name. Prints its own output; an error is returned
     * and printed by main, once. */
    enum fr_rc (*run)(int argc, const char *const *argv, struct fr_err *err);
};

extern const struct tr_command tr_commands[];
extern const size_t tr_ncommands;

enum fr_rc tr_cmd_launch(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_train(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_forward(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_eval(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_generate(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_export(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_convert(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_merge(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_plan(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_probe(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_init(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_inspect(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_cmd_tokenize(int argc, const char *const *argv, struct fr_err *err);

/* For scripts of completion (engine/base/complete.h), and for man(1). */
enum fr_rc tr_completion(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_complete(int argc, const char *const *argv, struct fr_err *err);
enum fr_rc tr_man(int argc, const char *const *argv, struct fr_err *err);

/* Prints the versions of libraries, the chip, what products run on. */
void tr_about(void);

/* A command's own flags: --name VALUE or --name=VALUE, --name alone for a switch; - is as good as _
 * in a name. */
struct tr_flag {
    const char *name;   /* without dashes */
    const char **value; /* set to the value; NULL for a switch */
    int *on;            /* a switch's count; with a value, the number of values: each is kept,
                           value has TR_FLAG_MANY places */
    const char *help;
};

enum { TR_FLAG_MANY = 16 };

struct tr_arg_map;

/* Words that are no flags go to rest[0..nrest), at most max_rest of them. With leading the flags
 * end at the first such word, or behind "--": argv[used] is the word that follows. */
struct tr_flags {
    const struct tr_flag *flags;
    size_t n;
    const char **rest;
    size_t max_rest, nrest;
    bool leading;
    int used;
    const char *const *shorts; /* letters and the flags that they stand for, in turn, NULL behind
                                  them; with it a flag's beginning will do, as with argparse */
    struct tr_arg_map *map; /* arguments of train are taken too, as flags and from a file in front
                               of them (arg_map.h); NULL: they are unknown */
};

/* FR_USAGE for unknown flags (with a suggestion), missing values and words too many. */
enum fr_rc tr_flags_read(struct tr_flags *f, int argc, const char *const *argv, struct fr_err *err);

/* Adds one line a flag. */
void tr_flags_help(const struct tr_flags *f, struct fr_buf *out);

/* Whether one of the words before "--" asks for help. */
bool tr_wants_help(int argc, const char *const *argv);
/* Prints usage, then one line a flag. */
enum fr_rc tr_flags_print(const char *usage, const struct tr_flags *f, struct fr_err *err);

/* Path of this program, to start it again. */
const char *tr_program(void);

/* What an exit status of flowtrain means; `flowtrain help` prints it. */
struct tr_exit {
    int status;
    const char *meaning;
};

extern const struct tr_exit tr_exits[];
extern const size_t tr_nexits;

int tr_exit_status(enum fr_rc rc);

#endif
