#include "trainer/report/plot.h"

#include "engine/base/sys.h"
#include "trainer/report/png.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1280, HEIGHT = 800, LEFT = 130, RIGHT = 40, TOP = 60, BOTTOM = 80, TICKS = 6 };
enum colour { GROUND, GRID, TEXT, PALE, STRONG };

static const uint8_t colours[TR_PNG_COLOURS][3] = {[GROUND] = {255, 255, 255},
                                                   [GRID] = {222, 226, 230},
                                                   [TEXT] = {64, 68, 75},
                                                   [PALE] = {165, 201, 225},
                                                   [STRONG] = {31, 119, 180}};

struct series {
    double *step, *v; /* own: n of each, finite */
    size_t n;
};

struct axis {
    double low, high, tick; /* tick: between two lines of the grid */
};

/* ---- dots, lines, letters ---- */

static void dot(struct tr_picture *p, int x, int y, int size, enum colour c)
{
    for (int j = y; j < y + size; j++)
        for (int i = x; i < x + size; i++)
            if (i >= 0 && i < WIDTH && j >= 0 && j < HEIGHT)
                p->at[j * WIDTH + i] = (uint8_t)c;
}

static void line(struct tr_picture *p, const double from[2], const double to[2], int size,
                 enum colour c)
{
    double dx = to[0] - from[0], dy = to[1] - from[1];
    int n = (int)ceil(fmax(fabs(dx), fabs(dy)));

    for (int i = 0; i <= n; i++) {
        double part = n > 0 ? (double)i / n : 0;

        dot(p, (int)lround(from[0] + part * dx) - size / 2,
            (int)lround(from[1] + part * dy) - size / 2, size, c);
    }
}

/* Seven rows of five dots, the left one is the highest bit. */
static const struct {
    char c;
    uint8_t rows[7];
} letters[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},
    {'2', {14, 17, 1, 2, 4, 8, 31}},     {'3', {31, 2, 4, 2, 1, 17, 14}},
    {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},
    {'8', {14, 17, 17, 14, 17, 17, 14}}, {'9', {14, 17, 17, 15, 1, 2, 12}},
    {'.', {0, 0, 0, 0, 0, 12, 12}},      {'-', {0, 0, 0, 14, 0, 0, 0}},
    {'+', {0, 4, 4, 31, 4, 4, 0}},       {'_', {0, 0, 0, 0, 0, 0, 31}},
    {'a', {0, 0, 14, 1, 15, 17, 15}},    {'b', {16, 16, 30, 17, 17, 17, 30}},
    {'c', {0, 0, 14, 16, 16, 17, 14}},   {'d', {1, 1, 15, 17, 17, 17, 15}},
    {'e', {0, 0, 14, 17, 31, 16, 14}},   {'f', {6, 9, 8, 28, 8, 8, 8}},
    {'g', {0, 15, 17, 17, 15, 1, 14}},   {'h', {16, 16, 22, 25, 17, 17, 17}},
    {'i', {4, 0, 12, 4, 4, 4, 14}},      {'j', {2, 0, 6, 2, 2, 18, 12}},
    {'k', {16, 16, 18, 20, 24, 20, 18}}, {'l', {12, 4, 4, 4, 4, 4, 14}},
    {'m', {0, 0, 26, 21, 21, 17, 17}},   {'n', {0, 0, 22, 25, 17, 17, 17}},
    {'o', {0, 0, 14, 17, 17, 17, 14}},   {'p', {0, 0, 30, 17, 30, 16, 16}},
    {'q', {0, 0, 13, 19, 15, 1, 1}},     {'r', {0, 0, 22, 25, 16, 16, 16}},
    {'s', {0, 0, 14, 16, 14, 1, 30}},    {'t', {8, 8, 28, 8, 8, 9, 6}},
    {'u', {0, 0, 17, 17, 17, 19, 13}},   {'v', {0, 0, 17, 17, 17, 10, 4}},
    {'w', {0, 0, 17, 17, 21, 21, 10}},   {'x', {0, 0, 17, 10, 4, 10, 17}},
    {'y', {0, 0, 17, 17, 15, 1, 14}},    {'z', {0, 0, 31, 2, 4, 8, 31}},
};

enum { DOT = 2, LETTER = 6 * DOT };

static void letter(struct tr_picture *p, int x, int y, char c)
{
    for (size_t k = 0; k < sizeof(letters) / sizeof(letters[0]); k++)
        for (int i = 0; letters[k].c == c && i < 35; i++)
            if (letters[k].rows[i / 5] >> (4 - i % 5) & 1)
                dot(p, x + i % 5 * DOT, y + i / 5 * DOT, DOT, TEXT);
}

/* share: of the text that stands left of x. */
static void text(struct tr_picture *p, double x, int y, double share, const char *s)
{
    int at = (int)lround(x - share * (double)strlen(s) * LETTER);

    for (; *s != '\0'; s++, at += LETTER)
        letter(p, at, y, *s);
}

/* ---- axes ---- */

/* Round numbers: 1, 2 or 5 times a power of ten lie between two ticks. */
static struct axis axis_of(const double *v, size_t n)
{
    struct axis a = {v[0], v[0], 1};
    double power, part;

    for (size_t i = 1; i < n; i++) {
        a.low = fmin(a.low, v[i]);
        a.high = fmax(a.high, v[i]);
    }
    if (a.high - a.low <= fabs(a.high) * 1e-12) {
        a.low -= 0.5;
        a.high += 0.5;
    }
    power = pow(10, floor(log10((a.high - a.low) / TICKS)));
    part = (a.high - a.low) / TICKS / power;
    a.tick = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
    return a;
}

static double x_of(const struct axis *a, double v)
{
    return LEFT + (v - a->low) / (a->high - a->low) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct axis *a, double v)
{
    return HEIGHT - BOTTOM - (v - a->low) / (a->high - a->low) * (HEIGHT - TOP - BOTTOM);
}

static void grid(struct tr_picture *p, const struct axis *x, const struct axis *y)
{
    char number[32];

    for (double v = ceil(x->low / x->tick) * x->tick; v <= x->high; v += x->tick) {
        double at = x_of(x, v);

        line(p, (double[]){at, TOP}, (double[]){at, HEIGHT - BOTTOM}, 1, GRID);
        snprintf(number, sizeof(number), "%.6g", v);
        text(p, at, HEIGHT - BOTTOM + 14, 0.5, number);
    }
    for (double v = ceil(y->low / y->tick) * y->tick; v <= y->high; v += y->tick) {
        double at = y_of(y, v);

        line(p, (double[]){LEFT, at}, (double[]){WIDTH - RIGHT, at}, 1, GRID);
        snprintf(number, sizeof(number), "%.6g", fabs(v) < y->tick / 2 ? 0 : v);
        text(p, LEFT - 14, (int)at - 7, 1, number);
    }
}

static void curve(struct tr_picture *p, const struct series *s, const double *v,
                  const struct axis axes[2], enum colour c)
{
    double last[2] = {x_of(&axes[0], s->step[0]), y_of(&axes[1], v[0])};

    for (size_t i = 0; i < s->n; i++) {
        double at[2] = {x_of(&axes[0], s->step[i]), y_of(&axes[1], v[i])};

        line(p, last, at, 3, c);
        memcpy(last, at, sizeof(last));
    }
}

static void legend(struct tr_picture *p, int y, const char *name, enum colour c)
{
    line(p, (double[]){WIDTH - RIGHT - 180, y + 7}, (double[]){WIDTH - RIGHT - 140, y + 7}, 3, c);
    text(p, WIDTH - RIGHT - 125, y, 0, name);
}

/* ---- a picture ---- */

/* out (n): the smoothed values. */
static void tr_plot_smooth(const double *v, size_t n, double *out)
{
    double weight = 1.8 * (1 / (1 + exp(-0.05 * (double)n)) - 0.5);

    for (size_t i = 0; i < n; i++)
        out[i] = i == 0 ? v[0] : out[i - 1] * weight + (1 - weight) * v[i];
}

static void take(const json_t *history, const char *key, struct series *s)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(history, i, entry)
    {
        const json_t *v = json_object_get(entry, key), *step = json_object_get(entry, "step");

        if (!json_is_number(v) || !json_is_number(step) || !isfinite(json_number_value(v)))
            continue;
        s->step[s->n] = json_number_value(step);
        s->v[s->n++] = json_number_value(v);
    }
}

static enum fr_rc draw(const char *path, const struct series *s, const char *key, double *smooth,
                       struct fr_err *err)
{
    struct tr_picture p = {.width = WIDTH, .height = HEIGHT, .at = fr_sys.alloc(WIDTH * HEIGHT)};
    struct axis axes[2] = {axis_of(s->step, s->n), axis_of(s->v, s->n)};
    enum fr_rc rc;

    if (p.at == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a picture");
    memcpy(p.colours, colours, sizeof(colours));
    memset(p.at, GROUND, WIDTH * HEIGHT);
    tr_plot_smooth(s->v, s->n, smooth);
    grid(&p, &axes[0], &axes[1]);
    curve(&p, s, s->v, axes, PALE);
    curve(&p, s, smooth, axes, STRONG);
    legend(&p, TOP + 14, "original", PALE);
    legend(&p, TOP + 42, "smoothed", STRONG);
    text(&p, (LEFT + WIDTH - RIGHT) / 2.0, 24, 0.5, key);
    text(&p, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 34, 0.5, "step");
    rc = tr_png_write(path, &p, err);
    fr_sys.free(p.at);
    return rc;
}

enum fr_rc tr_plot_history(const char *dir, const json_t *history, const char *key,
                           struct fr_err *err)
{
    size_t n = json_array_size(history);
    double *room = fr_sys.alloc((3 * n + 1) * sizeof(*room));
    struct series s = {room, room + n, 0};
    char path[PATH_MAX];
    bool named = snprintf(path, sizeof(path), "%s/training_%s.png", dir, key) < PATH_MAX;
    enum fr_rc rc = FR_OK;

    if (room == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the curve of %s", key);
    take(history, key, &s);
    for (char *p = path + strlen(dir) + 1; named && *p != '\0'; p++)
        if (*p == '/') /* of a data set's name */
            *p = '_';
    if (!named)
        rc = fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    else if (s.n > 0)
        rc = draw(path, &s, key, room + 2 * n, err);
    fr_sys.free(room);
    return rc;
}
