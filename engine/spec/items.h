/*
 * The items of a task: the rows of its matrix, or the elements of the list of its foreach. An
 * instance is a task x an item x a node.
 *
 * The key of a row has its values by name, in the order of the names: "lr=1e-05,rank=8". A number
 * stands there in the shortest form that reads back, a text bare where it is of letters, digits,
 * '.', '_' and '-', else as a JSON string. The key of an element is its value, likewise, where all
 * elements are scalars of at most FR_ELEMENT_KEY_MAX printable bytes with different keys; else its
 * number, from 0 on.
 */
#ifndef FR_SPEC_ITEMS_H
#define FR_SPEC_ITEMS_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stddef.h>

enum {
    FR_ITEMS_MAX = 100000,
    FR_ITEM_KEY_MAX = 200,   /* bytes, as those below */
    FR_ELEMENT_KEY_MAX = 40, /* of a value that is a key */
    FR_ELEMENT_MAX = 64 << 10,
    FR_ELEMENTS_MAX = 1 << 20,
};

struct fr_text;

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
    const struct fr_scalar *values; /* n_names; NULL: an element of a list: */
    const char *json;               /* as JSON */
    const char *text;               /* in expressions: of a scalar as fr_scalar.text, else json */
};

struct fr_items {
    const char *const *names;
    size_t n_names;
    const struct fr_item *v; /* n, at most FR_ITEMS_MAX; none: the task has no instances */
    size_t n;
    bool of_list;               /* elements of a list: there are no names */
    const struct fr_text *list; /* that gives it in the run; NULL: it stands in the file */
    bool awaited;               /* the list is known once the run gets there: n is 0 */
    uint32_t grown; /* so many lists of the run were known by then, this one included; 0: it was
                     * known from the beginning, or is awaited */
};

/* Place of name among the names, or -1. */
int fr_items_name(const struct fr_items *items, const char *name);

/* The type of a plain scalar of YAML 1.2's core schema, and its text in canonical form, which is
 * put into out. False: it is a number that is not finite or does not fit. */
bool fr_scalar_read(struct fr_str text, bool quoted, enum fr_scalar_type *type, struct fr_buf *out);
/* Appends s as it stands in a key. */
void fr_scalar_key(const struct fr_scalar *s, struct fr_buf *out);
/* Reads a list of elements, or a map of {key, value} in its order, into out (v, n, of_list), in the
 * arena. FR_USAGE: text is neither, too long, or has too many elements; the message ends a sentence
 * that began with what it is: "it is no list …". */
enum fr_rc fr_items_read(struct fr_str text, struct fr_arena *arena, struct fr_items *out,
                         struct fr_err *err);
/* Appends the member of an element that path names ("a.b"; NULL: the element itself), as it stands
 * in expressions. FR_NOTFOUND: it has none. */
enum fr_rc fr_item_member(const struct fr_item *item, const char *path, struct fr_buf *out,
                          struct fr_err *err);
/* Appends an element as it is, or the values of a row as a JSON object, null for those it lacks. */
void fr_item_json(const struct fr_items *items, size_t item, struct fr_buf *out);

#endif
