#include "engine/show/curves.h"

#include "engine/base/sys.h"
#include "engine/curve/cache.h"
#include "engine/show/plot.h"
#include "engine/show/private.h"
#include "engine/run/metrics.h"
#include "engine/store/home.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 4, SPANS = 64, CHARTS = 2, CHART_ROWS = 8, LEAST_ROWS = 4, WIDE = 72 };

struct training {            /* an instance that has metrics */
    uint32_t inst, no;       /* no: the newest attempt that was read */
    struct fr_curve *curves; /* owns: one for each attempt up to no */
    bool grown;
};

struct cli_curves {
    const struct cli_model *model;
    struct fr_buf home; /* owns */
    struct training *v; /* owns */
    size_t n;
    size_t newest; /* index of the training with the newest rows */
    bool braille;
};

/* Whether the locale has UTF-8. */
static bool takes_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < 3; i++) {
        const char *v = getenv(names[i]);

        if (v != NULL && v[0] != '\0')
            return strcasestr(v, "utf-8") != NULL || strcasestr(v, "utf8") != NULL;
    }
    return false;
}

/* What stands for an awaited task has no rows, and is in no list. */
bool cli_curves_grow(struct cli_curves *c)
{
    const struct fr_plan *plan = c->model->plan;
    struct training *v = fr_sys.realloc(c->v, (plan->n_insts + 1) * sizeof(*v));
    uint32_t i;

    if (v == NULL)
        return false;
    c->v = v;
    i = c->n > 0 ? v[c->n - 1].inst + 1 : 0;
    for (; i < plan->n_insts; i++) {
        const struct fr_plan_task *task = &plan->tasks[plan->insts[i].task];

        if (!task->empty && fr_task_has_metrics(task->spec))
            c->v[c->n++] = (struct training){.inst = i};
    }
    return true;
}

struct cli_curves *cli_curves_create(const char *home, const struct cli_model *model)
{
    struct cli_curves *c = fr_sys.alloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    *c = (struct cli_curves){.model = model, .braille = takes_utf8()};
    fr_buf_text(&c->home, home);
    if (!c->home.bad && cli_curves_grow(c))
        return c;
    cli_curves_destroy(c);
    return NULL;
}

void cli_curves_destroy(struct cli_curves *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n; i++) {
        for (uint32_t k = 0; k < c->v[i].no; k++)
            fr_curve_finish(&c->v[i].curves[k]);
        fr_sys.free(c->v[i].curves);
    }
    fr_sys.free(c->v);
    fr_buf_finish(&c->home);
    fr_sys.free(c);
}

/* ---- reading ---- */

static bool read_file(const struct cli_curves *c, const struct training *t, uint32_t no)
{
    struct fr_curve *curve = &t->curves[no - 1];
    struct fr_buf path = {0};
    uint64_t before = curve->head.rows;
    int fd = -1;

    fr_home_at(c->home.p, FR_HOME_RUN, c->model->id, &path);
    fr_buf_text(&path, "/");
    fr_run_metrics_name(&path, c->model->plan->insts[t->inst].key, no);
    if (!path.bad)
        fd = fr_sys.open(path.p, O_RDONLY | O_NOFOLLOW, 0);
    if (fd >= 0) {
        (void)fr_curve_read(curve, fd, path.p, NULL);
        fr_sys.close(fd);
    }
    fr_buf_finish(&path);
    return curve->head.rows != before;
}

/* Adds the attempts that began since the last look. */
static void add_attempts(struct training *t, uint32_t no)
{
    void *more = no > t->no ? fr_sys.realloc(t->curves, no * sizeof(*t->curves)) : NULL;

    if (more == NULL)
        return;
    t->curves = more;
    while (t->no < no)
        t->curves[t->no++] = (struct fr_curve){0};
}

bool cli_curves_look(struct cli_curves *c)
{
    bool any = false;

    for (size_t i = 0; i < c->n; i++) {
        struct training *t = &c->v[i];
        uint32_t before = t->no;

        add_attempts(t, c->model->insts[t->inst].began);
        for (uint32_t no = before > 0 ? before : 1; no <= t->no; no++)
            if (read_file(c, t, no)) {
                t->grown = any = true;
                c->newest = i;
            }
    }
    return any;
}

/* ---- lines ---- */

/* The head of the newest attempt with rows; NULL: there is none. */
static const struct fr_curve_head *head_of(const struct training *t)
{
    for (uint32_t no = t->no; no > 0; no--)
        if (t->curves[no - 1].head.rows > 0)
            return &t->curves[no - 1].head;
    return NULL;
}

static void add_number(struct fr_buf *out, const char *before, double v, const char *behind)
{
    if (isfinite(v))
        fr_buf_fmt(out, "%s%.4g%s", before, v, behind);
}

static void add_line(const struct cli_curves *c, const struct training *t, struct fr_buf *out)
{
    const struct fr_curve_head *h = head_of(t);
    double left = fr_curve_head_eta_s(h);
    char text[24];

    fr_buf_fmt(out, "%s: step %.15g", c->model->plan->insts[t->inst].key, h->step);
    if (isfinite(h->total))
        fr_buf_fmt(out, " of %.15g", h->total);
    if (isfinite(h->bad_since))
        fr_buf_fmt(out, ", loss not finite since step %.15g", h->bad_since);
    else
        add_number(out, ", loss ", h->loss, "");
    add_number(out, ", eval_loss ", h->eval_loss, "");
    add_number(out, ", eval_accuracy ", h->eval_accuracy, "");
    if (isfinite(h->rate))
        fr_buf_fmt(out, ", %.*f tokens/s", h->rate < 100 ? 1 : 0, h->rate);
    if (isfinite(h->checkpoint))
        fr_buf_fmt(out, ", checkpoint %.15g", h->checkpoint);
    if (isfinite(left) && left > 0 && left < 1e9) {
        fr_show_duration((int64_t)(left * 1000), text);
        fr_buf_fmt(out, ", %s left", text);
    }
}

bool cli_curves_tell(struct cli_curves *c, struct fr_buf *out)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].grown) {
            c->v[i].grown = false;
            add_line(c, &c->v[i], out);
            return true;
        }
    return false;
}

/* ---- curves ---- */

/* Reduces the valid rows of all attempts to at most width points. */
static void gather(const struct training *t, const char *key, size_t width,
                   struct fr_curve_points *points)
{
    struct fr_curve_span spans[SPANS];
    struct fr_curve_ask ask = {.key = key, .from = INFINITY, .to = -INFINITY};
    size_t n = 0;

    for (uint32_t no = t->no; no > 0 && n < SPANS; no--)
        for (size_t p = t->curves[no - 1].n_parts; p > 0 && n < SPANS; p--)
            spans[SPANS - ++n] =
                (struct fr_curve_span){&t->curves[no - 1], t->curves[no - 1].parts[p - 1], 0};
    fr_curve_replace(spans + SPANS - n, n);
    for (size_t i = SPANS - n; i < SPANS; i++)
        fr_curve_extent(&spans[i], FR_CURVE_STEP, &ask.from, &ask.to);
    ask.bucket = fr_curve_bucket(ask.from, ask.to, width);
    for (size_t i = SPANS - n; i < SPANS; i++)
        fr_curve_reduce(&spans[i], &ask, points);
}

static bool has_key(const struct training *t, const char *key)
{
    for (uint32_t no = t->no; no > 0; no--)
        if (fr_curve_key(&t->curves[no - 1], key) >= 0)
            return true;
    return false;
}

struct chart {
    const char *title;
    struct fr_curve_points points;
};

static void put_title(const char *text, unsigned columns, struct fr_buf *out)
{
    struct fr_buf title = {0};

    fr_buf_fmt(&title, "%*s %s", PLOT_LABEL - 1, "", text);
    show_cell(out, title.bad ? "" : title.p, columns);
    fr_buf_finish(&title);
}

/* Draws n charts side by side, and returns the number of rows. */
static unsigned draw_charts(const struct cli_curves *c, const struct chart *v, size_t n,
                            const struct cli_curves_size *size, struct fr_buf *out)
{
    unsigned columns = (size->columns - 1) / (unsigned)n;

    for (unsigned row = 0; row < size->rows; row++) {
        for (size_t i = 0; i < n; i++) {
            struct cli_plot plot = {v[i].points.v, v[i].points.n, columns, size->rows - 1,
                                    c->braille};

            if (row == 0)
                put_title(v[i].title, columns, out);
            if (row > 0) {
                fr_buf_text(out, size->color);
                cli_plot_row(&plot, row - 1, out);
                fr_buf_text(out, size->plain);
            }
        }
        fr_buf_text(out, "\n");
    }
    return size->rows;
}

/* Draws the charts side by side, one below the other, or only the first, as there is room. */
static unsigned place_charts(const struct cli_curves *c, const struct chart *v, size_t n,
                             const struct cli_curves_size *size, struct fr_buf *out)
{
    struct cli_curves_size one = *size;
    unsigned rows = 0;

    if (n == 1 || size->columns >= WIDE || size->rows < 2 * LEAST_ROWS) {
        one.rows = size->rows < CHART_ROWS ? size->rows : CHART_ROWS;
        return draw_charts(c, v, size->columns >= WIDE ? n : 1, &one, out);
    }
    one.rows = size->rows / 2 < CHART_ROWS ? size->rows / 2 : CHART_ROWS;
    for (size_t i = 0; i < n; i++)
        rows += draw_charts(c, &v[i], 1, &one, out);
    return rows;
}

/* Draws the curves of loss and speed. */
static unsigned draw_curves(const struct cli_curves *c, const struct cli_curves_size *size,
                            struct fr_buf *out)
{
    static const char *const keys[] = {"loss", "throughput", "tokens_per_second"};
    const struct training *t = &c->v[c->newest];
    struct chart charts[CHARTS] = {0};
    size_t n = 0;
    unsigned rows = 0;

    for (size_t i = 0; i < 3 && n < CHARTS; i++)
        if (has_key(t, keys[i])) {
            charts[n].title = i == 0 ? "loss" : "tokens/s";
            gather(t, keys[i], (size_t)size->columns * 2, &charts[n++].points);
        }
    if (n > 0)
        rows = place_charts(c, charts, n, size, out);
    for (size_t i = 0; i < n; i++)
        fr_sys.free(charts[i].points.v);
    return rows;
}

/* The number of trainings that get a line. */
static unsigned count_lines(const struct cli_curves *c)
{
    unsigned n = 0;

    for (size_t i = 0; i < c->n && n < LINES; i++)
        n += head_of(&c->v[i]) != NULL;
    return n;
}

unsigned cli_curves_draw(const struct cli_curves *c, const struct cli_curves_size *size,
                         struct fr_buf *out)
{
    struct cli_curves_size chart = *size;
    unsigned rows = 0, lines = count_lines(c);

    chart.rows = size->rows > lines ? size->rows - lines : 0;
    if (lines > 0 && chart.rows >= LEAST_ROWS && size->columns > PLOT_LABEL + 10 &&
        head_of(&c->v[c->newest]) != NULL)
        rows = draw_curves(c, &chart, out);
    for (size_t i = 0; i < c->n && lines > 0 && rows < size->rows; i++) {
        struct fr_buf line = {0};

        if (head_of(&c->v[i]) == NULL)
            continue;
        add_line(c, &c->v[i], &line);
        show_words(out, &line, size->columns - 1);
        rows += !line.bad;
        fr_buf_finish(&line);
        lines--;
    }
    return rows;
}
