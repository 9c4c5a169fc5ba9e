#include "engine/cli/show.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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
    show->live = !opts->json && !opts->quiet && isatty(1) && term != NULL &&
                 strcmp(term, "dumb") != 0;
    show->color = show->live && (no_color == NULL || no_color[0] == '\0');
    if (show->live)
        rc = live_start(show, err);
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
    cli_out_frames(show->opts.out, NULL, NULL);
    fr_sys.free(show->lines);
    fr_buf_finish(&show->table.text);
    fr_sys.free(show);
}

void show_print(struct cli_show *show, enum cli_out_kind kind, int64_t wall_ms, const char *text)
{
    time_t s = (time_t)(wall_ms / 1000);
    struct fr_buf line = {0};
    char clock[16] = "";
    struct tm tm;

    if (localtime_r(&s, &tm) != NULL)
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    fr_buf_fmt(&line, "%s %s\n", clock, text);
    if (!line.bad)
        cli_out_add(show->opts.out, kind, line.p, line.n);
    fr_buf_finish(&line);
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
        show_print(show, CLI_OUT_EVENT, fr_sys.wall_ms(), b.p);
    fr_buf_finish(&b);
}

/* ---- notes in words ---- */

/* Whether people want to know: by default how tasks end and what is tried again; the same of what
 * went wrong; or all. */
static bool is_wanted(const struct cli_show *show, const struct fr_note *note)
{
    const struct fr_plan *plan = fr_run_plan(show->run);
    const struct fr_row *row = &note->row;
    bool was_away = show->lines != NULL && show->lines[note->inst].away;

    if (row->state == FR_ST_WAITING || row->state == FR_ST_READY)
        return false;
    if (row->state == FR_ST_SKIPPED && plan->tasks[plan->insts[note->inst].task].hook >= 0)
        return false; /* a hook of another outcome */
    if (show->opts.quiet)
        return cli_is_failure(row->state);
    return show->opts.verbose || fr_state_ended(row->state) || row->state == FR_ST_RETRYING ||
           row->unreachable || was_away;
}

void show_state(struct cli_show *show, const struct fr_note *note)
{
    const struct fr_row *row = &note->row;
    struct fr_buf b = {0};

    if (!is_wanted(show, note))
        return;
    fr_buf_fmt(&b, "%s %s%s%s", fr_run_plan(show->run)->insts[note->inst].key,
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
        show_print(show, CLI_OUT_EVENT, note->wall_ms, b.p);
    fr_buf_finish(&b);
}

void show_run(struct cli_show *show, const struct fr_note *note)
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
        show_print(show, CLI_OUT_EVENT, note->wall_ms, b.p);
    fr_buf_finish(&b);
}

static void show_text(struct cli_show *show, const struct fr_note *note)
{
    const struct fr_plan *plan = fr_run_plan(show->run);
    struct fr_buf b = {0};

    if (note->kind == FR_NOTE_NODE)
        fr_buf_fmt(&b, "%s: ", plan->nodes[note->node].name);
    else if (note->inst != FR_PLAN_NONE)
        fr_buf_fmt(&b, "%s: ", plan->insts[note->inst].key);
    fr_buf_visible(&b, note->text, strlen(note->text));
    if (!b.bad)
        show_print(show, CLI_OUT_EVENT, note->wall_ms, b.p);
    fr_buf_finish(&b);
}

static void show_full(struct cli_show *show, const struct fr_note *note)
{
    const char *key = fr_run_plan(show->run)->insts[note->inst].key;
    struct fr_buf b = {0};

    fr_buf_fmt(&b,
               "%s: its log is full (log.max): its newer output is shown when it ends, or now by "
               "'flowrun logs -f %lld %s'",
               key, (long long)fr_run_no(show->run), key);
    if (!b.bad)
        show_print(show, CLI_OUT_EVENT, note->wall_ms, b.p);
    fr_buf_finish(&b);
}

static void on_note(void *arg, const struct fr_run *run, const struct fr_note *note)
{
    struct cli_show *show = arg;

    if (show->run == NULL)
        show->run = run;
    switch (note->kind) {
    case FR_NOTE_LOG:
        order_output(show, note);
        return;
    case FR_NOTE_STATE:
        order_state(show, note);
        break;
    case FR_NOTE_RUN:
        order_run(show, note);
        break;
    case FR_NOTE_FULL:
        if (show->opts.json)
            json_note(show, note);
        else if (!show->opts.quiet)
            show_full(show, note);
        break;
    case FR_NOTE_NODE:
    case FR_NOTE_TROUBLE:
        order_trouble(show, note);
        if (show->opts.json)
            json_note(show, note);
        else if (!show->opts.quiet || note->kind == FR_NOTE_TROUBLE)
            show_text(show, note);
        break;
    }
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
    show->begun_ms = fr_sys.mono_ms();
    cli_out_run(show->opts.out, fr_run_no(run));
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
    if (show->opts.quiet)
        return;
    fr_id_text(fr_run_id(run), id);
    cli_show_say(show, "run %lld (%.8s) of %s: %u tasks, %u nodes", (long long)fr_run_no(run), id,
                 fr_run_spec(run)->name, plan->n_tasks - plan->n_hooks, plan->n_nodes - 1);
}

void cli_show_end(struct cli_show *show)
{
    order_finish(show);
    if (!show->opts.json)
        show_closing(show);
    if (show->live)
        live_end(show);
}
