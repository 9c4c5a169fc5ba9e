/*
 * Weights from files in many groups: every value arrives, whatever the type on disk and wherever
 * it goes; the first bad value on disk is the one that is named; what the page cache lacked it
 * lacks afterwards, what it had it keeps; what several ranks read comes from the disk once. The
 * disk is read past the page cache where the file system can, and through it where not.
 */
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/ranks.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/shard/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TENSORS = 6, SMALL = 40, PAGE = 4096 };

/* The checkpoint: 50 MB in two files, of other sizes than the 16 MB that are read at once. */
struct tensor {
    const char *name;
    enum tr_st_type disk;
    enum tr_dtype memory;
    int64_t rows, cols;
    enum tr_unit_kind kind;
};

static const struct tensor tensors[TENSORS] = {
    {"a", TR_ST_BF16, TR_BF16, 2900, 3001, TR_UNIT_SHARDED},
    {"b", TR_ST_F8_E4M3, TR_F8_E4M3, 1001, 777, TR_UNIT_SHARDED},
    {"c", TR_ST_F32, TR_BF16, 901, 1203, TR_UNIT_SHARDED},
    {"d", TR_ST_BF16, TR_F32, 1, 4096, TR_UNIT_PERSISTENT},
    {"e", TR_ST_BF16, TR_BF16, 3000, 4001, TR_UNIT_SHARDED},
    {"f", TR_ST_F16, TR_F32, 999, 1001, TR_UNIT_OWNED},
};

static char dir[] = "/tmp/read_test.XXXXXX";
static int broken = -1; /* the tensors from here on end with a value that is no number */

/* Values that every type here has exactly. */
static float value(int tensor, int64_t i)
{
    return (float)(((uint64_t)i * 2654435761U + (uint64_t)tensor) >> 7 & 15) / 8 - 1;
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct tensor *t = arg;
    int k = (int)(t - tensors);
    size_t size = tr_st_type_bits(item->type) / 8;
    enum tr_dtype type;

    if (tr_st_dtype(item->type, &type, err) != FR_OK)
        return FR_DTYPE;
    struct tr_view v = tr_view1(dst, type, (int64_t)(n / size));

    for (int64_t i = 0, first = at / (int64_t)size; i < (int64_t)(n / size); i++)
        tr_set(v, i,
               k >= broken && broken >= 0 && first + i == t->rows * t->cols - 1
                   ? (double)NAN
                   : (double)value(k, first + i));
    return FR_OK;
}

static void write_model(void)
{
    struct tr_st_item items[TENSORS];
    struct fr_err err = {0};

    for (int i = 0; i < TENSORS; i++)
        items[i] = (struct tr_st_item){.name = tensors[i].name,
                                       .type = tensors[i].disk,
                                       .ndim = tensors[i].rows == 1 ? 1 : 2,
                                       .shape = {tensors[i].cols},
                                       .fill = fill,
                                       .arg = (void *)(uintptr_t)&tensors[i]};
    for (int i = 0; i < TENSORS; i++)
        if (items[i].ndim == 2) {
            items[i].shape[0] = tensors[i].rows;
            items[i].shape[1] = tensors[i].cols;
        }
    CHECK_INT(tr_st_write_model(dir, items, TENSORS, 25 << 20, &err), FR_OK);
}

/* ---- a shard of it ---- */

/* owned: each rank owns what is sharded else. */
static int add_units(struct tr_shard *s, bool owned)
{
    struct fr_err err = {0};
    int id = -1, bad = 0;

    for (int i = TENSORS - 1; i >= 0; i--) { /* not in the order on disk */
        const struct tensor *t = &tensors[i];
        bool own = owned && t->kind == TR_UNIT_SHARDED;
        struct tr_unit_spec u = {.what = t->name, .kind = own ? TR_UNIT_OWNED : t->kind, .n = 1};

        u.tensors[0] = (struct tr_unit_tensor){.name = t->name,
                                               .rank = t->rows == 1 ? 1 : 2,
                                               .shape = {t->rows == 1 ? t->cols : t->rows, t->cols},
                                               .dtype = t->memory};
        bad += tr_shard_add(s, &u, &id, &err) != FR_OK || id != TENSORS - 1 - i;
    }
    return bad;
}

static int wrong_values(const struct tr_shard *s, int id)
{
    int k = TENSORS - 1 - id, bad = 0;
    struct tr_view v = tr_shard_view(s, id, 0);

    if (v.p == NULL || tr_view_count(v) != tensors[k].rows * tensors[k].cols)
        return 1;
    for (int64_t i = 0; i < tr_view_count(v); i++)
        bad += tr_get(v, i) != (double)value(k, i);
    return bad;
}

struct told {
    int64_t last, of;
    int calls, backward;
};

static void so_far(void *arg, int64_t bytes, int64_t of)
{
    struct told *t = arg;

    t->calls++;
    t->backward += bytes < t->last || bytes > of;
    t->last = bytes;
    t->of = of;
}

/* What a rank sees. */
struct seen {
    struct told told;
    int bad;
    bool partition, apart; /* apart: the device's memory is not the host's */
    bool twice;            /* a rank owns all units, and others own them, too */
};

/* The reference backend as if the host could not touch its memory. */
static struct tr_backend_ops apart_ops;

static void body(struct rank_self *self, void *arg)
{
    struct seen *v = arg;
    struct tr_shard_opts o = {.partition = v->partition,
                              .owned_twice = v->twice,
                              .limits = {.prefetch_bucket = 0, .max_live = 1 << 30},
                              .tokens_max = 1};
    struct tr_shard_tell tell = {so_far, &v->told};
    struct fr_err err = {0};
    struct tr_shard *s = NULL;
    struct tr_queue *q = NULL;
    struct tr_st *st = NULL;
    struct tr_comm comm;

    v->bad += tr_ref_create(&o.be, &err) != FR_OK;
    if (v->apart)
        o.be->ops = &apart_ops;
    comm = ranks_comm(self, o.be);
    o.comm = &comm;
    v->bad += tr_queue_create(o.be, 0, &q, &err) != FR_OK;
    v->bad += tr_shard_create(&o, &s, &err) != FR_OK;
    v->bad += add_units(s, v->twice);
    v->bad += tr_st_open_model(dir, &st, &err) != FR_OK;
    v->bad += tr_shard_load(s, st, &tell, &err) != FR_OK;
    v->bad += tr_shard_begin(s, 0, &err) != FR_OK;
    for (int id = 0; id < TENSORS; id++) {
        v->bad += tr_shard_gather(s, q, id, 1, &err) != FR_OK;
        v->bad += wrong_values(s, id);
        v->bad += tr_shard_release(s, q, id, 1, &err) != FR_OK;
    }
    v->bad += tr_shard_end(s, false, &err) != FR_OK;
    if (v->bad > 0)
        printf("rank %d: %s\n", self->rank, err.msg);
    tr_shard_destroy(s);
    tr_queue_destroy(o.be, q);
    tr_st_close(st);
    tr_backend_destroy(o.be);
}

static void load_alone(void)
{
    struct seen v = {.partition = true};

    ranks_run(1, body, (void *[]){&v});
    CHECK_INT(v.bad, 0);
}

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

static void file_path(int i, char path[64])
{
    (void)snprintf(path, 64, "%s/model-0000%d-of-00002.safetensors", dir, i + 1);
}

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
        o.be->ops = &apart_ops;
    CHECK_INT(tr_comm_single(o.be, &comm, &err), FR_OK);
    o.comm = comm;
    CHECK_INT(tr_shard_create(&o, &s, &err), FR_OK);
    CHECK_INT(add_units(s, false), 0);
    CHECK_INT(tr_st_open_model(dir, &st, &err), FR_OK);
    if (touched)
        touch();
    CHECK_INT(tr_shard_load(s, st, NULL, &err), FR_CORRUPT);
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

/* ---- the page cache ---- */

/* Pages [first, first+n) of a file that the cache has; n < 0: all from first on. */
static int64_t cached(const char *path, int64_t first, int64_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int64_t pages, found = 0;

    if (fd < 0 || fstat(fd, &st) != 0)
        return -1;
    pages = (st.st_size + PAGE - 1) / PAGE;
    unsigned char *there = malloc((size_t)pages);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED || mincore(p, (size_t)st.st_size, there) != 0)
        found = -1;
    for (int64_t i = first; found >= 0 && i < (n < 0 ? pages : first + n); i++)
        found += there[i] & 1;
    munmap(p, (size_t)st.st_size);
    free(there);
    close(fd);
    return found;
}

static int64_t cached_of_all(void)
{
    char path[64];
    int64_t n = 0;

    for (int i = 0; i < 2; i++) {
        file_path(i, path);
        n += cached(path, 0, -1);
    }
    return n;
}

/* Reads n pages from the first on, and no others. */
static void keep_pages(const char *path, int64_t first, int64_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char page[PAGE];

    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (int64_t i = first; i < first + n; i++)
        (void)!pread(fd, page, PAGE, i * PAGE);
    close(fd);
}

/* Takes all pages out of the cache, but reads the first `keep`. */
static void set_cache(const char *path, int64_t keep)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    (void)fsync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    keep_pages(path, 0, keep);
}

static void empty_cache(void)
{
    char path[64];

    for (int i = 0; i < 2; i++) {
        file_path(i, path);
        set_cache(path, 0);
    }
}

/* The first bad value is read last: when one behind it was found. */
enum { LARGE = 1 << 20 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static int seen, held;
static struct tr_backend_ops real_ops;

static enum fr_rc watch_nonfinite(void *self, struct tr_queue *q, const struct tr_nonfinite *a,
                                  struct fr_err *err)
{
    enum fr_rc rc = real_ops.nonfinite(self, q, a, err);

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
    return fr_sys_real.pread(fd, p, n, at);
}

static void check_read_last(void)
{
    broken = 2;
    write_model();
    broken = -1;
    empty_cache();
    real_ops = apart_ops;
    apart_ops.nonfinite = watch_nonfinite;
    fr_sys.pread = hold_pread;
    check_load("the first of two is read last", true, false, "c: holds a value that is not finite");
    fr_sys.pread = fr_sys_real.pread;
    apart_ops = real_ops;
    if (held == 0)
        printf("skipped: the page cache cannot be emptied on this file system\n");
}

/* FEW pages are not worth a read of their own. */
enum { KEPT = 1500, ALONE = 5000, FEW = 3, TRIES = 8 };

/* The kernel takes pages back when it likes to, and one that it took is dropped with those behind
 * it: so there are some tries. false: its pages are not ours to keep, or went. */
static bool load_beside_cache(char path[2][64])
{
    set_cache(path[0], KEPT);
    set_cache(path[1], 0);
    keep_pages(path[0], ALONE, FEW);
    if (cached(path[0], 0, KEPT) < KEPT || cached(path[0], ALONE, FEW) < FEW)
        return false;
    load_alone();
    return cached(path[0], 0, KEPT) == KEPT && cached(path[0], ALONE, FEW) == FEW;
}

static void check_cache(void)
{
    char path[2][64];
    int tries = 0;

    check_row("page cache");
    for (int i = 0; i < 2; i++)
        file_path(i, path[i]);
    set_cache(path[1], 0);
    if (cached(path[1], 0, -1) != 0) {
        printf("skipped: the page cache cannot be emptied on this file system\n");
        return;
    }
    while (tries < TRIES && !load_beside_cache(path))
        tries++;
    CHECK(tries < TRIES);
    CHECK(cached(path[0], KEPT, -1) < SMALL + FEW);
    if (!CHECK(cached(path[1], 0, -1) < SMALL))
        printf("%lld pages\n", (long long)cached(path[1], 0, -1));
}

/* Bytes that this process has had read from disks; -1: nobody counts them. */
static int64_t read_from_disk(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    long long n = -1;
    char line[64];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        (void)sscanf(line, "read_bytes: %lld", &n);
    if (f != NULL)
        fclose(f);
    return n;
}

/* Bytes from the disk while W ranks read all of the checkpoint, or -1. */
static int64_t cold_bytes(int W)
{
    static struct seen v[RANKS_MAX];
    void *args[RANKS_MAX];
    int64_t before, left;

    empty_cache();
    for (int k = 0; k < W; k++) {
        v[k] = (struct seen){.twice = true};
        args[k] = &v[k];
    }
    before = read_from_disk();
    ranks_run(W, body, args);
    for (int k = 0; k < W; k++)
        CHECK_INT(v[k].bad, 0);
    left = cached_of_all();
    CHECK(left < SMALL);
    return before < 0 ? -1 : read_from_disk() - before;
}

/* What three ranks of a machine read is read from the disk once, and leaves the page cache. */
static void check_shared(void)
{
    int64_t alone, all = 0;
    int tries = 0;

    check_row("several ranks read the same");
    alone = cold_bytes(1);
    for (int i = 0; i < TENSORS; i++)
        all += disk_bytes(i);
    if (alone < all / 2) {
        printf("skipped: reads from this disk are not counted\n");
        return;
    }
    /* the kernel takes pages back when it likes to */
    while (tries < TRIES && cold_bytes(3) > all + (1 << 20))
        tries++;
    CHECK(tries < TRIES);
}

/* ---- past the page cache ---- */

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
static bool read_ahead;

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
    k = pread(again, p, n, at);
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
        for (off_t at = 0; pread(fd, block, LARGE, at) > 0;)
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
        return fr_sys_real.pread(fd, p, n, at);
    direct_reads++;
    if (direct == REFUSED) {
        errno = EINVAL;
        return -1;
    }
    if (direct == SHORT)
        n = n / PAGE / 2 * PAGE;
    return direct == IGNORED ? through_cache(fd, p, n, at) : fr_sys_real.pread(fd, p, n, at);
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
    fr_sys.pread = fr_sys_real.pread;
    return direct_reads;
}

/* Pages of somebody else's file all look cached. */
static void check_stranger(void)
{
    if (geteuid() != 0 || chmod(dir, 0755) != 0 || seteuid(65534) != 0) {
        printf("skipped: files of another user\n");
        return;
    }
    CHECK_INT(count_direct("files of another user", WORKS), 0);
    CHECK_INT(seteuid(0), 0);
    CHECK(cached_of_all() < SMALL);
}

/* What the page cache has is not read from the disk. */
static void check_warm(void)
{
    int tries = 0;

    check_row("all of it is cached");
    direct = WORKS;
    do {
        direct_reads = 0;
        read_ahead = false;
        read_both_ahead();
        fr_sys.pread = some_pread;
        load_alone();
        fr_sys.pread = fr_sys_real.pread;
    } while (direct_reads > 0 && ++tries < TRIES);
    CHECK_INT(direct_reads, 0);
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
    empty_cache();
    if (fd < 0 || cached_of_all() > 0) {
        printf("skipped: this file system cannot be read past the page cache\n");
        close(fd);
        return;
    }
    close(fd);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        int n = count_direct(ways[i].row, ways[i].way);

        if (!CHECK(n >= ways[i].least && n <= ways[i].most) || !CHECK(cached_of_all() < SMALL))
            printf("%d reads, %lld pages\n", n, (long long)cached_of_all());
    }
    check_stranger();
    check_warm();
}

int main(void)
{
    struct tr_backend *be = NULL;

    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(tr_ref_create(&be, &(struct fr_err){0}), FR_OK);
    apart_ops = *be->ops;
    apart_ops.host_memory = false;
    tr_backend_destroy(be);
    write_model();
    check_values("one rank", 1, true, false);
    check_values("one rank, a device", 1, true, true);
    check_values("three ranks", 3, true, false);
    check_values("three ranks, devices", 3, true, true);
    check_values("two ranks, each all of it", 2, false, false);
    check_cache();
    check_shared();
    check_direct();
    check_bad("the first of two", 2, false, "c: holds a value that is not finite");
    check_bad("the first of two, a device", 2, true, "c: holds a value that is not finite");
    check_bad("in the last file", 5, true, "f: holds a value that is not finite");
    check_read_last();
    check_touched();
    CHECK_INT(fr_remove_tree(dir, &(struct fr_err){0}), FR_OK);
    return check_done();
}
