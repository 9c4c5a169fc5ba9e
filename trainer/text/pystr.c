#include "trainer/text/pyjson.h"

#include <string.h>

static void put_repr(const json_t *v, struct fr_buf *out);

/* A number that jansson cannot hold: repr() has words of its own. */
static void repr_number(const json_t *v, struct fr_buf *out)
{
    static const char *const words[][2] = {
        {"NaN", "nan"}, {"Infinity", "inf"}, {"-Infinity", "-inf"}};
    size_t from = out->n;

    tr_pyjson_dump(v, out);
    for (size_t i = 0; i < 3 && !out->bad; i++)
        if (strcmp(out->p + from, words[i][0]) == 0) {
            out->n = from;
            fr_buf_text(out, words[i][1]);
            return;
        }
}

/* A string literal: single quotes, unless double ones save escapes. */
static void repr_string(const char *p, size_t n, struct fr_buf *out)
{
    char quote = memchr(p, '\'', n) != NULL && memchr(p, '"', n) == NULL ? '"' : '\'';

    fr_buf_add(out, &quote, 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == '\\' || c == (unsigned char)quote)
            fr_buf_fmt(out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            fr_buf_fmt(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 0x20 || c == 0x7f)
            fr_buf_fmt(out, "\\x%02x", c);
        else
            fr_buf_add(out, p + i, 1);
    }
    fr_buf_add(out, &quote, 1);
}

static void repr_object(const json_t *v, struct fr_buf *out)
{
    const char *key, *comma = "";
    json_t *item;

    fr_buf_text(out, "{");
    json_object_foreach((json_t *)v, key, item)
    {
        fr_buf_text(out, comma);
        repr_string(key, strlen(key), out);
        fr_buf_text(out, ": ");
        put_repr(item, out);
        comma = ", ";
    }
    fr_buf_text(out, "}");
}

static void put_repr(const json_t *v, struct fr_buf *out)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        repr_object(v, out);
        break;
    case JSON_ARRAY:
        fr_buf_text(out, "[");
        for (size_t i = 0; i < json_array_size(v); i++) {
            fr_buf_text(out, i > 0 ? ", " : "");
            put_repr(json_array_get(v, i), out);
        }
        fr_buf_text(out, "]");
        break;
    case JSON_STRING:
        if (!tr_pyjson_number(v))
            repr_string(json_string_value(v), json_string_length(v), out);
        else
            repr_number(v, out);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        fr_buf_text(out, json_is_true(v) ? "True" : "False");
        break;
    case JSON_NULL:
        fr_buf_text(out, "None");
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        tr_pyjson_dump(v, out);
        break;
    }
}

void tr_pyjson_str(const json_t *v, struct fr_buf *out)
{
    if (json_is_string(v) && !tr_pyjson_number(v))
        fr_buf_add(out, json_string_value(v), json_string_length(v));
    else
        put_repr(v, out);
}

static void new_line(int columns, struct fr_buf *out)
{
    fr_buf_fmt(out, "\n%*s", columns, "");
}

static void pretty(const json_t *v, int indent, int at, struct fr_buf *out)
{
    const char *key, *comma = "";
    json_t *item, *name;

    if (json_object_size(v) == 0 && json_array_size(v) == 0) {
        tr_pyjson_dump(v, out);
        return;
    }
    fr_buf_text(out, json_is_object(v) ? "{" : "[");
    json_object_foreach((json_t *)v, key, item)
    {
        fr_buf_text(out, comma);
        new_line(at + indent, out);
        if ((name = json_string(key)) == NULL) {
            out->bad = true;
            return;
        }
        tr_pyjson_dump(name, out);
        json_decref(name);
        fr_buf_text(out, ": ");
        pretty(item, indent, at + indent, out);
        comma = ",";
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        fr_buf_text(out, i > 0 ? "," : "");
        new_line(at + indent, out);
        pretty(json_array_get(v, i), indent, at + indent, out);
    }
    new_line(at, out);
    fr_buf_text(out, json_is_object(v) ? "}" : "]");
}

void tr_pyjson_pretty(const json_t *v, int indent, struct fr_buf *out)
{
    pretty(v, indent, 0, out);
}

/* Bytes of the blank that p[0..n) begins with, 0: none. text is UTF-8. */
static size_t blank_at(const char *p, size_t n)
{
    static const char *const wide[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
                                       "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf",
                                       "\xe2\x81\x9f", "\xe3\x80\x80"};

    if (n > 0 && (*p == ' ' || (*p >= '\t' && *p <= '\r') || (*p >= 0x1c && *p <= 0x1f)))
        return 1;
    if (n > 2 && memcmp(p, "\xe2\x80", 2) == 0 && (unsigned char)p[2] >= 0x80 &&
        (unsigned char)p[2] <= 0x8a) /* U+2000 to U+200A */
        return 3;
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
        if (strlen(wide[i]) <= n && memcmp(p, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return 0;
}

struct fr_str tr_py_strip(struct fr_str text)
{
    size_t n, back;

    while ((n = blank_at(text.p, text.n)) > 0)
        text = (struct fr_str){text.p + n, text.n - n};
    for (;;) {
        for (back = 1; back < text.n && ((unsigned char)text.p[text.n - back] & 0xc0) == 0x80;)
            back++;
        if (text.n == 0 || blank_at(text.p + text.n - back, back) != back)
            return text;
        text.n -= back;
    }
}
