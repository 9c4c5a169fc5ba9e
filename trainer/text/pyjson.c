#include "trainer/text/pyjson.h"

#include "trainer/text/quickjson.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before the digits of a number that jansson cannot hold, kept as a string. No text of a data
 * set begins with NUL and these letters. */
static const char mark[] = "\0number:";
enum { MARK = sizeof(mark) - 1 };

bool tr_pyjson_number(const json_t *v)
{
    return json_is_string(v) && json_string_length(v) > MARK &&
           memcmp(json_string_value(v), mark, MARK) == 0;
}

bool tr_pyjson_is_text(const json_t *v)
{
    return json_is_string(v) && !tr_pyjson_number(v);
}

/* After the string or the number that begins at p. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p < end ? p + 1 : end;
}

static const char *skip_number(const char *p, const char *end)
{
    while (p < end && (isdigit((unsigned char)*p) || strchr("+-.eE", *p) != NULL) && *p != '\0')
        p++;
    return p;
}

static bool is_integer(const char *p, size_t n)
{
    return memchr(p, '.', n) == NULL && memchr(p, 'e', n) == NULL && memchr(p, 'E', n) == NULL;
}

/* jansson holds 18 digits for sure. */
static bool too_large(const char *p, size_t n)
{
    char digits[400];

    if (is_integer(p, n))
        return n > 18;
    if (n >= sizeof(digits))
        return true;
    memcpy(digits, p, n);
    digits[n] = '\0';
    return isinf(strtod(digits, NULL));
}

/* The length of a number that JSON itself does not have, and Python's reader takes; 0: none. */
static size_t word_number(const char *p, const char *end)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};

    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(end - p) >= n && memcmp(p, words[i], n) == 0)
            return n;
    }
    return 0;
}

/* text with the numbers that are too large, or words, as marked strings. */
static void mark_numbers(struct fr_str text, struct fr_buf *out)
{
    const char *end = text.p + text.n;

    for (const char *p = text.p, *next; p < end; p = next) {
        size_t word = word_number(p, end);
        bool number = word > 0 || *p == '-' || isdigit((unsigned char)*p);

        next = *p == '"'  ? skip_string(p, end)
               : word > 0 ? p + word
               : number   ? skip_number(p, end)
                          : p + 1;
        if (word > 0 || (number && too_large(p, (size_t)(next - p)))) {
            fr_buf_text(out, "\"\\u0000number:");
            fr_buf_add(out, p, (size_t)(next - p));
            fr_buf_text(out, "\"");
        } else
            fr_buf_add(out, p, (size_t)(next - p));
    }
}

enum fr_rc tr_pyjson_parse(struct fr_str text, const char *name, json_t **out, struct fr_err *err)
{
    struct fr_buf marked = {0};
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t e, first;
    enum fr_rc rc = FR_OK;

    if ((*out = tr_quick_json(text)) == NULL)
        *out = json_loadb(text.p, text.n, flags, &first);
    if (*out != NULL)
        return FR_OK;
    mark_numbers(text, &marked);
    if (!marked.bad)
        *out = json_loadb(marked.p != NULL ? marked.p : "", marked.n, flags, &e);
    if (marked.bad || (*out == NULL && json_error_code(&e) == json_error_out_of_memory))
        rc = fr_fail(err, FR_NOMEM, "%s: no memory to read JSON", name);
    else if (*out == NULL)
        rc = fr_fail(err, FR_USAGE, "%s:%d:%d: %s", name, first.line, first.column, first.text);
    fr_buf_finish(&marked);
    return rc;
}

void tr_show_float(double x, char out[32])
{
    char digits[32];

    if (!isfinite(x)) {
        snprintf(out, 32, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    int precision = 1;
    do
        snprintf(digits, sizeof(digits), "%.*e", precision - 1, x);
    while (strtod(digits, NULL) != x && ++precision <= 17);
    int exponent = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        snprintf(out, 32, "%s", digits);
        return;
    }
    int decimals = precision - 1 - exponent;
    snprintf(out, 32, "%.*f", decimals > 1 ? decimals : 1, x);
}

/* ---- writing ---- */

/* JSON or what repr() has; a member a line where indent is not 0. */
struct style {
    bool repr;
    int indent;
};

/* A marked number: Python reads a float beyond the range as infinity, and repr() has its own words.
 */
static void put_number(const char *p, size_t n, bool repr, struct fr_buf *out)
{
    bool minus = *p == '-', word = isalpha((unsigned char)p[minus]), nan = *p == 'N';

    if (is_integer(p, n) && !word)
        fr_buf_add(out, p, n);
    else if (repr)
        fr_buf_text(out, nan ? "nan" : minus ? "-inf" : "inf");
    else
        fr_buf_text(out, nan ? "NaN" : minus ? "-Infinity" : "Infinity");
}

static void dump_string(const char *p, size_t n, struct fr_buf *out)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";

    fr_buf_text(out, "\"");
    for (size_t i = 0; i < n; i++) {
        const char *special = p[i] != '\0' ? strchr(plain, p[i]) : NULL;

        if (special != NULL)
            fr_buf_fmt(out, "\\%c", letters[special - plain]);
        else if ((unsigned char)p[i] < 0x20)
            fr_buf_fmt(out, "\\u%04x", (unsigned)(unsigned char)p[i]);
        else
            fr_buf_add(out, p + i, 1);
    }
    fr_buf_text(out, "\"");
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

static void put_string(const char *p, size_t n, bool repr, struct fr_buf *out)
{
    if (repr)
        repr_string(p, n, out);
    else
        dump_string(p, n, out);
}

static void put(const json_t *v, struct style s, int at, struct fr_buf *out);

/* Writes the separator before a member of a list or an object that begins in column at. */
static void separate(bool first, struct style s, int at, struct fr_buf *out)
{
    fr_buf_text(out, first ? "" : s.indent > 0 ? "," : ", ");
    if (s.indent > 0)
        fr_buf_fmt(out, "\n%*s", at + s.indent, "");
}

static void put_members(const json_t *v, struct style s, int at, struct fr_buf *out)
{
    const char *key;
    json_t *item;
    size_t i, n = 0;

    fr_buf_text(out, json_is_object(v) ? "{" : "[");
    json_object_foreach((json_t *)v, key, item)
    {
        separate(n++ == 0, s, at, out);
        put_string(key, strlen(key), s.repr, out);
        fr_buf_text(out, ": ");
        put(item, s, at + s.indent, out);
    }
    json_array_foreach(v, i, item)
    {
        separate(n++ == 0, s, at, out);
        put(item, s, at + s.indent, out);
    }
    if (s.indent > 0 && n > 0)
        fr_buf_fmt(out, "\n%*s", at, "");
    fr_buf_text(out, json_is_object(v) ? "}" : "]");
}

static void put(const json_t *v, struct style s, int at, struct fr_buf *out)
{
    char number[32];

    switch (json_typeof(v)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        put_members(v, s, at, out);
        break;
    case JSON_STRING:
        if (tr_pyjson_number(v))
            put_number(json_string_value(v) + MARK, json_string_length(v) - MARK, s.repr, out);
        else
            put_string(json_string_value(v), json_string_length(v), s.repr, out);
        break;
    case JSON_INTEGER:
        fr_buf_fmt(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        break;
    case JSON_REAL:
        tr_show_float(json_real_value(v), number);
        fr_buf_text(out, number);
        break;
    case JSON_TRUE:
        fr_buf_text(out, s.repr ? "True" : "true");
        break;
    case JSON_FALSE:
        fr_buf_text(out, s.repr ? "False" : "false");
        break;
    case JSON_NULL:
        fr_buf_text(out, s.repr ? "None" : "null");
        break;
    }
}

void tr_pyjson_dump(const json_t *v, struct fr_buf *out)
{
    put(v, (struct style){false, 0}, 0, out);
}

void tr_pyjson_pretty(const json_t *v, int indent, struct fr_buf *out)
{
    put(v, (struct style){false, indent}, 0, out);
}

void tr_pyjson_str(const json_t *v, struct fr_buf *out)
{
    if (tr_pyjson_is_text(v))
        fr_buf_add(out, json_string_value(v), json_string_length(v));
    else
        put(v, (struct style){true, 0}, 0, out);
}
