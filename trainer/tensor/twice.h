/*
 * Contradictions within a folder: two keys of config.json, or two files, that differ. The trainer
 * takes the one that the reference stack takes; whoever serves the adapter must know. Readers add a
 * row; the log, inspect and inspect --verify show all rows.
 */
#ifndef TR_TENSOR_TWICE_H
#define TR_TENSOR_TWICE_H

#include "engine/base/arena.h"
#include "engine/base/json.h"
#include "engine/base/str.h"

#include <stdbool.h>

/* All texts are copied. A value may be NULL. */
struct tr_twice_row {
    const char *what;         /* "rope parameters", "weights", "eos_token" */
    const char *from, *value; /* taken: "rope_scaling", "{\"factor\":2}"; NULL: nothing taken */
    const char *over, *other; /* ignored, in the same form */
};

/* Zero is empty. */
struct tr_twice {
    struct fr_arena arena;
    struct tr_twice_row *rows;
    size_t n;
    bool bad; /* a row was lost for lack of memory; tr_twice_notes reports that */
};

/* Adds a row; does nothing if t is NULL. */
void tr_twice_add(struct tr_twice *t, const struct tr_twice_row *row);

/* Adds a row for two JSON values, unless they are equal or one is absent or null. Sets the values
 * of the row, as compact JSON. */
void tr_twice_add_json(struct tr_twice *t, struct tr_twice_row row, const json_t *value,
                       const json_t *other);

/* Adds a row for a key without effect. */
void tr_twice_idle(struct tr_twice *t, const char *where, const char *key, const json_t *value);

/* Appends a line for each row: "said twice, WHAT: FROM VALUE is taken, OVER OTHER is passed over";
 * for a row without `from`: "without effect, WHAT: OVER OTHER". */
void tr_twice_notes(const struct tr_twice *t, struct fr_buf *lines);

/* The rows as a list of objects {what, from, value, over, other}; NULL without memory. */
json_t *tr_twice_list(const struct tr_twice *t);

void tr_twice_finish(struct tr_twice *t);

#endif
