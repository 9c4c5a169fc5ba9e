#include "engine/cli/show.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 }; /* a longer line is shown in pieces */

enum fr_rc cli_show_create(struct cli_show **out, const struct cli_show_opts *opts,
                           struct fr_err *err)
{
    struct cli_show *show = fr_sys.alloc(sizeof(*show));
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (show == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to show a run");
    *show = (struct cli_show){.opts = *opts};
    show->live = !opts->json && isatty(1) && term != NULL && strcmp(term, "dumb") != 0;
    show->color = show->live && (no_color == NULL || no_color[0] == '\0');
    if (show->live && fr_loop_timer(opts->loop, live_on_timer, show, &show->timer) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for a timer");
    if (rc == FR_OK)
        *out = show;
    else
        fr_sys.free(show);
    return rc;
}

void cli_show_destroy(struct cli_show *show)
{
    if (show == NULL)
        return;
    if (show->timer != NULL)
        fr_loop_untimer(show->opts.loop, &show->timer);
    fr_sys.free(show->lines);
    fr_buf_finish(&show->out);
    fr_sys.free(show);
}

void show_print(struct cli_show *show, int64_t wall_ms, const char *text)
{
    time_t s = (time_t)(wall_ms / 1000);
    char clock[16] = "";
    struct tm tm;

    if (localtime_r(&s, &tm) != NULL)
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    if (show->live)
        live_erase(show);
    fr_print("%s %s\n", clock, text);
    if (show->live)
        live_soon(show);
}

void cli_show_say(struct cli_show *show, const char *fmt, ...)
{
    struct fr_buf b = {0};
    va_list ap;

    va_start(ap, fmt);
    fr_buf_vfmt(&b, fmt, ap);
    va_end(ap);
    if (!b.bad && show->opts.json)
        fr_complain("flowrun: %s\n", b.p);
    else if (!b.bad)
        show_print(show, fr_sys.wall_ms(), b.p);
    fr_buf_finish(&b);
}

/* ---- task output, line by line ---- */

struct fr_str cli_line_seen(const char *text, size_t n)
{
    while (n > 0 && text[n - 1] == '\r')
        n--;
    for (size_t i = n; i > 0; i--)
        if (text[i - 1] == '\r')
            return (struct fr_str){text + i, n - i};
    return (struct fr_str){text, n};
}

static void print_line(struct cli_show *show, uint32_t inst, struct show_line *line)
{
    const struct fr_plan *plan = fr_run_plan(show->run);
    struct fr_buf b = {0};
    struct fr_str seen = cli_line_seen(line->text.p != NULL ? line->text.p : "", line->text.n);

    if (show->opts.json) {
        json_line(show, inst, line->wall_ms, seen);
    } else {
        fr_buf_fmt(&b, "%s | ", plan->insts[inst].key);
        fr_buf_visible(&b, seen.p, seen.n);
        if (!b.bad)
            show_print(show, line->wall_ms, b.p);
    }
    fr_buf_finish(&b);
    line->text.n = 0;
}

static void take_log(struct cli_show *show, const struct fr_note *note)
{
    struct show_line *line;
    const char *p = note->bytes.p, *end = p + note->bytes.n;

    if (show->opts.quiet || show->lines == NULL)
        return;
    line = &show->lines[note->inst];
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl != NULL ? (size_t)(nl - p) : (size_t)(end - p);

        if (line->text.n == 0)
            line->wall_ms = note->wall_ms;
        fr_buf_add(&line->text, p, n);
        if (nl != NULL || line->text.n > LINE_MAX_BYTES)
            print_line(show, note->inst, line);
        p += n + (nl != NULL);
    }
}

static void flush_line(struct cli_show *show, uint32_t inst)
{
    if (show->lines != NULL && show->lines[inst].text.n > 0)
        print_line(show, inst, &show->lines[inst]);
}

/* ---- events ---- */

static void take_state(struct cli_show *show, const struct fr_note *note)
{
    const struct fr_plan *plan = fr_run_plan(show->run);
    const struct fr_row *row = &note->row;
    struct fr_buf b = {0};

    if (show->lines != NULL) {
        struct show_line *line = &show->lines[note->inst];

        if (line->state == row->state && line->away == row->unreachable)
            return; /* something that people need not know */
        line->state = row->state;
        line->away = row->unreachable;
    }
    if (row->state == FR_ST_WAITING || row->state == FR_ST_READY)
        return;
    if (row->state == FR_ST_SKIPPED && plan->tasks[plan->insts[note->inst].task].hook >= 0)
        return; /* a hook of another outcome */
    if (fr_state_ended(row->state) || row->state == FR_ST_RETRYING)
        flush_line(show, note->inst);
    fr_buf_fmt(&b, "%s %s%s%s", plan->insts[note->inst].key,
               show_color(show, row->state), fr_state_name(row->state), show_plain(show));
    if (row->attempt_no > 1 && (row->state == FR_ST_STARTING || row->state == FR_ST_RUNNING))
        fr_buf_fmt(&b, " (attempt %u)", row->attempt_no);
    if (row->state == FR_ST_STOPPING)
        fr_buf_fmt(&b, " (%s)", fr_cause_name(row->stop_cause));
    if (row->state == FR_ST_RETRYING) {
        char text[24];

        fr_show_duration(row->delay_ms, text);
        fr_buf_fmt(&b, " in %s", text);
    }
    if (row->unreachable)
        fr_buf_text(&b, ", its node is unreachable");
    if (note->text[0] != '\0')
        fr_buf_fmt(&b, ": %s", note->text);
    if (!b.bad)
        show_print(show, note->wall_ms, b.p);
    fr_buf_finish(&b);
}

static void take_run(struct cli_show *show, const struct fr_note *note)
{
    struct fr_buf b = {0};

    if (note->now.state == FR_RUN_RUNNING || note->now.state == FR_RUN_HOOKS)
        return;
    fr_buf_fmt(&b, "run %lld %s", (long long)fr_run_no(show->run),
               note->now.state == FR_RUN_OVER ? fr_outcome_name(note->now.outcome)
                                              : fr_run_state_name(note->now.state));
    if (note->text[0] != '\0')
        fr_buf_fmt(&b, ": %s", note->text);
    if (!b.bad)
        show_print(show, note->wall_ms, b.p);
    fr_buf_finish(&b);
}

static void take_text(struct cli_show *show, const struct fr_note *note)
{
    const struct fr_plan *plan = fr_run_plan(show->run);
    struct fr_buf b = {0};

    if (note->kind == FR_NOTE_NODE)
        fr_buf_fmt(&b, "%s: ", plan->nodes[note->node].name);
    else if (note->inst != FR_PLAN_NONE)
        fr_buf_fmt(&b, "%s: ", plan->insts[note->inst].key);
    fr_buf_visible(&b, note->text, strlen(note->text));
    if (!b.bad)
        show_print(show, note->wall_ms, b.p);
    fr_buf_finish(&b);
}

static void on_note(void *arg, const struct fr_run *run, const struct fr_note *note)
{
    struct cli_show *show = arg;

    if (show->run == NULL)
        show->run = run;
    if (note->kind == FR_NOTE_LOG) {
        take_log(show, note);
        return;
    }
    if (show->opts.json) {
        if (note->kind == FR_NOTE_STATE && fr_state_ended(note->row.state))
            flush_line(show, note->inst);
        json_note(show, note);
        return;
    }
    if (note->kind == FR_NOTE_STATE)
        take_state(show, note);
    else if (note->kind == FR_NOTE_RUN)
        take_run(show, note);
    else
        take_text(show, note);
    if (show->live)
        live_soon(show);
}

struct fr_view cli_show_view(struct cli_show *show)
{
    return (struct fr_view){on_note, show};
}

void cli_show_begin(struct cli_show *show, const struct fr_run *run)
{
    const struct fr_plan *plan = fr_run_plan(run);
    char id[FR_ID_TEXT];

    show->run = run;
    show->lines = fr_sys.alloc(plan->n_insts * sizeof(*show->lines));
    if (show->lines != NULL)
        memset(show->lines, 0, plan->n_insts * sizeof(*show->lines));
    for (uint32_t i = 0; show->lines != NULL && i < plan->n_insts; i++) {
        struct fr_row row = fr_run_row(run, i);

        show->lines[i].state = row.state;
        show->lines[i].away = row.unreachable;
    }
    if (show->opts.json) {
        json_begin(show);
        return;
    }
    fr_id_text(fr_run_id(run), id);
    cli_show_say(show, "run %lld (%.8s) of %s: %u tasks, %u nodes", (long long)fr_run_no(run), id,
                 fr_run_spec(run)->name, plan->n_tasks - plan->n_hooks, plan->n_nodes - 1);
}

void cli_show_end(struct cli_show *show, const struct fr_run *run)
{
    const struct fr_plan *plan = fr_run_plan(run);

    for (uint32_t i = 0; show->lines != NULL && i < plan->n_insts; i++) {
        flush_line(show, i);
        fr_buf_finish(&show->lines[i].text);
    }
    if (show->live)
        live_erase(show);
    if (!show->opts.json)
        show_closing(show);
    if (show->timer != NULL)
        fr_loop_untimer(show->opts.loop, &show->timer);
    show->live = false;
}
