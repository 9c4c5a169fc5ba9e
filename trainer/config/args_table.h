/*
 * The table of flags behind args.h: name, type, default, place in struct tr_args, meaning.
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
    TR_ARG_MAYBE,  /* enum tr_maybe: true, false, or not given */
    TR_ARG_IGNORED /* accepted with any value of its old meaning; without effect */
};

struct tr_arg {
    const char *name;
    enum tr_arg_kind kind;
    size_t at;                  /* offset in struct tr_args */
    const char *def;            /* as it would be written; NULL: absent */
    const char *const *choices; /* of TR_ARG_CHOICE: index is the enum's value; ends with NULL */
    const char *help;
};

extern const struct tr_arg tr_arg_table[];
extern const size_t tr_arg_count;

/* Sets one argument from text; value NULL is a lone flag. FR_USAGE names flag and value. */
enum fr_rc tr_arg_set(struct tr_args *a, const struct tr_arg *arg, const char *value,
                      struct fr_err *err);

/* The row of a name in which dashes may stand for underscores, NULL when there is none. */
const struct tr_arg *tr_arg_find(const char *name, size_t n);

#endif
