/* The table at the end of a run; colours, widths and cells of all tables. */
#include "engine/show/private.h"

#include "engine/base/log.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { STATE_COLUMNS = 15 };

const char *show_color(const struct cli_show *show, enum fr_state_of state)
{
    if (!show->color)
        return "";
    switch (state) {
    case FR_ST_SUCCEEDED:
        return "\033[32m";
    case FR_ST_RUNNING:
    case FR_ST_STARTING:
        return "\033[36m";
    case FR_ST_RETRYING:
    case FR_ST_STOPPING:
    case FR_ST_CANCELLED:
        return "\033[33m";
    case FR_ST_FAILED:
    case FR_ST_TIMED_OUT:
    case FR_ST_LOST:
    case FR_ST_STOP_UNPROVEN:
        return "\033[31m";
    default:
        return "\033[2m";
    }
}

const char *show_plain(const struct cli_show *show)
{
    return show->color ? "\033[0m" : "";
}

/* Columns of the next character of p, which has left bytes, 1 or more; *n: bytes of the character.
 * An invalid byte takes one column. */
static unsigned next_char(const char *p, size_t left, mbstate_t *mb, size_t *n)
{
    wchar_t wc;
    int w;

    *n = mbrtowc(&wc, p, left, mb);
    if (*n == 0 || *n > left) {
        *n = 1;
        memset(mb, 0, sizeof(*mb));
        return 1;
    }
    w = wcwidth(wc);
    return w > 0 ? (unsigned)w : 0;
}

size_t show_width(const char *text)
{
    mbstate_t mb = {0};
    size_t width = 0, left = strlen(text), n;

    for (; left > 0; text += n, left -= n)
        width += next_char(text, left, &mb, &n);
    return width;
}

unsigned show_rows(struct fr_str line, unsigned columns)
{
    mbstate_t mb = {0};
    unsigned rows = 1, column = 0, w;

    for (size_t at = 0, n; at < line.n; at += n) {
        if (line.p[at] == '\033') { /* ESC [ digits m */
            const char *end = memchr(line.p + at, 'm', line.n - at);

            n = end != NULL ? (size_t)(end - line.p) + 1 - at : line.n - at;
            continue;
        }
        w = next_char(line.p + at, line.n - at, &mb, &n);
        if (column + w > columns) {
            rows++;
            column = 0;
        }
        column += w;
    }
    return rows;
}

void show_cell(struct fr_buf *out, const char *text, size_t width)
{
    mbstate_t mb = {0};
    size_t used = 0, left = strlen(text), n;

    for (; left > 0; text += n, left -= n) {
        unsigned w = next_char(text, left, &mb, &n);

        if (used + w > width)
            break;
        fr_buf_add(out, text, n);
        used += w;
    }
    fr_buf_fmt(out, "%*s", (int)(width - used), "");
}

void show_words(struct fr_buf *out, struct fr_buf *list, size_t width)
{
    char *comma;

    if (list->bad || list->n == 0)
        return;
    while (show_width(list->p) > width && (comma = strrchr(list->p, ',')) != NULL)
        *comma = '\0';
    show_cell(out, list->p, show_width(list->p) < width ? show_width(list->p) : width);
    fr_buf_text(out, "\n");
}

void show_size(unsigned *columns, unsigned *rows)
{
    struct winsize ws = {0};

    *columns = 100;
    *rows = 24;
    if (ioctl(1, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 && ws.ws_row > 0) {
        *columns = ws.ws_col;
        *rows = ws.ws_row;
    }
}

struct widths {
    size_t task, node;
};

static struct widths measure(const struct fr_plan *plan)
{
    struct widths w = {4, 4};

    for (uint32_t i = 0; i < plan->n_insts; i++) {
        struct fr_buf label = {0};
        size_t node = show_width(plan->nodes[plan->insts[i].node].name), task;

        fr_plan_label(plan, i, &label);
        task = label.bad ? 0 : show_width(label.p);
        fr_buf_finish(&label);
        w.task = task > w.task ? task : w.task;
        w.node = node > w.node ? node : w.node;
    }
    return w;
}

/* The first two cells of a row, each with two blanks after it. */
static void cells(const struct widths *w, const char *task, const char *node, struct fr_buf *b)
{
    show_cell(b, task, w->task);
    fr_buf_text(b, "  ");
    show_cell(b, node, w->node);
    fr_buf_text(b, "  ");
}

static void row(struct cli_show *show, const struct widths *w, uint32_t i)
{
    const struct fr_plan *plan = show->model.plan;
    const struct cli_model_inst *in = &show->model.insts[i];
    struct fr_buf b = {0}, label = {0};
    char took[24];

    if (plan->tasks[plan->insts[i].task].hook >= 0 && in->state == FR_ST_SKIPPED)
        return; /* a hook of another outcome */
    cli_took(in->started_wall, in->ended_wall, took);
    fr_plan_label(plan, i, &label);
    cells(w, label.bad ? "" : label.p, plan->nodes[plan->insts[i].node].name, &b);
    fr_buf_finish(&label);
    fr_buf_text(&b, show_color(show, in->state));
    show_cell(&b, fr_state_name(in->state), STATE_COLUMNS);
    fr_buf_text(&b, show_plain(show));
    fr_buf_fmt(&b, "  %8u  %8s", in->began, took);
    if (in->reason[0] != '\0')
        fr_buf_fmt(&b, "  %s", in->reason);
    if (!b.bad)
        fr_print("%s\n", b.p);
    fr_buf_finish(&b);
}

/* Prints the outputs of the last tasks, such as the published folder. */
static void results(const struct cli_show *show)
{
    const struct fr_plan *plan = show->model.plan;
    const char *gap = "\n";

    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const struct fr_strs *outs = show->model.insts[i].outputs;

        if (show->model.insts[i].state != FR_ST_SUCCEEDED || outs == NULL)
            continue;
        for (size_t k = 0; k < outs->n; k++) {
            struct fr_buf b = {0};

            if (fr_has_prefix(outs->v[k].p, FR_RESULT "="))
                continue;
            fr_buf_visible(&b, outs->v[k].p, outs->v[k].n);
            if (!b.bad)
                fr_print("%s%s gave %s\n", gap, plan->insts[i].key, b.p);
            fr_buf_finish(&b);
            gap = "";
        }
    }
}

/* Prints the next commands after a failure. */
static void next_commands(const struct cli_show *show)
{
    const struct fr_plan *plan = show->model.plan;
    long long no = (long long)show->model.no;

    if (show->model.now.outcome != FR_OUT_FAILED)
        return;
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const struct cli_model_inst *in = &show->model.insts[i];

        if (!fr_state_failed(in->state) || in->attempt_no == 0 || in->cause == FR_CAUSE_GANG_PEER)
            continue;
        if (plan->tasks[plan->insts[i].task].spec->items != NULL) /* a shell reads brackets */
            fr_print("\nflowrun logs %lld '%s' shows its output, ", no, plan->insts[i].key);
        else
            fr_print("\n'flowrun logs %lld %s' shows its output, ", no, plan->insts[i].key);
        fr_print("'flowrun retry %lld' runs again what failed\n", no);
        return;
    }
    fr_print("\n'flowrun retry %lld' runs again what failed\n", no);
}

static void table(struct cli_show *show)
{
    const struct fr_plan *plan = show->model.plan;
    struct widths w = measure(plan);
    struct fr_buf b = {0};

    fr_buf_text(&b, "\n");
    cells(&w, "task", "node", &b);
    fr_buf_fmt(&b, "%-*s  %8s  %8s", STATE_COLUMNS, "state", "attempts", "time");
    if (!b.bad)
        fr_print("%s\n", b.p);
    fr_buf_finish(&b);
    for (uint32_t i = 0; i < plan->n_insts; i++)
        row(show, &w, i);
    results(show);
}

void show_closing(struct cli_show *show)
{
    if (!show->opts.quiet)
        table(show);
    next_commands(show);
}
