#include "engine/cli/follow.h"

#include "engine/base/mark.h"
#include "engine/base/sys.h"
#include "engine/base/tail.h"
#include "engine/store/home.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
    SLICE_EVENTS = 200,
    SLICE_BYTES = 64 << 10,
    PIECE_BYTES = 32 << 10,
    PIECE_COST = 1 << 10, /* a smaller piece counts as so many bytes of a slice */
    BATCH = 1000,         /* rows of fr_store_events() */
    MAX_OPEN = 128,       /* logs that stay open; others are opened for each look */
};

struct log { /* the output of an attempt */
    uint32_t inst, no;
    int fd, idx_fd; /* -1: not open */
    uint64_t at;    /* noted up to here */
    uint64_t bytes; /* ended: as many as its node says it wrote */
    int64_t mark_ms;
    uint64_t mark_end; /* what lies before this offset was written at mark_ms */
    bool ended, away;  /* away: its node cannot be reached */
    bool full;         /* and this was noted */
};

struct follow_inst {
    struct log *log; /* of its newest attempt; NULL: it is not looked at */
    uint32_t began;  /* its newest attempt that was sent to the node */
    uint8_t state;
    bool away;
};

struct cli_follow {
    struct cli_follow_opts opts;
    struct fr_run_row row;
    struct fr_arena arena; /* of the row */
    struct fr_stored stored;
    struct follow_inst *insts; /* in stored's arena */
    struct fr_event_rows batch;
    struct fr_arena batch_arena;
    size_t place; /* rows of the batch that were taken */
    int64_t seq;
    struct log **logs; /* owns */
    size_t n_logs, cap_logs, turn, n_open;
    struct fr_buf path;
    size_t dir; /* the path's length up to the names of logs */
    size_t budget;
    bool over;
    char piece[PIECE_BYTES];
};

/* ---- output ---- */

/* A file of the log. -1: it is not there, or cannot be opened now. */
static int open_file(struct cli_follow *f, const struct log *log, const char *suffix)
{
    f->path.n = f->dir;
    fr_run_log_name(&f->path, f->stored.plan->insts[log->inst].key, log->no);
    fr_buf_text(&f->path, suffix);
    return f->path.bad ? -1 : fr_sys.open(f->path.p, O_RDONLY | O_NOFOLLOW, 0);
}

static void close_log(struct cli_follow *f, struct log *log)
{
    if (log->fd >= 0) {
        fr_sys.close(log->fd);
        f->n_open--;
    }
    if (log->idx_fd >= 0)
        fr_sys.close(log->idx_fd);
    log->fd = log->idx_fd = -1;
}

static bool open_log(struct cli_follow *f, struct log *log)
{
    if (log->fd < 0 && (log->fd = open_file(f, log, "")) >= 0)
        f->n_open++;
    if (log->fd >= 0 && log->idx_fd < 0)
        log->idx_fd = open_file(f, log, ".idx");
    return log->fd >= 0;
}

/* Of an attempt that starts. One that its node did not know starts once more; or another one starts
 * in its place, and then it has no end. */
static enum fr_rc add_log(struct cli_follow *f, uint32_t inst, uint32_t no, struct fr_err *err)
{
    struct log **logs, *log = f->insts[inst].log;

    if (log != NULL && log->no == no)
        return FR_OK;
    if (log != NULL)
        log->ended = true;
    logs = fr_grow(f->logs, f->n_logs + 1, &f->cap_logs, sizeof(struct log *));
    log = fr_sys.alloc(sizeof(*log));
    if (logs != NULL)
        f->logs = logs;
    if (logs == NULL || log == NULL) {
        fr_sys.free(log);
        return fr_fail(err, FR_NOMEM, "no memory to follow a run");
    }
    *log = (struct log){.inst = inst, .no = no, .fd = -1, .idx_fd = -1};
    f->insts[inst].log = f->logs[f->n_logs++] = log;
    return FR_OK;
}

static void drop_log(struct cli_follow *f, struct log *log)
{
    size_t i = 0;

    close_log(f, log);
    if (f->insts[log->inst].log == log)
        f->insts[log->inst].log = NULL;
    while (f->logs[i] != log)
        i++;
    f->logs[i] = f->logs[--f->n_logs];
    fr_sys.free(log);
}

static uint64_t left_of(const struct log *log)
{
    return log->ended && !log->away && log->bytes > log->at ? log->bytes - log->at : 0;
}

static void note_of_log(struct cli_follow *f, const struct log *log, struct fr_note note)
{
    note.wall_ms = log->mark_ms != 0 ? log->mark_ms : fr_sys.wall_ms();
    note.inst = log->inst;
    note.node = f->stored.plan->insts[log->inst].node;
    note.attempt_no = log->no;
    note.text = "";
    f->opts.note(f->opts.arg, &note);
}

/* How much may be read at once. Of a full log, its head comes first, then the note that it is full.
 * A node keeps half of the limit or more for the head. */
static size_t most_of_head(struct cli_follow *f, struct log *log, size_t most)
{
    const struct fr_plan *plan = f->stored.plan;
    int64_t max = plan->tasks[plan->insts[log->inst].task].spec->log.max_bytes;
    struct fr_tail_head h = {0};
    int tail;

    if (max <= 0 || log->full)
        return most;
    if (log->at < (uint64_t)max / 2)
        return (uint64_t)max / 2 - log->at < most ? (size_t)((uint64_t)max / 2 - log->at) : most;
    if ((tail = open_file(f, log, ".tail")) < 0)
        return most;
    if (!fr_tail_look(tail, &h)) {
        fr_sys.close(tail); /* it is being made */
        return most;
    }
    if (log->at < h.head) {
        most = h.head - log->at < most ? (size_t)(h.head - log->at) : most;
    } else {
        log->full = true;
        note_of_log(f, log, (struct fr_note){.kind = FR_NOTE_FULL});
    }
    fr_sys.close(tail);
    return most;
}

/* Finds out when the next byte was written, and how many were then. */
static size_t most_of_mark(struct log *log, size_t most)
{
    uint64_t next = log->mark_end;

    if (log->at >= next) {
        struct fr_log_mark mark = fr_log_mark_find(log->idx_fd, log->at, &next);

        log->mark_ms = mark.ms;
        log->mark_end = next != UINT64_MAX ? next : 0; /* another one may come behind the newest */
    }
    return next - log->at < most ? (size_t)(next - log->at) : most;
}

/* Notes the next piece; 0: there is none now. */
static size_t take_piece(struct cli_follow *f, struct log *log)
{
    size_t most = f->budget < PIECE_BYTES ? f->budget : PIECE_BYTES, cost;
    ssize_t n = 0;

    if (most == 0 || !open_log(f, log))
        return 0;
    most = most_of_head(f, log, most);
    n = fr_sys.pread(log->fd, f->piece, most_of_mark(log, most), (off_t)log->at);
    if (n > 0) {
        cost = n < PIECE_COST ? PIECE_COST : (size_t)n;
        f->budget -= cost < f->budget ? cost : f->budget;
        log->at += (uint64_t)n;
        note_of_log(f, log,
                    (struct fr_note){.kind = FR_NOTE_LOG,
                                     .left = left_of(log),
                                     .bytes = {f->piece, (size_t)n},
                                     .offset = log->at - (uint64_t)n});
    }
    if (f->n_open > MAX_OPEN)
        close_log(f, log);
    return n > 0 ? (size_t)n : 0;
}

/* A piece of each log in turn, as long as there are some and the slice lasts. */
static void take_logs(struct cli_follow *f)
{
    for (size_t idle = 0; f->budget > 0 && idle < f->n_logs; f->turn++) {
        struct log *log = f->logs[f->turn %= f->n_logs];

        idle = take_piece(f, log) > 0 ? 0 : idle + 1;
        if (log->ended && log->at >= log->bytes && idle > 0) {
            drop_log(f, log);
            idle--;
        }
    }
}

/* ---- events ---- */

static enum fr_cause cause_of(const char *name)
{
    enum fr_cause cause = FR_CAUSE_NONE;

    return name[0] != '\0' && fr_cause_parse(fr_str_of(name), &cause) ? cause : FR_CAUSE_NONE;
}

static bool is_end(enum fr_state_of state)
{
    return fr_state_ended(state) || state == FR_ST_RETRYING;
}

/* What the run's own row said at that time. No row says of an attempt that was only booked that it
 * starts. */
static struct fr_row row_of(const struct cli_follow *f, const struct fr_event_row *ev)
{
    const struct follow_inst *in = &f->insts[ev->idx];
    struct fr_row row = {.inst = (uint32_t)ev->idx,
                         .state = (enum fr_state_of)in->state,
                         .attempt_no = (uint32_t)ev->attempt_no,
                         .cause = cause_of(ev->cause),
                         .code = (int)ev->code,
                         .stop_cause = cause_of(ev->stop_cause),
                         .delay_ms = ev->delay_ms,
                         .unreachable = in->away};

    row.attempt_state = row.attempt_no > in->began ? FR_ST_CANCELLED : row.state;
    return row;
}

/* "NAME=value" of an instance whose outputs are shown. */
static enum fr_rc read_outputs(struct cli_follow *f, uint32_t inst, struct fr_strs *out,
                               struct fr_err *err)
{
    const struct fr_plan_task *task = &f->stored.plan->tasks[f->stored.plan->insts[inst].task];
    struct fr_arena *arena = &f->batch_arena;
    struct fr_output_rows rows = {0};
    enum fr_rc rc = FR_OK;

    *out = (struct fr_strs){0};
    if (task->hook >= 0 || task->n_users > 0 || task->spec->n_outputs == 0)
        return FR_OK;
    rc = fr_store_outputs_of(f->opts.store, &(struct fr_inst_of){f->row.id, inst}, arena, &rows,
                             err);
    if (rc == FR_OK && (out->v = fr_arena_array(arena, rows.n + 1, sizeof(*out->v))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for outputs");
    for (; rc == FR_OK && out->n < rows.n; out->n++) {
        const struct fr_output_row *row = &rows.rows[out->n];

        out->v[out->n] = fr_str_of(fr_arena_fmt(arena, "%s=%s", row->key, row->value));
        if (out->v[out->n].p == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for outputs");
    }
    return rc;
}

/* Reads the output before the end of its attempt. false: the slice is over before. */
static bool end_log(struct cli_follow *f, const struct fr_event_row *ev, uint64_t *left)
{
    struct log *log = f->insts[ev->idx].log;

    if (log == NULL || log->ended)
        return true;
    while (take_piece(f, log) > 0)
        ;
    if (f->budget == 0)
        return false;
    log->ended = true;
    log->bytes = (uint64_t)ev->log_bytes;
    *left = left_of(log);
    if (*left == 0)
        drop_log(f, log);
    return true;
}

/* The change of an instance that the batch's next row tells. *taken: with the row behind it if both
 * stand for one change; 0: the slice is over. */
static enum fr_rc take_inst(struct cli_follow *f, size_t *taken, struct fr_err *err)
{
    const struct fr_event_row *ev = &f->batch.rows[f->place], *last = ev;
    struct follow_inst *in = &f->insts[ev->idx];
    enum fr_state_of state = (enum fr_state_of)in->state;
    bool changed = fr_state_parse(ev->kind, &state);
    struct fr_note note = {.kind = FR_NOTE_STATE, .text = changed ? ev->text : ""};
    struct fr_strs outputs = {0};
    enum fr_rc rc = FR_OK;

    *taken = 0;
    if (changed && is_end(state) && !end_log(f, ev, &note.left))
        return FR_OK;
    *taken = 1;
    if (changed && f->place + 1 < f->batch.n && ev[1].idx == ev->idx && ev[1].wall == ev->wall &&
        !fr_state_parse(ev[1].kind, &(enum fr_state_of){0}))
        last = &ev[(*taken)++];
    in->state = (uint8_t)state;
    if (strcmp(last->kind, "unreachable") == 0 || strcmp(last->kind, "reachable") == 0)
        in->away = last->kind[0] == 'u';
    if (changed && state == FR_ST_STARTING) {
        in->began = (uint32_t)ev->attempt_no;
        rc = add_log(f, (uint32_t)ev->idx, in->began, err);
    } else if (changed && state == FR_ST_SUCCEEDED) {
        rc = read_outputs(f, (uint32_t)ev->idx, &outputs, err);
    }
    note.outputs = &outputs;
    note.row = row_of(f, ev);
    note.seq = last->seq;
    note.wall_ms = ev->wall;
    note.inst = (uint32_t)ev->idx;
    note.node = f->stored.plan->insts[ev->idx].node;
    if (rc == FR_OK)
        f->opts.note(f->opts.arg, &note);
    return rc;
}

static enum fr_outcome outcome_of(const char *name)
{
    for (int o = FR_OUT_SUCCEEDED; o <= FR_OUT_CANCELLED; o++)
        if (strcmp(name, fr_outcome_name((enum fr_outcome)o)) == 0)
            return (enum fr_outcome)o;
    return FR_OUT_NONE;
}

/* The kind is the run's state, or its outcome once it is over. */
static void take_run(struct cli_follow *f, const struct fr_event_row *ev)
{
    struct fr_note note = {.kind = FR_NOTE_RUN,
                           .wall_ms = ev->wall,
                           .inst = FR_PLAN_NONE,
                           .node = FR_PLAN_NONE,
                           .now = {.state = FR_RUN_OVER, .outcome = outcome_of(ev->kind)},
                           .text = ev->text,
                           .seq = ev->seq};

    if (note.now.outcome == FR_OUT_NONE) {
        note.now.outcome = outcome_of(ev->cause);
        for (int s = FR_RUN_RUNNING; s < FR_RUN_OVER; s++)
            if (strcmp(ev->kind, fr_run_state_name((enum fr_run_state)s)) == 0)
                note.now.state = (enum fr_run_state)s;
    }
    f->over = note.now.state == FR_RUN_OVER;
    for (size_t i = 0; f->over && i < f->n_logs; i++)
        f->logs[i]->ended = true;
    if (f->seq > 0) /* the first row is the submit's, which is no change */
        f->opts.note(f->opts.arg, &note);
}

/* Events are numbered by the plan: the run must still have the one that is known here. */
static enum fr_rc check_plan(struct cli_follow *f, struct fr_err *err)
{
    const char *hash = "";
    enum fr_rc rc = fr_store_run_spec(f->opts.store, f->row.id, &f->batch_arena, &hash, err);

    if (rc == FR_OK && strcmp(hash, f->row.spec_hash) != 0)
        rc = fr_fail(err, FR_STOPPED,
                     "run %lld goes on with another pipeline file; 'flowrun attach %lld' shows it",
                     (long long)f->row.no, (long long)f->row.no);
    return rc;
}

/* Rows behind those of the batch. */
static enum fr_rc next_batch(struct cli_follow *f, struct fr_err *err)
{
    enum fr_rc rc;

    fr_arena_finish(&f->batch_arena);
    f->batch.after = f->seq;
    f->place = 0;
    rc = fr_store_events(f->opts.store, f->row.id, &f->batch_arena, &f->batch, err);
    return rc == FR_OK && f->batch.n > 0 ? check_plan(f, err) : rc;
}

/* *more: rows are left for the next slice. */
static enum fr_rc take_events(struct cli_follow *f, bool *more, struct fr_err *err)
{
    bool all = false;
    enum fr_rc rc = FR_OK;

    *more = true;
    for (size_t n = 0; rc == FR_OK && n < SLICE_EVENTS; n++) {
        const struct fr_event_row *ev;
        size_t taken = 1;

        if (f->place == f->batch.n) {
            *more = !all && (rc = next_batch(f, err)) == FR_OK && f->batch.n > 0;
            all = f->batch.n < BATCH;
            if (!*more)
                break;
        }
        ev = &f->batch.rows[f->place];
        if (ev->idx == -1)
            take_run(f, ev);
        else if (ev->idx >= 0 && ev->idx < (int64_t)f->stored.plan->n_insts)
            rc = take_inst(f, &taken, err);
        if (taken == 0)
            break;
        f->place += taken;
        f->seq = f->batch.rows[f->place - 1].seq;
    }
    return rc;
}

enum fr_rc cli_follow_news(struct cli_follow *f, bool *more, struct fr_err *err)
{
    enum fr_rc rc;

    f->budget = SLICE_BYTES;
    rc = take_events(f, more, err);
    if (rc == FR_OK)
        take_logs(f);
    *more = *more || f->budget == 0;
    return rc;
}

enum fr_rc cli_follow_catch_up(struct cli_follow *f, struct fr_err *err)
{
    bool more = true;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && more)
        rc = cli_follow_news(f, &more, err);
    return rc;
}

/* ---- the rest ---- */

enum fr_rc cli_follow_nodes(struct cli_follow *f, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_node_rows rows = {0};
    bool waits = false;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < f->n_logs; i++)
        waits = waits || f->logs[i]->ended;
    if (waits)
        rc = fr_store_nodes(f->opts.store, f->row.id, &arena, &rows, err);
    for (size_t n = 0; rc == FR_OK && n < rows.n; n++) {
        uint32_t node = fr_plan_node(f->stored.plan, rows.rows[n].name);

        for (size_t i = 0; i < f->n_logs; i++) {
            struct log *log = f->logs[i];
            bool was = log->away;

            if (f->stored.plan->insts[log->inst].node != node)
                continue;
            log->away = rows.rows[n].unreachable_wall != 0;
            if (log->ended && log->away && !was)
                note_of_log(f, log, (struct fr_note){.kind = FR_NOTE_LOG, .offset = log->at});
        }
    }
    fr_arena_finish(&arena);
    return rc;
}

bool cli_follow_over(const struct cli_follow *f, bool *complete)
{
    *complete = f->over && f->place == f->batch.n && f->n_logs == 0;
    return f->over && f->place == f->batch.n;
}

const struct fr_run_row *cli_follow_row(const struct cli_follow *f)
{
    return &f->row;
}

const struct fr_plan *cli_follow_plan(const struct cli_follow *f)
{
    return f->stored.plan;
}

enum fr_rc cli_follow_create(struct cli_follow **out, const struct cli_follow_opts *opts,
                             struct fr_err *err)
{
    struct cli_follow *f = fr_sys.alloc(sizeof(*f));
    const char *home = fr_store_home(opts->store);
    enum fr_rc rc;

    *out = NULL;
    if (f == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to follow a run");
    memset(f, 0, sizeof(*f));
    f->opts = *opts;
    rc = fr_store_run_find(opts->store, opts->run, &f->arena, &f->row, err);
    if (rc == FR_OK)
        rc = fr_run_stored(home, &f->row, &f->stored, err);
    if (rc == FR_OK && (f->insts = fr_arena_array(&f->stored.arena, f->stored.plan->n_insts + 1,
                                                  sizeof(*f->insts))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to follow a run");
    if (rc == FR_OK) {
        fr_home_at(home, FR_HOME_RUN, f->row.id, &f->path);
        rc = f->path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                         : fr_check_unlinked(f->path.p, strlen(home), err);
        fr_buf_text(&f->path, "/");
        f->dir = f->path.n;
    }
    if (rc == FR_OK)
        *out = f;
    else
        cli_follow_destroy(f);
    return rc;
}

void cli_follow_destroy(struct cli_follow *f)
{
    if (f == NULL)
        return;
    while (f->n_logs > 0)
        drop_log(f, f->logs[f->n_logs - 1]);
    fr_sys.free(f->logs);
    fr_buf_finish(&f->path);
    fr_arena_finish(&f->batch_arena);
    fr_run_stored_finish(&f->stored);
    fr_arena_finish(&f->arena);
    fr_sys.free(f);
}
