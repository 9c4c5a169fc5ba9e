/* Gets: a file of the node is written beside its place, synced, hashed, and renamed. */
#include "engine/exec/xfer.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
    SLICE_BYTES = 1 << 20,   /* hashed in one turn of the loop, 5 ms */
    SYNC_BYTES = 2 << 20,    /* received, above which it is synced: not all of it at its end */
    WINDOW = 2 * SYNC_BYTES, /* of unsynced bytes: a commit of the store waits for the disk until
                                they are written */
};

/* A file that is being written to the disk, in a thread. */
struct fr_sync {
    struct fr_work work;
    struct fr_chan *ch; /* borrows */
    int fd;             /* owns: another descriptor of the file */
    int failed;         /* errno */
};

static void free_sync(void *arg)
{
    struct fr_sync *y = arg;

    fr_sys.close(y->fd);
    fr_sys.free(y);
}

void fr_get_forget(struct fr_xfer *x)
{
    if (x->sync != NULL && fr_loop_forget(x->sync->ch->ex->loop, &x->sync->work))
        free_sync(x->sync);
    x->sync = NULL;
}

void fr_get_begin(struct fr_chan *ch, struct fr_xfer *x)
{
    struct fr_msg m = {.type = FR_MSG_GET};
    struct stat st;
    struct fr_err err = {0};

    fr_xfer_close(x);
    x->phase = ASK;
    x->fd = fr_sys.open(x->part, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (x->fd < 0 || fr_sys.fstat(x->fd, &st) != 0) {
        fr_fail_errno(&err, errno, "cannot write %s", x->part);
        fr_xfer_fail(ch, x, &err);
        return;
    }
    x->offset = x->sync_from = x->synced = (uint64_t)st.st_size;
    x->until = x->offset + WINDOW;
    m.get = (struct fr_get){.ref = x->ref,
                            .path = fr_str_of(x->path),
                            .offset = x->offset,
                            .window = WINDOW,
                            .run = x->use->run->id};
    fr_chan_put(ch, &m);
}

static void run_sync(void *arg)
{
    struct fr_sync *y = arg;

    y->failed = fr_sys.fdatasync(y->fd) != 0 ? errno : 0;
}

static enum fr_rc start_sync(struct fr_chan *ch, struct fr_xfer *x, struct fr_err *err);

static enum fr_rc sync_enough(struct fr_chan *ch, struct fr_xfer *x, struct fr_err *err)
{
    bool enough = x->offset - x->sync_from >= SYNC_BYTES;

    return x->sync == NULL && enough ? start_sync(ch, x, err) : FR_OK;
}

/* Allows WINDOW bytes beyond those on the disk. */
static void allow_more(struct fr_chan *ch, struct fr_xfer *x)
{
    uint64_t bytes = x->synced + WINDOW - x->until;

    if (bytes == 0)
        return;
    x->until += bytes;
    fr_chan_put(ch, &(struct fr_msg){.type = FR_MSG_GET_MORE, .get_more = {x->ref, bytes}});
    fr_chan_flush(ch);
}

/* A sync has ended: the bytes received before it began are on the disk. When the file is complete
 * it is hashed next. */
static void sync_over(void *arg)
{
    struct fr_sync *y = arg;
    struct fr_chan *ch = y->ch;
    struct fr_xfer *x = ch->xfers;
    struct fr_err err = {0};

    while (x->sync != y)
        x = x->next;
    x->sync = NULL;
    x->synced = x->sync_from;
    if (y->failed != 0) {
        fr_fail_errno(&err, y->failed, "writing %s", x->part);
    } else if (x->phase < SYNC) {
        if (sync_enough(ch, x, &err) == FR_OK && x->active)
            allow_more(ch, x);
    } else if (x->phase == SYNC && !x->whole) {
        x->whole = start_sync(ch, x, &err) == FR_OK;
    } else if (x->phase == SYNC && fr_hash_open(x->part, &x->hash, &err) == FR_OK) {
        x->phase = CHECK;
        fr_loop_post(ch->ex->loop, &ch->hash);
    }
    free_sync(y);
    if (err.rc != FR_OK)
        fr_xfer_fail(ch, x, &err);
}

static enum fr_rc start_sync(struct fr_chan *ch, struct fr_xfer *x, struct fr_err *err)
{
    struct fr_sync *y = fr_sys.alloc(sizeof(*y));

    if (y == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", x->part);
    *y = (struct fr_sync){.ch = ch, .fd = fr_sys.open(x->part, O_RDWR | O_NOFOLLOW, 0)};
    y->work = (struct fr_work){.run = run_sync, .over = sync_over, .drop = free_sync, .arg = y};
    if (y->fd < 0) {
        fr_fail_errno(err, errno, "cannot write %s", x->part);
        fr_sys.free(y);
        return err != NULL ? err->rc : FR_IO;
    }
    x->sync_from = x->offset;
    if (fr_loop_work(ch->ex->loop, &y->work) != FR_OK) {
        free_sync(y);
        return fr_fail(err, FR_NOMEM, "no thread to write %s", x->part);
    }
    x->sync = y;
    return FR_OK;
}

enum fr_rc fr_get_data(struct fr_chan *ch, struct fr_xfer *x, const struct fr_get_data *d,
                       struct fr_err *err)
{
    if (d->offset != x->offset || x->phase >= SYNC)
        return fr_fail(err, FR_PROTO, "%s goes on at a wrong place", x->path);
    if (d->bytes.n > x->until - x->offset)
        return fr_fail(err, FR_PROTO, "%s comes faster than it was asked for", x->path);
    if (x->offset > x->max_bytes || d->bytes.n > x->max_bytes - x->offset)
        return fr_fail(err, FR_USAGE, "%s is larger than the %llu bytes that max_size allows",
                       x->path, (unsigned long long)x->max_bytes);
    if (!fr_pwrite_full(x->fd, d->bytes.p, d->bytes.n, x->offset))
        return fr_fail_errno(err, errno, "writing %s", x->part);
    x->offset += d->bytes.n;
    return sync_enough(ch, x, err);
}

static void get_done(struct fr_chan *ch, struct fr_xfer *x, const char *sha256)
{
    struct fr_exec_event *ev = fr_chan_event(ch, FR_EXEC_GET_DONE);
    struct fr_err err = {0};

    if (ev == NULL) {
        x->active = false;
        fr_chan_try_again(ch);
        return;
    }
    ev->get.size = x->offset;
    ev->get.mode = x->mode;
    memcpy(ev->get.sha256, sha256, sizeof(ev->get.sha256));
    if (fr_sys.rename(x->part, x->local) == 0) {
        fr_xfer_end(ch, x, ev);
        return;
    }
    fr_fail_errno(&err, errno, "renaming %s to %s", x->part, x->local);
    fr_exec_event_free(ev);
    fr_xfer_fail(ch, x, &err);
}

/* A large file is hashed beside everything else. */
void fr_xfer_hash(void *chan)
{
    struct fr_chan *ch = chan;
    char sum[FR_SHA256_TEXT];
    struct fr_xfer *x = ch->xfers;
    struct fr_err err = {0};
    bool done = false;

    while (x != NULL && (x->is_put || x->phase != CHECK || !x->active))
        x = x->next;
    if (x == NULL)
        return;
    fr_loop_post(ch->ex->loop, &ch->hash); /* goes on with this one, or with that of another run */
    if (fr_hash_step(x->hash, SLICE_BYTES, &done, sum, &err) != FR_OK)
        fr_xfer_fail(ch, x, &err);
    else if (done)
        get_done(ch, x, sum);
}

enum fr_rc fr_get_end(struct fr_chan *ch, struct fr_xfer *x, const struct fr_get_end *e,
                      struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (x->phase >= SYNC)
        return FR_OK;
    if (x->offset != e->size)
        return fr_fail(err, FR_IO, "%s has %llu bytes, but %llu came: it was changed meanwhile",
                       x->path, (unsigned long long)e->size, (unsigned long long)x->offset);
    if (x->sync == NULL) /* else one more follows that one */
        rc = start_sync(ch, x, err);
    x->mode = e->mode;
    x->whole = x->sync_from == x->offset;
    x->phase = SYNC;
    return rc;
}

enum fr_rc fr_xfer_get(struct fr_use *use, const struct fr_exec_get *get, struct fr_err *err)
{
    struct fr_xfer *x = get->ref == 0 ? NULL : fr_xfer_new(use, get->ref, false);

    if (x != NULL) {
        x->max_bytes = get->max_bytes;
        x->path = fr_arena_dup(&x->arena, get->path);
        x->local = fr_arena_dup(&x->arena, get->local);
        x->part = fr_arena_fmt(&x->arena, "%s.part", get->local);
        if (x->path != NULL && x->local != NULL && x->part != NULL)
            return fr_xfer_add(x);
        fr_xfer_free(x);
    }
    return fr_fail(err, FR_NOMEM, "no memory for a get from node %s", use->ch->node.name);
}
