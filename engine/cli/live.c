/* The table that is redrawn in place on a terminal, below what scrolls by. */
#include "engine/cli/show.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <string.h>

enum { REDRAW_MS = 100, TICK_MS = 1000 };

void live_erase(struct cli_show *show)
{
    if (show->drawn > 0)
        fr_print("\r\033[%uA\033[J", show->drawn);
    else
        fr_print("\r\033[K"); /* the terminal's echo of Ctrl-C */
    show->drawn = 0;
}

void live_soon(struct cli_show *show)
{
    int64_t due = show->drawn_ms + REDRAW_MS, now = fr_sys.mono_ms();

    if (show->timer == NULL || show->armed)
        return;
    show->armed = true;
    fr_loop_arm(show->opts.loop, show->timer, due > now ? due : now + 20);
}

void live_on_timer(void *arg)
{
    struct cli_show *show = arg;

    show->armed = false;
    live_erase(show);
    live_draw(show);
    fr_loop_arm_in(show->opts.loop, show->timer, TICK_MS);
}

/* Of the instances of a task: the names of the nodes that are in the state the task is shown with.
 */
static void nodes_of(const struct cli_show *show, const struct fr_plan_task *task,
                     struct fr_buf *out)
{
    const struct fr_plan *plan = fr_run_plan(show->run);

    for (uint32_t i = 0; i < task->count; i++)
        fr_buf_fmt(out, "%s%s", i > 0 ? " " : "",
                   plan->nodes[plan->insts[task->first + i].node].name);
}

struct sum { /* of a task's instances */
    enum fr_state_of state;
    unsigned ended, attempts;
    bool away;
    struct fr_run_inst times;
};

static struct sum sum_of(const struct cli_show *show, const struct fr_plan_task *task)
{
    struct sum s = {.state = FR_ST_SUCCEEDED, .times = {.reason = ""}};
    bool open = false, worst = false;

    for (uint32_t i = 0; i < task->count; i++) {
        struct fr_row r = fr_run_row(show->run, task->first + i);
        struct fr_run_inst in = fr_run_inst(show->run, task->first + i);

        s.attempts = fr_row_began(&r) > s.attempts ? fr_row_began(&r) : s.attempts;
        s.away = s.away || r.unreachable;
        if (in.started_wall != 0 &&
            (s.times.started_wall == 0 || in.started_wall < s.times.started_wall))
            s.times.started_wall = in.started_wall;
        if (in.ended_wall > s.times.ended_wall)
            s.times.ended_wall = in.ended_wall;
        if (fr_state_ended(r.state)) {
            s.ended++;
            if (!open && (!worst || r.state != FR_ST_SUCCEEDED))
                s.state = r.state;
            worst = true;
        } else if (!open || r.state > s.state || fr_state_ended(s.state)) {
            s.state = r.state;
            open = true;
        }
    }
    if (open)
        s.times.ended_wall = 0;
    return s;
}

static void draw_task(struct cli_show *show, const struct fr_plan_task *task, size_t name_width,
                      unsigned columns)
{
    struct sum s = sum_of(show, task);
    struct fr_buf nodes = {0}, line = {0};
    char took[24];

    show_took(&s.times, took);
    nodes_of(show, task, &nodes);
    show_cell(&line, task->name, name_width);
    fr_buf_text(&line, "  ");
    show_cell(&line, s.away ? "unreachable" : fr_state_name(s.state), 15);
    fr_buf_fmt(&line, " %3u/%-3u %3u  %8s  ", s.ended, task->count, s.attempts, took);
    fr_buf_text(&line, nodes.p != NULL ? nodes.p : "");
    if (!line.bad) {
        fr_buf_text(&show->out, show_color(show, s.away ? FR_ST_LOST : s.state));
        show_cell(&show->out, line.p, columns > 1 ? columns - 1 : 1);
        fr_buf_text(&show->out, show_plain(show));
        fr_buf_text(&show->out, "\n");
    }
    fr_buf_finish(&line);
    fr_buf_finish(&nodes);
}

/* Whether a task has its place when there is none for all: what goes on, and what failed. */
static bool matters(const struct cli_show *show, const struct fr_plan_task *task)
{
    enum fr_state_of st = sum_of(show, task).state;

    return st >= FR_ST_STARTING && st != FR_ST_SUCCEEDED && st != FR_ST_SKIPPED;
}

void live_draw(struct cli_show *show)
{
    const struct fr_plan *plan = fr_run_plan(show->run);
    uint32_t n = plan->n_tasks - plan->n_hooks;
    unsigned columns, rows, left;
    size_t width = 4;
    bool all;

    show_size(&columns, &rows);
    show->out.n = 0;
    for (uint32_t t = 0; t < plan->n_tasks; t++)
        width = show_width(plan->tasks[t].name) > width ? show_width(plan->tasks[t].name) : width;
    width = width > columns / 3 ? columns / 3 : width;
    left = rows > 4 ? rows / 2 : 2;
    all = n <= left;
    if (fr_run_now(show->run).state == FR_RUN_HOOKS)
        n = plan->n_tasks;
    for (uint32_t t = 0; t < n && left > 0; t++) {
        if (!all && !matters(show, &plan->tasks[t]))
            continue;
        if (plan->tasks[t].hook >= 0 && sum_of(show, &plan->tasks[t]).state == FR_ST_SKIPPED)
            continue;
        draw_task(show, &plan->tasks[t], width, columns);
        show->drawn++;
        left--;
    }
    if (!show->out.bad && show->out.n > 0)
        fr_print("%s", show->out.p);
    fflush(stdout);
    show->drawn_ms = fr_sys.mono_ms();
}
