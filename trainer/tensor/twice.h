/*
 * What a folder says in two places that differ: a key of config.json beside another one, a file
 * beside another one. One of the two is taken, the one that the reference stack takes; who serves
 * the adapter has to know it. Readers add a row; the log, inspect and inspect --verify show all.
 */
#ifndef TR_TENSOR_TWICE_H
#define TR_TENSOR_TWICE_H

#include "engine/base/arena.h"
#include "engine/base/json.h"
#include "engine/base/str.h"

#include <stdbool.h>

/* All texts are copied. A value may be NULL: the place says enough. */
struct tr_twice_row {
    const char *what;         /* "rope parameters", "weights", "eos_token" */
    const char *from, *value; /* is taken: "rope_scaling", "{\"factor\":2}"; NULL: nothing is */
    const char *over, *other; /* is passed over, in the same form */
};

/* Zero is empty. */
struct tr_twice {
    struct fr_arena arena;
    struct tr_twice_row *rows;
    size_t n;
    bool bad; /* a row was lost for lack of memory: tr_twice_notes says so */
};

/* Adds a row. t may be NULL: nobody asks. */
void tr_twice_add(struct tr_twice *t, const struct tr_twice_row *row);

/* The same of two JSON values, unless they are equal or one of them is absent or null. The values
 * of row are set here, as compact JSON. */
void tr_twice_add_json(struct tr_twice *t, struct tr_twice_row row, const json_t *value,
                       const json_t *other);

/* Adds a row for a key without effect: nothing is taken instead of it. */
void tr_twice_idle(struct tr_twice *t, const char *where, const char *key, const json_t *value);

/* One line a row: "said twice, WHAT: FROM VALUE is taken, OVER OTHER is passed over"; "without
 * effect, WHAT: OVER OTHER" of a row that takes nothing. */
void tr_twice_notes(const struct tr_twice *t, struct fr_buf *lines);

/* The rows as a list of objects {what, from, value, over, other}; NULL without memory. */
json_t *tr_twice_list(const struct tr_twice *t);

void tr_twice_finish(struct tr_twice *t);

#endif
