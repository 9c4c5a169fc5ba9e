#include "engine/curve/curve.h"

#include "engine/base/arena.h"

#include <math.h>
#include <string.h>

static const char *const x_names[] = {"step", "tokens", "time", "epoch"};

bool fr_curve_x_parse(const char *name, enum fr_curve_x *out)
{
    for (int i = 0; i <= FR_CURVE_EPOCH; i++)
        if (strcmp(name, x_names[i]) == 0) {
            *out = (enum fr_curve_x)i;
            return true;
        }
    return false;
}

void fr_curve_replace(struct fr_curve_span *spans, size_t n)
{
    double first = INFINITY;

    for (size_t i = n; i-- > 0;) {
        spans[i].until = first;
        if (spans[i].part->n > 0 && spans[i].part->step[0] < first)
            first = spans[i].part->step[0];
    }
}

/* The column of an axis; NULL: rows have none, or it is the steps. */
static const struct fr_curve_col *axis(const struct fr_curve_span *s, enum fr_curve_x x)
{
    static const char *const keys[][2] = {[FR_CURVE_STEP] = {NULL, NULL},
                                          [FR_CURVE_TOKENS] = {"total_tokens", "tokens"},
                                          [FR_CURVE_TIME] = {"elapsed_time", "time"},
                                          [FR_CURVE_EPOCH] = {"epoch", NULL}};

    for (size_t i = 0; i < 2 && keys[x][i] != NULL; i++) {
        int key = fr_curve_key(s->curve, keys[x][i]);

        if (key >= 0 && s->part->cols[key].n > 0)
            return &s->part->cols[key];
    }
    return NULL;
}

/* Positions of rows on an axis, requested in ascending order of rows. */
struct places {
    const struct fr_curve_part *part;
    const struct fr_curve_col *col; /* NULL: the steps */
    size_t at;
};

static bool place(struct places *p, uint32_t row, double *x)
{
    if (p->col == NULL) {
        *x = p->part->step[row];
        return isfinite(*x);
    }
    while (p->at < p->col->n && p->col->row[p->at] < row)
        p->at++;
    if (p->at == p->col->n || p->col->row[p->at] != row)
        return false;
    *x = p->col->value[p->at];
    return isfinite(*x);
}

void fr_curve_extent(const struct fr_curve_span *s, enum fr_curve_x x, double *from, double *to)
{
    const struct fr_curve_col *col = axis(s, x);
    size_t n = col != NULL ? col->n : x == FR_CURVE_STEP ? s->part->n : 0;
    const double *v = col != NULL ? col->value : s->part->step;

    for (size_t i = 0; i < n; i++) {
        *from = v[i] < *from ? v[i] : *from;
        *to = v[i] > *to ? v[i] : *to;
    }
}

double fr_curve_bucket(double from, double to, size_t width)
{
    double most = floor((double)width * 2 / 5), size;
    int power;

    if (!(to > from) || most < 2)
        return to > from ? ldexp(1, (int)ceil(log2(to - from)) + 1) : 1;
    frexp((to - from) / most, &power);
    size = ldexp(1, power - 2);
    while (floor(to / size) - floor(from / size) + 1 > most)
        size *= 2;
    return size;
}

static void add(struct fr_curve_points *out, struct fr_curve_point p)
{
    struct fr_curve_point *v = fr_grow(out->v, out->n + 1, &out->cap, sizeof(*v));

    out->no_memory = out->no_memory || v == NULL;
    if (v == NULL)
        return;
    out->v = v;
    v[out->n++] = p;
}

/* The points of a bucket: their places in the column; SIZE_MAX: none. */
enum { FIRST, LEAST, MOST, LAST, BAD, KINDS };

struct bucket {
    double number; /* of it */
    size_t at[KINDS];
    struct fr_curve_point points[KINDS];
};

static void begin(struct bucket *b, double number)
{
    b->number = number;
    for (int i = 0; i < KINDS; i++)
        b->at[i] = SIZE_MAX;
}

static void set(struct bucket *b, int kind, size_t at, struct fr_curve_point p)
{
    b->at[kind] = at;
    b->points[kind] = p;
}

static void take(struct bucket *b, size_t at, struct fr_curve_point p)
{
    if (!isfinite(p.y)) {
        if (b->at[BAD] == SIZE_MAX)
            set(b, BAD, at, p);
        return;
    }
    if (b->at[FIRST] == SIZE_MAX)
        set(b, FIRST, at, p);
    if (b->at[LEAST] == SIZE_MAX || p.y < b->points[LEAST].y)
        set(b, LEAST, at, p);
    if (b->at[MOST] == SIZE_MAX || p.y > b->points[MOST].y)
        set(b, MOST, at, p);
    set(b, LAST, at, p);
}

/* Each point once, in the order of rows. */
static void flush(const struct bucket *b, struct fr_curve_points *out)
{
    size_t after = 0; /* 1 + the place of the newest that was put out */

    for (int i = 0; i < KINDS; i++) {
        int next = -1;

        for (int k = 0; k < KINDS; k++)
            if (b->at[k] != SIZE_MAX && b->at[k] + 1 > after &&
                (next < 0 || b->at[k] < b->at[next]))
                next = k;
        if (next < 0)
            return;
        after = b->at[next] + 1;
        add(out, b->points[next]);
    }
}

void fr_curve_reduce(const struct fr_curve_span *s, const struct fr_curve_ask *ask,
                     struct fr_curve_points *out)
{
    int key = fr_curve_key(s->curve, ask->key);
    const struct fr_curve_col *col = key >= 0 ? &s->part->cols[key] : NULL;
    struct places places = {.part = s->part, .col = axis(s, ask->x)};
    struct bucket b;

    if (col == NULL || (ask->x != FR_CURVE_STEP && places.col == NULL))
        return;
    begin(&b, -INFINITY);
    for (size_t i = 0; i < col->n; i++) {
        double step = s->part->step[col->row[i]], x, number;

        if ((step >= s->until) != ask->lost || !place(&places, col->row[i], &x) || x < ask->from ||
            x > ask->to)
            continue;
        number = floor(x / ask->bucket);
        if (number > b.number) { /* where an axis steps back, its bucket goes on */
            flush(&b, out);
            begin(&b, number);
        }
        take(&b, i, (struct fr_curve_point){x, col->value[i], step});
    }
    flush(&b, out);
}
