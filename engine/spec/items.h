/*
 * The items of a task: the rows of its matrix. An instance is a task x an item x a node.
 *
 * A key has the values of an item by name, in the order of the names: "lr=1e-05,rank=8". A number
 * stands there in the shortest form that reads back, a text bare where it is of letters, digits,
 * '.', '_' and '-', else as a JSON string.
 */
#ifndef FR_SPEC_ITEMS_H
#define FR_SPEC_ITEMS_H

#include "engine/base/str.h"

#include <stddef.h>

enum { FR_ITEMS_MAX = 100000, FR_ITEM_KEY_MAX = 200 /* bytes */ };

enum fr_scalar_type {
    FR_SCALAR_NONE,
    FR_SCALAR_NULL,
    FR_SCALAR_BOOL,
    FR_SCALAR_INT,
    FR_SCALAR_FLOAT,
    FR_SCALAR_TEXT
};

struct fr_scalar { /* NONE: the item lacks the name; its value is null */
    enum fr_scalar_type type;
    const char *text; /* in expressions: "" for null, true, 8, 1e-05, or the text itself */
};

struct fr_item {
    const char *key;                /* unique within the task */
    const struct fr_scalar *values; /* n_names */
};

struct fr_items {
    const char *const *names;
    size_t n_names;
    const struct fr_item *v; /* n, at most FR_ITEMS_MAX; none: the task has no instances */
    size_t n;
};

/* Place of name among the names, or -1. */
int fr_items_name(const struct fr_items *items, const char *name);

/* The type of a plain scalar of YAML 1.2's core schema, and its text in canonical form, which is
 * put into out. False: it is a number that is not finite or does not fit. */
bool fr_scalar_read(struct fr_str text, bool quoted, enum fr_scalar_type *type, struct fr_buf *out);
/* Appends s as it stands in a key. */
void fr_scalar_key(const struct fr_scalar *s, struct fr_buf *out);
/* Appends the item's values as a JSON object, null for those that it lacks. */
void fr_item_json(const struct fr_items *items, size_t item, struct fr_buf *out);

#endif
