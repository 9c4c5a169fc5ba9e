#include "tests/sim/sim_db.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGES = 8 };

struct image { /* what is safe of the file at path */
    char path[256];
    char *data;
    size_t n, cap;
    sqlite3_int64 from, to; /* written since, and not yet synced */
};

struct file {
    sqlite3_file base;
    struct image *image;  /* NULL: none is kept */
    sqlite3_file real[1]; /* the real one, behind this */
};

static struct image images[IMAGES];
static sqlite3_vfs *below;

static sqlite3_file *real(sqlite3_file *f)
{
    return ((struct file *)f)->real;
}

static void set_size(struct image *i, size_t n)
{
    if (n > i->cap) {
        i->cap = 2 * n;
        i->data = realloc(i->data, i->cap);
    }
    if (n > i->n)
        memset(i->data + i->n, 0, n - i->n);
    i->n = n;
}

/* All that was written is safe now. */
static int take(struct image *i, sqlite3_file *f)
{
    sqlite3_int64 size = 0;
    int rc = f->pMethods->xFileSize(f, &size);

    if (rc != SQLITE_OK)
        return rc;
    set_size(i, (size_t)size);
    if (i->to > size)
        i->to = size;
    if (i->from < i->to)
        rc = f->pMethods->xRead(f, i->data + i->from, (int)(i->to - i->from), i->from);
    i->from = INT64_MAX;
    i->to = 0;
    return rc;
}

static struct image *image_of(const char *path)
{
    for (int i = 0; i < IMAGES; i++)
        if (strcmp(images[i].path, path) == 0)
            return &images[i];
    return NULL;
}

static struct image *image_new(const char *path, sqlite3_file *f)
{
    struct image *i = image_of("");

    if (i == NULL || strlen(path) >= sizeof(i->path))
        abort();
    snprintf(i->path, sizeof(i->path), "%s", path);
    i->n = 0;
    i->from = 0;
    i->to = INT64_MAX;
    if (take(i, f) != SQLITE_OK)
        abort();
    return i;
}

/* ---- the calls of a file ---- */

static int file_close(sqlite3_file *f)
{
    return real(f)->pMethods->xClose(real(f));
}

static int file_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return real(f)->pMethods->xRead(real(f), p, n, at);
}

static int file_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    struct image *i = ((struct file *)f)->image;

    if (i != NULL && at < i->from)
        i->from = at;
    if (i != NULL && at + n > i->to)
        i->to = at + n;
    return real(f)->pMethods->xWrite(real(f), p, n, at);
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return real(f)->pMethods->xTruncate(real(f), size);
}

static int file_sync(sqlite3_file *f, int flags)
{
    struct image *i = ((struct file *)f)->image;
    int rc = real(f)->pMethods->xSync(real(f), flags);

    return rc == SQLITE_OK && i != NULL ? take(i, real(f)) : rc;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return real(f)->pMethods->xFileSize(real(f), size);
}

static int file_lock(sqlite3_file *f, int how)
{
    return real(f)->pMethods->xLock(real(f), how);
}

static int file_unlock(sqlite3_file *f, int how)
{
    return real(f)->pMethods->xUnlock(real(f), how);
}

static int file_reserved(sqlite3_file *f, int *out)
{
    return real(f)->pMethods->xCheckReservedLock(real(f), out);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
    return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int file_sector(sqlite3_file *f)
{
    return real(f)->pMethods->xSectorSize(real(f));
}

static int file_device(sqlite3_file *f)
{
    return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int file_shm_map(sqlite3_file *f, int page, int bytes, int extend, void volatile **out)
{
    return real(f)->pMethods->xShmMap(real(f), page, bytes, extend, out);
}

static int file_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return real(f)->pMethods->xShmLock(real(f), at, n, flags);
}

static void file_shm_barrier(sqlite3_file *f)
{
    real(f)->pMethods->xShmBarrier(real(f));
}

static int file_shm_unmap(sqlite3_file *f, int remove)
{
    return real(f)->pMethods->xShmUnmap(real(f), remove);
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    static const sqlite3_io_methods methods = {
        2,           file_close,   file_read,     file_write,       file_truncate,  file_sync,
        file_size,   file_lock,    file_unlock,   file_reserved,    file_control,   file_sector,
        file_device, file_shm_map, file_shm_lock, file_shm_barrier, file_shm_unmap, NULL,
        NULL};
    struct file *file = (struct file *)f;
    int rc = below->xOpen(below, name, real(f), flags, out);

    (void)vfs;
    file->base.pMethods = real(f)->pMethods != NULL ? &methods : NULL;
    file->image = NULL;
    if (rc != SQLITE_OK || name == NULL || !(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
        return rc;
    file->image = image_of(name);
    if (file->image == NULL)
        file->image = image_new(name, real(f));
    return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    struct image *i = image_of(name);

    (void)vfs;
    if (i != NULL)
        i->n = 0;
    return below->xDelete(below, name, sync);
}

void sim_db_setup(void)
{
    static sqlite3_vfs vfs;

    below = sqlite3_vfs_find(NULL);
    vfs = *below; /* its other calls want the real one's pAppData, which is copied, too */
    vfs.zName = "power";
    vfs.pNext = NULL;
    vfs.szOsFile = (int)sizeof(struct file) + below->szOsFile;
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
        abort();
}

void sim_db_reset(void)
{
    for (int i = 0; i < IMAGES; i++) {
        images[i].path[0] = '\0';
        images[i].n = 0;
    }
}

/* The file gets a new inode: whoever was killed with the old one open shares nothing with it. */
static void put_back(const struct image *i)
{
    char shm[sizeof(i->path) + 8];
    int fd;

    snprintf(shm, sizeof(shm), "%s-shm", i->path);
    unlink(shm);
    unlink(i->path);
    fd = open(i->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, i->data, i->n) != (ssize_t)i->n)
        abort();
    close(fd);
}

void sim_db_cut(void)
{
    for (int i = 0; i < IMAGES; i++)
        if (images[i].path[0] != '\0') {
            put_back(&images[i]);
            images[i].from = INT64_MAX;
            images[i].to = 0;
        }
}
