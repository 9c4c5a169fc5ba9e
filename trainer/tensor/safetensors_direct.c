#include "trainer/tensor/safetensors_open.h"

#include "engine/base/sys.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = TR_ST_PAGE,
    PAGES = TR_ST_SPAN / PAGE,
    RUN = 16 /* pages worth a separate read */
};

/* A file opened for reads past the page cache. */
struct direct_file {
    /* Owns: a bit for each page that was cached; NULL: the kernel does not report it. */
    unsigned char *cached;
    int fd;              /* -1: no O_DIRECT in its file system, or no such file */
    atomic_bool refused; /* a read failed, or went through the page cache */
};

struct tr_st_direct {
    const struct tr_st *st; /* borrows */
    struct direct_file files[];
};

/* Opens the file by its path; another file may have that path by now. */
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

/* Which pages of the span are cached; pages after the end of the file are not. */
static bool look(int fd, const struct tr_st_span *s, unsigned char cached[PAGES])
{
    void *p = mmap(NULL, s->n, PROT_READ, MAP_SHARED, fd, (off_t)s->at);
    bool told = p != MAP_FAILED && mincore(p, s->n, cached) == 0;

    if (p != MAP_FAILED)
        (void)munmap(p, s->n);
    return told;
}

/* Whether mincore is truthful: for files that the user neither owns nor may write, the kernel
 * reports all pages as cached, even pages after the end. */
static bool tells(const struct st_file *f)
{
    struct tr_st_span behind = {.at = (f->bytes + PAGE - 1) / PAGE * PAGE, .n = PAGE};
    unsigned char cached[PAGES];

    return f->fd >= 0 && look(f->fd, &behind, cached) && !(cached[0] & 1);
}

enum fr_rc tr_st_direct_open(const struct tr_st *st, struct tr_st_direct **out, struct fr_err *err)
{
    struct tr_st_direct *d = fr_sys.alloc(sizeof(*d) + st->nfiles * sizeof(d->files[0]));
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "a list of %zu files", st->nfiles);
    d->st = st;
    for (size_t i = 0; i < st->nfiles; i++) {
        const struct st_file *f = &st->files[i];
        size_t bytes = (size_t)f->bytes / PAGE / 8 + 1;

        d->files[i].cached = NULL;
        d->files[i].fd = open_again(f);
        atomic_init(&d->files[i].refused, false);
        if (rc != FR_OK || !tells(f))
            continue;
        if ((d->files[i].cached = fr_sys.alloc(bytes)) != NULL)
            memset(d->files[i].cached, 0, bytes);
        else
            rc = fr_fail(err, FR_NOMEM, "a list of the pages of %s", f->path);
    }
    if (rc == FR_OK)
        *out = d;
    else
        tr_st_direct_close(d);
    return rc;
}

void tr_st_direct_close(struct tr_st_direct *d)
{
    for (size_t i = 0; d != NULL && i < d->st->nfiles; i++) {
        fr_sys.free(d->files[i].cached);
        if (d->files[i].fd >= 0)
            fr_sys.close(d->files[i].fd);
    }
    fr_sys.free(d);
}

static bool was_cached(const struct direct_file *f, int64_t page)
{
    return f->cached[page / 8] >> page % 8 & 1;
}

void tr_st_direct_note(struct tr_st_direct *d, int file, int64_t at, size_t n)
{
    struct direct_file *f = &d->files[file];
    const struct st_file *of = &d->st->files[file];
    int64_t end = at + (int64_t)n < of->bytes ? at + (int64_t)n : of->bytes;
    unsigned char cached[PAGES];

    for (at = at / PAGE * PAGE; f->cached != NULL && at < end; at += TR_ST_SPAN) {
        size_t left = (size_t)(end - at + PAGE - 1) / PAGE;
        struct tr_st_span s = {.at = at, .n = (left < PAGES ? left : PAGES) * PAGE};

        if (!look(of->fd, &s, cached))
            continue;
        for (size_t i = 0; i < s.n / PAGE; i++) {
            int64_t page = at / PAGE + (int64_t)i;

            f->cached[page / 8] |= (unsigned char)((cached[i] & 1) << page % 8);
        }
    }
}

/* The noted state of the page cache; pages after the end of the file are not cached. */
static void recall(const struct tr_st_direct *d, struct tr_st_span *s)
{
    int64_t first = s->at / PAGE, pages = (d->st->files[s->file].bytes + PAGE - 1) / PAGE;

    for (int64_t i = 0; i < (int64_t)s->n / PAGE; i++)
        s->cached[i] = first + i < pages && was_cached(&d->files[s->file], first + i);
}

void tr_st_direct_drop(struct tr_st_direct *d, int file, int64_t at, size_t n)
{
    const struct direct_file *f = &d->files[file];
    int64_t page = at / PAGE, end = (at + (int64_t)n + PAGE - 1) / PAGE, to;

    for (; f->cached != NULL && page < end; page = to) {
        bool cached = was_cached(f, page);

        for (to = page + 1; to < end && was_cached(f, to) == cached;)
            to++;
        if (!cached)
            (void)posix_fadvise(d->st->files[file].fd, (off_t)(page * PAGE),
                                (off_t)((to - page) * PAGE), POSIX_FADV_DONTNEED);
    }
}

/* The length of the run of equal pages, cached or not, from the i-th on. */
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

    if (f->fd < 0 || f->refused || f->cached == NULL)
        return false;
    recall(d, s);
    for (at = 0; at < n; at += run) {
        run = run_of(s->cached, at, n);
        if ((s->cached[at] & 1) && (run >= RUN || run == n)) {
            s->n = (at > 0 ? at : run) * PAGE;
            return at > 0;
        }
    }
    return true;
}

/* A file system may use the page cache despite O_DIRECT. Then drops the new pages and refuses
 * further direct reads: reads by pieces account for read-ahead. */
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
