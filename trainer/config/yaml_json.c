#include "trainer/config/yaml_json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static json_t *scalar(const struct fr_yaml *v)
{
    static const char *const words[] = {"true", "yes", "on", "false", "no", "off"};
    int64_t whole;
    double real;

    for (size_t i = 0; !v->quoted && i < 6; i++)
        if (strlen(words[i]) == v->text.n && strncasecmp(words[i], v->text.p, v->text.n) == 0)
            return json_boolean(i < 3);
    if (!v->quoted && fr_parse_i64(v->text, &whole, NULL) == FR_OK)
        return json_integer(whole);
    if (!v->quoted && fr_parse_f64(v->text, &real, NULL) == FR_OK && isfinite(real))
        return json_real(real);
    return json_stringn(v->text.p, v->text.n);
}

/* NULL when memory or the text is bad. */
static json_t *value(const struct fr_yaml *v)
{
    json_t *out = NULL;
    int bad = 0;

    switch (v->kind) {
    case FR_YAML_NULL:
        return json_null();
    case FR_YAML_SCALAR:
        return scalar(v);
    case FR_YAML_LIST:
        out = json_array();
        for (size_t i = 0; out != NULL && i < v->n; i++)
            bad |= json_array_append_new(out, value(v->items[i]));
        break;
    case FR_YAML_MAP:
        out = json_object();
        for (size_t i = 0; out != NULL && i < v->n; i++)
            bad |= json_object_setn_new(out, v->pairs[i].key.p, v->pairs[i].key.n,
                                        value(v->pairs[i].value));
        break;
    }
    if (bad == 0)
        return out;
    json_decref(out);
    return NULL;
}

enum fr_rc tr_yaml_json(const struct fr_yaml *v, struct fr_buf *out, struct fr_err *err)
{
    json_t *json = value(v);
    char *text = json != NULL ? json_dumps(json, JSON_ENCODE_ANY) : NULL;

    json_decref(json);
    if (text == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a value of the file");
    fr_buf_text(out, text);
    free(text);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a value of the file") : FR_OK;
}
