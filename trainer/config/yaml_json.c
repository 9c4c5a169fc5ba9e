#include "trainer/config/yaml_json.h"

#include "engine/base/json.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 64 };

/* One of three words, of the three spellings that YAML 1.1 knows: word, Word, WORD. */
static bool is_one(struct fr_str t, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0, upper = 0, len = strlen(words[i]);

        if (t.n != len)
            continue;
        while (k < len && tolower((unsigned char)t.p[k]) == words[i][k])
            upper += isupper((unsigned char)t.p[k++]) != 0;
        if (k == len &&
            (upper == 0 || upper == len || (upper == 1 && isupper((unsigned char)*t.p))))
            return true;
    }
    return false;
}

/* The text without the underscores that may stand between digits; false where it is too long. */
static bool without_bars(struct fr_str t, char out[NUMBER_MAX])
{
    size_t n = 0;

    if (t.n >= NUMBER_MAX)
        return false;
    for (size_t i = 0; i < t.n; i++)
        if (t.p[i] != '_')
            out[n++] = t.p[i];
    out[n] = '\0';
    return n > 0;
}

/* How many of the characters at p are among set. */
static size_t run(struct fr_str t, size_t at, const char *set)
{
    size_t n = 0;

    while (at + n < t.n && t.p[at + n] != '\0' && strchr(set, t.p[at + n]) != NULL)
        n++;
    return n;
}

/* Digits in groups of sixty, "1:30:15": where they end; 0: there are none. The first group begins
 * with a digit from low on. */
static size_t sixties(struct fr_str t, size_t at, char low)
{
    size_t end = at + run(t, at, "0123456789_"), groups = 0;

    if (end == at || t.p[at] < low || t.p[at] == '_')
        return 0;
    for (; end < t.n && t.p[end] == ':'; groups++) {
        size_t n = run(t, end + 1, "0123456789");

        if (n < 1 || n > 2 || (n == 2 && t.p[end + 1] > '5'))
            return 0;
        end += 1 + n;
    }
    return groups > 0 ? end : 0;
}

static double sum_of_sixties(const char *text)
{
    double sum = 0;

    for (; text != NULL; text = strchr(text, ':') != NULL ? strchr(text, ':') + 1 : NULL)
        sum = sum * 60 + strtod(text, NULL);
    return sum;
}

static bool whole_number(struct fr_str t, size_t at, int64_t *out)
{
    static const struct {
        const char *prefix, *digits;
        int base;
    } bases[] = {{"0b", "01_", 2}, {"0x", "0123456789abcdefABCDEF_", 16}, {"0", "01234567_", 8}};
    char text[NUMBER_MAX];
    size_t digits = run(t, at, "0123456789_");
    bool plain = digits > 0 && at + digits == t.n && t.p[at] >= '1' && t.p[at] <= '9';

    if (!without_bars((struct fr_str){t.p + at, t.n - at}, text))
        return false;
    if (plain || (t.n == at + 1 && t.p[at] == '0'))
        return fr_parse_i64(fr_str_of(text), out, NULL) == FR_OK;
    if (sixties(t, at, '1') == t.n) {
        *out = (int64_t)sum_of_sixties(text);
        return true;
    }
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(bases[i].prefix);

        if (t.n > at + n && strncmp(t.p + at, bases[i].prefix, n) == 0 &&
            run(t, at + n, bases[i].digits) == t.n - at - n) {
            *out = strtoll(text + n, NULL, bases[i].base);
            return true;
        }
    }
    return false;
}

/* Digits with a point, an exponent or both, as OmegaConf takes them for a number. */
static bool is_real(struct fr_str t, size_t at)
{
    size_t head = run(t, at, "0123456789_"), end = at + head, n;
    bool point = end < t.n && t.p[end] == '.', sign;

    if (head > 0 && t.p[at] == '_')
        return false;
    if (head == 0 && (at > 0 || !point || run(t, 1, "0123456789") == 0))
        return false;
    if (point)
        end += 1 + run(t, end + 1, "0123456789_");
    if (end == t.n)
        return point;
    if (t.p[end] != 'e' && t.p[end] != 'E')
        return false;
    sign = ++end < t.n && (t.p[end] == '+' || t.p[end] == '-');
    n = run(t, end + sign, "0123456789");
    return n > 0 && end + sign + n == t.n && (head > 0 || sign);
}

static bool real_number(struct fr_str t, size_t at, double *out)
{
    static const char *const inf[] = {".inf"}, *const nan_[] = {".nan"};
    struct fr_str rest = {t.p + at, t.n - at};
    size_t end = sixties(t, at, '0');
    char text[NUMBER_MAX];

    if (is_one(rest, inf, 1)) {
        *out = INFINITY;
        return true;
    }
    if (at == 0 && is_one(rest, nan_, 1)) {
        *out = NAN;
        return true;
    }
    if (!without_bars(rest, text))
        return false;
    if (end > 0 && end < t.n && t.p[end] == '.' &&
        run(t, end + 1, "0123456789_") == t.n - end - 1) {
        *out = sum_of_sixties(text);
        return true;
    }
    if (!is_real(t, at))
        return false;
    *out = strtod(text, NULL);
    return true;
}

struct tr_yaml_plain tr_yaml_plain(struct fr_str t)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    static const char *const none[] = {"null"};
    struct tr_yaml_plain p = {.type = TR_YAML_TEXT};
    size_t sign = t.n > 1 && (t.p[0] == '-' || t.p[0] == '+');
    int by = sign > 0 && t.p[0] == '-' ? -1 : 1;

    if (t.n == 0 || (t.n == 1 && t.p[0] == '~') || is_one(t, none, 1)) {
        p.type = TR_YAML_NONE;
    } else if (is_one(t, yes, 3) || is_one(t, no, 3)) {
        p.type = TR_YAML_BOOL;
        p.yes = is_one(t, yes, 3);
    } else if (whole_number(t, sign, &p.whole)) {
        p.type = TR_YAML_WHOLE;
        p.whole *= by;
        p.real = (double)p.whole;
    } else if (real_number(t, sign, &p.real)) {
        p.type = TR_YAML_REAL;
        p.real *= by;
    }
    return p;
}

static json_t *scalar(const struct fr_yaml *v)
{
    struct tr_yaml_plain p = tr_yaml_plain(v->text);

    if (v->quoted)
        p.type = TR_YAML_TEXT;
    switch (p.type) {
    case TR_YAML_NONE:
        return json_null();
    case TR_YAML_BOOL:
        return json_boolean(p.yes);
    case TR_YAML_WHOLE:
        return json_integer(p.whole);
    case TR_YAML_REAL:
        if (isfinite(p.real))
            return json_real(p.real);
        break;
    case TR_YAML_TEXT:
        break;
    }
    return json_stringn(v->text.p, v->text.n);
}

static enum fr_rc value(const struct fr_yaml *v, json_t **out, struct fr_err *err);

static enum fr_rc no_memory(struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory for a value of the file");
}

static enum fr_rc add_pair(json_t *to, const struct fr_yaml_pair *p, struct fr_err *err)
{
    json_t *v = NULL;
    enum fr_rc rc = value(p->value, &v, err);

    if (rc != FR_OK)
        return rc;
    return fr_json_put(to, p->key, v) ? FR_OK : no_memory(err);
}

static enum fr_rc value(const struct fr_yaml *v, json_t **out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    json_t *one;

    switch (v->kind) {
    case FR_YAML_NULL:
        *out = json_null();
        break;
    case FR_YAML_SCALAR:
        *out = scalar(v);
        break;
    case FR_YAML_LIST:
        *out = json_array();
        for (size_t i = 0; rc == FR_OK && i < v->n; i++)
            if ((rc = value(v->items[i], &one, err)) == FR_OK &&
                json_array_append_new(*out, one) != 0)
                rc = no_memory(err);
        break;
    case FR_YAML_MAP:
        *out = json_object();
        for (size_t i = 0; rc == FR_OK && i < v->n; i++)
            rc = add_pair(*out, &v->pairs[i], err);
        break;
    }
    if (rc == FR_OK && *out == NULL)
        rc = no_memory(err);
    if (rc != FR_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

enum fr_rc tr_yaml_json(const struct fr_yaml *v, struct fr_buf *out, struct fr_err *err)
{
    json_t *json = NULL;
    enum fr_rc rc = value(v, &json, err);

    if (rc != FR_OK)
        return rc;
    fr_json_add(out, json, JSON_ENCODE_ANY);
    json_decref(json);
    return out->bad ? no_memory(err) : FR_OK;
}
