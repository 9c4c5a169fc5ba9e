#include "engine/view/line_index.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LOGS = 16, STEP = 1024, BLOCK = 64 << 10, KEY = 512 };

struct index {
    char key[KEY];    /* "": none */
    uint64_t *starts; /* owns: of lines 1, 1 + STEP, … */
    size_t n, cap;
    uint64_t bytes, newlines; /* looked at; in them */
    bool open;                /* the last line has no newline */
    uint64_t used;            /* the larger, the newer */
};

struct line_index {
    pthread_mutex_t lock; /* of turn and logs: held while a log of some GB is read */
    atomic_size_t users;  /* changed without it: the loop does not wait for a reader */
    uint64_t turn;
    struct index logs[LOGS];
};

struct line_index *line_index_create(void)
{
    struct line_index *l = fr_sys.alloc(sizeof(*l));

    if (l == NULL)
        return NULL;
    memset(l, 0, sizeof(*l));
    atomic_init(&l->users, 1);
    if (pthread_mutex_init(&l->lock, NULL) != 0) {
        fr_sys.free(l);
        return NULL;
    }
    return l;
}

struct line_index *line_index_use(struct line_index *l)
{
    if (l != NULL)
        atomic_fetch_add(&l->users, 1);
    return l;
}

void line_index_leave(struct line_index *l)
{
    if (l == NULL || atomic_fetch_sub(&l->users, 1) > 1)
        return;
    for (size_t i = 0; i < LOGS; i++)
        fr_sys.free(l->logs[i].starts);
    pthread_mutex_destroy(&l->lock);
    fr_sys.free(l);
}

/* That of the log, or the one that was not used for the longest time, emptied. */
static struct index *index_of(struct line_index *l, const char *key)
{
    struct index *oldest = &l->logs[0];

    for (size_t i = 0; i < LOGS; i++) {
        if (strcmp(l->logs[i].key, key) == 0)
            return &l->logs[i];
        if (l->logs[i].used < oldest->used)
            oldest = &l->logs[i];
    }
    fr_sys.free(oldest->starts);
    *oldest = (struct index){0};
    snprintf(oldest->key, sizeof(oldest->key), "%s", key);
    return oldest;
}

static ssize_t read_at(int fd, char *p, size_t n, uint64_t at)
{
    ssize_t k;

    do
        k = fr_sys.pread(fd, p, n, (off_t)at);
    while (k < 0 && errno == EINTR);
    return k;
}

static bool add_start(struct index *x, uint64_t at)
{
    uint64_t *grown = fr_grow(x->starts, x->n + 1, &x->cap, sizeof(*grown));

    if (grown == NULL)
        return false;
    x->starts = grown;
    x->starts[x->n++] = at;
    return true;
}

/* false: no memory. */
static bool take_block(struct index *x, const char *p, size_t n)
{
    for (const char *at = p, *end = p + n; at < end;) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));

        if (nl == NULL)
            break;
        at = nl + 1;
        if (++x->newlines % STEP == 0 && !add_start(x, x->bytes + (uint64_t)(at - p)))
            return false;
    }
    x->open = p[n - 1] != '\n';
    x->bytes += n;
    return true;
}

static enum fr_rc extend(struct index *x, int fd, char *space, struct fr_err *err)
{
    ssize_t n = 1;

    if (x->n == 0 && !add_start(x, 0))
        return fr_fail(err, FR_NOMEM, "no memory for the lines of a log");
    while (n > 0) {
        n = read_at(fd, space, BLOCK, x->bytes);
        if (n < 0)
            return fr_fail_errno(err, errno, "reading a log");
        if (n > 0 && !take_block(x, space, (size_t)n))
            return fr_fail(err, FR_NOMEM, "no memory for the lines of a log");
    }
    return FR_OK;
}

/* Offset of the line `skip` lines behind at. */
static enum fr_rc walk(int fd, char *space, uint64_t at, uint64_t skip, uint64_t *out,
                       struct fr_err *err)
{
    while (skip > 0) {
        ssize_t n = read_at(fd, space, BLOCK, at);
        const char *p = space;

        if (n <= 0)
            return n < 0 ? fr_fail_errno(err, errno, "reading a log")
                         : fr_fail(err, FR_IO, "a log became shorter");
        while (skip > 0 && (p = memchr(p, '\n', (size_t)(space + n - p))) != NULL) {
            p++;
            skip--;
        }
        at += skip > 0 ? (uint64_t)n : (uint64_t)(p - space);
    }
    *out = at;
    return FR_OK;
}

/* A log that became shorter is another one. */
static void check_size(struct index *x, int fd)
{
    struct stat st;

    if (fr_sys.fstat(fd, &st) == 0 && (uint64_t)st.st_size < x->bytes) {
        x->n = 0;
        x->bytes = x->newlines = 0;
        x->open = false;
    }
}

enum fr_rc line_index_find(struct line_index *l, const char *key, int fd, uint64_t no,
                           struct host_line_at *out, struct fr_err *err)
{
    char *space = fr_sys.alloc(BLOCK);
    struct index *x;
    enum fr_rc rc;

    if (space == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read a log");
    pthread_mutex_lock(&l->lock);
    x = index_of(l, key);
    x->used = ++l->turn;
    check_size(x, fd);
    rc = extend(x, fd, space, err);
    *out = (struct host_line_at){.lines = x->newlines + x->open, .bytes = x->bytes};
    out->offset = x->bytes;
    if (rc == FR_OK && no >= 1 && no <= out->lines)
        rc = walk(fd, space, x->starts[(no - 1) / STEP], (no - 1) % STEP, &out->offset, err);
    pthread_mutex_unlock(&l->lock);
    fr_sys.free(space);
    return rc;
}
