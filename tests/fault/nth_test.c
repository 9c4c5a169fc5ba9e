/*
 * The Nth call fails, for every N until none does: of one kind (memory, disk, descriptors,
 * processes, reading; of the store's files and of its memory), of flowrun or of a node, once and
 * for ever (until flowrun ends, or a minute passed). flowrun may end with an error that says why,
 * and is resumed without the fault; an outcome that is not success is retried, as a user would.
 * Then all has succeeded, no command ran twice, none succeeded twice (but one that was retried
 * after its outputs could not be read, or on a node that fails for ever, where the exit may be lost
 * with its supervisor: then that attempt is called lost), and the rules of world.h hold.
 *
 *     nth_test                          a sample: every STRIDE-th N
 *     nth_test all                      every N
 *     nth_test KIND WHOM once|ever N    one case, and its story
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 1, HEAL_US = 60000000, RETRIES = 4 };

enum kind { MEMORY, DISK, DESCRIPTORS, PROCESSES, READING, STORE, STORE_MEMORY, KINDS };

static const char *const kind_names[KINDS] = {"memory",  "disk",  "descriptors", "processes",
                                              "reading", "store", "store-memory"};
static const uint64_t strides[KINDS] = {197, 13, 11, 5, 37, 29, 421};

static const char pipeline[] =
    "name: nth\n"
    "nodes: [{name: n1, executor: local}, {name: n2, executor: local}]\n"
    "defaults: {timeout: 1h, retry: {times: 20, delay: 300ms, on: [" WORLD_FAULTS ", exit]}}\n"
    "tasks:\n"
    "  a: {on: n1, argv: [sim, \"60\", \"0\", out], outputs: [v]}\n"
    "  b: {on: n1, needs: [a], env: {IN: \"${{ tasks.a.outputs.v }}\"}, argv: [sim, \"40\", \"0\", "
    "out], outputs: [v]}\n"
    "  c: {on: all, gang: true, needs: [a], argv: [sim, \"80\", \"0\"]}\n"
    "  d: {on: n1, argv: [sim, \"30\", \"3\", once], sidecars: [{argv: [sim, \"0\", \"0\", "
    "side]}]}\n";

/* What fails: world.test. */
struct nth {
    enum kind kind;
    bool node, ever;
    uint64_t n, calls;
    bool struck;
    int64_t heal_us;
    int retries;
    struct sim_machine *left; /* here a file was not removed, which the next serve will; NULL */
};

static struct fr_sys under;     /* the simulator's */
static const char *call = "it"; /* being made, for the story */

/* ---- whether this call fails ---- */

static bool concerns(const struct world *w, const struct nth *n)
{
    const struct sim_proc *p = w->sim.cur;

    if (!n->node)
        return p == w->engine && w->starts == 1;
    return p->m == &w->sim.machines[1] &&
           (strcmp(p->comm, "serve") == 0 || strcmp(p->comm, "flownode") == 0);
}

static bool fails(enum kind kind)
{
    struct world *w = sim != NULL && sim->cur != NULL ? world_of(sim) : NULL;
    struct nth *n = w != NULL ? w->test : NULL;

    if (n == NULL || n->kind != kind || sim->cur->nested > 0 || !concerns(w, n) ||
        (n->struck && (!n->ever || sim->now_us >= n->heal_us)) || (++n->calls < n->n && !n->struck))
        return false;
    if (!n->struck) {
        n->struck = true;
        n->heal_us = sim->now_us + HEAL_US;
        sim->cur->m->was_full = kind == DISK || kind == MEMORY; /* output may be dropped */
        world_tell(w, "fault: %s of %s fails at %s", kind_names[kind], sim->cur->comm, call);
    }
    if (strcmp(call, "unlink") == 0)
        n->left = sim->cur->m;
    return true;
}

/* Of a call that fails for ever without waiting, no time passes. */
static bool once(void)
{
    const struct nth *n = sim != NULL && sim->cur != NULL ? world_of(sim)->test : NULL;

    return n != NULL && !n->ever;
}

static void enter(void)
{
    if (sim != NULL && sim->cur != NULL)
        sim->cur->nested++;
}

static void leave(void)
{
    if (sim != NULL && sim->cur != NULL)
        sim->cur->nested--;
}

/* A call that returns bad when its turn has come. */
#define CALL(type, name, params, args, when, code, bad)                                            \
    static type x_##name params                                                                    \
    {                                                                                              \
        call = #name;                                                                              \
        if ((when)) {                                                                              \
            errno = (code);                                                                        \
            return bad;                                                                            \
        }                                                                                          \
        enter();                                                                                   \
        type r = under.name args;                                                                  \
        leave();                                                                                   \
        return r;                                                                                  \
    }

static bool is_file(int fd)
{
    const struct sim_file *f = sim_fd(fd);

    return f != NULL && f->kind == SIM_FILE;
}

#define D fails(DISK)
#define F fails(DESCRIPTORS)
#define P fails(PROCESSES)
#define R fails(READING)
CALL(void *, alloc, (size_t n), (n), fails(MEMORY), ENOMEM, NULL)
CALL(void *, realloc, (void *p, size_t n), (p, n), fails(MEMORY), ENOMEM, NULL)
CALL(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), is_file(fd) && R, EIO, -1)
CALL(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), is_file(fd) && D, ENOSPC, -1)
CALL(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at), R, EIO, -1)
CALL(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at), D, ENOSPC, -1)
CALL(int, fdatasync, (int fd), (fd), D, EIO, -1)
CALL(int, ftruncate, (int fd, off_t n), (fd, n), D, EIO, -1)
CALL(int, fstat, (int fd, struct stat *st), (fd, st), R, EIO, -1)
CALL(int, lstat, (const char *p, struct stat *st), (p, st), R, EIO, -1)
CALL(int, mkdir, (const char *p, mode_t mode), (p, mode), D, ENOSPC, -1)
CALL(int, rename, (const char *a, const char *b), (a, b), D, ENOSPC, -1)
CALL(int, list, (const char *d, char ***v, size_t *n), (d, v, n), R, EMFILE, -1)
CALL(int, lock, (int fd), (fd), F, ENOLCK, -1)
CALL(int, lock_shared, (int fd), (fd), F, ENOLCK, -1)
CALL(int, pipe, (int fds[2]), (fds), F, EMFILE, -1)
CALL(int, socketpair, (int fds[2]), (fds), F, EMFILE, -1)
CALL(int, listen_unix, (const char *p), (p), F, EMFILE, -1)
CALL(int, connect_unix, (const char *p), (p), F, EMFILE, -1)
CALL(int, accept, (int fd), (fd), F, EMFILE, -1)
CALL(int, proc_fd, (pid_t pid), (pid), F, EMFILE, -1)
CALL(int, spawn, (const struct fr_spawn *s, struct fr_proc *out), (s, out), P, EAGAIN, -1)
CALL(int, detach, (const struct fr_detach *d), (d), P, EAGAIN, -1)
CALL(int, procs, (struct fr_procinfo * *v, size_t *n), (v, n), P, EMFILE, -1)
CALL(int, unlink, (const char *p), (p), D, EIO, -1)
CALL(int, rmdir, (const char *p), (p), D, EIO, -1)
CALL(int, touch, (const char *p), (p), D, EIO, -1)
CALL(int64_t, disk_free, (const char *p), (p), R, EIO, -1)
CALL(int, boot_id, (char out[40]), (out), R, EIO, -1)
CALL(int, random, (void *p, size_t n), (p, n), F, EIO, -1)
CALL(int, locked, (int fd), (fd), F, ENOLCK, -1)
CALL(int, hold_port, (int port, int *held), (port, held), F, EMFILE, -1)
CALL(int, claim_port, (int port), (port), F, EMFILE, -1)
CALL(int, set_nonblock, (int fd, bool on), (fd, on), F, ENOMEM, -1)
CALL(int, subreaper, (void), (), P, EINVAL, -1)
CALL(int, self, (struct fr_proc * out), (out), P, EMFILE, -1)
CALL(int, kill, (struct fr_proc p, int sig), (p, sig), P, EMFILE, -1)
CALL(int, wait, (pid_t p, struct fr_wait *w, int flags), (p, w, flags), once() && P, EINTR, -1)
CALL(int, poll, (struct pollfd * v, nfds_t n, int ms), (v, n, ms), once() && P, EINTR, -1)

/* A file that is there needs a descriptor; one that is made, room as well. */
static int x_open(const char *path, int flags, mode_t mode)
{
    call = path;
    if (F || (flags & O_CREAT && D)) {
        const struct nth *n = world_of(sim)->test;
        errno = n->kind == DISK ? ENOSPC : EMFILE;
        return -1;
    }
    enter();
    int fd = under.open(path, flags, mode);
    leave();
    return fd;
}

static void take_calls(void)
{
    under = fr_sys;
    fr_sys.alloc = x_alloc;
    fr_sys.realloc = x_realloc;
    fr_sys.open = x_open;
    fr_sys.read = x_read;
    fr_sys.write = x_write;
    fr_sys.pread = x_pread;
    fr_sys.pwrite = x_pwrite;
    fr_sys.fdatasync = x_fdatasync;
    fr_sys.ftruncate = x_ftruncate;
    fr_sys.fstat = x_fstat;
    fr_sys.lstat = x_lstat;
    fr_sys.mkdir = x_mkdir;
    fr_sys.rename = x_rename;
    fr_sys.list = x_list;
    fr_sys.lock = x_lock;
    fr_sys.lock_shared = x_lock_shared;
    fr_sys.pipe = x_pipe;
    fr_sys.socketpair = x_socketpair;
    fr_sys.listen_unix = x_listen_unix;
    fr_sys.connect_unix = x_connect_unix;
    fr_sys.accept = x_accept;
    fr_sys.proc_fd = x_proc_fd;
    fr_sys.spawn = x_spawn;
    fr_sys.detach = x_detach;
    fr_sys.procs = x_procs;
    fr_sys.unlink = x_unlink;
    fr_sys.rmdir = x_rmdir;
    fr_sys.touch = x_touch;
    fr_sys.disk_free = x_disk_free;
    fr_sys.boot_id = x_boot_id;
    fr_sys.random = x_random;
    fr_sys.locked = x_locked;
    fr_sys.hold_port = x_hold_port;
    fr_sys.claim_port = x_claim_port;
    fr_sys.set_nonblock = x_set_nonblock;
    fr_sys.subreaper = x_subreaper;
    fr_sys.self = x_self;
    fr_sys.kill = x_kill;
    fr_sys.wait = x_wait;
    fr_sys.poll = x_poll;
}

/* ---- the store's files and memory: SQLite's own layers, with ours in front ---- */

struct shim_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind it, in the same memory */
};

static sqlite3_vfs shim_vfs;
static sqlite3_io_methods shim_io;
static sqlite3_mem_methods real_memory;

static sqlite3_vfs *real_vfs(void)
{
    return shim_vfs.pAppData;
}

static sqlite3_file *real_file(sqlite3_file *f)
{
    return ((struct shim_file *)(void *)f)->real;
}

static int f_close(sqlite3_file *f)
{
    return real_file(f)->pMethods->xClose(real_file(f));
}

static int f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return fails(STORE) ? SQLITE_IOERR_READ : real_file(f)->pMethods->xRead(real_file(f), p, n, at);
}

static int f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    return fails(STORE) ? SQLITE_FULL : real_file(f)->pMethods->xWrite(real_file(f), p, n, at);
}

static int f_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    return fails(STORE) ? SQLITE_IOERR_TRUNCATE
                        : real_file(f)->pMethods->xTruncate(real_file(f), n);
}

static int f_sync(sqlite3_file *f, int flags)
{
    return fails(STORE) ? SQLITE_IOERR_FSYNC : real_file(f)->pMethods->xSync(real_file(f), flags);
}

static int f_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return real_file(f)->pMethods->xFileSize(real_file(f), n);
}

static int f_lock(sqlite3_file *f, int how)
{
    return fails(STORE) ? SQLITE_IOERR_LOCK : real_file(f)->pMethods->xLock(real_file(f), how);
}

static int f_unlock(sqlite3_file *f, int how)
{
    return real_file(f)->pMethods->xUnlock(real_file(f), how);
}

static int f_reserved(sqlite3_file *f, int *out)
{
    return real_file(f)->pMethods->xCheckReservedLock(real_file(f), out);
}

static int f_control(sqlite3_file *f, int op, void *arg)
{
    return real_file(f)->pMethods->xFileControl(real_file(f), op, arg);
}

static int f_sector(sqlite3_file *f)
{
    return real_file(f)->pMethods->xSectorSize(real_file(f));
}

static int f_device(sqlite3_file *f)
{
    return real_file(f)->pMethods->xDeviceCharacteristics(real_file(f));
}

static int f_map(sqlite3_file *f, int page, int n, int extend, void volatile **out)
{
    return fails(STORE) ? SQLITE_IOERR_SHMMAP
                        : real_file(f)->pMethods->xShmMap(real_file(f), page, n, extend, out);
}

static int f_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return real_file(f)->pMethods->xShmLock(real_file(f), at, n, flags);
}

static void f_barrier(sqlite3_file *f)
{
    real_file(f)->pMethods->xShmBarrier(real_file(f));
}

static int f_unmap(sqlite3_file *f, int del)
{
    return real_file(f)->pMethods->xShmUnmap(real_file(f), del);
}

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct shim_file *s = (struct shim_file *)(void *)f;
    int rc;

    (void)v;
    s->base.pMethods = NULL;
    s->real = (sqlite3_file *)(void *)(s + 1);
    if (fails(STORE))
        return SQLITE_CANTOPEN;
    rc = real_vfs()->xOpen(real_vfs(), name, s->real, flags, out);
    if (s->real->pMethods != NULL)
        s->base.pMethods = &shim_io;
    return rc;
}

static void *m_malloc(int n)
{
    return fails(STORE_MEMORY) ? NULL : real_memory.xMalloc(n);
}

static void *m_realloc(void *p, int n)
{
    return fails(STORE_MEMORY) ? NULL : real_memory.xRealloc(p, n);
}

static void take_store(void)
{
    sqlite3_mem_methods mine;
    sqlite3_vfs *real;

    sqlite3_shutdown();
    CHECK(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) == SQLITE_OK);
    CHECK(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK);
    mine = real_memory;
    mine.xMalloc = m_malloc;
    mine.xRealloc = m_realloc;
    CHECK(sqlite3_config(SQLITE_CONFIG_MALLOC, &mine) == SQLITE_OK);
    sqlite3_initialize();
    real = sqlite3_vfs_find(NULL);
    shim_io = (sqlite3_io_methods){2,         f_close,  f_read,   f_write,  f_truncate,
                                   f_sync,    f_size,   f_lock,   f_unlock, f_reserved,
                                   f_control, f_sector, f_device, f_map,    f_shm_lock,
                                   f_barrier, f_unmap,  NULL,     NULL};
    shim_vfs = *real;
    shim_vfs.zName = "shim";
    shim_vfs.pAppData = real;
    shim_vfs.szOsFile = (int)sizeof(struct shim_file) + real->szOsFile;
    shim_vfs.xOpen = v_open;
    CHECK(sqlite3_vfs_register(&shim_vfs, 1) == SQLITE_OK);
}

/* ---- cases ---- */

static bool unwell(struct world *w)
{
    struct fr_buf b = {0};
    bool yes;

    world_rows(w, "SELECT 1 FROM instance WHERE state <> 'succeeded'", &b);
    yes = b.n > 0;
    fr_buf_finish(&b);
    return yes;
}

static void look(struct world *w)
{
    struct nth *n = w->test;

    if (n->left != NULL)
        n->left->untidy = true;
    if (!w->over || w->engine != NULL || w->restart_us != INT64_MAX || n->retries == RETRIES ||
        !unwell(w))
        return;
    n->retries++;
    w->retry = true;
    w->restart_us = w->sim.now_us + HEAL_US;
}

static void begin(struct world *w)
{
    w->may_fail = true;
}

/* Attempts of the task that ended well. On a node that fails for ever, less those that are called
 * lost: their exit could not be written down. */
static int ended_well(struct world *w, const char *task)
{
    const struct nth *n = w->test;
    int count = world_succeeded(w, task, "n1");

    for (const struct record *r = w->records; r < w->records + w->n_records; r++) {
        struct fr_buf sql = {0}, lost = {0};
        if (!n->node || !n->ever || !r->exited || strcmp(r->task, task) != 0)
            continue;
        fr_buf_fmt(&sql, "SELECT 1 FROM attempt WHERE cause = 'lost' AND id = x'%s'", r->attempt);
        world_rows(w, sql.p, &lost);
        count -= lost.n > 0;
        fr_buf_finish(&sql);
        fr_buf_finish(&lost);
    }
    return count;
}

static void verdict(struct world *w)
{
    static const char *const tasks[] = {"a", "b", "d"};
    const struct nth *n = w->test;
    struct fr_buf b = {0};

    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
        if (ended_well(w, tasks[i]) > 1 && n->retries == 0)
            world_violated(w, "%s succeeded twice", tasks[i]);
    world_rows(w, "SELECT key, state, cause, reason FROM instance WHERE state <> 'succeeded'", &b);
    if (b.n > 0)
        world_violated(w, "after all: %.300s", b.p);
    fr_buf_finish(&b);
    world_rows(w, "SELECT value FROM output ORDER BY idx", &b);
    if (b.p == NULL || strcmp(b.p, "a.n1.\nb.n1.a.n1.\n") != 0)
        world_violated(w, "the outputs are %.100s", b.p != NULL ? b.p : "gone");
    fr_buf_finish(&b);
}

/* Whether the fault struck. */
static bool run_case(struct world *w, struct nth n)
{
    char row[64];

    snprintf(row, sizeof(row), "%s %s %s %" PRIu64, kind_names[n.kind], n.node ? "node" : "control",
             n.ever ? "ever" : "once", n.n);
    check_row(row);
    w->test = &n;
    world_run(w, pipeline, SEED, begin);
    if (!w->failed)
        verdict(w);
    if (w->failed && !w->quiet) {
        struct fr_buf b = {0};
        world_rows(w, "SELECT key, state, live, attempt_no, cause, reason FROM instance", &b);
        printf("%s", b.p != NULL ? b.p : "");
        fr_buf_finish(&b);
    }
    if (!CHECK(!w->failed))
        printf("%s: %s\n%s", row, w->why, w->quiet && w->story.p != NULL ? w->story.p : "");
    world_finish(w);
    return n.struck;
}

static void run_all(struct world *w, bool all)
{
    uint64_t cases = 0;

    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < (k >= STORE ? 2 : 4); i++)
            for (uint64_t n = 1; check_counts.failed < 20; n += all ? 1 : strides[k], cases++)
                if (!run_case(w, (struct nth){.kind = (enum kind)k,
                                              .ever = i % 2 == 1,
                                              .node = i / 2 == 1,
                                              .n = n}))
                    break;
    printf("%" PRIu64 " cases\n", cases);
}

int main(int argc, char **argv)
{
    struct world *w = calloc(1, sizeof(*w));

    take_store();
    world_setup();
    take_calls();
    w->look = look;
    if (argc > 4) {
        struct nth n = {.node = strcmp(argv[2], "node") == 0,
                        .ever = strcmp(argv[3], "ever") == 0,
                        .n = strtoull(argv[4], NULL, 10)};
        while (n.kind < KINDS - 1 && strcmp(argv[1], kind_names[n.kind]) != 0)
            n.kind++;
        CHECK(run_case(w, n));
    } else {
        w->quiet = true;
        run_all(w, argc > 1);
    }
    world_clean();
    free(w);
    return check_done();
}
