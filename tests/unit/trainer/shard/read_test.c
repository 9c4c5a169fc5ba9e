/*
 * Weights from files in many groups: every value arrives, whatever the type on disk and wherever
 * it goes; the first bad value on disk is the one that is named; what the page cache lacked it
 * lacks afterwards, what it had it keeps; what several ranks read comes from the disk once.
 */
#include "tests/unit/trainer/shard/read_bed.h"

#include "engine/base/sys.h"

#include <pthread.h>

static int64_t disk_bytes(int i)
{
    return tensors[i].rows * tensors[i].cols * (int64_t)tr_st_type_bits(tensors[i].disk) / 8;
}

static void check_values(const char *row, int W, bool partition, bool apart)
{
    static struct seen v[RANKS_MAX];
    void *args[RANKS_MAX];
    int64_t all = 0, each = 0, sum = 0;

    check_row(row);
    for (int k = 0; k < W; k++) {
        v[k] = (struct seen){.partition = partition, .apart = apart};
        args[k] = &v[k];
    }
    ranks_run(W, body, args);
    for (int i = 0; i < TENSORS; i++) {
        all += disk_bytes(i);
        each += tensors[i].kind != TR_UNIT_SHARDED ? disk_bytes(i) : 0;
    }
    for (int k = 0; k < W; k++) {
        CHECK_INT(v[k].bad, 0);
        CHECK_INT(v[k].told.backward, 0);
        CHECK_INT(v[k].told.last, v[k].told.of);
        sum += v[k].told.of;
    }
    CHECK_INT(sum, partition ? all + (W - 1) * each : W * all);
}

/* ---- bad values, files that change ---- */

/* The same bytes, written again. */
static void touch(void)
{
    char path[64], last;
    struct stat st;
    int fd;

    file_path(1, path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && pread(fd, &last, 1, st.st_size - 1) == 1);
    CHECK(pwrite(fd, &last, 1, st.st_size - 1) == 1);
    CHECK(futimens(fd, (struct timespec[2]){{0, UTIME_NOW}, {st.st_mtim.tv_sec + 1, 0}}) == 0);
    close(fd);
}

static const struct tr_backend_ops *ops; /* NULL: the backend's own */
static const struct tr_shard_tell *tell; /* NULL: none; else it ends the reading */

/* touched: the second file is written to once it is open. */
static void check_load(const char *row, bool apart, bool touched, const char *want)
{
    struct tr_shard_opts o = {.tokens_max = 1};
    struct tr_comm *comm = NULL;
    struct fr_err err = {0};
    struct tr_shard *s = NULL;
    struct tr_st *st = NULL;

    check_row(row);
    CHECK_INT(tr_ref_create(&o.be, &err), FR_OK);
    if (apart)
        o.be->memory = &apart_memory;
    if (ops != NULL)
        o.be->ops = ops;
    CHECK_INT(tr_comm_single(o.be, &comm, &err), FR_OK);
    o.comm = comm;
    CHECK_INT(tr_shard_create(&o, &s, &err), FR_OK);
    CHECK_INT(add_units(s, false), 0);
    CHECK_INT(tr_st_open_folder(dir, false, NULL, &st, &err), FR_OK);
    if (touched)
        touch();
    CHECK_INT(tr_shard_load(s, st, tell, &err), tell != NULL ? FR_STOPPED : FR_CORRUPT);
    CHECK_TEXT(err.msg, want);
    tr_shard_destroy(s);
    tr_st_close(st);
    tr_comm_destroy(comm);
    tr_backend_destroy(o.be);
}

static void check_bad(const char *row, int from, bool apart, const char *want)
{
    broken = from;
    write_model();
    broken = -1;
    check_load(row, apart, false, want);
}

static void check_touched(void)
{
    char path[64], want[256];

    file_path(1, path);
    (void)snprintf(want, sizeof(want),
                   "%s was written to while it was read: what was read is of no use; start again "
                   "once the file is whole",
                   path);
    write_model();
    check_load("a file is written to", false, true, want);
}

static bool no_more(void *arg, int64_t bytes, int64_t of)
{
    (void)arg;
    (void)bytes;
    (void)of;
    return false;
}

/* Each call comes two seconds after the one before. */
static int64_t leaping_ms(void)
{
    static _Atomic int64_t now;

    return now += 2000;
}

static void check_stopped(void)
{
    int64_t (*mono_ms)(void) = fr_sys.mono_ms;

    write_model();
    fr_sys.mono_ms = leaping_ms;
    tell = &(struct tr_shard_tell){no_more, NULL};
    check_load("asked to stop", true, false, "stopped as asked, while the weights were read");
    tell = NULL;
    fr_sys.mono_ms = mono_ms;
}

/* The first bad value is read last: when one behind it was found. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static int seen, held;
static const struct tr_backend_ops *real_ops;

static enum fr_rc watch_nonfinite(void *self, struct tr_queue *q, const struct tr_nonfinite *a,
                                  struct fr_err *err)
{
    enum fr_rc rc = real_ops->nonfinite(self, q, a, err);

    pthread_mutex_lock(&gate);
    seen += tr_get(a->found, 0) > 0;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&gate);
    return rc;
}

static ssize_t hold_pread(int fd, void *p, size_t n, off_t at)
{
    char path[64];
    struct stat of, first;

    file_path(0, path);
    if (n >= LARGE && at < LARGE && fstat(fd, &of) == 0 && stat(path, &first) == 0 &&
        of.st_ino == first.st_ino) {
        pthread_mutex_lock(&gate);
        held++;
        while (seen == 0)
            pthread_cond_wait(&opened, &gate);
        pthread_mutex_unlock(&gate);
    }
    return model_pread(fd, p, n, at);
}

static void check_read_last(void)
{
    struct tr_backend *be = NULL;
    struct tr_backend_ops watched;

    CHECK_INT(tr_ref_create(&be, &(struct fr_err){0}), FR_OK);
    real_ops = be->ops;
    tr_backend_destroy(be);
    watched = *real_ops;
    watched.nonfinite = watch_nonfinite;
    broken = 2;
    write_model();
    broken = -1;
    empty_cache();
    ops = &watched;
    fr_sys.pread = hold_pread;
    check_load("the first of two is read last", true, false, "c: holds a value that is not finite");
    fr_sys.pread = model_pread;
    ops = NULL;
    CHECK(held > 0);
}

/* ---- the page cache ---- */

/* Reads n pages from the first on, and no others. */
static void keep_pages(const char *path, int64_t first, int64_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char page[PAGE];

    for (int64_t i = first; i < first + n; i++)
        CHECK_INT(model_pread(fd, page, PAGE, i * PAGE), PAGE);
    close(fd);
}

/* FEW pages are not worth a read of their own. */
enum { KEPT = 1500, ALONE = 5000, FEW = 3 };

static void check_cache(void)
{
    char path[64];

    check_row("page cache");
    file_path(0, path);
    empty_cache();
    keep_pages(path, 0, KEPT);
    keep_pages(path, ALONE, FEW);
    load_alone();
    CHECK_INT(model_count(0, 0, KEPT), KEPT);
    CHECK_INT(model_count(0, ALONE, FEW), FEW);
    CHECK(model_count(0, KEPT, -1) < SMALL + FEW);
    CHECK(model_count(1, 0, -1) < SMALL);
}

/* Bytes from the disk while W ranks read all of the checkpoint. */
static int64_t cold_bytes(int W)
{
    static struct seen v[RANKS_MAX];
    void *args[RANKS_MAX];

    empty_cache();
    for (int k = 0; k < W; k++) {
        v[k] = (struct seen){.twice = true};
        args[k] = &v[k];
    }
    model.disk = 0;
    ranks_run(W, body, args);
    for (int k = 0; k < W; k++)
        CHECK_INT(v[k].bad, 0);
    CHECK(cached_of_all() < SMALL);
    return model.disk;
}

/* What three ranks of a machine read is read from the disk once, and leaves the page cache. */
static void check_shared(void)
{
    int64_t all = 0;

    check_row("several ranks read the same");
    for (int i = 0; i < TENSORS; i++)
        all += disk_bytes(i);
    CHECK(cold_bytes(1) >= all);
    CHECK(cold_bytes(3) <= all + (1 << 20));
}

int main(void)
{
    read_bed_begin();
    check_values("one rank", 1, true, false);
    check_values("one rank, a device", 1, true, true);
    check_values("three ranks", 3, true, false);
    check_values("three ranks, devices", 3, true, true);
    check_values("two ranks, each all of it", 2, false, false);
    check_cache();
    check_shared();
    check_bad("the first of two", 2, false, "c: holds a value that is not finite");
    check_bad("the first of two, a device", 2, true, "c: holds a value that is not finite");
    check_bad("in the last file", 5, true, "f: holds a value that is not finite");
    check_read_last();
    check_touched();
    check_stopped();
    return read_bed_done();
}
