#include "engine/show/private.h"

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
    show->live =
        !opts->json && !opts->quiet && isatty(1) && term != NULL && strcmp(term, "dumb") != 0;
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
    fr_sys.free(show->said);
    cli_curves_destroy(show->curves);
    cli_model_finish(&show->model);
    fr_buf_finish(&show->table.text);
    fr_buf_finish(&show->line);
    fr_sys.free(show);
}

/* Begins a line: the time is made once a second, as output may be a million lines of it. */
static void begin_line(struct cli_show *show, int64_t wall_ms)
{
    time_t s = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (show->clock_s != s || show->clock[0] == '\0') {
        show->clock_s = s;
        show->clock[0] = '\0';
        if (localtime_r(&s, &tm) != NULL)
            strftime(show->clock, sizeof(show->clock), "%H:%M:%S", &tm);
    }
    show->line.n = 0;
    fr_buf_text(&show->line, show->clock);
    fr_buf_add(&show->line, " ", 1);
}

static void end_line(struct cli_show *show, enum cli_out_kind kind)
{
    fr_buf_add(&show->line, "\n", 1);
    if (!show->line.bad)
        cli_out_add(show->opts.out, kind, show->line.p, show->line.n);
    else
        fr_buf_finish(&show->line);
    if (show->live)
        live_soon(show);
}

void show_print(struct cli_show *show, enum cli_out_kind kind, int64_t wall_ms, struct fr_buf *text)
{
    begin_line(show, wall_ms);
    fr_buf_add(&show->line, text->p, text->n);
    show->line.bad = show->line.bad || text->bad;
    fr_buf_finish(text);
    end_line(show, kind);
}

void show_output(struct cli_show *show, uint32_t inst, int64_t wall_ms, struct fr_str text)
{
    begin_line(show, wall_ms);
    fr_buf_text(&show->line, show->model.plan->insts[inst].key);
    fr_buf_add(&show->line, " | ", 3);
    fr_buf_visible(&show->line, text.p, text.n);
    end_line(show, CLI_OUT_OUTPUT);
}

void cli_show_say(struct cli_show *show, const char *fmt, ...)
{
    struct fr_buf b = {0};
    va_list ap;

    va_start(ap, fmt);
    fr_buf_vfmt(&b, fmt, ap);
    va_end(ap);
    if (!show->opts.json) {
        show_print(show, CLI_OUT_EVENT, fr_sys.wall_ms(), &b);
        return;
    }
    if (!b.bad)
        fr_complain("flowrun: %s\n", b.p);
    fr_buf_finish(&b);
}

/* ---- notes in words ---- */

bool show_waits(const struct cli_show *show, const struct fr_note *note)
{
    const struct fr_plan *plan = show->model.plan;

    return note->row.state == FR_ST_WAITING && note->text[0] != '\0' &&
           !plan->tasks[plan->insts[note->inst].task].awaited;
}

/* Whether the state is printed: by default ends and retries; quiet: failures; verbose: all. */
static bool is_wanted(const struct cli_show *show, const struct fr_note *note)
{
    const struct fr_plan *plan = show->model.plan;
    const struct fr_row *row = &note->row;
    bool was_away = show->lines != NULL && show->lines[note->inst].away;

    if (show_waits(show, note))
        return true;
    if (row->state == FR_ST_WAITING || row->state == FR_ST_READY)
        return false;
    if (row->state == FR_ST_SKIPPED && plan->tasks[plan->insts[note->inst].task].hook >= 0)
        return false; /* a hook of another outcome */
    if (show->opts.quiet)
        return fr_state_failed(row->state);
    return show->opts.verbose || fr_state_ended(row->state) || row->state == FR_ST_RETRYING ||
           row->unreachable || was_away;
}

void show_state(struct cli_show *show, const struct fr_note *note)
{
    const struct fr_row *row = &note->row;
    struct fr_buf b = {0};

    if (!is_wanted(show, note))
        return;
    fr_buf_fmt(&b, "%s %s%s%s", show->model.plan->insts[note->inst].key,
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
    show_print(show, CLI_OUT_EVENT, note->wall_ms, &b);
}

void show_run(struct cli_show *show, const struct fr_note *note)
{
    struct fr_buf b = {0};

    if (note->now.state == FR_RUN_RUNNING || note->now.state == FR_RUN_HOOKS)
        return;
    fr_buf_fmt(&b, "run %lld %s", (long long)show->model.no,
               fr_run_word(note->now.state, note->now.outcome));
    if (note->text[0] != '\0')
        fr_buf_fmt(&b, ": %s", note->text);
    show_print(show, CLI_OUT_EVENT, note->wall_ms, &b);
}

static void show_text(struct cli_show *show, const struct fr_note *note)
{
    const struct fr_plan *plan = show->model.plan;
    struct fr_buf b = {0};

    if (note->kind == FR_NOTE_NODE)
        fr_buf_fmt(&b, "%s: ", plan->nodes[note->node].name);
    else if (note->inst != FR_PLAN_NONE)
        fr_buf_fmt(&b, "%s: ", plan->insts[note->inst].key);
    fr_buf_visible(&b, note->text, strlen(note->text));
    show_print(show, CLI_OUT_EVENT, note->wall_ms, &b);
}

static void show_full(struct cli_show *show, const struct fr_note *note)
{
    const char *key = show->model.plan->insts[note->inst].key;
    struct fr_buf b = {0};

    fr_buf_fmt(&b,
               "%s: its log is full (log.max): its newer output is shown when it ends, or now by "
               "'flowrun logs -f %lld %s'",
               key, (long long)show->model.no, key);
    show_print(show, CLI_OUT_EVENT, note->wall_ms, &b);
}

void cli_show_moved(struct cli_show *show)
{
    for (size_t i = 0; i < show->n_said; i++)
        show->said[i].moved = true;
}

/* Whether the note repeats the last one of the host before about that node. Remembers the note by
 * its hash (FNV-1a, 64 bits). */
static bool said_before(struct cli_show *show, const struct fr_note *note)
{
    uint64_t h = 14695981039346656037u ^ (uint64_t)note->up;
    struct show_said last;

    if (note->kind != FR_NOTE_NODE || note->node >= show->n_said)
        return false;
    for (const char *p = note->text; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    last = show->said[note->node];
    show->said[note->node] = (struct show_said){h, false};
    return last.moved && last.hash == h;
}

/* The lines of instances that were there go with them. Without memory the new ones are not shown.
 */
static void grow(struct cli_show *show, const struct fr_plan *plan)
{
    const struct fr_plan *before = show->model.plan;
    struct show_line *to;

    if (show->lines == NULL)
        return;
    to = fr_sys.alloc((plan->n_insts + 1) * sizeof(*to));
    if (to == NULL || !cli_model_grow(&show->model, plan)) {
        fr_sys.free(to);
        return;
    }
    memset(to, 0, plan->n_insts * sizeof(*to));
    for (uint32_t i = 0; i < before->n_insts; i++) {
        uint32_t now = fr_plan_moved(plan, before, i);

        if (now != FR_PLAN_NONE)
            to[now] = show->lines[i];
    }
    fr_sys.free(show->lines);
    show->lines = to;
    if (show->curves != NULL)
        (void)cli_curves_grow(show->curves);
}

void cli_show_note(struct cli_show *show, const struct fr_note *given)
{
    struct fr_note copy = *given, *note = &copy;

    if (note->kind == FR_NOTE_RUN && show->model.now.state == FR_RUN_QUEUED)
        show->begun_ms = fr_sys.mono_ms();
    if (!cli_model_take(&show->model, note) || said_before(show, note))
        return;
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
    case FR_NOTE_METRICS: /* shown as curves */
        return;
    case FR_NOTE_PLAN:
        grow(show, note->plan);
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

/* A run that is being loaded may have no plan yet. */
static void know_run(struct cli_model *m, const struct fr_run *run)
{
    m->plan = fr_run_plan(run);
    m->name = fr_run_spec(run) != NULL ? fr_run_spec(run)->name : "";
    m->no = fr_run_no(run);
    m->id = fr_run_id(run);
}

static void on_note(void *arg, const struct fr_run *run, const struct fr_note *note)
{
    struct cli_show *show = arg;

    if (show->model.insts == NULL)
        know_run(&show->model, run);
    cli_show_note(show, note);
}

struct fr_view cli_show_view(struct cli_show *show)
{
    return (struct fr_view){on_note, show};
}

/* Prints the first lines, before the first note. */
static enum fr_rc begin(struct cli_show *show, struct fr_err *err)
{
    const struct cli_model *m = &show->model;
    const struct fr_plan *plan = m->plan;
    char id[FR_ID_TEXT];

    show->begun_ms = fr_sys.mono_ms();
    cli_out_run(show->opts.out, m->no);
    show->lines = fr_sys.alloc((plan->n_insts + 1) * sizeof(*show->lines));
    if (show->lines == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to show a run");
    memset(show->lines, 0, plan->n_insts * sizeof(*show->lines));
    show->said = fr_sys.alloc((plan->n_nodes + 1) * sizeof(*show->said));
    if (show->said != NULL) { /* without memory, repeated notes are shown */
        show->n_said = plan->n_nodes;
        memset(show->said, 0, show->n_said * sizeof(*show->said));
    }
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        show->lines[i].state = m->insts[i].state;
        show->lines[i].away = m->insts[i].unreachable;
    }
    fr_id_text(m->id, id);
    if (show->opts.json)
        json_begin(show);
    else if (!show->opts.quiet)
        cli_show_say(show, "run %lld (%.8s) of %s: %u task%s, %u node%s", (long long)m->no, id,
                     m->name, plan->n_tasks - plan->n_hooks,
                     fr_plural(plan->n_tasks - plan->n_hooks), plan->n_nodes - 1,
                     fr_plural(plan->n_nodes - 1));
    return FR_OK;
}

void cli_show_learn(struct cli_show *show, const struct fr_note *given)
{
    struct fr_note copy = *given, *note = &copy;

    if (note->kind == FR_NOTE_PLAN)
        grow(show, note->plan);
    if (!cli_model_take(&show->model, note) || note->kind != FR_NOTE_STATE)
        return;
    show->lines[note->inst].state = note->row.state;
    show->lines[note->inst].away = note->row.unreachable;
}

enum fr_rc cli_show_begin(struct cli_show *show, const struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc;

    if (show->lines != NULL) /* cli_show_begin_stored() came before */
        return FR_OK;
    know_run(&show->model, run);
    rc = cli_model_load(&show->model, run, err);
    return rc == FR_OK ? begin(show, err) : rc;
}

enum fr_rc cli_show_begin_stored(struct cli_show *show, const struct fr_run_row *row,
                                 const struct fr_plan *plan, struct fr_err *err)
{
    enum fr_rc rc;

    show->model.plan = plan;
    show->model.name = plan->spec->name;
    show->model.no = row->no;
    show->model.id = row->id;
    if (row->state == FR_RUN_QUEUED)
        show->model.now.state = FR_RUN_QUEUED;
    rc = cli_model_begin(&show->model, err);
    if (rc == FR_OK && show->opts.curves != NULL &&
        (show->curves = cli_curves_create(show->opts.curves, &show->model)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for curves");
    if (rc == FR_OK)
        rc = begin(show, err);
    if (row->started_wall != 0)
        show->begun_ms -= fr_sys.wall_ms() - row->started_wall;
    return rc;
}

void show_curves(const struct cli_show *show, struct show_table *to, unsigned rows)
{
    struct cli_curves_size size = {to->columns, rows, show_color(show, FR_ST_RUNNING),
                                   show_plain(show)};

    if (show->curves != NULL)
        to->rows += cli_curves_draw(show->curves, &size, &to->text);
}

void cli_show_curves(struct cli_show *show)
{
    struct fr_buf line = {0};

    if (show->curves == NULL || !cli_curves_look(show->curves))
        return;
    if (show->live)
        live_soon(show);
    while (!show->live && cli_curves_tell(show->curves, &line))
        show_print(show, CLI_OUT_EVENT, fr_sys.wall_ms(), &line);
}

/* Prints the curves as lines that stay on the screen. */
static void leave_curves(struct cli_show *show)
{
    struct show_table last = {0};
    unsigned rows;

    show_size(&last.columns, &rows);
    show_curves(show, &last, rows > 12 ? rows - 6 : rows / 2);
    if (!last.text.bad && last.text.n > 0)
        cli_out_add(show->opts.out, CLI_OUT_EVENT, last.text.p, last.text.n);
    fr_buf_finish(&last.text);
}

const struct cli_model *cli_show_model(const struct cli_show *show)
{
    return &show->model;
}

void cli_show_end(struct cli_show *show)
{
    if (show->lines == NULL)
        return;
    order_finish(show);
    if (show->live)
        leave_curves(show);
    if (!show->opts.json)
        show_closing(show);
    if (show->live)
        live_end(show);
}
