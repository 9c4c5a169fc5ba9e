#include "engine/node/compact.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* The files of a forgotten attempt stay for their days (prune.h), counted from the date of its log.
 * The log of an attempt that was acknowledged long after its last output gets a new date. */
static void date_logs(const struct fr_node_home *h, const struct fr_table *t)
{
    const int64_t day_s = 86400;
    char path[FR_NODE_PATH];
    struct stat st;

    for (size_t i = 0; i < t->n; i++) {
        const struct fr_attempt *a = t->v[i];
        if (!a->acked)
            continue;
        fr_home_path(h->path, FR_HOME_LOG, a->id, path);
        if (fr_sys.lstat(path, &st) == 0 && st.st_mtim.tv_sec + day_s < a->over_ms / 1000)
            fr_sys.touch(path);
    }
}

static enum fr_rc write_beside(const char *tmp, const struct fr_buf *b, struct fr_err *err)
{
    int fd = fr_sys.open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    enum fr_rc rc = FR_OK;

    if (fd < 0)
        return fr_fail_errno(err, errno, "cannot make %s", tmp);
    if (!fr_write_full(fd, b->p, b->n) || fr_sys.fdatasync(fd) != 0)
        rc = fr_fail_errno(err, errno, "cannot write %s", tmp);
    fr_sys.close(fd);
    return rc;
}

static enum fr_rc open_new(struct fr_node_home *h, struct fr_table *t, const char *path,
                           struct fr_err *err)
{
    enum fr_rc rc;

    fr_sys.close(h->journal);
    h->journal = -1;
    fr_table_finish(t);
    if ((rc = fr_journal_open(path, &h->journal, err)) != FR_OK ||
        (rc = fr_table_read(t, h->journal, err)) != FR_OK)
        return rc;
    return fr_sync_dir(h->path, err);
}

enum fr_rc fr_journal_compact(struct fr_node_home *h, struct fr_table *t, bool *broken,
                              struct fr_err *err)
{
    char path[FR_NODE_PATH], tmp[FR_NODE_PATH + 8];
    struct fr_buf b = {0};
    enum fr_rc rc;

    *broken = false;
    if (t->at < FR_COMPACT_MIN || 2 * fr_table_least(t, fr_sys.wall_ms()) > t->at)
        return FR_OK; /* what would stay is not half of it: not even tried */
    snprintf(path, sizeof(path), "%s/journal", h->path);
    snprintf(tmp, sizeof(tmp), "%s.new", path);
    rc = fr_table_put(t, fr_sys.wall_ms(), &b, err);
    if (rc == FR_OK && 2 * b.n <= t->at) {
        date_logs(h, t);
        rc = write_beside(tmp, &b, err);
        if (rc == FR_OK && fr_sys.rename(tmp, path) != 0)
            rc = fr_fail_errno(err, errno, "cannot rename %s", tmp);
        if (rc != FR_OK) {
            fr_sys.unlink(tmp);
        } else {
            rc = open_new(h, t, path, err);
            *broken = rc != FR_OK;
        }
    }
    fr_buf_finish(&b);
    return rc != FR_OK ? fr_while(err, "shortening the journal") : FR_OK;
}
