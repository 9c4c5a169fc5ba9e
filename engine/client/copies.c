#include "engine/client/copies.h"

#include "engine/base/file.h"
#include "engine/base/mark.h"
#include "engine/base/sys.h"
#include "engine/base/tail.h"
#include "engine/store/home.h"

#include <fcntl.h>
#include <string.h>

enum {
    PIECE_COST = 1 << 10, /* least cost of a piece, in bytes of the budget */
    MAX_OPEN = 128,       /* logs that stay open; others are opened for each piece */
};

/* Opens a file of the log. -1: it does not exist, or cannot be opened now. */
static int open_file(struct cli_copies *c, const struct cli_copy *log, const char *suffix)
{
    c->path.n = c->dir; /* cli_copies_begin() reserved the memory */
    fr_run_log_name(&c->path, c->plan->insts[log->inst].key, log->no);
    fr_buf_text(&c->path, suffix);
    return c->path.bad ? -1 : fr_sys.open(c->path.p, O_RDONLY | O_NOFOLLOW, 0);
}

static void close_log(struct cli_copies *c, struct cli_copy *log)
{
    if (log->fd >= 0) {
        fr_sys.close(log->fd);
        c->n_open--;
    }
    if (log->idx_fd >= 0)
        fr_sys.close(log->idx_fd);
    log->fd = log->idx_fd = -1;
}

static bool open_log(struct cli_copies *c, struct cli_copy *log)
{
    if (log->fd < 0 && (log->fd = open_file(c, log, "")) >= 0)
        c->n_open++;
    if (log->fd >= 0 && log->idx_fd < 0)
        log->idx_fd = open_file(c, log, ".idx");
    return log->fd >= 0;
}

/* An attempt that its node did not know starts once more. If another attempt starts in its place,
 * it gets no end. */
enum fr_rc cli_copies_add(struct cli_copies *c, uint32_t inst, uint32_t no, struct fr_err *err)
{
    struct cli_copy **v, *log = c->newest[inst];

    if (log != NULL && log->no == no)
        return FR_OK;
    if (log != NULL)
        log->ended = true;
    v = fr_grow(c->v, c->n + 1, &c->cap, sizeof(struct cli_copy *));
    log = fr_sys.alloc(sizeof(*log));
    if (v != NULL)
        c->v = v;
    if (v == NULL || log == NULL) {
        fr_sys.free(log);
        return fr_fail(err, FR_NOMEM, "no memory to follow a run");
    }
    *log = (struct cli_copy){.inst = inst, .no = no, .fd = -1, .idx_fd = -1};
    c->newest[inst] = c->v[c->n++] = log;
    return FR_OK;
}

static void drop_log(struct cli_copies *c, struct cli_copy *log)
{
    size_t i = 0;

    close_log(c, log);
    if (c->newest[log->inst] == log)
        c->newest[log->inst] = NULL;
    while (c->v[i] != log)
        i++;
    c->v[i] = c->v[--c->n];
    fr_sys.free(log);
}

static uint64_t left_of(const struct cli_copy *log)
{
    return log->ended && !log->away && log->bytes > log->at ? log->bytes - log->at : 0;
}

static void note_of_log(struct cli_copies *c, const struct cli_copy *log, struct fr_note note)
{
    note.wall_ms = log->mark_ms != 0 ? log->mark_ms : fr_sys.wall_ms();
    note.inst = log->inst;
    note.node = c->plan->insts[log->inst].node;
    note.attempt_no = log->no;
    note.text = "";
    c->note(c->arg, &note);
}

/* How much may be read at once. Of a full log, the head is read first, then FULL is noted. The head
 * has at least half of the limit. */
static size_t most_of_head(struct cli_copies *c, struct cli_copy *log, size_t most)
{
    const struct fr_plan *plan = c->plan;
    int64_t max = plan->tasks[plan->insts[log->inst].task].spec->log.max_bytes;
    struct fr_tail_head h = {0};
    int tail;

    if (max <= 0 || log->full)
        return most;
    if (log->at < (uint64_t)max / 2)
        return (uint64_t)max / 2 - log->at < most ? (size_t)((uint64_t)max / 2 - log->at) : most;
    if ((tail = open_file(c, log, ".tail")) < 0)
        return most;
    if (!fr_tail_look(tail, &h)) {
        fr_sys.close(tail); /* the node is writing it */
        return most;
    }
    if (log->at < h.head) {
        most = h.head - log->at < most ? (size_t)(h.head - log->at) : most;
    } else {
        log->full = true;
        note_of_log(c, log, (struct fr_note){.kind = FR_NOTE_FULL});
    }
    fr_sys.close(tail);
    return most;
}

/* Sets mark_ms of the next byte, and returns how many bytes have that time. */
static size_t most_of_mark(struct cli_copy *log, size_t most)
{
    uint64_t next = log->mark_end;

    if (log->at >= next) {
        struct fr_log_mark mark = fr_log_mark_find(log->idx_fd, log->at, &next);

        log->mark_ms = mark.ms;
        log->mark_end = next != UINT64_MAX ? next : 0; /* a newer mark may be added */
    }
    return next - log->at < most ? (size_t)(next - log->at) : most;
}

/* Notes the next piece and returns its bytes; 0: there is none now. */
static size_t take_piece(struct cli_copies *c, struct cli_copy *log)
{
    size_t most = c->budget < CLI_PIECE_BYTES ? c->budget : CLI_PIECE_BYTES, cost;
    ssize_t n = 0;

    if (most == 0 || !open_log(c, log))
        return 0;
    most = most_of_head(c, log, most);
    n = fr_sys.pread(log->fd, c->piece, most_of_mark(log, most), (off_t)log->at);
    if (n > 0) {
        cost = n < PIECE_COST ? PIECE_COST : (size_t)n;
        c->budget -= cost < c->budget ? cost : c->budget;
        log->at += (uint64_t)n;
        note_of_log(c, log,
                    (struct fr_note){.kind = FR_NOTE_LOG,
                                     .left = left_of(log),
                                     .bytes = {c->piece, (size_t)n},
                                     .offset = log->at - (uint64_t)n});
    }
    if (c->n_open > MAX_OPEN)
        close_log(c, log);
    return n > 0 ? (size_t)n : 0;
}

/* Notes a piece of each log in turn, until the budget or the output is used up. */
void cli_copies_take(struct cli_copies *c)
{
    for (size_t idle = 0; c->budget > 0 && idle < c->n; c->turn++) {
        struct cli_copy *log = c->v[c->turn %= c->n];

        idle = take_piece(c, log) > 0 ? 0 : idle + 1;
        if (log->ended && log->at >= log->bytes && idle > 0) {
            drop_log(c, log);
            idle--;
        }
    }
}

/* Reserves the memory for the longest path. */
static enum fr_rc reserve_path(struct cli_copies *c, const struct fr_plan *plan, struct fr_err *err)
{
    const char *longest = "";

    for (uint32_t i = 0; i < plan->n_insts; i++)
        if (strlen(plan->insts[i].key) > strlen(longest))
            longest = plan->insts[i].key;
    c->path.n = c->dir;
    fr_run_log_name(&c->path, longest, UINT32_MAX);
    fr_buf_text(&c->path, ".tail");
    return c->path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : FR_OK;
}

/* Only logs of attempts are there, and what stands for an awaited task has none: no number moves.
 */
enum fr_rc cli_copies_grow(struct cli_copies *c, const struct fr_plan *plan, struct fr_err *err)
{
    struct cli_copy **newest = fr_sys.alloc((plan->n_insts + 1) * sizeof(struct cli_copy *));
    uint32_t had = c->plan->n_insts;

    if (newest == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to follow a run");
    memset(newest, 0, plan->n_insts * sizeof(struct cli_copy *));
    memcpy(newest, c->newest, had * sizeof(struct cli_copy *));
    fr_sys.free(c->newest);
    c->newest = newest;
    c->plan = plan;
    return reserve_path(c, plan, err);
}

enum fr_rc cli_copies_begin(struct cli_copies *c, const char *home, struct fr_id run,
                            struct fr_err *err)
{
    enum fr_rc rc;

    c->newest = fr_sys.alloc((c->plan->n_insts + 1) * sizeof(struct cli_copy *));
    if (c->newest == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to follow a run");
    memset(c->newest, 0, c->plan->n_insts * sizeof(struct cli_copy *));
    fr_home_at(home, FR_HOME_RUN, run, &c->path);
    rc = c->path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                     : fr_check_unlinked(c->path.p, strlen(home), err);
    fr_buf_text(&c->path, "/");
    c->dir = c->path.n;
    return rc == FR_OK ? reserve_path(c, c->plan, err) : rc;
}

void cli_copies_finish(struct cli_copies *c)
{
    while (c->n > 0)
        drop_log(c, c->v[c->n - 1]);
    fr_sys.free(c->v);
    fr_sys.free(c->newest);
    fr_buf_finish(&c->path);
    c->v = c->newest = NULL;
}

bool cli_copies_end(struct cli_copies *c, uint32_t inst, uint64_t bytes, uint64_t *left)
{
    struct cli_copy *log = c->newest[inst];

    *left = 0;
    if (log == NULL || log->ended)
        return true;
    while (take_piece(c, log) > 0)
        ;
    if (c->budget == 0)
        return false;
    log->ended = true;
    log->bytes = bytes;
    *left = left_of(log);
    if (*left == 0)
        drop_log(c, log);
    return true;
}

void cli_copies_end_all(struct cli_copies *c)
{
    for (size_t i = 0; i < c->n; i++)
        c->v[i]->ended = true;
}

bool cli_copies_wait(const struct cli_copies *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i]->ended)
            return true;
    return false;
}

void cli_copies_node(struct cli_copies *c, uint32_t node, bool away)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cli_copy *log = c->v[i];
        bool was = log->away;

        if (c->plan->insts[log->inst].node != node)
            continue;
        log->away = away;
        if (log->ended && away && !was)
            note_of_log(c, log, (struct fr_note){.kind = FR_NOTE_LOG, .offset = log->at});
    }
}
