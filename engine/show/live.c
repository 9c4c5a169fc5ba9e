/*
 * The table on a terminal below the scrolling lines. A frame is one write: it inserts the new lines
 * above the table, then overwrites the rows that differ, so no row is ever missing. Terminals with
 * synchronized output (private mode 2026) show each frame at once.
 */
#include "engine/show/private.h"

#include "engine/base/sys.h"

#include <string.h>

enum { FRAME_MS = 100, TICK_MS = 1000, LOAD = 20 /* a frame takes at most 1/LOAD of the time */ };

/* ---- the rows of the table ---- */

struct sum { /* of a task's instances */
    enum fr_state_of state;
    unsigned ended, attempts;
    bool away;
    int64_t started_wall, ended_wall;
};

struct totals { /* of all instances */
    unsigned n, ended, failed, going;
};

static void count(struct totals *t, enum fr_state_of state)
{
    t->n++;
    t->ended += fr_state_ended(state);
    t->failed += fr_state_failed(state);
    t->going += fr_state_lives(state);
}

static struct sum sum_of(const struct cli_show *show, const struct fr_plan_task *task,
                         struct totals *totals)
{
    struct sum s = {.state = FR_ST_SUCCEEDED};
    bool open = false;

    for (uint32_t i = 0; i < task->count; i++) {
        const struct cli_model_inst *in = &show->model.insts[task->first + i];

        count(totals, in->state);
        s.attempts = in->began > s.attempts ? in->began : s.attempts;
        s.away = s.away || in->unreachable;
        if (in->started_wall != 0 && (s.started_wall == 0 || in->started_wall < s.started_wall))
            s.started_wall = in->started_wall;
        if (in->ended_wall > s.ended_wall)
            s.ended_wall = in->ended_wall;
        s.ended += fr_state_ended(in->state);
        open = open || !fr_state_ended(in->state);
        s.state = i == 0 ? in->state : fr_state_shown(s.state, in->state);
    }
    if (open)
        s.ended_wall = 0;
    return s;
}

/* Whether a task gets a row when not all fit: it runs or failed. */
static bool matters(const struct sum *s)
{
    return s->state >= FR_ST_STARTING && s->state != FR_ST_SUCCEEDED && s->state != FR_ST_SKIPPED;
}

/* Appends a cell of width columns when it and the two blanks before it fit into *left. */
static bool add_cell(struct fr_buf *line, const char *text, size_t width, size_t *left)
{
    if (*left < width + 2)
        return false;
    fr_buf_text(line, "  ");
    show_cell(line, text, width);
    *left -= width + 2;
    return true;
}

/* Appends a row. Cells by importance: name, state, ended instances, time, attempts, nodes. */
static void add_row(const struct cli_show *show, const struct fr_plan_task *task,
                    const struct sum *s, size_t name_width, struct show_table *to)
{
    const struct fr_plan *plan = show->model.plan;
    size_t left = to->columns > name_width + 1 ? to->columns - 1 - name_width : 0;
    struct fr_buf line = {0}, nodes = {0}, cell = {0};
    char took[24];

    cli_took(s->started_wall, s->ended_wall, took);
    show_cell(&line, task->name, name_width);
    add_cell(&line, s->away ? "unreachable" : fr_state_name(s->state), left < 17 ? 9 : 13, &left);
    fr_buf_fmt(&cell, "%3u/%-3u", s->ended, task->count);
    if (add_cell(&line, cell.p, show_width(cell.p), &left) && left >= 10) {
        fr_buf_fmt(&line, "  %8s", took);
        left -= 10;
    }
    if (s->attempts > 1 && left >= 16) {
        cell.n = 0;
        fr_buf_fmt(&cell, "attempt %u", s->attempts);
        add_cell(&line, cell.p, show_width(cell.p), &left);
    }
    for (uint32_t i = 0; i < task->width && i < task->count && nodes.n < to->columns; i++)
        fr_buf_fmt(&nodes, "%s%s", i > 0 ? " " : "",
                   plan->nodes[plan->insts[task->first + i].node].name);
    if (nodes.n > 0 && left >= 6)
        add_cell(&line, nodes.p, left - 2, &left);
    while (line.n > 0 && line.p[line.n - 1] == ' ')
        line.n--;
    if (line.n > 0) {
        fr_buf_text(&to->text, show_color(show, s->away ? FR_ST_LOST : s->state));
        fr_buf_add(&to->text, line.p, line.n);
        fr_buf_text(&to->text, show_plain(show));
        fr_buf_text(&to->text, "\n");
        to->rows++;
    }
    fr_buf_finish(&line);
    fr_buf_finish(&nodes);
    fr_buf_finish(&cell);
}

static void add_totals(const struct cli_show *show, const struct totals *t, struct show_table *to)
{
    struct fr_buf line = {0};
    char took[24];

    fr_show_duration((fr_sys.mono_ms() - show->begun_ms) / 1000 * 1000, took);
    fr_buf_fmt(&line, "run %lld: %u of %u ended", (long long)show->model.no, t->ended, t->n);
    if (t->failed > 0)
        fr_buf_fmt(&line, ", %u failed", t->failed);
    fr_buf_fmt(&line, ", %u running, %u waiting, %s", t->going, t->n - t->ended - t->going, took);
    show_words(&to->text, &line, to->columns - 1);
    to->rows += !line.bad;
    fr_buf_finish(&line);
}

/* Whether a task gets a row; all: all tasks fit. */
static bool is_shown(const struct cli_show *show, const struct fr_plan_task *task,
                     const struct sum *s, bool all)
{
    if (task->hook < 0)
        return all || matters(s);
    return show->model.now.state == FR_RUN_HOOKS && s->state != FR_ST_SKIPPED;
}

/* The number of tasks that get a row, at most `most`. */
static unsigned count_rows(const struct cli_show *show, bool all, unsigned most)
{
    const struct fr_plan *plan = show->model.plan;
    unsigned n = 0;

    for (uint32_t t = 0; t < plan->n_tasks && n < most; t++) {
        struct totals none = {0};
        struct sum s = sum_of(show, &plan->tasks[t], &none);

        n += is_shown(show, &plan->tasks[t], &s, all);
    }
    return n;
}

/* Makes the table for a terminal of to->columns by rows; curves get the remaining rows. */
static void make_table(const struct cli_show *show, struct show_table *to, unsigned rows)
{
    const struct fr_plan *plan = show->model.plan;
    uint32_t n = plan->n_tasks - plan->n_hooks;
    unsigned left = rows > 6 ? rows / 2 - 1 : 1;
    struct totals totals = {0};
    bool all = n <= left;
    size_t width = 4;

    if (show->curves != NULL && rows > 3)
        show_curves(show, to, rows - 3 - count_rows(show, all, left));
    for (uint32_t t = 0; t < n; t++)
        width = show_width(plan->tasks[t].name) > width ? show_width(plan->tasks[t].name) : width;
    width = width > to->columns / 3 ? to->columns / 3 : width;
    for (uint32_t t = 0; t < plan->n_tasks; t++) {
        const struct fr_plan_task *task = &plan->tasks[t];
        struct totals none = {0};
        struct sum s = sum_of(show, task, task->hook < 0 ? &totals : &none);

        if (left > 0 && is_shown(show, task, &s, all)) {
            add_row(show, task, &s, width, to);
            left--;
        }
    }
    if (rows > 2)
        add_totals(show, &totals, to);
}

/* ---- from the old table to the new one ---- */

/* The next row of a text at *at, without its newline. */
static struct fr_str next_row(struct fr_str text, size_t *at)
{
    const char *p = text.n > *at ? text.p + *at : "";
    const char *nl = text.n > *at ? memchr(p, '\n', text.n - *at) : NULL;
    struct fr_str row = {p, nl != NULL ? (size_t)(nl - p) : 0};

    *at += row.n + (nl != NULL);
    return row;
}

static struct fr_str str_of(const struct fr_buf *b)
{
    return (struct fr_str){b->p, b->n};
}

/* Screen rows of text, which ends with a newline. */
static unsigned rows_of(struct fr_str text, unsigned columns)
{
    unsigned rows = 0;

    for (size_t at = 0; at < text.n;)
        rows += show_rows(next_row(text, &at), columns);
    return rows;
}

/* Inserts lines above the table; the screen has room for them. The cursor is below the table. */
static void insert_lines(struct fr_buf *to, struct fr_str lines, unsigned rows, unsigned height)
{
    for (unsigned i = 0; i < rows; i++)
        fr_buf_text(to, "\r\n"); /* scrolls at the bottom of the screen */
    fr_buf_fmt(to, "\033[%uA\033[%uL", rows + height, rows);
    for (size_t at = 0; at < lines.n;) {
        struct fr_str row = next_row(lines, &at);

        fr_buf_add(to, row.p, row.n);
        fr_buf_text(to, "\r\n");
    }
    if (height > 0)
        fr_buf_fmt(to, "\033[%uB", height);
}

/* Writes the rows of next that differ from those of old. The cursor is below old, then below next.
 */
static void write_rows(struct fr_buf *to, const struct show_table *old,
                       const struct show_table *next)
{
    size_t was = 0, is = 0;

    if (old->rows > 0)
        fr_buf_fmt(to, "\033[%uA", old->rows);
    for (unsigned i = 0; i < next->rows; i++) {
        struct fr_str a = next_row(str_of(&old->text), &was);
        struct fr_str b = next_row(str_of(&next->text), &is);

        if (i < old->rows && fr_str_eq(a, b)) {
            fr_buf_text(to, "\033[B");
            continue;
        }
        fr_buf_add(to, b.p, b.n);
        fr_buf_text(to, "\033[K\r\n");
    }
    if (next->rows < old->rows)
        fr_buf_text(to, "\033[J");
}

static void erase(struct fr_buf *to, struct show_table *table, unsigned columns)
{
    unsigned height = rows_of(str_of(&table->text), columns);

    if (height > 0)
        fr_buf_fmt(to, "\033[%uA", height);
    fr_buf_text(to, "\033[J");
    table->rows = 0;
    table->text.n = 0;
}

static void add_frame(struct cli_show *show, struct fr_str lines, struct show_table *next,
                      unsigned screen, struct fr_buf *to)
{
    struct show_table *old = &show->table;
    unsigned rows = rows_of(lines, next->columns);

    if (lines.n == 0 && old->columns == next->columns && old->text.n == next->text.n &&
        (old->text.n == 0 || memcmp(old->text.p, next->text.p, old->text.n) == 0))
        return;
    fr_buf_text(to, "\033[?2026h\r\033[K"); /* the row of the cursor may hold an echo */
    if (show->ending || old->columns != next->columns || rows + old->rows >= screen)
        erase(to, old, next->columns);
    if (rows > 0 && old->rows > 0)
        insert_lines(to, lines, rows, old->rows);
    else
        fr_buf_add(to, lines.p, lines.n);
    write_rows(to, old, next);
    fr_buf_text(to, "\033[?2026l");
}

static void on_frame(void *arg, struct fr_str lines, struct fr_buf *to)
{
    struct cli_show *show = arg;
    struct show_table next = {0};
    int64_t from = fr_sys.mono_ms();
    unsigned screen;

    show_size(&next.columns, &screen);
    if (!show->ending && show->model.insts != NULL)
        make_table(show, &next, screen);
    if (next.text.bad)
        fr_buf_finish(&next.text);
    next.rows = next.text.n > 0 ? next.rows : 0;
    add_frame(show, lines, &next, screen, to);
    fr_buf_finish(&show->table.text);
    show->table = next;
    show->drawn_ms = fr_sys.mono_ms();
    show->pause_ms = LOAD * (show->drawn_ms - from);
    show->pause_ms = show->pause_ms > FRAME_MS ? show->pause_ms : FRAME_MS;
}

static void on_timer(void *arg)
{
    struct cli_show *show = arg;

    show->armed = false;
    cli_out_frame(show->opts.out);
    fr_loop_arm_in(show->opts.loop, show->timer, TICK_MS);
}

void live_soon(struct cli_show *show)
{
    int64_t due = show->drawn_ms + show->pause_ms, now = fr_sys.mono_ms();

    if (show->timer == NULL || show->armed)
        return;
    show->armed = true;
    fr_loop_arm(show->opts.loop, show->timer, due > now ? due : now + 20);
}

enum fr_rc live_start(struct cli_show *show, struct fr_err *err)
{
    if (fr_loop_timer(show->opts.loop, on_timer, show, &show->timer) != FR_OK)
        return fr_fail(err, FR_NOMEM, "no memory for a timer");
    cli_out_frames(show->opts.out, on_frame, show);
    return FR_OK;
}

void live_end(struct cli_show *show)
{
    fr_loop_untimer(show->opts.loop, &show->timer);
    show->ending = true;
    cli_out_frame(show->opts.out);
}
