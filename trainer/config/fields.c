#include "trainer/config/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool tr_is_among(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

const json_t *tr_field(const struct tr_fields *f, const char *key)
{
    const json_t *v = json_object_get(f->object, key);

    return v == NULL || json_is_null(v) ? NULL : v;
}

enum fr_rc tr_field_need(const struct tr_fields *f, const char *key, struct fr_err *err)
{
    if (tr_field(f, key) == NULL)
        return fr_fail(err, FR_USAGE, "%s: %s is missing", f->where, key);
    return FR_OK;
}

enum fr_rc tr_field_bad(const struct tr_fields *f, const char *key, const char *want,
                        struct fr_err *err)
{
    char *text = json_dumps(json_object_get(f->object, key), JSON_ENCODE_ANY | JSON_COMPACT);

    fr_fail(err, FR_USAGE, "%s: %s is %.80s, expected %s", f->where, key,
            text != NULL ? text : "absent", want);
    free(text);
    return FR_USAGE;
}

enum fr_rc tr_field_i64(const struct tr_fields *f, const char *key, int64_t *out,
                        struct fr_err *err)
{
    const json_t *v = tr_field(f, key);
    double x;

    if (v == NULL)
        return FR_OK;
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return FR_OK;
    }
    x = json_is_real(v) ? json_real_value(v) : NAN;
    if (!(fabs(x) < 0x1p62) || x != floor(x))
        return tr_field_bad(f, key, "an integer", err);
    *out = (int64_t)x;
    return FR_OK;
}

enum fr_rc tr_field_f64(const struct tr_fields *f, const char *key, double *out, struct fr_err *err)
{
    const json_t *v = tr_field(f, key);

    if (v == NULL)
        return FR_OK;
    if (!json_is_number(v))
        return tr_field_bad(f, key, "a number", err);
    *out = json_number_value(v);
    return FR_OK;
}

enum fr_rc tr_field_bool(const struct tr_fields *f, const char *key, bool *out, struct fr_err *err)
{
    const json_t *v = tr_field(f, key);

    if (v == NULL)
        return FR_OK;
    if (!json_is_boolean(v))
        return tr_field_bad(f, key, "true or false", err);
    *out = json_is_true(v);
    return FR_OK;
}

enum fr_rc tr_field_text(const struct tr_fields *f, const char *key, const char **out,
                         struct fr_err *err)
{
    const json_t *v = tr_field(f, key);

    if (v == NULL)
        return FR_OK;
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return tr_field_bad(f, key, "text", err);
    *out = json_string_value(v);
    return FR_OK;
}
