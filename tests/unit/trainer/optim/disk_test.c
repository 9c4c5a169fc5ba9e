/*
 * The file of the optimizer's states: what is where, passes and spans of any sizes, reads and
 * writes that fail, are short or give other bytes; folders of jobs that live or are dead.
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "trainer/optim/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATES = TR_DISK_STATES, PATH = 400, EXT4 = 0xef53, TMPFS = 0x01021994 };
#define JOB "0123456789abcdef"

static char root[] = "/tmp/flowtrain-disk-XXXXXX";
static struct tr_backend *be;

/* ---- the machine's calls ---- */

enum fault { NO_FAULT, FAILS, SHORT, FLIPS };

/* Of threads, hence the lock. */
static struct {
    pthread_mutex_t lock;
    bool write;
    enum fault fault; /* of the call after `left` others */
    int number, left; /* errno */
    int reads, writes;
    off_t at; /* of the call that failed */
    int64_t kind;
    int open_fails, reserve_fails; /* errno */
    bool removed;                  /* a new folder is removed at once, the first time */
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER, .kind = EXT4};

static enum fault next_call(bool write, off_t at)
{
    enum fault f = NO_FAULT;

    pthread_mutex_lock(&calls.lock);
    *(write ? &calls.writes : &calls.reads) += 1;
    if (calls.fault != NO_FAULT && calls.write == write && calls.left-- == 0) {
        f = calls.fault;
        calls.fault = NO_FAULT;
        calls.at = at;
    }
    pthread_mutex_unlock(&calls.lock);
    return f;
}

static ssize_t test_pwrite(int fd, const void *p, size_t n, off_t at)
{
    enum fault f = next_call(true, at);

    if (f == FAILS) {
        errno = calls.number;
        return -1;
    }
    return fr_sys_real.pwrite(fd, p, f == SHORT ? n - 512 : n, at);
}

static ssize_t test_pread(int fd, void *p, size_t n, off_t at)
{
    enum fault f = next_call(false, at);
    ssize_t done;

    if (f == FAILS) {
        errno = calls.number;
        return -1;
    }
    done = fr_sys_real.pread(fd, p, f == SHORT ? n - 512 : n, at);
    if (f == FLIPS)
        ((char *)p)[n - 7] ^= 4;
    return done;
}

/* Any file system will do. */
static int test_open(const char *path, int flags, mode_t mode)
{
    if ((flags & O_DIRECT) != 0 && calls.open_fails != 0) {
        errno = calls.open_fails;
        return -1;
    }
    return fr_sys_real.open(path, flags & ~O_DIRECT, mode);
}

static int64_t test_kind(const char *path)
{
    (void)path;
    return calls.kind;
}

static int test_reserve(int fd, off_t size)
{
    errno = calls.reserve_fails;
    return calls.reserve_fails != 0 ? -1 : fr_sys_real.ftruncate(fd, size);
}

static int test_mkdir(const char *path, mode_t mode)
{
    int rc = fr_sys_real.mkdir(path, mode);

    if (rc == 0 && calls.removed) {
        calls.removed = false;
        (void)rmdir(path);
    }
    return rc;
}

static void take_calls(void)
{
    fr_sys.pread = test_pread;
    fr_sys.pwrite = test_pwrite;
    fr_sys.open = test_open;
    fr_sys.fs_type = test_kind;
    fr_sys.reserve = test_reserve;
    fr_sys.mkdir = test_mkdir;
}

static bool there(const char *name)
{
    char path[PATH];

    (void)snprintf(path, PATH, "%s/%s", root, name);
    return access(path, F_OK) == 0;
}

/* ---- passes ---- */

static float value(int state, int64_t i, int turn)
{
    return (float)((i * 7 + state * 3 + turn * 1000003) % 8388593) + (float)state / 4;
}

static struct tr_disk *open_disk(const struct tr_disk_opts *o, int64_t n, struct fr_err *err)
{
    struct tr_disk_file f = {.job = JOB, .rank = 3, .shape = {.n = n}};
    struct tr_disk *d = NULL;

    if (tr_disk_create(o, &d, err) == FR_OK && tr_disk_clear(o->path, err) == FR_OK &&
        tr_disk_open(d, &f, err) == FR_OK && tr_disk_start(d, be, err) == FR_OK)
        return d;
    tr_disk_destroy(d);
    return NULL;
}

/* Elements that are not those of the turn before; they get those of this turn. */
static int64_t turn_tile(const struct tr_disk_tile *t, int turn)
{
    int64_t wrong = 0;

    for (int s = 0; s < STATES; s++)
        for (int64_t i = 0; i < t->n; i++) {
            wrong += t->state[s][i] != (turn == 1 ? 0 : value(s, t->at + i, turn - 1));
            t->state[s][i] = value(s, t->at + i, turn);
        }
    return wrong;
}

static enum fr_rc turn_all(struct tr_disk *d, int turn, int64_t *wrong, struct fr_err *err)
{
    struct tr_disk_tile t;
    enum fr_rc rc = FR_OK;

    for (int64_t k = 0; k < tr_disk_tiles(d) && rc == FR_OK; k++)
        if ((rc = tr_disk_take(d, k, &t, err)) == FR_OK) {
            *wrong += turn_tile(&t, turn);
            tr_disk_give(d, k);
        }
    return rc == FR_OK ? tr_disk_settle(d, err) : rc;
}

/* What the file holds, at the offsets that disk.h says. */
static int64_t raw_wrong(int64_t n, int64_t tile, int turn)
{
    char path[PATH];
    int64_t wrong = 0;
    int fd;

    (void)snprintf(path, PATH, "%s/flowtrain-" JOB "/rank-3.bin", root);
    fd = open(path, O_RDONLY);
    for (int64_t i = 0; i < n; i++)
        for (int s = 0; s < STATES; s++) {
            int64_t k = i / tile, of = n - k * tile < tile ? n - k * tile : tile;
            int64_t bytes = (of * 4 + 4095) / 4096 * 4096;
            float x = -1;

            wrong += pread(fd, &x, 4, k * STATES * tile * 4 + s * bytes + i % tile * 4) != 4 ||
                     x != value(s, i, turn);
        }
    close(fd);
    return wrong;
}

static void test_passes(void)
{
    static const struct {
        int64_t n, tile, block, is;
        int threads, sets;
    } rows[] = {{1, 0, 0, 1024, 0, 0},
                {1024, 1, 0, 1024, 4, 3},
                {1025, 1024, 4096, 1024, 4, 3},
                {9000, 2000, 5000, 2048, 16, 3},
                {9000, 1000, 1, 1024, 5, 16},
                {20000, 5000, 8192, 5120, 4, 4},
                {30000, 1 << 30, 4096, 30720, 9, 4}};

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct tr_disk_opts o = {root, rows[r].tile, rows[r].block, rows[r].threads, rows[r].sets};
        struct fr_err err = {0};
        struct tr_disk *d = open_disk(&o, rows[r].n, &err);
        int64_t wrong = 0;

        CHECK_TEXT(err.msg, "");
        CHECK_INT(tr_disk_tile(d, rows[r].n), rows[r].is);
        CHECK(tr_disk_is_new(d));
        calls.reads = calls.writes = 0;
        for (int turn = 1; turn <= 4; turn++) {
            CHECK_INT(turn_all(d, turn, &wrong, &err), FR_OK);
            if (turn == 1)
                CHECK_INT(calls.reads, 0);
            CHECK_INT(calls.reads, (turn - 1) * (calls.writes / turn));
            CHECK(!tr_disk_is_new(d));
        }
        CHECK_INT(wrong, 0);
        CHECK_INT(raw_wrong(rows[r].n, rows[r].is, 4), 0);
        tr_disk_destroy(d);
        CHECK(!there("flowtrain-" JOB));
    }
}

static void test_sizes(void)
{
    struct tr_disk_opts o = {.path = root};
    struct fr_err err;
    struct tr_disk *d = NULL;

    CHECK_INT(tr_disk_create(&o, &d, &err), FR_OK);
    CHECK_INT(tr_disk_tile(d, INT64_C(6738415616)), 16 << 20);
    CHECK_INT(tr_disk_bytes(d, &(struct tr_disk_shape){.n = INT64_C(6738415616)}),
              INT64_C(6738415616) * 12);
    CHECK_INT(tr_disk_bytes(d, &(struct tr_disk_shape){.n = 1}), 3 * 4096);
    CHECK_INT(tr_disk_bytes(d, &(struct tr_disk_shape){.n = 0}), 0);
    CHECK_INT(tr_disk_pinned(d, &(struct tr_disk_shape){.n = INT64_C(6738415616)}),
              (size_t)TR_DISK_SETS * 3 * (64 << 20) + 4096);
    tr_disk_destroy(d);
}

/* ---- spans ---- */

static void test_spans(void)
{
    enum { N = 10000 };
    struct tr_disk_opts o = {.path = root, .tile = 2048, .block = 4096};
    struct fr_err err = {0};
    struct tr_disk *d = open_disk(&o, N, &err);
    static float shadow[STATES][N];
    struct tr_disk_tile t;
    uint64_t dice = 1;
    int64_t wrong = 0;

    for (int turn = 0; turn < 600; turn++) {
        struct tr_disk_span s;

        dice = dice * UINT64_C(6364136223846793005) + 1;
        s = (struct tr_disk_span){.state = (int)(dice >> 33) % STATES,
                                  .at = (int64_t)(dice >> 40) % N,
                                  .write = (dice >> 60) % 2 == 0};
        if (turn % 150 == 149) { /* a pass that changes nothing */
            for (int64_t k = 0; k < tr_disk_tiles(d); k++) {
                CHECK_INT(tr_disk_take(d, k, &t, &err), FR_OK);
                for (int i = 0; i < STATES; i++)
                    wrong += memcmp(t.state[i], &shadow[i][t.at], (size_t)t.n * 4) != 0;
                tr_disk_give(d, k);
            }
            CHECK_INT(tr_disk_settle(d, &err), FR_OK);
        }
        if (tr_disk_span(d, &s, &err) != FR_OK)
            break;
        CHECK_INT(s.n, (s.at / 2048 + 1) * 2048 < N ? 2048 - s.at % 2048 : N - s.at);
        for (int64_t i = 0; i < s.n; i++) {
            wrong += s.p[s.from + i] != shadow[s.state][s.at + i];
            if (s.write && i < 100)
                s.p[s.from + i] = shadow[s.state][s.at + i] = value(s.state, i, turn);
        }
    }
    CHECK_TEXT(err.msg, "");
    CHECK_INT(wrong, 0);
    tr_disk_destroy(d);
}

/* ---- faults ---- */

static void test_faults(void)
{
    static const struct {
        const char *what;
        bool write;
        enum fault fault;
        int number;
        enum fr_rc rc;
        const char *want;
    } rows[] = {
        {"EIO of a read", false, FAILS, EIO, FR_IO, "Input/output error; look at the disk"},
        {"EIO of a write", true, FAILS, EIO, FR_IO, "Input/output error; look at the disk"},
        {"ENOSPC", true, FAILS, ENOSPC, FR_FULL, "No space left on device; make room there"},
        {"a short read", false, SHORT, 0, FR_IO, "only 3584 came; look at the disk"},
        {"a short write", true, SHORT, 0, FR_IO, "only 3584 came; look at the disk"},
        {"a flipped bit", false, FLIPS, 0, FR_CORRUPT, "do not match their checksum"},
    };

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (int left = 0; left < 9; left += 4) {
            struct tr_disk_opts o = {.path = root, .tile = 1024, .block = 4096};
            struct fr_err err = {0}, again = {0};
            struct tr_disk *d = open_disk(&o, 5000, &err);
            char want[PATH];
            int64_t wrong = 0;

            CHECK_INT(turn_all(d, 1, &wrong, &err), FR_OK);
            calls.write = rows[r].write;
            calls.number = rows[r].number;
            calls.left = left;
            calls.fault = rows[r].fault;
            CHECK_INT(turn_all(d, 2, &wrong, &err), rows[r].rc);
            CHECK_INT(calls.fault, NO_FAULT);
            (void)snprintf(want, PATH, "%s/flowtrain-" JOB "/rank-3.bin: ", root);
            CHECK(strstr(err.msg, want) == err.msg);
            (void)snprintf(want, PATH, "4096 bytes at offset %lld", (long long)calls.at);
            CHECK(strstr(err.msg, want) != NULL);
            if (strstr(err.msg, rows[r].want) == NULL)
                CHECK_TEXT(err.msg, rows[r].what);
            CHECK_INT(tr_disk_settle(d, &again), rows[r].rc);
            CHECK_TEXT(again.msg, err.msg);
            tr_disk_destroy(d);
            CHECK(!there("flowtrain-" JOB));
        }
}

/* Two tiles that changed places have whole blocks, of another place. */
static void test_swapped(void)
{
    struct tr_disk_opts o = {.path = root, .tile = 1024};
    struct fr_err err = {0};
    struct tr_disk *d = open_disk(&o, 3072, &err);
    char path[PATH], a[4096], b[4096];
    int64_t wrong = 0;
    int fd;

    CHECK_INT(turn_all(d, 1, &wrong, &err), FR_OK);
    (void)snprintf(path, PATH, "%s/flowtrain-" JOB "/rank-3.bin", root);
    fd = open(path, O_RDWR);
    CHECK(pread(fd, a, 4096, 0) == 4096 && pread(fd, b, 4096, 3 * 4096) == 4096);
    CHECK(pwrite(fd, b, 4096, 0) == 4096 && pwrite(fd, a, 4096, 3 * 4096) == 4096);
    close(fd);
    CHECK_INT(turn_all(d, 2, &wrong, &err), FR_CORRUPT);
    tr_disk_destroy(d);
}

/* ---- folders ---- */

static void make_dead(const char *name, bool lock)
{
    char path[PATH];

    (void)snprintf(path, PATH, "%s/%s", root, name);
    (void)mkdir(path, 0700);
    (void)snprintf(path, PATH, "%s/%s/rank-0.bin", root, name);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    (void)snprintf(path, PATH, "%s/%s/lock", root, name);
    if (lock)
        close(open(path, O_CREAT | O_WRONLY, 0600));
}

static void test_folders(void)
{
    static const char *const dead[] = {"flowtrain-00000000000000aa", "flowtrain-00000000000000bb"};
    static const char *const others[] = {"flowtrain-mine", "flowtrain-00000000000000AA", "notes"};
    struct tr_disk_opts o = {.path = root};
    struct fr_err err = {0};
    struct tr_disk *a, *b = NULL;
    struct tr_disk_file f = {.job = JOB, .rank = 4, .shape = {.n = 10}};
    struct stat st;
    char path[PATH];

    make_dead(dead[0], true);
    make_dead(dead[1], false);
    for (size_t i = 0; i < 3; i++)
        make_dead(others[i], false);
    calls.removed = true;
    a = open_disk(&o, 10, &err);
    CHECK(a != NULL && !there(dead[0]) && !there(dead[1]));
    for (size_t i = 0; i < 3; i++)
        CHECK(there(others[i]));
    CHECK_INT(tr_disk_clear(root, &err), FR_OK); /* another job begins */
    CHECK(there("flowtrain-" JOB "/rank-3.bin"));
    (void)snprintf(path, PATH, "%s/flowtrain-" JOB, root);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700);
    (void)snprintf(path, PATH, "%s/flowtrain-" JOB "/rank-3.bin", root);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == 3 * 4096);
    CHECK_INT(tr_disk_create(&o, &b, &err), FR_OK);
    CHECK_INT(tr_disk_open(b, &f, &err), FR_OK);
    tr_disk_destroy(a);
    CHECK(there("flowtrain-" JOB "/rank-4.bin") && !there("flowtrain-" JOB "/rank-3.bin"));
    tr_disk_destroy(b);
    CHECK(!there("flowtrain-" JOB));
}

static void test_refused(void)
{
    struct tr_disk_opts o = {.path = root};
    struct fr_err err = {0};
    char want[PATH];

    calls.kind = TMPFS;
    CHECK(open_disk(&o, 10, &err) == NULL);
    (void)snprintf(want, PATH, "nvme_path %s is a tmpfs: O_DIRECT is not possible", root);
    CHECK_INT(err.rc, FR_UNSUPPORTED);
    CHECK(strstr(err.msg, want) == err.msg);
    calls.kind = EXT4;
    calls.open_fails = EINVAL;
    CHECK(open_disk(&o, 10, &err) == NULL);
    CHECK_INT(err.rc, FR_UNSUPPORTED);
    CHECK(strstr(err.msg, "is on a file system without it: O_DIRECT is not possible") != NULL);
    calls.open_fails = 0;
    calls.reserve_fails = ENOSPC;
    CHECK(open_disk(&o, 10, &err) == NULL);
    CHECK_INT(err.rc, FR_FULL);
    CHECK(strstr(err.msg, "rank-3.bin: cannot reserve 12288 bytes: make room there") != NULL);
    calls.reserve_fails = 0;
    CHECK(!there("flowtrain-" JOB));
}

int main(void)
{
    struct fr_err err;

    CHECK(mkdtemp(root) != NULL);
    CHECK_INT(tr_ref_create(&be, &err), FR_OK);
    test_sizes();
    take_calls();
    test_passes();
    test_spans();
    test_faults();
    test_swapped();
    test_folders();
    test_refused();
    fr_sys = fr_sys_real;
    CHECK_INT(fr_remove_tree(root, NULL), FR_OK);
    tr_backend_destroy(be);
    return check_done();
}
