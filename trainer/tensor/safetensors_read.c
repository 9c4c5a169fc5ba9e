#include "trainer/tensor/safetensors_open.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

enum { READ_MAX_BYTES = 1 << 30 /* the kernel cuts one read a little below 2 GiB */ };

/* The cure for a failed read. */
static const char *cure(int errnum)
{
    return errnum == EIO      ? " (see the kernel's log; fetch the file again, to a sound disk)"
           : errnum == ESTALE ? " (its server has another file of that name now: start again)"
                              : "";
}

enum fr_rc tr_st_pread(int fd, const char *path, void *dst, size_t n, int64_t at,
                       struct fr_err *err)
{
    for (size_t done = 0; done < n;) {
        size_t want = n - done < READ_MAX_BYTES ? n - done : READ_MAX_BYTES;
        ssize_t k = fr_sys.pread(fd, (char *)dst + done, want, (off_t)(at + (int64_t)done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return fr_fail_errno(err, errno, "cannot read %s%s", path, cure(errno));
        if (k == 0)
            return fr_fail(err, FR_CORRUPT, "%s became shorter while it was open", path);
        done += (size_t)k;
    }
    return FR_OK;
}

static enum fr_rc check_range(const struct tr_st_tensor *t, int64_t at, size_t n,
                              struct fr_err *err)
{
    if (t->absent)
        return fr_fail(err, FR_NOTFOUND, "tensor '%s' is in a file that is not there", t->name);
    if (at < 0 || at > t->bytes || n > (uint64_t)(t->bytes - at))
        return fr_fail(err, FR_BUG, "read of bytes %lld+%zu of tensor '%s', which has %lld",
                       (long long)at, n, t->name, (long long)t->bytes);
    return FR_OK;
}

enum fr_rc tr_st_read(const struct tr_st *st, const struct tr_st_tensor *t, int64_t at, void *dst,
                      size_t n, struct fr_err *err)
{
    const struct st_file *f = &st->files[t->file];
    enum fr_rc rc = check_range(t, at, n, err);

    if (rc == FR_OK && (rc = tr_st_pread(f->fd, f->path, dst, n, t->offset + at, err)) != FR_OK)
        rc = fr_while(err, "tensor '%s'", t->name);
    return rc;
}

/* Reads cached bytes up to the first uncached one; returns their number. */
static size_t read_cached(int fd, void *dst, size_t n, off_t at)
{
    struct iovec v = {dst, n};
    ssize_t got = preadv2(fd, &v, 1, at, RWF_NOWAIT);

    return got > 0 ? (size_t)got : 0;
}

enum fr_rc tr_st_read_piece(const struct tr_st *st, const struct tr_st_piece *p, void *dst,
                            struct tr_st_piece *lacked, struct fr_err *err)
{
    const struct st_file *f = &st->files[p->t->file];
    enum fr_rc rc = check_range(p->t, p->at, p->n, err);
    size_t had;

    *lacked = (struct tr_st_piece){p->t, p->at, 0};
    if (rc != FR_OK)
        return rc;
    had = read_cached(f->fd, dst, p->n, (off_t)(p->t->offset + p->at));
    *lacked = (struct tr_st_piece){p->t, p->at + (int64_t)had, p->n - had};
    return tr_st_read(st, p->t, lacked->at, (char *)dst + had, lacked->n, err);
}

void tr_st_drop(const struct tr_st *st, const struct tr_st_piece *p)
{
    off_t from = p->n > 0 ? (off_t)(p->t->offset + p->at) : 0;

    if (p->n > 0)
        (void)posix_fadvise(st->files[p->t->file].fd, from, (off_t)p->n, POSIX_FADV_DONTNEED);
}

enum fr_rc tr_st_unchanged(const struct tr_st *st, struct fr_err *err)
{
    struct stat now;

    for (size_t i = 0; i < st->nfiles; i++) {
        const struct st_file *f = &st->files[i];

        if (f->fd < 0)
            continue;
        if (fr_sys.fstat(f->fd, &now) != 0)
            return fr_fail_errno(err, errno, "cannot stat %s", f->path);
        if (now.st_size != f->bytes || now.st_mtim.tv_sec != f->written.tv_sec ||
            now.st_mtim.tv_nsec != f->written.tv_nsec)
            return fr_fail(err, FR_CORRUPT,
                           "%s was written to while it was read: what was read is of no use; start "
                           "again once the file is whole",
                           f->path);
    }
    return FR_OK;
}

size_t tr_st_files(const struct tr_st *st)
{
    return st->nfiles;
}

const char *tr_st_file_name(const struct tr_st *st, size_t file)
{
    const char *slash = strrchr(st->files[file].path, '/');

    return slash != NULL ? slash + 1 : st->files[file].path;
}

bool tr_st_file_here(const struct tr_st *st, size_t file)
{
    return st->files[file].fd >= 0;
}
