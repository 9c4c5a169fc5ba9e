/*
 * A YAML document as a tree with positions, by libyaml. One document a file; anchors and aliases
 * are expanded within limits, and merge keys (<<) with them; tags, duplicate keys, and non-scalar
 * keys are errors. Limits: 32 MiB a file, depth 64, 1,000 anchors, 1,500,000 values after aliases
 * are expanded: a pipeline of 100,000 tasks with a dozen values each.
 */
#ifndef FR_BASE_YAML_H
#define FR_BASE_YAML_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

enum fr_yaml_kind { FR_YAML_NULL, FR_YAML_SCALAR, FR_YAML_LIST, FR_YAML_MAP };

struct fr_yaml_pair;

enum { FR_YAML_MAX_BYTES = 32 << 20, FR_YAML_MAX_VALUES = 1500000 };

struct fr_yaml {
    enum fr_yaml_kind kind;
    int line, col;      /* 1-based */
    bool quoted;        /* scalar written with quotes or as a block: a string, never a number */
    struct fr_str text; /* scalar */
    union {
        struct fr_yaml **items;             /* list: n of them */
        const struct fr_yaml_pair **sorted; /* map: the pairs by key */
    };
    struct fr_yaml_pair *pairs; /* map: n of them, in the file's order */
    size_t n;
};

struct fr_yaml_pair {
    struct fr_str key;
    int line, col; /* of the key */
    struct fr_yaml *value;
};

/* Errors read "NAME:LINE:COL: …". The tree lives in arena, keys and scalars in texts, which may be
 * the same. An empty document is NULL kind. */
enum fr_rc fr_yaml_parse(struct fr_str text, const char *name, struct fr_arena *arena,
                         struct fr_arena *texts, struct fr_yaml **out, struct fr_err *err);

/* Reads as fr_file_read_any(): the user of this process named the file. */
enum fr_rc fr_yaml_load(const char *path, struct fr_arena *arena, struct fr_yaml **out,
                        struct fr_err *err);

/* Puts the pairs of a map that was made by hand into sorted, which has room for n. */
void fr_yaml_sort(struct fr_yaml *map);

/* The pair of key in a map, or NULL; by halving. */
const struct fr_yaml_pair *fr_yaml_find(const struct fr_yaml *map, const char *key);
/* The value of key in a map, or NULL. */
struct fr_yaml *fr_yaml_get(const struct fr_yaml *map, const char *key);

#endif
