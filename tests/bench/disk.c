/*
 * A step of AdamW over states on a disk (trainer/optim/disk.h), beside threads that only read and
 * write a file of the same bytes past the page cache.
 *
 * usage: disk FOLDER ELEMENTS ROUNDS [THREADS]
 *
 * Prints each round's rates and their medians: bytes that are read and written in a second, by
 * turns. The plain file is read and written a block of 1 MiB at a time, by as many threads (4),
 * each its own block after the other. Disk: 24 bytes an element; memory: 4 and the buffers.
 */
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "tests/bench/meter.h"
#include "trainer/backend/device.h"
#include "trainer/optim/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 100, BLOCK = 1 << 20, ALIGNED = 4096, SEED = 1, STATE_BYTES = 12 };

struct bench {
    struct tr_backend *be;
    struct tr_queue *q;
    struct tr_disk *disk;
    struct tr_view g;
    int64_t n, rounds, threads;
    char plain[256]; /* the file's path */
    int fd;
    atomic_int_fast64_t next; /* block of the plain file */
    atomic_int error;         /* errno of a thread */
};

/* ---- ours ---- */

static enum fr_rc update(struct bench *b, const struct tr_disk_tile *t, struct fr_err *err)
{
    struct tr_view g =
        tr_view1((float *)b->g.p + t->at, TR_F32, t->n); /* tiles lie in the flat order */
    struct tr_adamw a = {.p = tr_view1(t->state[0], TR_F32, t->n),
                         .m = tr_view1(t->state[1], TR_F32, t->n),
                         .v = tr_view1(t->state[2], TR_F32, t->n),
                         .g = g,
                         .lr = 1e-3F,
                         .scale = 1,
                         .b1 = 0.9,
                         .b2 = 0.999,
                         .eps = 1e-8,
                         .step = 1};
    enum fr_rc rc = tr_adamw(b->be, b->q, &a, err);

    return rc == FR_OK ? tr_sync(b->be, b->q, err) : rc;
}

static enum fr_rc step(struct bench *b, struct fr_err *err)
{
    struct tr_disk_tile t;
    enum fr_rc rc = FR_OK;

    for (int64_t k = 0; k < tr_disk_tiles(b->disk) && rc == FR_OK; k++) {
        rc = tr_disk_take(b->disk, k, &t, err);
        if (rc == FR_OK)
            rc = update(b, &t, err);
        if (rc == FR_OK)
            tr_disk_give(b->disk, k);
    }
    return rc == FR_OK ? tr_disk_settle(b->disk, err) : rc;
}

static enum fr_rc open_states(struct bench *b, const char *folder, struct fr_err *err)
{
    struct tr_disk_opts o = {.path = folder, .threads = (int)b->threads};
    struct tr_disk_file f = {.job = "0123456789abcdef", .shape = {.n = b->n}};
    enum fr_rc rc = tr_disk_create(&o, &b->disk, err);

    if (rc == FR_OK)
        rc = tr_disk_clear(folder, err);
    if (rc == FR_OK)
        rc = tr_disk_open(b->disk, &f, err);
    return rc == FR_OK ? tr_disk_start(b->disk, b->be, err) : rc;
}

/* ---- the plain file ---- */

static void *move(void *arg)
{
    struct bench *b = arg;
    int64_t blocks = (b->n * STATE_BYTES + BLOCK - 1) / BLOCK, k;
    void *p = NULL;

    if (posix_memalign(&p, ALIGNED, BLOCK) != 0) {
        atomic_store(&b->error, ENOMEM);
        return NULL;
    }
    while ((k = atomic_fetch_add(&b->next, 1)) < blocks)
        if (pread(b->fd, p, BLOCK, (off_t)(k * BLOCK)) != BLOCK ||
            pwrite(b->fd, p, BLOCK, (off_t)(k * BLOCK)) != BLOCK)
            atomic_store(&b->error, errno != 0 ? errno : EIO);
    free(p);
    return NULL;
}

static enum fr_rc plain(struct bench *b, struct fr_err *err)
{
    pthread_t threads[TR_DISK_THREADS_MAX];
    int64_t n = 0;

    atomic_store(&b->next, 0);
    while (n < b->threads && pthread_create(&threads[n], NULL, move, b) == 0)
        n++;
    for (int64_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (n < b->threads)
        return fr_fail(err, FR_NOMEM, "no thread");
    return atomic_load(&b->error) == 0 ? FR_OK
                                       : fr_fail_errno(err, atomic_load(&b->error), "%s", b->plain);
}

/* Writes the file whole, so that none of it is a hole. */
static enum fr_rc open_plain(struct bench *b, const char *folder, struct fr_err *err)
{
    int64_t bytes = (b->n * STATE_BYTES + BLOCK - 1) / BLOCK * BLOCK;
    char *p = calloc(1, BLOCK);
    int fd;

    snprintf(b->plain, sizeof(b->plain), "%s/plain", folder);
    fd = open(b->plain, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (p != NULL)
        memset(p, SEED, BLOCK);
    for (int64_t at = 0; at < bytes && fd >= 0 && p != NULL; at += BLOCK)
        if (write(fd, p, BLOCK) != BLOCK)
            bytes = -1;
    free(p);
    if (fd >= 0 && (fsync(fd) != 0 || close(fd) != 0))
        bytes = -1;
    b->fd = bytes > 0 ? open(b->plain, O_RDWR | O_DIRECT | O_CLOEXEC) : -1;
    return b->fd >= 0 ? FR_OK : fr_fail_errno(err, errno, "%s", b->plain);
}

/* ---- by turns ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static enum fr_rc timed(struct bench *b, enum fr_rc (*part)(struct bench *, struct fr_err *),
                        double *rate, struct fr_err *err)
{
    double t = meter_now();
    enum fr_rc rc = part(b, err);

    *rate = 2e-6 * STATE_BYTES * (double)b->n / (meter_now() - t);
    return rc;
}

static enum fr_rc run(struct bench *b, struct fr_err *err)
{
    double ours[ROUNDS_MAX], theirs[ROUNDS_MAX];
    enum fr_rc rc = step(b, err); /* the first pass reads nothing */

    for (int64_t i = 0; i < b->rounds && rc == FR_OK; i++) {
        rc = timed(b, step, &ours[i], err);
        if (rc == FR_OK)
            rc = timed(b, plain, &theirs[i], err);
        if (rc == FR_OK)
            fr_print("a step %.0f MB/s, the plain file %.0f MB/s\n", ours[i], theirs[i]);
    }
    if (rc != FR_OK)
        return rc;
    qsort(ours, (size_t)b->rounds, sizeof(*ours), ascending);
    qsort(theirs, (size_t)b->rounds, sizeof(*theirs), ascending);
    fr_print("medians: a step %.0f MB/s, the plain file %.0f MB/s: %.2f of it\n",
             ours[b->rounds / 2], theirs[b->rounds / 2],
             ours[b->rounds / 2] / theirs[b->rounds / 2]);
    return FR_OK;
}

static enum fr_rc prepare(struct bench *b, const char *folder, struct fr_err *err)
{
    void *p = NULL;
    enum fr_rc rc = tr_device_create(TR_DEVICE_CPU, 0, &b->be, err);

    if (rc == FR_OK)
        rc = tr_queue_create(b->be, 0, &b->q, err);
    if (rc == FR_OK)
        rc = tr_mem_alloc(b->be, TR_MEM_DEVICE, (size_t)b->n * sizeof(float), &p, err);
    b->g = tr_view1(p, TR_F32, b->n);
    if (rc == FR_OK)
        rc = tr_noise(b->be, b->q, &(struct tr_noise){.y = b->g, .key = SEED, .scale = 1e-3F}, err);
    if (rc == FR_OK)
        rc = open_states(b, folder, err);
    return rc == FR_OK ? open_plain(b, folder, err) : rc;
}

static bool number(const char *text, int64_t most, int64_t *out)
{
    struct fr_err err;

    return fr_parse_i64(fr_str_of(text), out, &err) == FR_OK && *out >= 1 && *out <= most;
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = TR_DISK_THREADS_MIN, .fd = -1};
    struct fr_err err;
    enum fr_rc rc;

    if (argc < 4 || argc > 5 || !number(argv[2], INT64_MAX / 1024, &b.n) ||
        !number(argv[3], ROUNDS_MAX, &b.rounds) ||
        (argc == 5 && !number(argv[4], TR_DISK_THREADS_MAX, &b.threads))) {
        fprintf(stderr,
                "usage: disk FOLDER ELEMENTS ROUNDS [THREADS] (rounds at most %d, threads %d)\n",
                ROUNDS_MAX, TR_DISK_THREADS_MAX);
        return 2;
    }
    rc = prepare(&b, argv[1], &err);
    if (rc == FR_OK)
        rc = run(&b, &err);
    if (rc != FR_OK)
        fprintf(stderr, "disk: %s\n", err.msg);
    tr_disk_destroy(b.disk);
    if (b.fd >= 0) {
        close(b.fd);
        unlink(b.plain);
    }
    return rc == FR_OK ? 0 : 1;
}
