/*
 * A page cache of which the test decides, in place of the kernel's, which takes pages back when it
 * likes to. What this program reads of a file by model_pread() comes into it, but with O_DIRECT;
 * what is to leave it (POSIX_FADV_DONTNEED) does, whole pages alone; mincore(2) and RWF_NOWAIT tell
 * what it has. It reads nothing ahead. The values come from the files.
 *
 * The functions at the end stand before those of the C library: a program includes this once.
 */
#ifndef TESTS_UNIT_PAGE_MODEL_H
#define TESTS_UNIT_PAGE_MODEL_H

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MODEL_PAGE = 4096, MODEL_FILES = 2, MODEL_PAGES = 1 << 14 };

struct model_file {
    ino_t inode; /* 0: free */
    int64_t bytes;
    bool has[MODEL_PAGES];
};

static struct {
    pthread_mutex_t lock;
    bool stranger; /* the kernel calls all pages of the files cached, as it does for others' */
    int64_t disk;  /* bytes that came from there */
    struct model_file files[MODEL_FILES];
} model = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct model_file *model_find(ino_t inode)
{
    for (int i = 0; i < MODEL_FILES; i++)
        if (inode != 0 && model.files[i].inode == inode)
            return &model.files[i];
    return NULL; /* no file of the test */
}

static struct model_file *model_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? model_find(st.st_ino) : NULL;
}

static bool model_add(const char *path)
{
    struct model_file *f = model.files;
    struct stat st;

    while (f < model.files + MODEL_FILES && f->inode != 0)
        f++;
    if (f == model.files + MODEL_FILES || stat(path, &st) != 0 ||
        st.st_size > (off_t)MODEL_PAGES * MODEL_PAGE)
        return false;
    f->inode = st.st_ino;
    f->bytes = st.st_size;
    return true;
}

/* How many of n pages from the first on it has; n < 0: of all behind that. */
static int64_t model_count(int file, int64_t first, int64_t n)
{
    const struct model_file *f = &model.files[file];
    int64_t end = n < 0 ? (f->bytes + MODEL_PAGE - 1) / MODEL_PAGE : first + n, found = 0;

    for (int64_t i = first; i < end; i++)
        found += f->has[i];
    return found;
}

/* For fr_sys.pread. */
static ssize_t model_pread(int fd, void *p, size_t n, off_t at)
{
    struct model_file *f = model_of(fd);
    ssize_t k = pread(fd, p, n, at);
    bool direct = fcntl(fd, F_GETFL) & O_DIRECT;

    if (f == NULL || k <= 0)
        return k;
    pthread_mutex_lock(&model.lock);
    for (int64_t i = at / MODEL_PAGE; i <= (at + k - 1) / MODEL_PAGE; i++) {
        model.disk += direct || !f->has[i] ? MODEL_PAGE : 0;
        f->has[i] = f->has[i] || !direct;
    }
    pthread_mutex_unlock(&model.lock);
    return k;
}

/* Which file is mapped at p, and from which page on. */
static struct model_file *model_mapped(const void *p, int64_t *first)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    struct model_file *f = NULL;
    unsigned long from, to, at, inode;
    char line[4352];

    while (f == NULL && maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        if (sscanf(line, "%lx-%lx %*s %lx %*s %lu", &from, &to, &at, &inode) == 4 &&
            (uintptr_t)p >= from && (uintptr_t)p < to) {
            f = model_find(inode);
            *first = (int64_t)(at + ((uintptr_t)p - from)) / MODEL_PAGE;
        }
    if (maps != NULL)
        fclose(maps);
    return f;
}

/* ---- in the C library's place ---- */

int mincore(void *p, size_t n, unsigned char *vec)
{
    int64_t first;
    struct model_file *f = model_mapped(p, &first);

    if (f == NULL)
        return (int)syscall(SYS_mincore, p, n, vec);
    pthread_mutex_lock(&model.lock);
    for (size_t i = 0; i < (n + MODEL_PAGE - 1) / MODEL_PAGE; i++)
        vec[i] = model.stranger || (first + (int64_t)i < MODEL_PAGES && f->has[first + (int64_t)i]);
    pthread_mutex_unlock(&model.lock);
    return 0;
}

int posix_fadvise(int fd, off_t at, off_t n, int advice)
{
    struct model_file *f = advice == POSIX_FADV_DONTNEED ? model_of(fd) : NULL;

    if (f == NULL)
        return syscall(SYS_fadvise64, fd, at, n, advice) == 0 ? 0 : -1;
    int64_t end = n == 0 || at + n > f->bytes ? f->bytes : at + n;
    int64_t last = end == f->bytes ? (end + MODEL_PAGE - 1) / MODEL_PAGE : end / MODEL_PAGE;
    pthread_mutex_lock(&model.lock);
    for (int64_t i = (at + MODEL_PAGE - 1) / MODEL_PAGE; i < last; i++)
        f->has[i] = false;
    pthread_mutex_unlock(&model.lock);
    return 0;
}

/* Of one piece, as far as it is there. */
ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
    struct model_file *f = model_of(fd);
    int64_t to = at;

    if (f == NULL || n != 1 || !(flags & RWF_NOWAIT))
        return syscall(SYS_preadv2, fd, v, n, at, 0L, flags);
    pthread_mutex_lock(&model.lock);
    while (to < at + (off_t)v->iov_len && to < f->bytes && f->has[to / MODEL_PAGE])
        to = (to / MODEL_PAGE + 1) * MODEL_PAGE;
    pthread_mutex_unlock(&model.lock);
    if (to == at)
        return -1;
    size_t had = (size_t)(to - at);
    return pread(fd, v->iov_base, had < v->iov_len ? had : v->iov_len, at);
}

#endif
