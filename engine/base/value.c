/* Small textual values: numbers, durations, sizes, booleans, and the nearest word. */
#include "engine/base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { VALUE_MAX = 63, FAR = 3 /* edits, at most, between a word and its suggestion */ };

struct unit {
    const char *name;
    double factor;
};

/* Copies s for strtoll and friends; false when it is empty, too long, or starts with a blank. */
static bool value_text(struct fr_str s, char out[VALUE_MAX + 1])
{
    if (s.n == 0 || s.n > VALUE_MAX || isspace((unsigned char)s.p[0]))
        return false;
    memcpy(out, s.p, s.n);
    out[s.n] = '\0';
    return strlen(out) == s.n;
}

enum fr_rc fr_parse_i64(struct fr_str s, int64_t *out, struct fr_err *err)
{
    char text[VALUE_MAX + 1], *end = text;
    bool ok = value_text(s, text);

    errno = 0;
    long long v = ok ? strtoll(text, &end, 10) : 0;
    if (!ok || *end != '\0' || end == text)
        return fr_fail(err, FR_USAGE, "'%.*s' is not a whole number", (int)s.n, s.p);
    if (errno == ERANGE)
        return fr_fail(err, FR_USAGE, "%s is out of range", text);
    *out = v;
    return FR_OK;
}

enum fr_rc fr_parse_f64(struct fr_str s, double *out, struct fr_err *err)
{
    char text[VALUE_MAX + 1], *end = text;
    bool ok = value_text(s, text) && strpbrk(text, "xXpPnN") == NULL;
    double v = ok ? strtod(text, &end) : 0;

    if (!ok || *end != '\0' || end == text)
        return fr_fail(err, FR_USAGE, "'%.*s' is not a number", (int)s.n, s.p);
    if (!isfinite(v))
        return fr_fail(err, FR_USAGE, "%s is out of range", text);
    *out = v;
    return FR_OK;
}

/* The unit that starts at p, its length in *n; NULL when it is none. The longest name wins. */
static const struct unit *unit_at(const char *p, const struct unit *units, size_t count)
{
    size_t n = 0;

    while (isalpha((unsigned char)p[n]))
        n++;
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == n && strncasecmp(p, units[i].name, n) == 0)
            return &units[i];
    return NULL;
}

enum fr_rc fr_parse_duration(struct fr_str s, int64_t *ms, struct fr_err *err)
{
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    char text[VALUE_MAX + 1], *end;
    double sum = 0;
    bool ok = value_text(s, text);

    for (char *p = text; ok && *p != '\0';) {
        ok = isdigit((unsigned char)*p);
        double v = ok ? strtod(p, &end) : 0;
        const struct unit *u = ok ? unit_at(end, units, sizeof(units) / sizeof(units[0])) : NULL;
        ok = u != NULL;
        if (ok) {
            sum += v * u->factor;
            p = end + strlen(u->name);
        }
    }
    if (!ok)
        return fr_fail(err, FR_USAGE, "'%.*s' is not a duration such as 500ms, 10s, 1h30m or 2d",
                       (int)s.n, s.p);
    if (sum > 9e15)
        return fr_fail(err, FR_USAGE, "%s is out of range", text);
    *ms = llround(sum);
    return FR_OK;
}

enum fr_rc fr_parse_size(struct fr_str s, int64_t *bytes, struct fr_err *err)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"KB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"KiB", 1024},
        {"MiB", 1048576},
        {"GiB", 1073741824.0},
        {"TiB", 1099511627776.0},
        {"K", 1024},
        {"M", 1048576},
        {"G", 1073741824.0},
        {"T", 1099511627776.0},
    };
    char text[VALUE_MAX + 1], *end = text;
    bool ok = value_text(s, text) && isdigit((unsigned char)text[0]);
    double v = ok ? strtod(text, &end) : 0;
    const struct unit *u = ok ? unit_at(end, units, sizeof(units) / sizeof(units[0])) : NULL;

    if (u == NULL || end[strlen(u->name)] != '\0')
        return fr_fail(err, FR_USAGE, "'%.*s' is not a size such as 4096, 64KiB or 10GB", (int)s.n,
                       s.p);
    if (v * u->factor > 9e18)
        return fr_fail(err, FR_USAGE, "%s is out of range", text);
    *bytes = (int64_t)(v * u->factor);
    return FR_OK;
}

enum fr_rc fr_parse_bool(struct fr_str s, bool *out, struct fr_err *err)
{
    static const char *const yes[] = {"true", "yes", "t", "y", "1"};
    static const char *const no[] = {"false", "no", "f", "n", "0"};
    char text[VALUE_MAX + 1];

    if (value_text(s, text))
        for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
            if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
                *out = strcasecmp(text, yes[i]) == 0;
                return FR_OK;
            }
    return fr_fail(err, FR_USAGE, "'%.*s' is not true or false", (int)s.n, s.p);
}

void fr_show_duration(int64_t ms, char out[24])
{
    if (ms < 0)
        ms = 0;
    if (ms < 1000)
        snprintf(out, 24, "%lldms", (long long)ms);
    else if (ms < 60000)
        snprintf(out, 24, "%lld.%llds", (long long)(ms / 1000), (long long)(ms % 1000 / 100));
    else if (ms < 3600000)
        snprintf(out, 24, "%lldm%02llds", (long long)(ms / 60000), (long long)(ms / 1000 % 60));
    else
        snprintf(out, 24, "%lldh%02lldm", (long long)(ms / 3600000), (long long)(ms / 60000 % 60));
}

void fr_show_size(int64_t bytes, char out[24])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    size_t i = 0;

    while (v >= 1024 && i + 1 < sizeof(names) / sizeof(names[0])) {
        v /= 1024;
        i++;
    }
    snprintf(out, 24, i == 0 ? "%.0f %s" : "%.1f %s", v, names[i]);
}

/* Edits that turn a into b (insert, delete, replace, swap of neighbours), capped at VALUE_MAX long.
 */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][VALUE_MAX + 1], n = strlen(a), m = strlen(b);
    size_t *before = rows[0], *last = rows[1], *row = rows[2];

    if (n > VALUE_MAX || m > VALUE_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] +
                          (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[m];
}

const char *fr_suggest(const char *word, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t best_d = SIZE_MAX, len = strlen(word);

    for (size_t i = 0; i < n; i++) {
        size_t n_word = strlen(words[i]), more = n_word > len ? n_word - len : len - n_word;
        size_t d = more <= FAR ? distance(word, words[i]) : more; /* it is no less */
        bool starts = len >= 3 && strncasecmp(word, words[i], len) == 0;
        if (starts && d > 2)
            d = 2;
        if (d < best_d) {
            best_d = d;
            best = words[i];
        }
    }
    return best != NULL && best_d < len &&
                   best_d <= (len <= 3   ? 1u
                              : len <= 6 ? 2u
                                         : (size_t)FAR)
               ? best
               : NULL;
}

bool fr_path_is_inner(struct fr_str path)
{
    size_t start = 0;

    if (path.n == 0 || path.n > FR_PATH_INNER_MAX)
        return false;
    for (size_t i = 0; i <= path.n; i++) {
        if (i < path.n && path.p[i] != '/')
            continue;
        struct fr_str part = {path.p + start, i - start};
        if (part.n == 0 || part.n > 255 || fr_str_is(part, ".") || fr_str_is(part, ".."))
            return false;
        start = i + 1;
    }
    return true;
}

static bool same_letter(char a, char b, bool fold)
{
    return a == b || (fold && tolower((unsigned char)a) == tolower((unsigned char)b));
}

/* A later star replaces the one before it. */
bool fr_star_match(struct fr_str pattern, const char *s, bool fold)
{
    const char *p = pattern.p, *end = p + pattern.n, *star = NULL, *from = NULL;

    while (*s != '\0') {
        if (p < end && *p == '*') {
            star = ++p;
            from = s;
        } else if (p < end && (*p == '?' || same_letter(*p, *s, fold))) {
            p++;
            s++;
        } else if (star != NULL) {
            p = star;
            s = ++from;
        } else {
            return false;
        }
    }
    while (p < end && *p == '*')
        p++;
    return p == end;
}
