#include "engine/show/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DOTS_X = 2, DOTS_Y = 4, FIRST_BRAILLE = 0x2800 };

struct scale {
    double x0, x1, y0, y1;
};

static struct scale scale_of(const struct cli_plot *p)
{
    struct scale s = {INFINITY, -INFINITY, INFINITY, -INFINITY};

    for (size_t i = 0; i < p->n; i++) {
        const struct fr_curve_point *q = &p->points[i];

        if (!isfinite(q->y) || !isfinite(q->x))
            continue;
        s.x0 = fmin(s.x0, q->x);
        s.x1 = fmax(s.x1, q->x);
        s.y0 = fmin(s.y0, q->y);
        s.y1 = fmax(s.y1, q->y);
    }
    return s;
}

/* The dot of a value among n; the middle dot if from equals to. */
static int dot(double v, double from, double to, int n)
{
    if (!(to > from))
        return n / 2;
    int at = (int)((v - from) / (to - from) * (n - 1) + 0.5);
    return at < 0 ? 0 : at >= n ? n - 1 : at;
}

/* Marks the dots of a text row on the line from a to b. */
static void join(const struct cli_plot *p, const int a[2], const int b[2], unsigned row,
                 unsigned char *cells)
{
    static const unsigned char bits[DOTS_Y][DOTS_X] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int dx = b[0] - a[0], dy = b[1] - a[1];
    int steps = dx > abs(dy) ? dx : abs(dy), top = (int)(row * DOTS_Y);

    for (int i = 0; i <= steps; i++) {
        int x = a[0] + (steps > 0 ? (dx * i + steps / 2) / steps : 0);
        int y = a[1] + (steps > 0 ? (int)lround((double)dy * i / steps) : 0) - top;

        if (y >= 0 && y < DOTS_Y && x >= 0 && x / DOTS_X < (int)p->columns)
            cells[x / DOTS_X] |= bits[y][x % DOTS_X];
    }
}

static void put_cell(const struct cli_plot *p, unsigned char bits, struct fr_buf *out)
{
    unsigned c = FIRST_BRAILLE + bits;
    char text[3] = {(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3f)),
                    (char)(0x80 | (c & 0x3f))};

    if (bits == 0)
        fr_buf_text(out, " ");
    else if (p->braille)
        fr_buf_add(out, text, sizeof(text));
    else
        fr_buf_text(out, "*");
}

/* Formats v with four digits, in less than PLOT_LABEL columns. */
static void show_value(double v, char out[PLOT_LABEL])
{
    if (fabs(v) >= 1000 && fabs(v) < 1e6)
        snprintf(out, PLOT_LABEL, "%.0f", v);
    else if (snprintf(out, PLOT_LABEL, "%.4g", v) >= PLOT_LABEL)
        snprintf(out, PLOT_LABEL, "%.0e", v);
}

static void put_label(const struct cli_plot *p, const struct scale *s, unsigned row,
                      struct fr_buf *out)
{
    char label[PLOT_LABEL] = "";

    if (s->y0 <= s->y1 && (row == 0 || row + 1 == p->rows))
        show_value(row == 0 ? s->y1 : s->y0, label);
    fr_buf_fmt(out, "%*s ", PLOT_LABEL - 1, label);
}

void cli_plot_row(const struct cli_plot *p, unsigned row, struct fr_buf *out)
{
    struct scale s = scale_of(p);
    unsigned char cells[1024] = {0};
    int width = (int)p->columns - PLOT_LABEL, before[2], here[2];
    bool first = true;

    put_label(p, &s, row, out);
    for (size_t i = 0; i < p->n; i++) {
        const struct fr_curve_point *q = &p->points[i];

        if (!isfinite(q->y) || !isfinite(q->x))
            continue;
        here[0] = dot(q->x, s.x0, s.x1, width * DOTS_X);
        here[1] = (int)(p->rows * DOTS_Y) - 1 - dot(q->y, s.y0, s.y1, (int)p->rows * DOTS_Y);
        join(p, first ? here : before, here, row, cells);
        before[0] = here[0];
        before[1] = here[1];
        first = false;
    }
    for (int i = 0; i < width && i < (int)sizeof(cells); i++)
        put_cell(p, cells[i], out);
}
