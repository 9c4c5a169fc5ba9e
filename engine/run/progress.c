/*
 * The progress of an attempt from its metrics: events about a training that stalls or whose loss is
 * not finite, and about a run that takes too long.
 */
#include "engine/curve/curve.h"
#include "engine/run/inside.h"
#include "engine/run/metrics.h"
#include "engine/spec/config.h"
#include "engine/store/told.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TAIL_BYTES = 64 << 10, /* of a copy that an earlier process made: its newest rows */
    LATE_LOOK_MS = 1000    /* between two looks at a run that may be over */
};

#define BAD_LOSS "its loss is not finite since step %.15g"

struct run_progress {
    struct fr_run *run; /* borrows, as at: for the call that feeds it */
    struct run_attempt *at;
    struct fr_curve_head head;
    struct fr_buf rest; /* owns: a line without its end */
    int64_t moved_ms;   /* its newest step came then */
    int64_t moved_wall;
    bool old;          /* the rows came to an earlier process: no events for them */
    bool stalled, bad; /* as reported */
};

/* ---- events ---- */

/* at NULL: an event of the run. */
static void tell(struct fr_run *run, const struct run_attempt *at, const char *kind,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void tell(struct fr_run *run, const struct run_attempt *at, const char *kind,
                 const char *fmt, ...)
{
    struct run_remark *remarks =
        fr_grow(run->remarks, run->n_remarks + 1, &run->cap_remarks, sizeof(*remarks));
    struct fr_buf text = {0};
    va_list ap;

    if (remarks == NULL)
        return;
    run->remarks = remarks;
    va_start(ap, fmt);
    fr_buf_vfmt(&text, fmt, ap);
    va_end(ap);
    run->remarks[run->n_remarks++] =
        (struct run_remark){.inst = at != NULL ? at->inst : FR_PLAN_NONE,
                            .attempt_no = at != NULL ? at->no : 0,
                            .kind = kind,
                            .text = text,
                            .wall_ms = fr_sys.wall_ms(),
                            .seq = ++run->seq};
}

void run_remark(struct fr_run *run, const char *kind, const char *fmt, ...)
{
    struct fr_buf text = {0};
    va_list ap;

    va_start(ap, fmt);
    fr_buf_vfmt(&text, fmt, ap);
    va_end(ap);
    tell(run, NULL, kind, "%s", text.bad ? "" : text.p);
    fr_buf_finish(&text);
}

enum fr_rc run_remarks_write(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < run->n_remarks; i++) {
        const struct run_remark *r = &run->remarks[i];
        struct fr_event_row ev = {.wall = r->wall_ms,
                                  .idx = r->inst != FR_PLAN_NONE ? (int64_t)r->inst : -1,
                                  .kind = r->kind,
                                  .attempt_no = r->attempt_no,
                                  .cause = "",
                                  .text = r->text.bad ? "" : r->text.p,
                                  .stop_cause = FR_CAUSE_NONE,
                                  .seq = r->seq};

        rc = fr_store_event_add(run->env.store, run->id, &ev, err);
    }
    return rc;
}

void run_remarks_show(struct fr_run *run, int64_t before)
{
    size_t n = 0;

    while (n < run->n_remarks && run->remarks[n].seq < before) {
        struct run_remark *r = &run->remarks[n++];

        run_note(run, &(struct fr_note){.kind = FR_NOTE_TROUBLE,
                                        .inst = r->inst,
                                        .node = FR_PLAN_NONE,
                                        .wall_ms = r->wall_ms,
                                        .seq = r->seq,
                                        .text = r->text.bad ? "" : r->text.p});
        fr_buf_finish(&r->text);
    }
    run->n_remarks -= n;
    for (size_t i = 0; i < run->n_remarks; i++)
        run->remarks[i] = run->remarks[i + n];
}

void run_remarks_drop(struct fr_run *run)
{
    for (size_t i = 0; i < run->n_remarks; i++)
        fr_buf_finish(&run->remarks[i].text);
    fr_sys.free(run->remarks);
    run->remarks = NULL;
    run->n_remarks = run->cap_remarks = 0;
}

/* ---- rows as they come ---- */

static int64_t stall_ms(const struct fr_run *run)
{
    return run->env.limits != NULL ? run->env.limits->stalled_ms : 0;
}

static void take_row(void *arg, struct fr_str line)
{
    struct run_progress *p = arg;
    struct fr_curve_row row;
    double before = p->head.step;

    fr_curve_row_read(line, &row);
    fr_curve_head_take(&p->head, &row);
    if (row.kind == FR_CURVE_ROW && row.step != before) {
        p->moved_ms = fr_sys.mono_ms();
        p->moved_wall = fr_sys.wall_ms();
        if (p->stalled)
            tell(p->run, p->at, "progress", "goes on, at step %.15g", row.step);
        p->stalled = false;
    }
    if (!isnan(p->head.bad_since) && !p->bad && !p->old)
        tell(p->run, p->at, "not_finite", BAD_LOSS, p->head.bad_since);
    p->bad = !isnan(p->head.bad_since);
    fr_curve_row_finish(&row);
}

static struct run_progress *progress_of(struct fr_run *run, struct run_attempt *at)
{
    struct run_progress *p = at->metrics.progress;

    if (p == NULL && (p = fr_sys.alloc(sizeof(*p))) != NULL)
        *p = (struct run_progress){.run = run, .at = at, .head = fr_curve_no_head};
    at->metrics.progress = p;
    return p;
}

void run_progress_take(struct fr_run *run, struct run_attempt *at, struct fr_str bytes)
{
    struct run_progress *p = progress_of(run, at);

    if (p == NULL)
        return; /* no memory: it is found out by who asks for the curves */
    fr_curve_lines(&p->rest, bytes.p, bytes.n, take_row, p);
    run->stall_due_ms = 0;
}

/* What the run's story says of its attempts; read once. Without memory it says nothing. */
static const struct fr_event_rows *told_of(struct fr_run *run)
{
    if (run->told == NULL &&
        (run->told = fr_arena_alloc(&run->arena, sizeof(*run->told))) != NULL &&
        fr_store_events_told(run->env.store, run->id, &run->arena, run->told, NULL) != FR_OK)
        *run->told = (struct fr_event_rows){NULL, 0, 0};
    return run->told;
}

/* An earlier process may have reported the state of the rows, or ended before it could. */
static void recall(struct run_progress *p)
{
    const struct fr_event_rows *told = told_of(p->run);
    bool known = !p->bad;
    char text[80];

    snprintf(text, sizeof(text), BAD_LOSS, p->head.bad_since);
    p->stalled = false;
    for (size_t i = 0; told != NULL && i < told->n; i++) {
        const struct fr_event_row *ev = &told->rows[i];

        if (ev->idx != (int64_t)p->at->inst || ev->attempt_no != (int64_t)p->at->no)
            continue;
        if (strcmp(ev->kind, "not_finite") == 0)
            known = known || strcmp(ev->text, text) == 0;
        else
            p->stalled = strcmp(ev->kind, "stalled") == 0;
    }
    if (!known)
        tell(p->run, p->at, "not_finite", "%s", text);
}

/* Reads the newest rows that came to an earlier process. The text before the first newline is a
 * partial row, or an older one. */
void run_progress_load(struct fr_run *run, struct run_attempt *at, const char *path)
{
    struct run_progress *p = at->metrics.progress;
    uint64_t size = at->metrics.size, from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    char *text;
    ssize_t k;
    int fd;

    if (p != NULL || size == 0 || at->ended || (p = progress_of(run, at)) == NULL ||
        (fd = fr_sys.open(path, O_RDONLY | O_NOFOLLOW, 0)) < 0)
        return;
    if ((text = fr_sys.alloc(TAIL_BYTES)) != NULL) {
        k = fr_sys.pread(fd, text, TAIL_BYTES, (off_t)from);
        p->old = true;
        fr_curve_lines(&p->rest, text, k > 0 ? (size_t)k : 0, take_row, p);
        p->old = false;
        recall(p);
        run->stall_due_ms = 0;
    }
    fr_sys.free(text);
    fr_sys.close(fd);
}

void run_progress_drop(struct run_attempt *at)
{
    if (at->metrics.progress != NULL)
        fr_buf_finish(&at->metrics.progress->rest);
    fr_sys.free(at->metrics.progress);
    at->metrics.progress = NULL;
}

void run_late_begin(struct fr_run *run)
{
    run->row.late_wall = run->spec->late_ms > 0 ? fr_sys.wall_ms() + run->spec->late_ms : 0;
    run->late_waits = false;
}

/* When the run is late, in mono_ms; INT64_MAX: never, or it was reported. */
static int64_t look_late(struct fr_run *run, int64_t now)
{
    int64_t left = run->row.late_wall - fr_sys.wall_ms();
    char text[24];

    if (run->row.late_wall == 0 || run->over)
        return INT64_MAX;
    if (left > 0)
        return now + left;
    if (fr_sched_in_doubt(run->sched, false))
        return now + LATE_LOOK_MS; /* a node that was just asked may say that it is over */
    if (left < -LATE_LOOK_MS && !run->late_waits) {
        run->late_waits = true; /* this process stood still, or just began */
        return now + LATE_LOOK_MS;
    }
    run->row.late_wall = 0;
    fr_show_duration(run->spec->late_ms, text);
    tell(run, NULL, "late", "it is not over after %s", text);
    return INT64_MAX;
}

/* While its node is away, nothing is concluded. */
void run_progress_look(struct fr_run *run, int64_t now)
{
    int64_t limit = stall_ms(run);
    char text[24];

    run->stall_due_ms = look_late(run, now);
    for (struct run_attempt *at = run->attempts; limit > 0 && at != NULL; at = at->next) {
        struct run_progress *p = at->metrics.progress;

        if (p == NULL || at->ended || p->stalled || p->head.rows == 0)
            continue;
        if (!run->nodes[run_node_of(run, at->inst)].up)
            p->moved_ms = now;
        if (now >= p->moved_ms + limit) {
            p->stalled = true;
            fr_show_duration(limit, text);
            tell(run, at, "stalled", "no progress for %s, since step %.15g", text, p->head.step);
        } else if (p->moved_ms + limit < run->stall_due_ms) {
            run->stall_due_ms = p->moved_ms + limit;
        }
    }
}

void fr_run_each_head(const struct fr_run *run, fr_run_head_fn *fn, void *arg)
{
    for (const struct run_attempt *at = run->attempts; at != NULL; at = at->next) {
        const struct run_progress *p = at->metrics.progress;

        if (!at->ended && p != NULL && p->head.rows > 0)
            fn(arg, run_task_of(run, at->inst)->name, &p->head, p->moved_wall);
    }
}
