/*
 * JSON by jansson, with checks: duplicate keys are refused, depth and size are limited, and an
 * error names file, line and column.
 */
#ifndef FR_BASE_JSON_H
#define FR_BASE_JSON_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <jansson.h>
#include <stdbool.h>

/* Reads a whole file, at most max_bytes, as one JSON value; *out is owned by the caller
 * (json_decref). */
enum fr_rc fr_json_load(const char *path, size_t max_bytes, json_t **out, struct fr_err *err);
/* As fr_json_load(), also from a pipe, a FIFO or a terminal: reads as fr_file_read_any(). */
enum fr_rc fr_json_load_any(const char *path, size_t max_bytes, json_t **out, struct fr_err *err);

/* As fr_json_load(), of text in memory; errors begin with name. */
enum fr_rc fr_json_parse(struct fr_str text, const char *name, json_t **out, struct fr_err *err);

/* Sets object[key] to value and takes value, also on failure. False: no memory, or the key is not
 * UTF-8. */
bool fr_json_put(json_t *object, struct fr_str key, json_t *value);
/* The string object[key], borrowed from object; "": there is no string under key. */
const char *fr_json_text(const json_t *object, const char *key);
bool fr_json_has(const json_t *list, const char *text);    /* whether the list has that text */
json_t *fr_json_texts(const char *const *texts, size_t n); /* a list of n strings */
json_t *fr_json_real(double v);                            /* null for NaN and the infinities */
/* The key of at, an iterator of json_object_iter() or json_object_iter_next(). Borrowed. */
struct fr_str fr_json_key(void *at);

/* Appends the text of value; flags are jansson's. Without memory, and of NULL, out->bad is set. */
void fr_json_add(struct fr_buf *out, const json_t *value, size_t flags);
void fr_json_add_text(struct fr_buf *out, const char *text); /* likewise, a string */
/* Prints value as a line on standard output. FR_NOMEM, also of NULL: nothing is printed. */
enum fr_rc fr_json_print(const json_t *value, size_t flags, struct fr_err *err);
/* Writes value to path through a temporary file beside it, fsync and rename; mode 0600 or 0644.
 * flags are jansson's (JSON_INDENT(2) | JSON_SORT_KEYS …); a newline is added. */
enum fr_rc fr_json_save(const json_t *value, const char *path, size_t flags, unsigned mode,
                        struct fr_err *err);

#endif
