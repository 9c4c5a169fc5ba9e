/*
 * Private to trainer/config: the table of arguments. It has every argument of the reference
 * (LLaMA-Factory 0.9.5 with transformers 4.57, 5.6 or 5.23) and this program's own: name, type,
 * default, offset in struct tr_args, and meaning. Arguments that are refused have the reason.
 */
#ifndef TR_CONFIG_ARGS_TABLE_H
#define TR_CONFIG_ARGS_TABLE_H

#include "trainer/config/args.h"

enum tr_arg_kind {
    TR_ARG_TEXT,
    TR_ARG_BOOL,
    TR_ARG_INT,
    TR_ARG_FLOAT,
    TR_ARG_CHOICE,
    TR_ARG_MAYBE, /* enum tr_maybe: true, false, or none when absent */
    TR_ARG_JSON,  /* text; a file of arguments may give a map or a list instead of JSON */
    TR_ARG_SIZE   /* int64_t: bytes, 1 or more, as 5GB */
};

enum tr_arg_use {
    TR_ARG_WORKS,
    TR_ARG_IDLE,   /* accepted with any value of its type, without effect: help says why */
    TR_ARG_REFUSED /* only its default and the words of choices are accepted; help has the reason
                      and the replacement */
};

#define TR_ARG_NOWHERE SIZE_MAX

struct tr_arg {
    const char *name;
    enum tr_arg_kind kind;
    size_t at;                  /* offset in struct tr_args; TR_ARG_NOWHERE: not stored */
    const char *def;            /* in the spelling of a flag; NULL: absent */
    const char *const *choices; /* of TR_ARG_CHOICE: index is the enum's value; of a JSON that is
                                   refused: "KEY VALUE" of members without effect; ends with NULL */
    const char *help;
    enum tr_arg_use use;
};

extern const struct tr_arg tr_arg_table[];
extern const size_t tr_arg_count;

/* The values of arguments that are not given and have no default. */
extern const struct tr_args tr_args_absent;

/* Sets one argument from text; value NULL is a lone flag. FR_USAGE names flag and value;
 * FR_UNSUPPORTED says why the value is refused. */
enum fr_rc tr_arg_set(struct tr_args *a, const struct tr_arg *arg, const char *value,
                      struct fr_err *err);

/* Whether the value equals the default, in any spelling. */
bool tr_arg_is_default(const struct tr_arg *arg, const char *value);

/* Takes one argument of a file or a word; value NULL is null. */
typedef enum fr_rc (*tr_arg_fn)(void *self, const struct tr_arg *arg, const char *value,
                                struct fr_err *err);

/* Calls take for each argument of a .yaml, .yml or .json file, in the order of the file. Errors
 * begin with file, line and column. FR_USAGE also for an unknown name. */
enum fr_rc tr_args_visit(const char *path, tr_arg_fn take, void *self, struct fr_err *err);
/* Calls take for one word key=value that follows the file path on the command line. */
enum fr_rc tr_arg_word(const char *word, const char *path, tr_arg_fn take, void *self,
                       struct fr_err *err);
/* Whether the word names a file of arguments. */
bool tr_args_is_file(const char *word);

/* The row of a name of n bytes, in which dashes equal underscores; NULL: none. */
const struct tr_arg *tr_arg_find(const char *name, size_t n);

#endif
