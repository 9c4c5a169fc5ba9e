/*
 * Metrics of attempts: copies of what their nodes keep of them (supervise/metrics.h), byte-exact
 * prefixes, in runs/<id>/metrics. As with logs (fetch.c), each byte is written where it belongs,
 * and the end of an attempt is acknowledged once all of them are on the disk.
 *
 * A file is opened for each piece: there are few, and descriptors are short.
 */
#include "engine/run/inside.h"
#include "engine/run/metrics.h"
#include "engine/store/lead.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { OVER_BYTES = 4096 }; /* of a node's own marks, above the limit */

/* What the task says, or its kind. */
static bool has_metrics(const struct fr_run *run, const struct run_attempt *at)
{
    const struct fr_plan_task *task = run_task_of(run, at->inst);

    return fr_task_has_metrics(task->spec);
}

static enum fr_rc file_path(struct fr_run *run, const struct run_attempt *at, struct fr_buf *path,
                            struct fr_err *err)
{
    fr_buf_fmt(path, "%s/", run->dir);
    fr_run_metrics_name(path, run->plan->insts[at->inst].key, at->no);
    if (path->bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    return fr_check_unlinked(path->p, strlen(run->home), err);
}

/* The folder is made with the first file. */
static enum fr_rc make_folder(struct fr_run *run, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc;

    fr_buf_fmt(&path, "%s/metrics", run->dir);
    rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : fr_mkdirs(path.p, 0700, err);
    if (rc == FR_OK)
        rc = fr_sync_dir(run->dir, err);
    fr_buf_finish(&path);
    return rc;
}

/* Its size counts from here on. */
static enum fr_rc open_copy(struct fr_run *run, struct run_attempt *at, int *fd, struct fr_err *err)
{
    struct fr_buf path = {0};
    struct stat st;
    enum fr_rc rc = file_path(run, at, &path, err);

    *fd = -1;
    if (rc == FR_OK) {
        *fd = fr_sys.open(path.p, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (*fd < 0 && errno == ENOENT && (rc = make_folder(run, err)) == FR_OK)
            *fd = fr_sys.open(path.p, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    }
    if (rc == FR_OK && (*fd < 0 || fr_sys.fstat(*fd, &st) != 0))
        rc = fr_fail_errno(err, errno, "opening %s", path.p);
    else if (rc == FR_OK)
        at->metrics.size = (uint64_t)st.st_size;
    if (rc != FR_OK && *fd >= 0)
        fr_sys.close(*fd);
    fr_buf_finish(&path);
    return rc;
}

enum fr_rc run_metrics_look(struct fr_run *run, struct run_attempt *at, struct fr_err *err)
{
    struct fr_buf path = {0};
    struct stat st;
    enum fr_rc rc;

    if (!has_metrics(run, at))
        return FR_OK;
    rc = file_path(run, at, &path, err);
    at->metrics.size = rc == FR_OK && fr_sys.lstat(path.p, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (rc == FR_OK) {
        run_progress_load(run, at, path.p);
        run_chain_look(run, at);
    }
    fr_buf_finish(&path);
    return rc;
}

static void cannot_write(struct fr_run *run, struct run_attempt *at, const struct fr_err *err)
{
    if (!at->metrics.failed)
        run_trouble(run, at->inst,
                    "its metrics stay on the node until they can be written here: %s", err->msg);
    at->metrics.failed = true;
    run_follow_later(run);
}

/* The node has them from their beginning, which replaces the possibly damaged copy here. */
static enum fr_rc start_over(struct fr_run *run, struct run_attempt *at, int fd, struct fr_err *err)
{
    if (!fr_store_leads(run->env.store))
        return fr_fail(err, FR_DENIED, "another flowrun has become the host");
    if (fr_sys.ftruncate(fd, 0) != 0)
        return fr_fail_errno(err, errno, "cutting the metrics");
    at->metrics.size = 0;
    at->metrics.refetch = false;
    return FR_OK;
}

/* Writes the part of the piece that is not here yet, and reduces the piece to that part. */
static enum fr_rc write_piece(struct fr_run *run, struct run_attempt *at,
                              struct fr_metrics_piece *piece, struct fr_err *err)
{
    struct run_metrics *m = &at->metrics;
    int fd;
    enum fr_rc rc = open_copy(run, at, &fd, err);

    if (rc != FR_OK)
        return rc;
    if (m->refetch && piece->offset == 0)
        rc = start_over(run, at, fd, err);
    if (rc == FR_OK && (piece->offset > m->size || piece->offset + piece->bytes.n <= m->size)) {
        piece->bytes.n = 0; /* a gap is followed again from its start when the end shows it */
    } else if (rc == FR_OK) {
        piece->bytes.p += m->size - piece->offset;
        piece->bytes.n -= (size_t)(m->size - piece->offset);
        piece->offset = m->size;
        if (!fr_pwrite_full(fd, piece->bytes.p, piece->bytes.n, m->size))
            rc = fr_fail_errno(err, errno, "writing metrics");
    }
    fr_sys.close(fd);
    return rc;
}

void run_metrics_take(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev)
{
    struct run_metrics *m = &at->metrics;
    struct fr_metrics_piece piece = ev->metrics;
    struct fr_err err;

    if (m->failed || m->cut)
        return;
    if (!has_metrics(run, at) ||
        piece.offset + piece.bytes.n > (uint64_t)FR_METRICS_BYTES + OVER_BYTES) {
        run_trouble(run, at->inst, "its node sends more metrics than the limit: not kept");
        m->cut = true;
        return;
    }
    if (write_piece(run, at, &piece, &err) != FR_OK) {
        cannot_write(run, at, &err);
        return;
    }
    if (piece.bytes.n == 0)
        return;
    m->size += piece.bytes.n;
    run->late_bytes += piece.bytes.n;
    run_progress_take(run, at, piece.bytes);
    run_chain_look(run, at);
    run_note(run, &(struct fr_note){.kind = FR_NOTE_METRICS,
                                    .inst = at->inst,
                                    .node = (uint32_t)ev->node,
                                    .attempt_no = at->no,
                                    .bytes = piece.bytes,
                                    .offset = piece.offset});
}

enum fr_rc run_metrics_sync(struct fr_run *run, struct run_attempt *at, struct fr_err *err)
{
    uint64_t size = at->metrics.size;
    int fd;
    enum fr_rc rc;

    if (size == 0)
        return FR_OK;
    if ((rc = open_copy(run, at, &fd, err)) != FR_OK)
        return rc;
    if (fr_sys.fdatasync(fd) != 0)
        rc = fr_fail_errno(err, errno, "writing metrics");
    fr_sys.close(fd);
    return rc;
}
