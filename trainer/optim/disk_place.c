/* The folder of a job's files, who holds it, and what dead jobs left. */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/optim/disk_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { TURNS = 10000 };

static const char prefix[] = "flowtrain-", lock_name[] = "lock", hex[] = "0123456789abcdef";

static bool is_job(const char *name)
{
    size_t n = sizeof(prefix) - 1;

    return strncmp(name, prefix, n) == 0 && strlen(name + n) == TR_DISK_JOB - 1 &&
           strspn(name + n, hex) == TR_DISK_JOB - 1;
}

/* A path below a folder; false: it is too long. */
static bool below(char out[PATH_MAX], const char *dir, const char *name)
{
    return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

/* Removes the files of ranks, the lock, which the caller holds, and the folder. */
static void remove_job(const char *dir)
{
    char **names = NULL, path[PATH_MAX];
    size_t n = 0;

    if (fr_sys.list(dir, &names, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], "rank-", 5) == 0 && below(path, dir, names[i]))
            (void)fr_sys.unlink(path);
    fr_sys_names_free(names, n);
    if (below(path, dir, lock_name))
        (void)fr_sys.unlink(path);
    (void)fr_sys.rmdir(dir);
}

/* Removes a job's folder unless one of its ranks lives. true: it is removed. */
static bool remove_dead(const char *dir)
{
    char path[PATH_MAX];
    struct stat st;
    int fd;
    bool dead;

    if (fr_sys.lstat(dir, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != fr_sys.uid() ||
        !below(path, dir, lock_name))
        return false;
    if ((fd = fr_sys.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600)) < 0)
        return false;
    if ((dead = fr_sys.lock(fd) == 0 && fr_file_is_named(fd, path)))
        remove_job(dir);
    (void)fr_sys.close(fd);
    return dead;
}

static enum fr_rc no_direct(const char *path, const char *kind, struct fr_err *err)
{
    return fr_fail(err, FR_UNSUPPORTED,
                   "nvme_path %s is %s: O_DIRECT is not possible; give a folder of a local disk, "
                   "or set offload_optimizer.device to cpu",
                   path, kind);
}

/* A file system in memory may take O_DIRECT, and saves nothing. */
static enum fr_rc check_kind(const char *path, struct fr_err *err)
{
    static const struct {
        int64_t magic;
        const char *name;
    } memory[] = {{0x01021994, "a tmpfs"}, {0x858458f6, "a ramfs"}};
    int64_t kind = fr_sys.fs_type(path);

    if (kind < 0)
        return fr_fail_errno(err, errno, "nvme_path: looking at %s", path);
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (kind == memory[i].magic)
            return no_direct(path, memory[i].name, err);
    return FR_OK;
}

enum fr_rc tr_disk_clear(const char *path, struct fr_err *err)
{
    char **names = NULL, dir[PATH_MAX];
    enum fr_rc rc;
    size_t n = 0;

    if (fr_mkdirs(path, 0700, err) != FR_OK)
        return fr_while(err, "nvme_path");
    if ((rc = check_kind(path, err)) != FR_OK)
        return rc;
    if (fr_sys.list(path, &names, &n) != 0)
        return fr_fail_errno(err, errno, "nvme_path %s: cannot read the folder", path);
    for (size_t i = 0; i < n; i++)
        if (is_job(names[i]) && below(dir, path, names[i]) && remove_dead(dir))
            fr_log(FR_LOG_INFO, "nvme", "removed %s, which a dead job left", dir);
    fr_sys_names_free(names, n);
    return FR_OK;
}

/* Who clears the path may remove the folder before this rank has its lock: it is made again. */
static enum fr_rc hold(struct disk_place *p, struct fr_err *err)
{
    char path[PATH_MAX];
    int why = 0;

    if (!below(path, p->dir, lock_name))
        return fr_fail(err, FR_USAGE, "nvme_path: %s is too long", p->dir);
    for (int turn = 0; turn < TURNS; turn++) {
        if (fr_sys.mkdir(p->dir, 0700) != 0 && (why = errno) != EEXIST)
            return fr_fail_errno(err, why, "cannot make %s", p->dir);
        p->lock = fr_sys.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (p->lock < 0 && (why = errno) != ENOENT)
            return fr_fail_errno(err, why, "cannot make %s", path);
        if (p->lock >= 0 && fr_sys.lock_shared(p->lock) == 0 && fr_file_is_named(p->lock, path))
            return FR_OK;
        why = EAGAIN;
        if (p->lock >= 0)
            (void)fr_sys.close(p->lock);
        p->lock = -1;
    }
    return fr_fail_errno(err, why, "cannot lock %s", path);
}

enum fr_rc disk_place_open(struct disk_place *p, const char *path, const struct tr_disk_file *f,
                           int64_t bytes, struct fr_err *err)
{
    enum fr_rc rc;
    int why;

    if (snprintf(p->dir, PATH_MAX, "%s/%s%s", path, prefix, f->job) >= PATH_MAX ||
        (size_t)snprintf(p->file, PATH_MAX, "%s/%s%s/rank-%d.bin", path, prefix, f->job, f->rank) >=
            PATH_MAX)
        return fr_fail(err, FR_USAGE, "nvme_path: %s is too long", path);
    if ((rc = hold(p, err)) != FR_OK)
        return rc;
    p->fd = fr_sys.open(p->file, O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_NOFOLLOW, 0600);
    if (p->fd < 0 && errno == EINVAL) {
        (void)fr_sys.unlink(p->file);
        return no_direct(path, "on a file system without it", err);
    }
    if (p->fd < 0)
        return fr_fail_errno(err, errno, "cannot make %s", p->file);
    if (bytes == 0 || fr_sys.reserve(p->fd, bytes) == 0)
        return FR_OK;
    why = errno;
    return fr_fail_errno(err, why,
                         "%s: cannot reserve %lld bytes: make room there, or give another "
                         "nvme_path",
                         p->file, (long long)bytes);
}

/* The last rank that lets go of the lock removes the folder: each takes it anew, for itself alone,
 * after it has let go. */
void disk_place_close(struct disk_place *p)
{
    if (p->fd >= 0) {
        (void)fr_sys.unlink(p->file);
        (void)fr_sys.close(p->fd);
    }
    if (p->lock >= 0) {
        (void)fr_sys.close(p->lock);
        (void)remove_dead(p->dir);
    }
    p->fd = p->lock = -1;
}
