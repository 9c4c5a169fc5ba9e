/*
 * The table of built-in tasks in pipeline files: their names, the `with` keys with type and
 * meaning, their outputs. The checker, the JSON schema and the help read it; the tasks receive
 * their `with` as one JSON object made by fr_with_json(), defaults filled in from here.
 */
#ifndef FR_SPEC_KINDS_H
#define FR_SPEC_KINDS_H

#include <stdbool.h>
#include <stddef.h>

/* X(type, its name in type: of a param; NULL: none, description). */
#define FR_TYPES(X)                                                                                \
    X(STRING, "string", "a text")                                                                  \
    X(INT, "int", "a whole number") /* JSON integer */                                             \
    X(FLOAT, "float", "a number")   /* JSON real */                                                \
    X(BOOL, "bool", "true or false")                                                               \
    X(DURATION, "duration", "a duration like 10s or 1h30m") /* JSON: ms */                         \
    X(PATH, "path", "a path")               /* on control, shipped; "node:/x": the node's own */   \
    X(SIZE, "size", "a size like 512MiB")   /* JSON integer of bytes */                            \
    X(NODEPATH, NULL, "a path on the node") /* relative: below its work folder */                  \
    X(CHOICE, NULL, "one of the allowed words") /* of .choices */                                  \
    X(LIST, NULL, "a list")                     /* of texts, or one text; JSON array */            \
    X(MAP, NULL, "a map")                       /* of texts; JSON object */
#define FR_TYPE_ID(type, word, text) FR_T_##type,
enum fr_type { FR_TYPES(FR_TYPE_ID) FR_T_N };
#undef FR_TYPE_ID

struct fr_key {
    const char *name;
    enum fr_type type;
    const char *help;   /* one sentence, shown by editors and `flowrun help` */
    const char *preset; /* default as it would be written; NULL: none, and left out of the JSON */
    const char *const *choices; /* FR_T_CHOICE: NULL-ended */
    bool required;
    bool secret_ok; /* ${{ secrets.x }} may stand here */
};

/* The last output of every kind that has outputs: the task's result, as a JSON object in one line.
 * It is for programs: status --json shows it, tables do not. */
#define FR_RESULT "_result"

struct fr_kind {
    const char *name;
    const char *help;
    const struct fr_key *keys;   /* ended by a NULL name */
    const char *const *outputs;  /* NULL-ended */
    const char *const *programs; /* needs_program that it implies; NULL-ended */
    /* Its first member writes metrics to the file `metrics` in the folder that the key metrics_in
     * of its `with` names; NULL: none. */
    const char *metrics, *metrics_in;
    bool gang;      /* default of gang: */
    bool hook_only; /* stands in on_success, on_failure, on_cancel, on_exit alone */
    bool sidecar;   /* may stand in sidecars: */
    bool control;   /* the engine does it itself, on control (notify) */
};

extern const struct fr_kind fr_kinds[]; /* ended by a NULL name */

const struct fr_kind *fr_kind_find(const char *name); /* NULL when there is none */
const struct fr_key *fr_kind_key(const struct fr_kind *kind, const char *name);
const char *fr_type_name(enum fr_type type); /* "a duration like 10s" */

#endif
