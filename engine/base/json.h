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
/* The same, as fr_file_read_any(). */
enum fr_rc fr_json_load_any(const char *path, size_t max_bytes, json_t **out, struct fr_err *err);

/* Same for text in memory; name stands in front of errors. */
enum fr_rc fr_json_parse(struct fr_str text, const char *name, json_t **out, struct fr_err *err);

/* Puts value, which is taken, under key into object. False: no memory, or a key that is not UTF-8.
 */
bool fr_json_put(json_t *object, struct fr_str key, json_t *value);
/* The text of the key in object; "" if there is none. */
const char *fr_json_text(const json_t *object, const char *key);
bool fr_json_has(const json_t *list, const char *text); /* whether the list has that text */
json_t *fr_json_real(double v);                         /* null for NaN and the infinities */
/* The key where json_object_iter() or json_object_iter_next() is. */
struct fr_str fr_json_key(void *at);

/* Writes value to path through a temporary file beside it, fsync and rename; mode 0600 or 0644.
 * flags are jansson's (JSON_INDENT(2) | JSON_SORT_KEYS …); a newline is added. */
enum fr_rc fr_json_save(const json_t *value, const char *path, size_t flags, unsigned mode,
                        struct fr_err *err);

#endif
