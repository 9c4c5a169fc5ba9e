#include "engine/metrics/prom.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

struct series {
    char *values[FR_PROM_LABELS]; /* the first owns the text of all */
    double value;                 /* of a histogram: the sum */
    uint64_t count, buckets[FR_PROM_BUCKETS];
    bool first; /* of those with this value of the first label */
};

struct family {
    struct series *v;
    size_t n, cap;
};

struct fr_prom {
    const struct fr_prom_family *table;
    struct family *families; /* one a row of the table */
    size_t n;
};

struct fr_prom *fr_prom_create(const struct fr_prom_family *families, size_t n)
{
    struct fr_prom *p = fr_sys.alloc(sizeof(*p));
    struct family *list = fr_sys.alloc(n * sizeof(*list));

    if (p == NULL || list == NULL) {
        fr_sys.free(p);
        fr_sys.free(list);
        return NULL;
    }
    memset(list, 0, n * sizeof(*list));
    *p = (struct fr_prom){families, list, n};
    return p;
}

void fr_prom_clear(struct fr_prom *p, size_t family)
{
    struct family *f = &p->families[family];

    for (size_t i = 0; i < f->n; i++)
        fr_sys.free(f->v[i].values[0]);
    f->n = 0;
}

void fr_prom_destroy(struct fr_prom *p)
{
    for (size_t i = 0; p != NULL && i < p->n; i++) {
        fr_prom_clear(p, i);
        fr_sys.free(p->families[i].v);
    }
    if (p != NULL)
        fr_sys.free(p->families);
    fr_sys.free(p);
}

/* ---- series ---- */

static size_t labels_of(const struct fr_prom_family *t)
{
    size_t n = 0;

    while (n < FR_PROM_LABELS && t->labels[n] != NULL)
        n++;
    return n;
}

static bool is_it(const struct series *s, const char *const *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(s->values[i], values[i]) != 0)
            return false;
    return true;
}

static struct series *find(struct family *f, const char *const *values, size_t n)
{
    for (size_t i = 0; i < f->n; i++)
        if (is_it(&f->v[i], values, n))
            return &f->v[i];
    return NULL;
}

/* Whether the family has so many values of its first label, and this is none of them. */
static bool is_beyond(const struct family *f, const struct fr_prom_family *t, const char *value)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++) {
        if (strcmp(f->v[i].values[0], value) == 0)
            return false;
        n += f->v[i].first;
    }
    return n >= t->most;
}

/* NULL: no memory. */
static struct series *add(struct family *f, const char *const *values, size_t n)
{
    struct series *v = fr_grow(f->v, f->n + 1, &f->cap, sizeof(*v)), *s;
    struct fr_buf text = {0};
    size_t at[FR_PROM_LABELS] = {0};

    if (v == NULL)
        return NULL;
    f->v = v;
    for (size_t i = 0; i < n; i++) {
        at[i] = text.n;
        fr_buf_add(&text, values[i], strlen(values[i]) + 1);
    }
    if (text.bad)
        return NULL;
    s = &f->v[f->n];
    *s = (struct series){.first = true};
    for (size_t i = 0; n > 0 && i < f->n; i++)
        s->first = s->first && strcmp(f->v[i].values[0], values[0]) != 0;
    f->n++;
    for (size_t i = 0; i < n; i++)
        s->values[i] = text.p + at[i];
    return s;
}

static struct series *get(struct fr_prom *p, const struct fr_prom_at *at)
{
    struct family *f = &p->families[at->family];
    const struct fr_prom_family *t = &p->table[at->family];
    const char *values[FR_PROM_LABELS];
    size_t n = labels_of(t);
    struct series *s;

    memcpy(values, at->values, sizeof(values));
    s = find(f, values, n);
    if (s == NULL && t->most > 0 && is_beyond(f, t, values[0])) {
        values[0] = "other";
        s = find(f, values, n);
    }
    return s != NULL ? s : add(f, values, n);
}

void fr_prom_add(struct fr_prom *p, struct fr_prom_at at, double v)
{
    struct series *s = get(p, &at);

    if (s != NULL)
        s->value += v;
}

void fr_prom_set(struct fr_prom *p, struct fr_prom_at at, double v)
{
    struct series *s = get(p, &at);

    if (s != NULL)
        s->value = v;
}

void fr_prom_observe(struct fr_prom *p, struct fr_prom_at at, double v)
{
    const double *bounds = p->table[at.family].buckets;
    struct series *s = get(p, &at);

    if (s == NULL)
        return;
    s->count++;
    s->value += v;
    for (size_t i = 0; i < FR_PROM_BUCKETS && bounds[i] != 0; i++)
        s->buckets[i] += v <= bounds[i];
}

/* ---- text ---- */

static void put_escaped(const char *text, bool label, struct fr_buf *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            fr_buf_text(out, "\\\\");
        else if (*text == '\n')
            fr_buf_text(out, "\\n");
        else if (*text == '"' && label)
            fr_buf_text(out, "\\\"");
        else
            fr_buf_add(out, text, 1);
    }
}

static void put_number(double v, struct fr_buf *out)
{
    if (isnan(v))
        fr_buf_text(out, "NaN");
    else if (isinf(v))
        fr_buf_text(out, v > 0 ? "+Inf" : "-Inf");
    else
        fr_buf_fmt(out, "%.15g", v);
}

struct line {
    const char *ending; /* of the name */
    const double *le;   /* a bucket's upper bound; NULL: it is none */
    double v;
};

static void put_line(const struct fr_prom_family *t, const struct series *s,
                     const struct line *line, struct fr_buf *out)
{
    size_t n = labels_of(t);

    fr_buf_fmt(out, "%s%s", t->name, line->ending);
    for (size_t i = 0; i < n; i++) {
        fr_buf_fmt(out, "%s%s=\"", i == 0 ? "{" : ",", t->labels[i]);
        put_escaped(s->values[i], true, out);
        fr_buf_text(out, "\"");
    }
    if (line->le != NULL) {
        fr_buf_fmt(out, "%sle=\"", n == 0 ? "{" : ",");
        put_number(*line->le, out);
        fr_buf_text(out, "\"");
    }
    fr_buf_text(out, n > 0 || line->le != NULL ? "} " : " ");
    put_number(line->v, out);
    fr_buf_text(out, "\n");
}

static void put_histogram(const struct fr_prom_family *t, const struct series *s,
                          struct fr_buf *out)
{
    const double last = INFINITY;
    const struct line all = {"_bucket", &last, (double)s->count}, sum = {"_sum", NULL, s->value},
                      count = {"_count", NULL, (double)s->count};

    for (size_t i = 0; i < FR_PROM_BUCKETS && t->buckets[i] != 0; i++)
        put_line(t, s, &(struct line){"_bucket", &t->buckets[i], (double)s->buckets[i]}, out);
    put_line(t, s, &all, out);
    put_line(t, s, &sum, out);
    put_line(t, s, &count, out);
}

void fr_prom_text(const struct fr_prom *p, struct fr_buf *out)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};

    for (size_t i = 0; i < p->n; i++) {
        const struct fr_prom_family *t = &p->table[i];
        const struct family *f = &p->families[i];

        if (f->n == 0)
            continue;
        fr_buf_fmt(out, "# HELP %s ", t->name);
        put_escaped(t->help, false, out);
        fr_buf_fmt(out, "\n# TYPE %s %s\n", t->name, kinds[t->kind]);
        for (size_t k = 0; k < f->n; k++)
            if (t->kind == FR_PROM_HISTOGRAM)
                put_histogram(t, &f->v[k], out);
            else
                put_line(t, &f->v[k], &(struct line){"", NULL, f->v[k].value}, out);
    }
}
