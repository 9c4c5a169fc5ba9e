#include "engine/base/file.h"

#include "engine/base/sha256.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 * 1024, OPEN_COSTS = 4096 /* as many bytes hashed */ };

/* File systems of other machines, or of a program that may speak with one (statfs(2), magic.h). */
static const struct {
    int64_t magic;
    const char *name;
} far_fs[] = {
    {0x6969, "NFS"},        {0xff534d42, "CIFS"}, {0xfe534d42, "SMB2"}, {0x517b, "SMB"},
    {0x0bd00bd0, "Lustre"}, {0x01021997, "9p"},   {0x5346414f, "AFS"},  {0x00c36400, "Ceph"},
    {0x19830326, "BeeGFS"}, {0x47504653, "GPFS"}, {0x73757245, "Coda"}, {0xaad7aaea, "PanFS"},
    {0x013111a8, "IBRIX"},  {0x65735546, "FUSE"},
};

enum fr_rc fr_check_local(const char *path, const char *remedy, struct fr_err *err)
{
    int64_t magic = fr_sys.fs_type(path);

    if (magic < 0)
        return fr_fail_errno(err, errno, "looking at %s", path);
    for (size_t i = 0; i < sizeof(far_fs) / sizeof(far_fs[0]); i++)
        if (magic == far_fs[i].magic)
            return fr_fail(err, FR_UNSUPPORTED,
                           "%s is on a network file system (%s), where locks are not safe: %s a "
                           "local folder, for example /var/tmp/flowrun-%u",
                           path, far_fs[i].name, remedy, (unsigned)fr_sys.uid());
    return FR_OK;
}

bool fr_read_full(int fd, void *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = fr_sys.read(fd, (char *)p + done, n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            errno = k == 0 ? ENODATA : errno;
            return false;
        }
        done += (size_t)k;
    }
    return true;
}

/* at < 0: where the descriptor stands. */
static bool write_all(int fd, const char *p, size_t n, int64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = at < 0 ? fr_sys.write(fd, p + done, n - done)
                           : fr_sys.pwrite(fd, p + done, n - done, (off_t)at + (off_t)done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            errno = k == 0 ? EIO : errno;
            return false;
        }
        done += (size_t)k;
    }
    return true;
}

bool fr_write_full(int fd, const void *p, size_t n)
{
    return write_all(fd, p, n, -1);
}

bool fr_pwrite_full(int fd, const void *p, size_t n, uint64_t at)
{
    return write_all(fd, p, n, (int64_t)at);
}

const char *fr_file_kind(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISSOCK(mode))
        return "a socket";
    return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : NULL;
}

static enum fr_rc no_file(const char *path, const char *kind, struct fr_err *err)
{
    return fr_fail(err, FR_USAGE, "%s is %s, expected a file", path, kind);
}

/* The path is examined before the open, since opening a device may already act on it, and again
 * after it, since the name may mean another file by then. */
static enum fr_rc open_file(const char *path, int flags, int *fd, struct stat *found,
                            struct fr_err *err)
{
    const char *kind = fr_sys.lstat(path, found) == 0 ? fr_file_kind(found->st_mode) : NULL;
    int failed = 0;

    *fd = kind == NULL ? fr_sys.open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags, 0) : -1;
    if (kind == NULL && *fd < 0)
        return errno == ENXIO ? no_file(path, "a socket or a device", err)
                              : fr_fail_errno(err, errno, "cannot open %s", path);
    if (kind == NULL && fr_sys.fstat(*fd, found) != 0)
        failed = errno;
    else if (kind == NULL)
        kind = fr_file_kind(found->st_mode);
    if (kind == NULL && failed == 0)
        return FR_OK;
    if (*fd >= 0)
        fr_sys.close(*fd);
    *fd = -1;
    return kind != NULL ? no_file(path, kind, err)
                        : fr_fail_errno(err, failed, "looking at %s", path);
}

enum fr_rc fr_file_open(const char *path, int *fd, struct stat *st, struct fr_err *err)
{
    struct stat here;

    return open_file(path, 0, fd, st != NULL ? st : &here, err);
}

enum fr_rc fr_file_open_plain(const char *path, int *fd, struct fr_err *err)
{
    struct stat st;

    return open_file(path, O_NOFOLLOW, fd, &st, err);
}

/* Closes fd. */
static enum fr_rc read_all(int fd, const char *path, size_t max_bytes, struct fr_buf *out,
                           struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    size_t start = out->n;

    while (rc == FR_OK) {
        char piece[PIECE_BYTES];
        ssize_t k = fr_sys.read(fd, piece, sizeof(piece));
        if (k == 0)
            break;
        if (k < 0 && errno != EINTR)
            rc = fr_fail_errno(err, errno, "cannot read %s", path);
        else if (k > 0 && out->n - start + (size_t)k > max_bytes)
            rc = fr_fail(err, FR_USAGE, "%s is larger than %zu bytes", path, max_bytes);
        else if (k > 0)
            fr_buf_add(out, piece, (size_t)k);
        if (out->bad)
            rc = fr_fail(err, FR_NOMEM, "no memory to read %s", path);
    }
    fr_sys.close(fd);
    return rc;
}

enum fr_rc fr_file_read(const char *path, size_t max_bytes, struct fr_buf *out, struct fr_err *err)
{
    struct stat st;
    int fd;
    enum fr_rc rc = fr_file_open(path, &fd, &st, err);

    if (rc != FR_OK)
        return rc;
    if (st.st_size > 0 && (uint64_t)st.st_size > max_bytes) {
        fr_sys.close(fd);
        return fr_fail(err, FR_USAGE, "%s is larger than %zu bytes", path, max_bytes);
    }
    return read_all(fd, path, max_bytes, out, err);
}

enum fr_rc fr_file_read_any(const char *path, size_t max_bytes, struct fr_buf *out,
                            struct fr_err *err)
{
    struct stat st;
    int fd = fr_sys.open(path, O_RDONLY, 0);

    if (fd < 0)
        return fr_fail_errno(err, errno, "cannot open %s", path);
    if (fr_sys.fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        fr_sys.close(fd);
        return no_file(path, "a folder", err);
    }
    return read_all(fd, path, max_bytes, out, err);
}

/* The folder part of path, "." when it has none; false when it does not fit. */
static bool folder_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int n = slash == NULL
                ? snprintf(out, PATH_MAX, ".")
                : snprintf(out, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);

    return n >= 0 && n < PATH_MAX;
}

enum fr_rc fr_sync_dir(const char *path, struct fr_err *err)
{
    int fd = fr_sys.open(path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return fr_fail_errno(err, errno, "cannot open folder %s", path);
    int failed = fr_sys.fdatasync(fd) != 0 && errno != EINVAL ? errno : 0;
    fr_sys.close(fd);
    return failed ? fr_fail_errno(err, failed, "cannot sync folder %s", path) : FR_OK;
}

enum fr_rc fr_file_write(const char *path, const void *p, size_t n, mode_t mode, struct fr_err *err)
{
    return fr_file_write_parts(path, &(struct fr_parts){&(struct fr_str){p, n}, 1}, mode, err);
}

enum fr_rc fr_file_write_parts(const char *path, const struct fr_parts *parts, mode_t mode,
                               struct fr_err *err)
{
    char tmp[PATH_MAX], dir[PATH_MAX];
    uint32_t salt = 0;
    int failed = 0;

    fr_sys.random(&salt, sizeof(salt));
    int len = snprintf(tmp, sizeof(tmp), "%s.tmp-%08x", path, salt);
    if (len < 0 || (size_t)len >= sizeof(tmp) || !folder_of(path, dir))
        return fr_fail(err, FR_USAGE, "%s: the path is too long", path);
    int fd = fr_sys.open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (fd < 0)
        return fr_fail_errno(err, errno, "cannot make %s", tmp);
    for (size_t i = 0; failed == 0 && i < parts->n; i++)
        if (!fr_write_full(fd, parts->v[i].p, parts->v[i].n))
            failed = errno;
    if (failed == 0 && fr_sys.fdatasync(fd) != 0)
        failed = errno;
    if (fr_sys.close(fd) != 0 && failed == 0)
        failed = errno;
    if (failed == 0 && fr_sys.rename(tmp, path) != 0)
        failed = errno;
    if (failed != 0) {
        fr_sys.unlink(tmp);
        return fr_fail_errno(err, failed, "cannot write %s", path);
    }
    return fr_sync_dir(dir, err);
}

static enum fr_rc copy_path(const char *path, size_t n, char out[PATH_MAX], struct fr_err *err)
{
    if (n == 0 || n >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "'%s' is no usable path", path);
    memcpy(out, path, n + 1);
    return FR_OK;
}

bool fr_file_is_named(int fd, const char *path)
{
    struct stat own, named;

    return fr_sys.fstat(fd, &own) == 0 && fr_sys.lstat(path, &named) == 0 &&
           own.st_ino == named.st_ino && own.st_dev == named.st_dev;
}

enum fr_rc fr_mkdirs(const char *path, mode_t mode, struct fr_err *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    struct stat st;

    if (copy_path(path, n, part, err) != FR_OK)
        return FR_USAGE;
    /* mostly it is there, or all above it is */
    bool there = fr_sys.mkdir(path, mode) == 0 || errno == EEXIST;
    for (size_t i = 1; !there && i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char keep = part[i];
        part[i] = '\0';
        if (fr_sys.mkdir(part, mode) != 0 && errno != EEXIST)
            return fr_fail_errno(err, errno, "cannot make folder %s", part);
        part[i] = keep;
    }
    int fd = fr_sys.open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fr_sys.lstat(path, &st) == 0 && !S_ISDIR(st.st_mode)
                   ? fr_fail(err, FR_USAGE, "%s is not a folder", path)
                   : fr_fail_errno(err, errno, "cannot open folder %s", path);
    fr_sys.close(fd);
    return FR_OK;
}

enum fr_rc fr_check_unlinked(const char *path, size_t known, struct fr_err *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    struct stat st;

    if (copy_path(path, n, part, err) != FR_OK)
        return FR_USAGE;
    for (size_t i = known + 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        part[i] = '\0';
        if (fr_sys.lstat(part, &st) != 0)
            return errno == ENOENT ? FR_OK : fr_fail_errno(err, errno, "looking at %s", part);
        if (S_ISLNK(st.st_mode))
            return fr_fail(err, FR_DENIED,
                           "%s is a symbolic link, which flowrun has not made: remove it", part);
        part[i] = path[i];
    }
    return FR_OK;
}

enum fr_rc fr_remove_some(const char *path, size_t *left, struct fr_err *err)
{
    struct stat st;
    char **names = NULL, child[PATH_MAX];
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    if (*left == 0)
        return FR_OK;
    if (fr_sys.lstat(path, &st) != 0)
        return errno == ENOENT ? FR_OK : fr_fail_errno(err, errno, "cannot look at %s", path);
    if (S_ISDIR(st.st_mode) && fr_sys.list(path, &names, &n) != 0)
        return errno == ENOENT ? FR_OK : fr_fail_errno(err, errno, "cannot list %s", path);
    for (size_t i = 0; i < n && rc == FR_OK && *left > 0; i++) {
        int len = snprintf(child, sizeof(child), "%s/%s", path, names[i]);
        rc = len < 0 || (size_t)len >= sizeof(child)
                 ? fr_fail(err, FR_IO, "%s/%s: the path is too long", path, names[i])
                 : fr_remove_some(child, left, err);
    }
    fr_sys_names_free(names, n);
    if (rc != FR_OK || *left == 0)
        return rc;
    --*left;
    if ((S_ISDIR(st.st_mode) ? fr_sys.rmdir(path) : fr_sys.unlink(path)) != 0 && errno != ENOENT)
        rc = fr_fail_errno(err, errno, "cannot remove %s%s", S_ISDIR(st.st_mode) ? "folder " : "",
                           path);
    return rc;
}

enum fr_rc fr_remove_tree(const char *path, struct fr_err *err)
{
    size_t left = SIZE_MAX;

    return fr_remove_some(path, &left, err);
}

int64_t fr_tree_bytes(const char *path)
{
    struct stat st;
    char **names = NULL, child[PATH_MAX];
    int64_t bytes = 0;
    size_t n = 0;

    if (fr_sys.lstat(path, &st) != 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return st.st_size;
    if (fr_sys.list(path, &names, &n) != 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        int len = snprintf(child, sizeof(child), "%s/%s", path, names[i]);

        if (len > 0 && (size_t)len < sizeof(child))
            bytes += fr_tree_bytes(child);
    }
    fr_sys_names_free(names, n);
    return bytes;
}

struct fr_hash {
    SHA2_CTX ctx;
    int fd;
    const char *path; /* borrows */
    uint64_t n;       /* bytes so far */
};

static enum fr_rc hash_begin(struct fr_hash *h, const char *path, struct fr_err *err)
{
    h->path = path;
    h->n = 0;

    enum fr_rc rc = fr_file_open(path, &h->fd, NULL, err);

    if (rc == FR_OK)
        SHA256Init(&h->ctx);
    return rc;
}

enum fr_rc fr_hash_step(struct fr_hash *h, size_t max_bytes, bool *done, char out[FR_SHA256_TEXT],
                        struct fr_err *err)
{
    uint8_t piece[PIECE_BYTES];
    ssize_t k = 1;

    for (size_t n = 0; n < max_bytes && k != 0;) {
        k = fr_sys.read(h->fd, piece, sizeof(piece));
        if (k < 0 && errno != EINTR)
            return fr_fail_errno(err, errno, "cannot read %s", h->path);
        if (k > 0)
            fr_sha256_add(&h->ctx, piece, (size_t)k);
        n += k > 0 ? (size_t)k : 0;
        h->n += k > 0 ? (uint64_t)k : 0;
    }
    *done = k == 0;
    if (*done)
        SHA256End(&h->ctx, out);
    return FR_OK;
}

enum fr_rc fr_hash_open(const char *path, struct fr_hash **out, struct fr_err *err)
{
    struct fr_hash *h = fr_sys.alloc(sizeof(*h));
    enum fr_rc rc =
        h != NULL ? hash_begin(h, path, err) : fr_fail(err, FR_NOMEM, "no memory to hash %s", path);

    if (rc != FR_OK)
        fr_sys.free(h);
    *out = rc == FR_OK ? h : NULL;
    return rc;
}

void fr_hash_close(struct fr_hash *h)
{
    if (h == NULL)
        return;
    fr_sys.close(h->fd);
    fr_sys.free(h);
}

enum fr_rc fr_hash_slice(struct fr_hash **now, const char *path, size_t *left, bool *done,
                         char out[FR_SHA256_TEXT], struct fr_err *err)
{
    enum fr_rc rc = *now == NULL ? fr_hash_open(path, now, err) : FR_OK;
    uint64_t cost;

    *done = false;
    if (rc != FR_OK)
        return rc;
    cost = (*now)->n;
    rc = fr_hash_step(*now, *left, done, out, err);
    cost = (*now)->n - cost + (*done ? OPEN_COSTS : 0);
    *left -= cost < *left ? (size_t)cost : *left;
    if (rc != FR_OK || *done) {
        fr_hash_close(*now);
        *now = NULL;
    }
    return rc;
}

enum fr_rc fr_sha256_file(const char *path, char out[FR_SHA256_TEXT], struct fr_err *err)
{
    struct fr_hash h;
    bool done;
    enum fr_rc rc = hash_begin(&h, path, err);

    if (rc != FR_OK)
        return rc;
    rc = fr_hash_step(&h, SIZE_MAX, &done, out, err);
    fr_sys.close(h.fd);
    return rc;
}
