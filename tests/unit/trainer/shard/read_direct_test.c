/*
 * Weights are read past the page cache where the file system can, and through it where not: every
 * value arrives, and the page cache has afterwards what it had before.
 */
#include "tests/unit/trainer/shard/read_bed.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum direct {
    WORKS,
    NOT_OPENED, /* the file system has no such reads, and says so at once */
    REFUSED,    /* or when it reads */
    SHORT,
    AHEAD_TOO, /* not opened so, and the kernel reads all of a file ahead of the first reader */
    IGNORED    /* the file system reads through the page cache, whatever it is asked for */
};

static enum direct direct;
static atomic_int direct_reads;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static bool read_ahead; /* guarded by the gate */

static int some_open(const char *path, int flags, mode_t mode)
{
    int fd;

    if ((direct == NOT_OPENED || direct == AHEAD_TOO) && (flags & O_DIRECT)) {
        errno = EINVAL;
        return -1;
    }
    fd = fr_sys_real.open(path, flags, mode);
    if (direct == IGNORED) /* what one thread reads ahead another would find */
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    return fd;
}

static ssize_t through_cache(int fd, void *p, size_t n, off_t at)
{
    char path[64];
    int again;
    ssize_t k;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDONLY | O_CLOEXEC);
    (void)posix_fadvise(again, 0, 0, POSIX_FADV_RANDOM);
    k = model_pread(again, p, n, at);
    close(again);
    return k;
}

/* All of both files, once. */
static void read_both_ahead(void)
{
    static char block[LARGE];
    char path[64];

    pthread_mutex_lock(&gate);
    for (int i = 0; i < 2 && !read_ahead; i++) {
        file_path(i, path);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        for (off_t at = 0; model_pread(fd, block, LARGE, at) > 0;)
            at += LARGE;
        close(fd);
    }
    read_ahead = true;
    pthread_mutex_unlock(&gate);
}

static ssize_t some_pread(int fd, void *p, size_t n, off_t at)
{
    if (direct == AHEAD_TOO && n >= LARGE)
        read_both_ahead();
    if (!(fcntl(fd, F_GETFL) & O_DIRECT))
        return model_pread(fd, p, n, at);
    direct_reads++;
    if (direct == REFUSED) {
        errno = EINVAL;
        return -1;
    }
    if (direct == SHORT)
        n = n / PAGE / 2 * PAGE;
    return direct == IGNORED ? through_cache(fd, p, n, at) : model_pread(fd, p, n, at);
}

/* How often one rank read past the page cache, which lacks all of it. */
static int count_direct(const char *row, enum direct way)
{
    check_row(row);
    empty_cache();
    direct = way;
    direct_reads = 0;
    read_ahead = false;
    fr_sys.open = some_open;
    fr_sys.pread = some_pread;
    load_alone();
    fr_sys.open = fr_sys_real.open;
    fr_sys.pread = model_pread;
    return direct_reads;
}

/* Pages of somebody else's file all look cached. */
static void check_stranger(void)
{
    model.stranger = true;
    CHECK_INT(count_direct("files of another user", WORKS), 0);
    model.stranger = false;
    CHECK(cached_of_all() < SMALL);
}

/* What the page cache has is not read from the disk. */
static void check_warm(void)
{
    int64_t all;

    check_row("all of it is cached");
    direct = WORKS;
    direct_reads = 0;
    read_ahead = false;
    read_both_ahead();
    all = cached_of_all();
    fr_sys.pread = some_pread;
    load_alone();
    fr_sys.pread = model_pread;
    CHECK_INT(direct_reads, 0);
    CHECK_INT(cached_of_all(), all);
}

/* Where the disk is read through the page cache: what that had before it has afterwards. */
static void check_kept(void)
{
    enum { KEPT = 1500 };
    static char kept[KEPT * PAGE];
    char path[64];
    int fd;

    check_row("through the page cache, which had some of it");
    file_path(0, path);
    empty_cache();
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_INT(model_pread(fd, kept, sizeof kept, 0), sizeof kept);
    close(fd);
    direct = NOT_OPENED;
    fr_sys.open = some_open;
    load_alone();
    fr_sys.open = fr_sys_real.open;
    CHECK_INT(model_count(0, 0, KEPT), KEPT);
    CHECK(cached_of_all() < KEPT + SMALL);
}

static void check_direct(void)
{
    enum { EACH = 2 * 4 /* of two files by each of four threads */ };
    static const struct {
        const char *row;
        enum direct way;
        int least, most;
    } ways[] = {{"past the page cache", WORKS, 12, 20},
                {"not to be opened so", NOT_OPENED, 0, 0},
                {"read ahead of another reader", AHEAD_TOO, 0, 0},
                {"reads are refused", REFUSED, 2, EACH},
                {"reads end early", SHORT, 2, EACH},
                {"read through the page cache", IGNORED, 2, EACH}};
    char path[64];
    int fd;

    file_path(0, path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) {
        printf("skipped: this file system cannot be read past the page cache\n");
        return;
    }
    close(fd);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        int n = count_direct(ways[i].row, ways[i].way);

        if (!CHECK(n >= ways[i].least && n <= ways[i].most) || !CHECK(cached_of_all() < SMALL))
            printf("%d reads, %lld pages\n", n, (long long)cached_of_all());
    }
    check_kept();
    check_stranger();
    check_warm();
}

int main(void)
{
    read_bed_begin();
    check_direct();
    return read_bed_done();
}
