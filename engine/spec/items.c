/* Scalars of items: their types, and how they stand in keys and in JSON. */
#include "engine/spec/items.h"

#include "engine/base/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 400 /* bytes of a number as written */ };

int fr_items_name(const struct fr_items *items, const char *name)
{
    for (size_t i = 0; items != NULL && i < items->n_names; i++)
        if (strcmp(items->names[i], name) == 0)
            return (int)i;
    return -1;
}

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

/* -?digits, or 0x and 0o with their digits; *base for strtoll, *digits where they begin. */
static bool is_int(const char *text, int *base, const char **digits)
{
    const char *p = text + (*text == '-' || *text == '+');
    const char *set = "0123456789";

    *base = 10;
    *digits = text;
    if (p == text && p[0] == '0' && (p[1] == 'x' || p[1] == 'o')) {
        *base = p[1] == 'x' ? 16 : 8;
        set = p[1] == 'x' ? "0123456789abcdefABCDEF" : "01234567";
        *digits = p += 2;
    }
    return *p != '\0' && p[strspn(p, set)] == '\0';
}

/* Digits with a point or an exponent, or both. */
static bool is_float(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');
    size_t before = strspn(p, "0123456789"), after = 0;

    p += before;
    if (*p == '.')
        after = strspn(++p, "0123456789");
    p += after;
    if (before + after == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        before = strspn(p, "0123456789");
        p += before;
        return before > 0 && *p == '\0';
    }
    return *p == '\0';
}

/* The fewest digits that read back; with an exponent below 1e-4 and from 1e16 on. */
static void put_float(double v, struct fr_buf *out)
{
    char text[64];
    int digits = 1, exponent;
    const char *e;

    for (; digits < 17; digits++) {
        snprintf(text, sizeof(text), "%.*e", digits - 1, v);
        if (strtod(text, NULL) == v)
            break;
    }
    snprintf(text, sizeof(text), "%.*e", digits - 1, v);
    e = strchr(text, 'e');
    exponent = e != NULL ? (int)strtol(e + 1, NULL, 10) : 0;
    if (exponent < -4 || exponent >= 16)
        fr_buf_text(out, text);
    else
        fr_buf_fmt(out, "%.*f", digits - 1 - exponent > 1 ? digits - 1 - exponent : 1, v);
}

static bool read_int(const char *text, struct fr_buf *out)
{
    const char *digits;
    int base;
    long long v;

    (void)is_int(text, &base, &digits);
    errno = 0;
    v = strtoll(digits, NULL, base);
    fr_buf_fmt(out, "%lld", v);
    return errno == 0;
}

bool fr_scalar_read(struct fr_str s, bool quoted, enum fr_scalar_type *type, struct fr_buf *out)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    static const char *const endless[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                          "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                          ".NaN",  ".NAN",  NULL};
    char text[NUMBER_MAX + 1] = "";
    const char *digits;
    int base;

    if (!quoted && s.n <= NUMBER_MAX)
        memcpy(text, s.p, s.n);
    *type = FR_SCALAR_TEXT;
    if (quoted || s.n > NUMBER_MAX)
        fr_buf_add(out, s.p, s.n);
    else if (is_one_of(text, nulls))
        *type = FR_SCALAR_NULL;
    else if (is_one_of(text, trues) || is_one_of(text, falses)) {
        *type = FR_SCALAR_BOOL;
        fr_buf_text(out, is_one_of(text, trues) ? "true" : "false");
    } else if (is_int(text, &base, &digits)) {
        *type = FR_SCALAR_INT;
        return read_int(text, out);
    } else if (is_float(text)) {
        double v = strtod(text, NULL);

        *type = FR_SCALAR_FLOAT;
        put_float(v, out);
        return isfinite(v);
    } else if (is_one_of(text, endless)) {
        *type = FR_SCALAR_FLOAT;
        return false;
    } else {
        fr_buf_add(out, s.p, s.n);
    }
    return true;
}

static bool is_bare(const char *text)
{
    const char *p = text;

    while (isalnum((unsigned char)*p) || (*p != '\0' && strchr("._-", *p) != NULL))
        p++;
    return *text != '\0' && *p == '\0';
}

void fr_scalar_key(const struct fr_scalar *s, struct fr_buf *out)
{
    if (s->type == FR_SCALAR_NULL)
        fr_buf_text(out, "null");
    else if (s->type != FR_SCALAR_TEXT || is_bare(s->text))
        fr_buf_text(out, s->text);
    else
        fr_json_add_text(out, s->text);
}

void fr_item_json(const struct fr_items *items, size_t item, struct fr_buf *out)
{
    if (items->of_list) {
        fr_buf_text(out, items->v[item].json);
        return;
    }
    fr_buf_text(out, "{");
    for (size_t k = 0; k < items->n_names; k++) {
        const struct fr_scalar *s = &items->v[item].values[k];

        fr_buf_fmt(out, "%s\"%s\":", k > 0 ? "," : "", items->names[k]);
        if (s->type == FR_SCALAR_TEXT)
            fr_json_add_text(out, s->text);
        else
            fr_buf_text(out, s->type <= FR_SCALAR_NULL ? "null" : s->text);
    }
    fr_buf_text(out, "}");
}
