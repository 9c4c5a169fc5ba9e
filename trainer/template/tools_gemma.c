/* Tools and calls of Gemma 4: declarations and arguments in a notation of their own. */
#include "trainer/template/tools.h"

#include "engine/base/sys.h"
#include "trainer/text/pyjson.h"
#include "trainer/text/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define QUOTE "<|\"|>"

/* As Python's str() has it; absent: nothing. */
static void put_text(const json_t *v, struct fr_buf *out)
{
    if (v != NULL)
        tr_pyjson_str(v, out);
}

/* As Python's bool() of the value has it. */
static bool is_something(const json_t *v)
{
    if (json_is_string(v))
        return json_string_length(v) > 0;
    if (json_is_array(v) || json_is_object(v))
        return json_array_size(v) + json_object_size(v) > 0;
    return json_is_true(v) || (json_is_number(v) && json_number_value(v) != 0);
}

/* KEY:<|"|>VALUE<|"|> after the comma that it needs; in capitals where it is a type. */
static void put_quoted(const char *key, const json_t *v, bool type, int *n, struct fr_buf *out)
{
    size_t from;

    if (!is_something(v))
        return;
    fr_buf_fmt(out, "%s%s:" QUOTE, (*n)++ > 0 ? "," : "", key);
    from = out->n;
    tr_pyjson_str(v, out);
    for (size_t i = from; type && !out->bad && i < out->n; i++)
        out->p[i] = (char)toupper((unsigned char)out->p[i]);
    fr_buf_text(out, QUOTE);
}

static void put_properties(const json_t *properties, struct fr_buf *out)
{
    const char *name, *comma = "";
    json_t *schema;

    fr_buf_text(out, "properties:{");
    json_object_foreach((json_t *)properties, name, schema)
    {
        int n = 0;

        fr_buf_fmt(out, "%s%s:{", comma, name);
        put_quoted("description", json_object_get(schema, "description"), false, &n, out);
        put_quoted("type", json_object_get(schema, "type"), true, &n, out);
        fr_buf_text(out, "}");
        comma = ",";
    }
    fr_buf_text(out, "}");
}

static void put_gemma_parameters(const json_t *p, struct fr_buf *out)
{
    const json_t *properties = json_object_get(p, "properties");
    const json_t *required = json_object_get(p, "required");
    int n = 0;

    fr_buf_text(out, ",parameters:{");
    if (is_something(properties)) {
        put_properties(properties, out);
        n++;
    }
    if (is_something(required)) {
        fr_buf_fmt(out, "%srequired:[", n++ > 0 ? "," : "");
        for (size_t i = 0; i < json_array_size(required); i++) {
            fr_buf_fmt(out, "%s" QUOTE, i > 0 ? "," : "");
            tr_pyjson_str(json_array_get(required, i), out);
            fr_buf_text(out, QUOTE);
        }
        fr_buf_text(out, "]");
    }
    put_quoted("type", json_object_get(p, "type"), true, &n, out);
    fr_buf_text(out, "}");
}

/* Of an answer: what it is, and its type where that is an object. */
static void put_gemma_response(const json_t *response, struct fr_buf *out)
{
    const json_t *type = json_object_get(response, "type");
    int n = 0;

    fr_buf_text(out, ",response:{");
    put_quoted("description", json_object_get(response, "description"), false, &n, out);
    if (json_is_string(type) && strcasecmp(json_string_value(type), "object") == 0)
        put_quoted("type", type, true, &n, out);
    fr_buf_text(out, "}");
}

void tr_tools_gemma_offer(const json_t *tools, struct fr_buf *out)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = tr_tools_function(json_array_get(tools, i));
        const json_t *parameters = json_object_get(f, "parameters");
        const json_t *response = json_object_get(f, "response");

        fr_buf_fmt(out, "%sdeclaration:", i > 0 ? "\n" : "");
        put_text(json_object_get(f, "name"), out);
        fr_buf_text(out, "{description:" QUOTE);
        put_text(json_object_get(f, "description"), out);
        fr_buf_text(out, QUOTE);
        if (is_something(parameters))
            put_gemma_parameters(parameters, out);
        if (is_something(response))
            put_gemma_response(response, out);
        fr_buf_text(out, "}");
    }
}

static void put_gemma(const json_t *v, struct fr_buf *out);

/* KEY:VALUE,…; the bytes of UTF-8 sort as its characters do. */
static void put_members(const json_t *v, struct fr_buf *out)
{
    size_t n = 0, size = json_object_size(v);
    const char **keys = fr_sys.alloc((size + 1) * sizeof(*keys)), *key;
    json_t *item;

    if (keys == NULL) {
        out->bad = true;
        return;
    }
    json_object_foreach((json_t *)v, key, item) keys[n++] = key;
    qsort(keys, n, sizeof(*keys), fr_by_text);
    for (size_t i = 0; i < n; i++) {
        fr_buf_fmt(out, "%s%s:", i > 0 ? "," : "", keys[i]);
        put_gemma(json_object_get(v, keys[i]), out);
    }
    fr_sys.free(keys);
}

static void put_gemma(const json_t *v, struct fr_buf *out)
{
    if (tr_pyjson_is_text(v)) {
        fr_buf_text(out, QUOTE);
        fr_buf_add(out, json_string_value(v), json_string_length(v));
        fr_buf_text(out, QUOTE);
    } else if (json_is_object(v)) {
        fr_buf_text(out, "{");
        put_members(v, out);
        fr_buf_text(out, "}");
    } else if (json_is_array(v)) {
        fr_buf_text(out, "[");
        for (size_t i = 0; i < json_array_size(v); i++) {
            fr_buf_text(out, i > 0 ? "," : "");
            put_gemma(json_array_get(v, i), out);
        }
        fr_buf_text(out, "]");
    } else if (json_is_boolean(v) || json_is_null(v))
        tr_pyjson_dump(v, out);
    else
        tr_pyjson_str(v, out);
}

void tr_tools_gemma_call(const json_t *arguments, struct fr_buf *out)
{
    if (json_is_object(arguments))
        put_members(arguments, out);
    else if (tr_pyjson_is_text(arguments)) /* as it is */
        fr_buf_add(out, json_string_value(arguments), json_string_length(arguments));
    else
        put_gemma(arguments, out);
}
