#include "engine/ship/source.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <string.h>

enum { AHEAD_BYTES = 256 << 10 }; /* of each node that takes a file */

struct reading { /* a thread's while that is at it */
    struct fr_work work;
    struct fr_source *of; /* borrows; the thread does not touch it */
    char *path, *bytes;   /* owns */
    int fd;               /* owns; -1: not open yet */
    uint64_t from;        /* of bytes in the file */
    size_t n;
    struct fr_err err;
};

struct fr_source {
    struct fr_loop *loop;
    struct fr_timer *timer; /* owns */
    struct reading *r;      /* owns, but for a thread; NULL: it was left to one */
    bool busy;
    void (*more)(void *arg);
    void *arg;
    struct fr_err err;
};

static void free_reading(void *arg)
{
    struct reading *r = arg;

    if (r == NULL)
        return;
    if (r->fd >= 0)
        fr_sys.close(r->fd);
    fr_sys.free(r->path);
    fr_sys.free(r->bytes);
    fr_sys.free(r);
}

static void read_it(void *arg)
{
    struct reading *r = arg;
    ssize_t k;

    if (r->fd < 0 && fr_file_open(r->path, &r->fd, NULL, &r->err) != FR_OK)
        return;
    do
        k = fr_sys.pread(r->fd, r->bytes, AHEAD_BYTES, (off_t)r->from);
    while (k < 0 && errno == EINTR);
    if (k < 0)
        fr_fail_errno(&r->err, errno, "reading %s", r->path);
    else if (k == 0)
        fr_fail(&r->err, FR_IO, "%s became shorter while it was sent", r->path);
    else
        r->n = (size_t)k;
}

static void have_read(void *arg)
{
    struct fr_source *s = ((struct reading *)arg)->of;

    s->busy = false;
    s->err = s->r->err;
    fr_loop_arm(s->loop, s->timer, -1);
    s->more(s->arg);
}

static void leave(struct fr_source *s)
{
    if (!s->busy || fr_loop_forget(s->loop, &s->r->work))
        free_reading(s->r);
    s->r = NULL;
    s->busy = false;
}

static void too_long(void *arg)
{
    struct fr_source *s = arg;

    fr_file_silent(s->r->path, &s->err);
    leave(s);
    s->more(s->arg);
}

enum fr_rc fr_source_open(struct fr_loop *loop, const char *path, void (*more)(void *arg),
                          void *arg, struct fr_source **out, struct fr_err *err)
{
    struct fr_source *s = fr_sys.alloc(sizeof(*s));
    struct reading *r = fr_sys.alloc(sizeof(*r));
    size_t n = strlen(path) + 1;

    *out = NULL;
    if (s != NULL)
        *s = (struct fr_source){.loop = loop, .r = r, .more = more, .arg = arg};
    if (r != NULL) {
        *r = (struct reading){
            .of = s, .fd = -1, .path = fr_sys.alloc(n), .bytes = fr_sys.alloc(AHEAD_BYTES)};
        r->work =
            (struct fr_work){.run = read_it, .over = have_read, .drop = free_reading, .arg = r};
    }
    if (s == NULL || r == NULL || r->path == NULL || r->bytes == NULL ||
        fr_loop_timer(loop, too_long, s, &s->timer) != FR_OK) {
        free_reading(r);
        fr_sys.free(s);
        return fr_fail(err, FR_NOMEM, "no memory to send %s", path);
    }
    memcpy(r->path, path, n);
    *out = s;
    return FR_OK;
}

enum fr_rc fr_source_bytes(struct fr_source *s, uint64_t offset, struct fr_str *out,
                           struct fr_err *err)
{
    struct reading *r = s->r;

    *out = (struct fr_str){NULL, 0};
    if (s->err.rc != FR_OK) {
        *err = s->err;
        return err->rc;
    }
    if (s->busy)
        return FR_OK;
    if (offset >= r->from && offset - r->from < r->n) {
        *out = (struct fr_str){r->bytes + (offset - r->from), r->n - (size_t)(offset - r->from)};
        return FR_OK;
    }
    r->from = offset;
    r->n = 0;
    s->busy = true;
    if (fr_loop_work(s->loop, &r->work) != FR_OK) {
        s->busy = false;
        return fr_fail(err, FR_NOMEM, "no thread to read %s", r->path);
    }
    fr_loop_arm_in(s->loop, s->timer, FR_FILE_SOON_MS);
    return FR_OK;
}

void fr_source_close(struct fr_source *s)
{
    if (s == NULL)
        return;
    leave(s);
    fr_loop_untimer(s->loop, &s->timer);
    fr_sys.free(s);
}
