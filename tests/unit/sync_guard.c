#include "tests/unit/sync_guard.h"

#include "engine/base/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FDS = 1024, UNSAFE = 256, PATH_BYTES = 512 };

struct unsafe { /* "" free */
    char path[PATH_BYTES];
    bool names; /* a folder whose names changed; else a file whose bytes did */
    bool renamed;
};

static struct {
    struct fr_sys real;
    char paths[FDS][PATH_BYTES];
    struct unsafe unsafe[UNSAFE];
    size_t broken, renames;
} guard;

static void copy(char out[PATH_BYTES], const char *path, size_t n)
{
    if (n >= PATH_BYTES)
        abort();
    memcpy(out, path, n);
    out[n] = '\0';
}

static void set_unsafe(const char *path, size_t n, bool names, bool renamed)
{
    struct unsafe *free_one = NULL;

    for (int i = 0; i < UNSAFE; i++) {
        struct unsafe *u = &guard.unsafe[i];

        if (u->path[0] == '\0')
            free_one = u;
        else if (u->names == names && strlen(u->path) == n && memcmp(u->path, path, n) == 0) {
            u->renamed = u->renamed || renamed;
            return;
        }
    }
    if (free_one == NULL)
        abort();
    copy(free_one->path, path, n);
    free_one->names = names;
    free_one->renamed = renamed;
}

static void set_safe(const char *path)
{
    for (int i = 0; i < UNSAFE; i++)
        if (strcmp(guard.unsafe[i].path, path) == 0)
            guard.unsafe[i].path[0] = '\0';
}

/* The name of path is new in its folder. */
static void name_changed(const char *path, bool renamed)
{
    const char *slash = strrchr(path, '/');

    if (slash != NULL)
        set_unsafe(path, (size_t)(slash - path), true, renamed);
}

static int on_open(const char *path, int flags, mode_t mode)
{
    struct stat st;
    bool made = (flags & O_CREAT) != 0 && guard.real.lstat(path, &st) != 0;
    int fd = guard.real.open(path, flags, mode);

    if (fd >= 0 && fd < FDS)
        copy(guard.paths[fd], path, strlen(path));
    if (fd >= 0 && made)
        name_changed(path, false);
    return fd;
}

static int on_close(int fd)
{
    if (fd >= 0 && fd < FDS)
        guard.paths[fd][0] = '\0';
    return guard.real.close(fd);
}

static void written(int fd)
{
    if (fd >= 0 && fd < FDS && guard.paths[fd][0] == '/')
        set_unsafe(guard.paths[fd], strlen(guard.paths[fd]), false, false);
}

static ssize_t on_write(int fd, const void *p, size_t n)
{
    written(fd);
    return guard.real.write(fd, p, n);
}

static ssize_t on_pwrite(int fd, const void *p, size_t n, off_t at)
{
    written(fd);
    return guard.real.pwrite(fd, p, n, at);
}

static int on_fdatasync(int fd)
{
    if (fd >= 0 && fd < FDS && guard.paths[fd][0] != '\0')
        set_safe(guard.paths[fd]);
    return guard.real.fdatasync(fd);
}

static int on_mkdir(const char *path, mode_t mode)
{
    int rc = guard.real.mkdir(path, mode);

    if (rc == 0)
        name_changed(path, false);
    return rc;
}

static int on_unlink(const char *path)
{
    set_safe(path);
    return guard.real.unlink(path);
}

static int on_rename(const char *from, const char *to)
{
    size_t n = strlen(from);
    const char *slash = strrchr(to, '/');

    guard.renames++;
    for (int i = 0; slash != NULL && i < UNSAFE; i++) {
        const struct unsafe *u = &guard.unsafe[i];

        if (!u->renamed || strlen(u->path) != (size_t)(slash - to) ||
            strncmp(u->path, to, strlen(u->path)) != 0)
            continue;
        guard.broken++;
        printf("%s is renamed, and an earlier name in %s is not synced\n", from, u->path);
    }
    for (int i = 0; i < UNSAFE; i++) {
        const struct unsafe *u = &guard.unsafe[i];

        if (strncmp(u->path, from, n) != 0 || (u->path[n] != '\0' && u->path[n] != '/'))
            continue;
        guard.broken++;
        printf("%s is renamed, and %s of %s are not synced\n", from,
               u->names ? "the names" : "the bytes", u->path);
    }
    name_changed(to, true);
    return guard.real.rename(from, to);
}

void sync_guard_begin(void)
{
    memset(&guard, 0, sizeof(guard));
    guard.real = fr_sys;
    fr_sys.open = on_open;
    fr_sys.close = on_close;
    fr_sys.write = on_write;
    fr_sys.pwrite = on_pwrite;
    fr_sys.fdatasync = on_fdatasync;
    fr_sys.mkdir = on_mkdir;
    fr_sys.unlink = on_unlink;
    fr_sys.rename = on_rename;
}

size_t sync_guard_end(bool names, size_t *renames)
{
    fr_sys = guard.real;
    for (int i = 0; names && i < UNSAFE; i++)
        if (guard.unsafe[i].path[0] != '\0' && guard.unsafe[i].renamed) {
            guard.broken++;
            printf("%s got a new name, and was not synced\n", guard.unsafe[i].path);
        }
    *renames = guard.renames;
    return guard.broken;
}
