/*
 * Copies of the attempts' output: a byte-exact prefix of the node's log, and when it was written.
 *
 * Each byte of a copy is written at its own offset, never appended: a host that was stopped and
 * goes on may still write a piece that came before, and the next host has that already.
 */
#include "engine/base/mark.h"
#include "engine/base/tail.h"
#include "engine/run/inside.h"
#include "engine/store/lead.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
    OVER_BYTES = 64 << 10,  /* of a node's own notes in a log, above the task's limit */
    INDEX_BYTES = 64 << 10, /* a mark at least so often … */
    INDEX_MS = 100,         /* … and when so much time has passed, as its node says … */
    INDEX_OVER = 64 << 10,  /* … but an index is not larger than its log and so many bytes */
    LOG_RETRY_MS = 5000,
};

/* ---- output ---- */

/* Closes the copies of other attempts; each is opened again when there is more for it. */
static bool close_others(struct fr_run *run, const struct run_log *log)
{
    bool any = false;

    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next)
        if (&at->log != log && at->log.fd >= 0) {
            run_log_close(at);
            any = true;
        }
    return any;
}

static int open_file(struct fr_run *run, const struct run_log *log, const char *path)
{
    int fd;

    do {
        fd = fr_sys.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    } while (fd < 0 && errno == EMFILE && close_others(run, log));
    return fd;
}

static int open_one(struct fr_run *run, const struct run_log *log, const char *suffix,
                    uint64_t *size, struct fr_err *err)
{
    struct fr_buf path = {0};
    struct stat st;
    int fd = -1;

    fr_buf_fmt(&path, "%s/%s%s", run->dir, log->name, suffix);
    if (path.bad) {
        fr_fail(err, FR_NOMEM, "no memory for a path");
    } else if (fr_check_unlinked(path.p, strlen(run->home), err) != FR_OK) {
        fd = -1;
    } else if ((fd = open_file(run, log, path.p)) < 0) {
        fr_fail_errno(err, errno, "opening %s", path.p);
    } else if (fr_sys.fstat(fd, &st) != 0) {
        fr_fail_errno(err, errno, "looking at %s", path.p);
        fr_sys.close(fd);
        fd = -1;
    } else {
        *size = (uint64_t)st.st_size;
    }
    fr_buf_finish(&path);
    return fd;
}

static enum fr_rc open_log(struct fr_run *run, struct run_attempt *at, struct fr_err *err)
{
    struct run_log *log = &at->log;

    if (log->fd >= 0)
        return FR_OK;
    if ((log->fd = open_one(run, log, "", &log->size, err)) < 0)
        return err->rc;
    if ((log->idx_fd = open_one(run, log, ".idx", &log->idx_size, err)) < 0) {
        run_log_close(at);
        return err->rc;
    }
    size_t torn = log->idx_size % sizeof(struct fr_log_mark);
    log->idx_size -= torn;
    if (torn != 0 && fr_sys.ftruncate(log->idx_fd, (off_t)log->idx_size) != 0) {
        run_log_close(at);
        return fr_fail_errno(err, errno, "cutting the index of %s", log->name);
    }
    struct fr_log_mark newest = fr_log_mark_find(log->idx_fd, log->size, &(uint64_t){0});
    log->idx_wall = newest.ms;
    log->idx_offset = newest.offset;
    return FR_OK;
}

enum fr_rc run_log_look(struct fr_run *run, struct run_attempt *at, struct fr_err *err)
{
    struct fr_buf path = {0};
    struct stat st;
    enum fr_rc rc = FR_OK;

    fr_buf_fmt(&path, "%s/%s", run->dir, at->log.name);
    if (path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    else if (at->log.fd < 0 && fr_sys.lstat(path.p, &st) == 0 && st.st_size > 0)
        rc = open_log(run, at, err);
    fr_buf_finish(&path);
    return rc;
}

void run_log_close(struct run_attempt *at)
{
    if (at->log.fd >= 0)
        fr_sys.close(at->log.fd);
    if (at->log.idx_fd >= 0)
        fr_sys.close(at->log.idx_fd);
    at->log.fd = at->log.idx_fd = -1;
}

void run_follow_later(struct fr_run *run)
{
    if (run->log_due_ms == INT64_MAX)
        run->log_due_ms = fr_sys.mono_ms() + LOG_RETRY_MS;
}

static void cannot_write(struct fr_run *run, struct run_attempt *at, const struct fr_err *err)
{
    if (!at->log.failed)
        run_trouble(run, at->inst, "its output stays on the node until it can be written here: %s",
                    err->msg);
    at->log.failed = true;
    run_follow_later(run);
}

/* When the piece's first byte was written, as wall time of control. A node that could not write the
 * time (0) has it from the start of the attempt on. */
static int64_t wall_of(struct fr_run *run, const struct run_attempt *at, int64_t node_ms)
{
    int64_t offset = run->exec.ops->clock_offset(run->exec.self, run_node_of(run, at->inst));
    const struct run_inst *in = &run->insts[at->inst];

    if (node_ms <= 0)
        return fr_id_eq(in->row.id, at->id) ? in->row.started_wall : 0;
    return node_ms - offset + (fr_sys.wall_ms() - fr_sys.mono_ms());
}

/* Marks never step back, as the measured offset of the node's clock may: where a reader begins must
 * not decide when a line was written. */
static void index_add(struct run_log *log, int64_t wall)
{
    struct fr_log_mark p = {log->size, wall > log->idx_wall ? wall : log->idx_wall};

    if (log->idx_wall != 0 && log->size - log->idx_offset < INDEX_BYTES &&
        wall - log->idx_wall < INDEX_MS)
        return;
    if (log->idx_size > log->size + INDEX_OVER)
        return;
    if (fr_pwrite_full(log->idx_fd, &p, sizeof(p),
                       log->idx_size)) { /* the index is only for display */
        log->idx_wall = p.ms;
        log->idx_offset = log->size;
        log->idx_size += sizeof(p);
    }
}

/* The node has the log from its beginning, which replaces the possibly damaged copy here. */
static enum fr_rc start_over(struct fr_run *run, struct run_log *log, struct fr_err *err)
{
    if (!fr_store_leads(run->env.store))
        return fr_fail(err, FR_DENIED, "another flowrun has become the host");
    if (fr_sys.ftruncate(log->fd, 0) != 0 || fr_sys.ftruncate(log->idx_fd, 0) != 0)
        return fr_fail_errno(err, errno, "cutting %s", log->name);
    log->size = log->idx_offset = log->idx_size = 0;
    log->idx_wall = 0;
    log->refetch = false;
    return FR_OK;
}

void run_log_take(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev)
{
    struct run_log *log = &at->log;
    const struct fr_log_piece *piece = &ev->log;
    struct fr_str bytes = piece->bytes;
    int64_t wall = wall_of(run, at, piece->mono_ms);
    int64_t max = run_task_of(run, at->inst)->spec->log.max_bytes;
    struct fr_err err;

    if (log->failed || log->cut)
        return;
    if (max > 0 && piece->offset + bytes.n > (uint64_t)max + OVER_BYTES) {
        run_trouble(run, at->inst, "its node sends more output than its limit: not kept");
        log->cut = true;
        return;
    }
    if (open_log(run, at, &err) != FR_OK ||
        (log->refetch && piece->offset == 0 && start_over(run, log, &err) != FR_OK)) {
        cannot_write(run, at, &err);
        return;
    }
    if (piece->offset > log->size || piece->offset + bytes.n <= log->size)
        return; /* a gap is followed again from its start when the log's end shows it */
    bytes.p += log->size - piece->offset;
    bytes.n -= log->size - piece->offset;
    run->late_bytes += bytes.n;
    index_add(log, wall);
    if (!fr_pwrite_full(log->fd, bytes.p, bytes.n, log->size)) {
        fr_fail_errno(&err, errno, "writing %s", log->name);
        cannot_write(run, at, &err);
        return;
    }
    log->size += bytes.n;
    run_note(run, &(struct fr_note){.kind = FR_NOTE_LOG,
                                    .wall_ms = wall,
                                    .inst = at->inst,
                                    .node = (uint32_t)ev->node,
                                    .attempt_no = at->no,
                                    .left = fr_run_output_left(run, at->inst),
                                    .bytes = bytes,
                                    .offset = log->size - bytes.n});
}

/* The file is opened for each piece: there are few, and descriptors are short. */
void run_log_tail(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev)
{
    const struct fr_tail_piece *piece = &ev->tail;
    struct run_log *log = &at->log;
    struct fr_tail_head h = {0};
    struct fr_err err;
    uint64_t size;
    bool fine;
    int fd;

    if (!log->full && piece->joined == 0)
        run_note(run, &(struct fr_note){.kind = FR_NOTE_FULL,
                                        .inst = at->inst,
                                        .node = (uint32_t)ev->node,
                                        .attempt_no = at->no});
    log->full = true;
    if (log->tail_failed || log->cut)
        return;
    if ((fd = open_one(run, log, ".tail", &size, &err)) >= 0) {
        if (!fr_tail_look(fd, &h) || h.end != piece->at)
            h.from = h.end = piece->at;
        h.head = piece->head;
        h.keep = piece->keep;
        h.ms = wall_of(run, at, piece->mono_ms);
        if (piece->joined != 0) {
            fine = fr_tail_join(fd, &h, piece->joined, piece->dropped);
            fr_tail_empty(fd);
        } else {
            fine = fr_tail_put(fd, &h, piece->bytes.p, piece->bytes.n);
        }
        if (!fine) {
            fr_fail_errno(&err, errno, "writing %s.tail", log->name);
            (void)!fr_sys.ftruncate(fd, 0);
        }
        fr_sys.close(fd);
        if (fine)
            return;
    }
    log->tail_failed = true;
    run_trouble(run, at->inst, "its newest output is shown at its end alone: %s", err.msg);
}

enum fr_rc run_log_sync(struct fr_run *run, struct run_attempt *at, struct fr_err *err)
{
    enum fr_rc rc;

    /* closed while descriptors were short: a descriptor of the file is enough to sync all of it */
    if (at->log.fd < 0 && at->log.size > 0 && (rc = open_log(run, at, err)) != FR_OK)
        return rc;
    if (at->log.fd >= 0 && fr_sys.fdatasync(at->log.fd) != 0)
        return fr_fail_errno(err, errno, "writing %s", at->log.name);
    return FR_OK;
}

static bool is_open(const struct run_attempt *at)
{
    return at->sent && at->ended && !at->log_end;
}

/* A run that is taken again for its output waits for nodes that are not connected yet, too. */
bool run_log_awaited(const struct fr_run *run, const struct run_attempt *at)
{
    const struct run_node *node = &run->nodes[run_node_of(run, at->inst)];

    return is_open(at) && (node->up || (run->late && !node->refused));
}

static void say_left(struct fr_run *run, uint32_t inst, const char *what, uint64_t have,
                     uint64_t all)
{
    if (have < all)
        run_trouble(run, inst,
                    "%llu of the %llu bytes of its %s did not come, they are on its node: 'flowrun "
                    "resume %lld' fetches them",
                    (unsigned long long)(all - have), (unsigned long long)all, what,
                    (long long)run->row.no);
}

static void say_missing(struct fr_run *run, struct run_attempt *at)
{
    at->missing_said = true;
    say_left(run, at->inst, "output", at->log.size, at->log_bytes);
    say_left(run, at->inst, "metrics", at->metrics.size, at->metrics_bytes);
    if (run->late && at->log_bytes == 0)
        run_trouble(run, at->inst,
                    "its node was not there to give the rest of its output: 'flowrun resume %lld' "
                    "asks again",
                    (long long)run->row.no);
}

void run_log_missing(struct fr_run *run, int64_t now)
{
    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next)
        if (is_open(at) && !at->missing_said &&
            (now >= run->over_ms + RUN_LINGER_MS || !run_log_awaited(run, at)))
            say_missing(run, at);
}

bool run_frees_host(const struct fr_run *run)
{
    if (run->row.host == 0 || fr_sched_now(run->sched).state != FR_RUN_OVER)
        return false;
    for (const struct run_attempt *at = run->attempts; at != NULL; at = at->next)
        if (at->sent && at->ended)
            return false;
    return true;
}
