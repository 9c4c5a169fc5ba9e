/* The grammar of cron expressions. */
#include "engine/schedule/cron.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct range {
    const char *name;
    int min, max;
    const char *const *words; /* NULL, or the name of each value from min on */
    int n_words;
};

static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                     "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const weekdays[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

static const struct range ranges[FR_CRON_FIELDS] = {{"minute", 0, 59, NULL, 0},
                                                    {"hour", 0, 23, NULL, 0},
                                                    {"day-of-month", 1, 31, NULL, 0},
                                                    {"month", 1, 12, months, 12},
                                                    {"day-of-week", 0, 7, weekdays, 7}};

struct parser {
    struct fr_str text; /* the whole expression */
    const char *p, *end;
    enum fr_cron_field field;
    const struct range *range;
    struct fr_cron *c;
    size_t *at;
    struct fr_err *err;
};

/* A value, and whether it was written as a name. */
struct value {
    int n;
    bool named;
};

static enum fr_rc refuse(struct parser *s, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static enum fr_rc refuse(struct parser *s, const char *where, const char *fmt, ...)
{
    char what[300];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    *s->at = (size_t)(where - s->text.p);
    return fr_fail(s->err, FR_USAGE, "%s", what);
}

static bool take(struct parser *s, char c)
{
    if (s->p == s->end || tolower((unsigned char)*s->p) != tolower((unsigned char)c))
        return false;
    s->p++;
    return true;
}

static bool peek(const struct parser *s, size_t ahead, char c)
{
    return (size_t)(s->end - s->p) > ahead && toupper((unsigned char)s->p[ahead]) == c;
}

/* The item from where on, to its comma: for messages. */
static int item_length(const struct parser *s, const char *where)
{
    const char *p = where;

    while (p < s->end && *p != ',')
        p++;
    return (int)(p - where);
}

static enum fr_rc not_understood(struct parser *s, const char *item)
{
    int n = item_length(s, item);
    const char *r = s->range->name;

    if (n == 0)
        return refuse(s, item, "%s: an item is missing beside a comma", r);
    if (toupper((unsigned char)*item) == 'H' && (n == 1 || item[1] == '(' || item[1] == '/'))
        return refuse(s, item,
                      "%s: '%.*s' has no meaning here; write a number, and jitter: 10m to "
                      "spread starts",
                      r, n, item);
    if (memchr(item, '~', (size_t)n) != NULL)
        return refuse(s, item,
                      "%s: '%.*s' has no meaning here; write its lower number, and "
                      "jitter: for the rest",
                      r, n, item);
    if (s->range->words != NULL)
        return refuse(s, item, "%s: '%.*s' is not understood; expected %d-%d or %s-%s", r, n, item,
                      s->range->min, s->range->max, s->range->words[0],
                      s->range->words[s->range->n_words - 1]);
    return refuse(s, item, "%s: '%.*s' is not understood; expected %d-%d, *, a list or a step", r,
                  n, item, s->range->min, s->range->max);
}

/* Digits; at most 9999. false: none there. */
static bool read_number(struct parser *s, int *out)
{
    const char *from = s->p;

    for (*out = 0; s->p < s->end && isdigit((unsigned char)*s->p); s->p++)
        *out = *out < 1000 ? *out * 10 + (*s->p - '0') : 9999;
    return s->p > from;
}

static enum fr_rc read_value(struct parser *s, const char *item, struct value *out)
{
    const char *from = s->p;

    *out = (struct value){0};
    for (int i = 0; i < s->range->n_words; i++)
        if (s->end - s->p >= 3 && strncasecmp(s->p, s->range->words[i], 3) == 0) {
            s->p += 3;
            *out = (struct value){s->range->min + i, true};
            return FR_OK;
        }
    if (!read_number(s, &out->n))
        return not_understood(s, item);
    if (out->n < s->range->min || out->n > s->range->max)
        return refuse(s, from, "%s %.*s is not within %d-%d%s", s->range->name, (int)(s->p - from),
                      from, s->range->min, s->range->max,
                      s->field == FR_CRON_HOUR && out->n == 24 ? "; midnight is 0" : "");
    return FR_OK;
}

/* "22-2": shows "22-23,0-2". */
static enum fr_rc backwards(struct parser *s, const char *item, int a, int b)
{
    int max = s->field == FR_CRON_WEEKDAY ? 6 : s->range->max, min = s->range->min;
    char left[32] = "", right[32];

    if (a == max)
        (void)snprintf(left, sizeof(left), "%d,", a);
    else if (a < max)
        (void)snprintf(left, sizeof(left), "%d-%d,", a, max);
    if (b == min)
        (void)snprintf(right, sizeof(right), "%d", b);
    else
        (void)snprintf(right, sizeof(right), "%d-%d", min, b);
    return refuse(s, item, "%s: '%.*s' runs backwards; write %s%s", s->range->name,
                  item_length(s, item), item, left, right);
}

/* After a value: the end of its range. A Sunday at the right end is 7. */
static enum fr_rc read_end(struct parser *s, const char *item, struct value a, int *to)
{
    struct value b;
    enum fr_rc rc = read_value(s, item, &b);

    if (rc != FR_OK)
        return rc;
    if (s->field == FR_CRON_WEEKDAY && b.n % 7 == 0 && (b.named || b.n == 7))
        b.n = a.n == 0 && a.named ? 0 : 7;
    if (b.n < a.n)
        return backwards(s, item, a.n, b.n);
    *to = b.n;
    return FR_OK;
}

static void add_values(struct parser *s, int from, int to, int step)
{
    for (int v = from; v <= to; v += step)
        s->c->field[s->field] |= (uint64_t)1 << (s->field == FR_CRON_WEEKDAY ? v % 7 : v);
}

/* How many values the field has: Sunday counts once. */
static int field_size(const struct parser *s)
{
    return (s->field == FR_CRON_WEEKDAY ? 6 : s->range->max) - s->range->min + 1;
}

/* After the range from-to: "/n", then its values. open: a value alone, or a star. */
static enum fr_rc read_step(struct parser *s, int from, int to, bool star)
{
    const char *where = s->p;
    int step = 1;

    if (take(s, '/')) {
        if (!read_number(s, &step) || step == 0 || step > 999)
            return refuse(s, where, "%s: a step is a number from 1 on, as in */5", s->range->name);
        if (star && step > 1 && field_size(s) % step != 0)
            s->c->step[s->field] = (uint8_t)(step < 255 ? step : 255);
    }
    add_values(s, from, to, step);
    return FR_OK;
}

/* L, L-n, nW, LW of day-of-month; *done when it was one. */
static enum fr_rc read_special_day(struct parser *s, const char *item, bool *done)
{
    const char *from = s->p;
    int n = 0;

    *done = true;
    if (take(s, 'L')) {
        if (take(s, 'W')) {
            s->c->near_last = true;
            return FR_OK;
        }
        if (take(s, '-') && (!read_number(s, &n) || n < 1 || n > 30))
            return refuse(s, item, "day-of-month: L-n counts back from the last day, n 1-30");
        s->c->from_last |= 1u << n;
        return FR_OK;
    }
    if (read_number(s, &n) && take(s, 'W')) {
        if (n < 1 || n > 31)
            return refuse(s, item, "day-of-month %d is not within 1-31", n);
        s->c->near |= 1u << n;
        return FR_OK;
    }
    s->p = from;
    *done = false;
    return FR_OK;
}

/* dL, d#n after a day of the week. */
static enum fr_rc read_special_weekday(struct parser *s, const char *item, int day, bool *done)
{
    int n;

    *done = true;
    if (take(s, 'L')) {
        s->c->last_weekday |= (uint8_t)(1u << day % 7);
    } else if (take(s, '#')) {
        if (!read_number(s, &n) || n < 1 || n > 5)
            return refuse(s, item,
                          "day-of-week: '%.*s': behind # stands 1-5, the which of the "
                          "month",
                          item_length(s, item), item);
        s->c->nth_weekday[day % 7] |= (uint8_t)(1u << n);
    } else {
        *done = false;
    }
    return FR_OK;
}

static enum fr_rc read_star(struct parser *s, const char *item)
{
    bool day = s->field == FR_CRON_DAY || s->field == FR_CRON_WEEKDAY;

    if (*item == '?' && !day)
        return refuse(s, item, "%s: '?' stands for any day; write *", s->range->name);
    s->p++;
    return read_step(s, s->range->min, s->range->min + field_size(s) - 1, true);
}

static enum fr_rc lone_l(struct parser *s, const char *item)
{
    if (s->field == FR_CRON_WEEKDAY)
        return refuse(s, item,
                      "day-of-week: L stands behind a day (5L, the last Friday); Saturday "
                      "is 6 or sat");
    return refuse(s, item,
                  "%s: L and W are for days: the last day of the month is L in the third "
                  "field",
                  s->range->name);
}

static enum fr_rc read_item(struct parser *s)
{
    const char *item = s->p;
    struct value v;
    int to;
    bool done = false;
    enum fr_rc rc = FR_OK;

    if (s->p < s->end && (*s->p == '*' || *s->p == '?'))
        return read_star(s, item);
    if (s->field == FR_CRON_DAY && ((rc = read_special_day(s, item, &done)) != FR_OK || done))
        return rc;
    if (peek(s, 0, 'L'))
        return lone_l(s, item);
    if ((rc = read_value(s, item, &v)) != FR_OK)
        return rc;
    if (s->field == FR_CRON_WEEKDAY &&
        ((rc = read_special_weekday(s, item, v.n, &done)) != FR_OK || done))
        return rc;
    to = v.n;
    if (take(s, '-'))
        rc = read_end(s, item, v, &to);
    else if (peek(s, 0, '/'))
        to = s->field == FR_CRON_WEEKDAY && v.n < 7 ? 6 : s->range->max;
    return rc == FR_OK ? read_step(s, v.n, to, false) : rc;
}

static enum fr_rc read_field(struct parser *s)
{
    enum fr_rc rc;

    for (;;) {
        const char *item = s->p;

        if ((rc = read_item(s)) != FR_OK)
            return rc;
        if (s->p == s->end)
            return FR_OK;
        if (!take(s, ','))
            return not_understood(s, item);
    }
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The next word of s->text from p on; empty: there is none. */
static struct fr_str next_word(const struct parser *s, const char *p)
{
    const char *end = s->text.p + s->text.n, *from;

    while (p < end && blank(*p))
        p++;
    for (from = p; p < end && !blank(*p); p++)
        ;
    return (struct fr_str){from, (size_t)(p - from)};
}

/* Forms of other programs, and ours for each. */
static enum fr_rc refuse_foreign(struct parser *s, struct fr_str word)
{
    const char *zone = memchr(word.p, '=', word.n);

    if (zone != NULL)
        return refuse(s, word.p,
                      "'%.*s': the zone is a key of its own; write zone: %.*s beside "
                      "cron:",
                      (int)word.n, word.p, (int)(word.p + word.n - zone - 1), zone + 1);
    if (word.n == 6 && strncasecmp(word.p, "@every", 6) == 0) {
        struct fr_str next = next_word(s, word.p + word.n);

        return refuse(s, word.p, "'@every' is a key of its own; write every: %.*s instead of cron:",
                      next.n > 0 ? (int)next.n : 2, next.n > 0 ? next.p : "1h");
    }
    if (word.n == 7 && strncasecmp(word.p, "@reboot", 7) == 0)
        return refuse(s, word.p,
                      "'@reboot' is not a time; write every: or a cron expression, and "
                      "start 'flowrun serve' at boot");
    return refuse(s, word.p,
                  "'%.*s' is not known; expected @hourly, @daily, @midnight, @weekly, "
                  "@monthly, @yearly or @annually",
                  (int)word.n, word.p);
}

/* @daily and the like; NULL: none of them. */
static const char *expand(struct fr_str word)
{
    static const char *const table[][2] = {
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
        {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
        {"@hourly", "0 * * * *"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strlen(table[i][0]) == word.n && strncasecmp(table[i][0], word.p, word.n) == 0)
            return table[i][1];
    return NULL;
}

static enum fr_rc check_count(struct parser *s, const struct fr_str *words, size_t n)
{
    static const char order[] = "minute hour day-of-month month day-of-week";

    if (n == 0)
        return refuse(s, s->text.p, "an empty expression; expected five fields: %s", order);
    if (n == 6)
        return refuse(s, words[5].p,
                      "a sixth field; expected five: %s. Seconds have no field; "
                      "write every: 30s for less than a minute",
                      order);
    if (n != FR_CRON_FIELDS)
        return refuse(s, words[n > 5 ? 5 : n - 1].p, "%zu fields; expected five: %s", n, order);
    return FR_OK;
}

static enum fr_rc check_days(struct parser *s, const struct fr_str *words)
{
    static const int fields[] = {FR_CRON_DAY, FR_CRON_WEEKDAY};

    if (!s->c->day_restricted || !s->c->weekday_restricted || s->c->days != FR_DAYS_UNSAID)
        return FR_OK;
    for (size_t i = 0; i < 2; i++) {
        struct fr_str w = words[fields[i]];

        for (const char *p = w.p; p + 1 < w.p + w.n; p++)
            if ((p[0] == '*' || p[0] == '?') && p[1] == '/')
                return refuse(s, w.p,
                              "%s '%.*s' beside a restricted %s is read in two ways; say "
                              "days: any (one of the two matches) or days: all (both do)",
                              ranges[fields[i]].name, (int)w.n, w.p, ranges[fields[1 - i]].name);
    }
    return FR_OK;
}

static bool restricted(struct fr_str w)
{
    return w.n != 1 || (*w.p != '*' && *w.p != '?');
}

static enum fr_rc read_fields(struct parser *s)
{
    struct fr_str words[FR_CRON_FIELDS + 3], w = next_word(s, s->text.p);
    size_t n = 0;
    enum fr_rc rc;

    for (; w.n > 0 && n < FR_CRON_FIELDS + 3; w = next_word(s, w.p + w.n))
        words[n++] = w;
    if (n > 0 && (*words[0].p == '@' || memchr(words[0].p, '=', words[0].n) != NULL))
        return refuse_foreign(s, words[0]);
    if ((rc = check_count(s, words, n)) != FR_OK)
        return rc;
    for (int f = 0; f < FR_CRON_FIELDS; f++) {
        s->field = (enum fr_cron_field)f;
        s->range = &ranges[f];
        s->p = words[f].p;
        s->end = words[f].p + words[f].n;
        if ((rc = read_field(s)) != FR_OK)
            return rc;
    }
    s->c->day_restricted = restricted(words[FR_CRON_DAY]);
    s->c->weekday_restricted = restricted(words[FR_CRON_WEEKDAY]);
    return check_days(s, words);
}

enum fr_rc fr_cron_parse(struct fr_str text, enum fr_cron_days days, struct fr_cron *out,
                         size_t *at, struct fr_err *err)
{
    struct parser s = {.text = text, .c = out, .at = at, .err = err};
    struct fr_str word;
    const char *full;
    enum fr_rc rc;

    *at = 0;
    *out = (struct fr_cron){.days = days};
    if (text.n > FR_CRON_MAX_BYTES) {
        *at = FR_CRON_MAX_BYTES;
        return fr_fail(err, FR_USAGE, "longer than %d bytes", FR_CRON_MAX_BYTES);
    }
    word = next_word(&s, text.p);
    full = next_word(&s, word.p + word.n).n == 0 ? expand(word) : NULL;
    if (full != NULL)
        s.text = fr_str_of(full);
    rc = read_fields(&s);
    if (rc == FR_OK && !fr_cron_ever(out)) {
        rc = fr_fail(err, FR_USAGE, "'%.*s' never fires: no month it names has such a day",
                     (int)text.n, text.p);
    }
    if (rc != FR_OK)
        *out = (struct fr_cron){0};
    return rc;
}
