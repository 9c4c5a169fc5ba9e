/*
 * Typed members of a JSON object. Errors name file and key. An absent or null key leaves *out as it
 * is; tr_field_need makes it an error.
 */
#ifndef TR_CONFIG_FIELDS_H
#define TR_CONFIG_FIELDS_H

#include "engine/base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_fields {
    const json_t *object;
    const char *where; /* "model/config.json" or "ds.json: zero_optimization" */
};

/* Whether the word equals one of the n words. */
bool tr_is_among(const char *word, const char *const *words, size_t n);

/* The member, NULL when absent or null. */
const json_t *tr_field(const struct tr_fields *f, const char *key);

/* FR_USAGE if the key is absent or null. */
enum fr_rc tr_field_need(const struct tr_fields *f, const char *key, struct fr_err *err);

/* Integers may be written as floats without a fraction (5e8). */
enum fr_rc tr_field_i64(const struct tr_fields *f, const char *key, int64_t *out,
                        struct fr_err *err);
enum fr_rc tr_field_f64(const struct tr_fields *f, const char *key, double *out,
                        struct fr_err *err);
enum fr_rc tr_field_bool(const struct tr_fields *f, const char *key, bool *out, struct fr_err *err);
/* *out is borrowed from the JSON value; a NUL inside is FR_USAGE. */
enum fr_rc tr_field_text(const struct tr_fields *f, const char *key, const char **out,
                         struct fr_err *err);

/* FR_USAGE "WHERE: KEY is VALUE, expected WANT". */
enum fr_rc tr_field_bad(const struct tr_fields *f, const char *key, const char *want,
                        struct fr_err *err);

#endif
