#include "trainer/tensor/safetensors_open.h"

#include "engine/base/sys.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum {
    PAGE = TR_ST_PAGE,
    PAGES = TR_ST_SPAN / PAGE,
    RUN = 16 /* pages worth a read of their own */
};

/* A file as it is opened for reads past the page cache. */
struct direct_file {
    int fd;              /* -1: its file system has none, or the file is not there */
    atomic_bool refused; /* a read failed, or went through the page cache */
};

struct tr_st_direct {
    const struct tr_st *st; /* borrows */
    struct direct_file files[];
};

/* Opened by its path, so it may be another file by now. */
static int open_again(const struct st_file *f)
{
    struct stat was, is;
    int fd = f->fd >= 0 ? fr_sys.open(f->path, O_RDONLY | O_DIRECT, 0) : -1;

    if (fd >= 0 && (fr_sys.fstat(f->fd, &was) != 0 || fr_sys.fstat(fd, &is) != 0 ||
                    was.st_dev != is.st_dev || was.st_ino != is.st_ino)) {
        fr_sys.close(fd);
        fd = -1;
    }
    return fd;
}

enum fr_rc tr_st_direct_open(const struct tr_st *st, struct tr_st_direct **out, struct fr_err *err)
{
    struct tr_st_direct *d = fr_sys.alloc(sizeof(*d) + st->nfiles * sizeof(d->files[0]));

    if ((*out = d) == NULL)
        return fr_fail(err, FR_NOMEM, "a list of %zu files", st->nfiles);
    d->st = st;
    for (size_t i = 0; i < st->nfiles; i++) {
        d->files[i].fd = open_again(&st->files[i]);
        atomic_init(&d->files[i].refused, false);
    }
    return FR_OK;
}

void tr_st_direct_close(struct tr_st_direct *d)
{
    for (size_t i = 0; d != NULL && i < d->st->nfiles; i++)
        if (d->files[i].fd >= 0)
            fr_sys.close(d->files[i].fd);
    fr_sys.free(d);
}

/* Which pages of the span the page cache has; those behind the file's end it lacks. The kernel
 * calls all pages cached if the file is neither this user's nor writable. */
static bool look(int fd, const struct tr_st_span *s, unsigned char cached[PAGES])
{
    void *p = mmap(NULL, s->n, PROT_READ, MAP_SHARED, fd, (off_t)s->at);
    bool told = p != MAP_FAILED && mincore(p, s->n, cached) == 0;

    if (p != MAP_FAILED)
        (void)munmap(p, s->n);
    return told;
}

/* Pages from the i-th on that are cached, or that are not. */
static size_t run_of(const unsigned char *cached, size_t i, size_t n)
{
    size_t k = i;

    while (k < n && (cached[k] & 1) == (cached[i] & 1))
        k++;
    return k - i;
}

bool tr_st_direct_cut(const struct tr_st_direct *d, struct tr_st_span *s)
{
    const struct direct_file *f = &d->files[s->file];
    size_t n = s->n / PAGE, at, run;

    if (f->fd < 0 || f->refused || !look(d->st->files[s->file].fd, s, s->cached))
        return false;
    for (at = 0; at < n; at += run) {
        run = run_of(s->cached, at, n);
        if ((s->cached[at] & 1) && (run >= RUN || run == n)) {
            s->n = (at > 0 ? at : run) * PAGE;
            return at > 0;
        }
    }
    return true;
}

/* The file system may read through the page cache all the same. What the span brought there leaves
 * it, and pieces are read from now on, which mind what the cache reads ahead. */
static void drop_new(struct tr_st_direct *d, const struct tr_st_span *s)
{
    const struct st_file *f = &d->st->files[s->file];
    unsigned char now[PAGES];
    size_t n = s->n / PAGE;

    if (!look(f->fd, s, now))
        return;
    for (size_t i = 0; i < n; i++)
        now[i] = (now[i] & 1) && !(s->cached[i] & 1);
    for (size_t i = 0, run; i < n; i += run) {
        run = run_of(now, i, n);
        if (!now[i])
            continue;
        d->files[s->file].refused = true;
        (void)posix_fadvise(f->fd, (off_t)(s->at + (int64_t)(i * PAGE)), (off_t)(run * PAGE),
                            POSIX_FADV_DONTNEED);
    }
}

bool tr_st_direct_read(struct tr_st_direct *d, const struct tr_st_span *s, void *to)
{
    int64_t left = d->st->files[s->file].bytes - s->at;
    size_t want = left < 0 ? 0 : left < (int64_t)s->n ? (size_t)left : s->n;

    if (fr_sys.pread(d->files[s->file].fd, to, s->n, (off_t)s->at) < (ssize_t)want) {
        d->files[s->file].refused = true;
        return false;
    }
    drop_new(d, s);
    return true;
}
