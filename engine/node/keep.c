#include "engine/node/keep.h"

#include "engine/base/sys.h"
#include "engine/node/closing.h"
#include "engine/node/keep_lease.h"
#include "engine/node/keep_place.h"
#include "engine/node/serve.h"
#include "engine/supervise/environ.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    KILL_WAIT_MS = 30000, /* Slurm's default */
    RESERVE_MS = 5000,    /* of it, for ending what lives; the next four are parts of it */
    KILL_MS = 2500,
    TELL_MS = 1000, /* for the ends to reach an engine */
    LEAVE_MS = 300, /* for serves to end by themselves */
    PROVE_MS = 800,
    TICK_MS = 50,
    CLAIM_TICK_MS = 200,
    FULL_TICK_MS = 100 /* no descriptor is free: until the next try to accept */
};

struct conn {
    struct fr_proc serve; /* our child */
    int fd;               /* owns: the same socket, so that it can be shut down */
};

struct shared {
    bool closing;     /* no attempt starts */
    int64_t heard_ms; /* a byte of an engine came */
};

struct keep {
    const struct fr_keep_args *a;
    struct keep_place place;
    struct fr_serve_args serve;   /* of each connection, but for its socket */
    int lock, listening, signals; /* owns */
    int life;                     /* owns: of a guarded one; -1: it is none, or its guard is gone */
    bool orphan;                  /* its guard is gone */
    struct fr_arena arena;        /* of names */
    struct conn *conns;           /* owns */
    size_t n_conns, cap_conns;
    volatile struct shared *shared; /* owns: with the serves */
    struct keep_lease lease;
    bool told;              /* TERM came */
    int64_t kill_ms;        /* then what lives is killed */
    struct fr_closing *end; /* owns; NULL: not begun */
};

/* TERM comes through a descriptor. That and the signals of a limit stay blocked in all that is
 * forked here: Slurm sends them to whole steps. Commands of attempts get them (base/proc.c). */
static enum fr_rc take_signals(struct keep *k, struct fr_err *err)
{
    sigset_t blocked, read;

    sigemptyset(&read);
    sigaddset(&read, SIGTERM);
    sigaddset(&read, SIGCHLD);
    blocked = read;
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGUSR2);
    if (sigprocmask(SIG_BLOCK, &blocked, NULL) != 0 ||
        (k->signals = signalfd(-1, &read, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
        return fr_fail_errno(err, errno, "cannot wait for signals");
    return FR_OK;
}

static void reap(struct keep *k)
{
    struct fr_wait w;

    while (fr_sys.wait(-1, &w, FR_WAIT_NOHANG) == 0 && w.pid != 0)
        for (size_t i = 0; i < k->n_conns; i++)
            if (k->conns[i].serve.pid == w.pid) {
                fr_fd_close(&k->conns[i].fd);
                k->conns[i] = k->conns[--k->n_conns];
                break;
            }
}

static void take_told(struct keep *k)
{
    struct signalfd_siginfo info;

    while (fr_sys.read(k->signals, &info, sizeof(info)) == sizeof(info))
        k->told = k->told || info.ssi_signo == SIGTERM;
    reap(k);
}

/* The guard passes on what Slurm tells it. Where it is gone, Slurm has ended the step. */
static void take_guard(struct keep *k)
{
    char told[16];
    ssize_t n = fr_sys.read(k->life, told, sizeof(told));

    if (n < 0 && errno == EINTR)
        return;
    k->told = true;
    if (n > 0)
        return;
    fr_fd_close(&k->life);
    k->orphan = true;
    if (k->end != NULL && k->kill_ms > fr_sys.mono_ms())
        k->kill_ms = fr_sys.mono_ms();
}

/* The process of a connection. It does not outlive the keeper. */
static void serve(struct keep *k, int fd, pid_t keeper)
{
    struct fr_serve_args a = k->serve;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != keeper)
        _exit(1);
    fr_fd_close(&k->listening);
    fr_fd_close(&k->signals);
    fr_fd_close(&k->life);
    fr_fd_close(&k->lock);
    for (size_t i = 0; i < k->n_conns; i++)
        fr_fd_close(&k->conns[i].fd);
    a.in = a.out = fd;
    _exit(fr_serve(&a, NULL) == FR_OK ? 0 : 1);
}

static void take_connection(struct keep *k)
{
    int fd = fr_sys.accept(k->listening);
    pid_t keeper = getpid(), pid = -1;
    struct conn *conns;
    uid_t uid;

    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
        fr_sys.poll(NULL, 0, FULL_TICK_MS);
    if (fd < 0)
        return;
    if (!keep_lease_renew(&k->lease)) {
        fr_sys.close(fd);
        return;
    }
    conns = fr_grow(k->conns, k->n_conns + 1, &k->cap_conns, sizeof(*conns));
    k->conns = conns != NULL ? conns : k->conns;
    if (conns != NULL && fr_sys.peer_uid(fd, &uid) == 0 && uid == fr_sys.uid())
        pid = fork();
    if (pid == 0)
        serve(k, fd, keeper);
    if (pid > 0)
        k->conns[k->n_conns++] = (struct conn){{.pid = pid}, fd};
    else
        fr_sys.close(fd);
}

/* Waits for what comes, at most ms; -1: for ever. */
static void turn(struct keep *k, int ms)
{
    struct pollfd p[] = {{.fd = k->signals, .events = POLLIN},
                         {.fd = k->listening, .events = POLLIN},
                         {.fd = k->life, .events = POLLIN}};

    if (fr_sys.poll(p, 3, ms) <= 0)
        return;
    if (p[0].revents != 0)
        take_told(k);
    if (p[1].revents != 0)
        take_connection(k);
    if (p[2].revents != 0)
        take_guard(k);
}

/* Waits until this job has the claim. *twin: another job has it. */
static enum fr_rc claim(struct keep *k, bool *twin, struct fr_err *err)
{
    bool found = false;
    enum fr_rc rc = FR_OK;

    *twin = false;
    while ((rc = keep_claim(&k->place, &found, twin, err)) == FR_OK && !found && !k->told)
        turn(k, CLAIM_TICK_MS);
    return rc;
}

/* One keeper has the home as long as it lives. */
static enum fr_rc lock_home(struct keep *k, struct fr_err *err)
{
    char path[FR_NODE_PATH];

    snprintf(path, sizeof(path), "%s/keep.lock", k->place.home);
    k->lock = fr_sys.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (k->lock < 0)
        return fr_fail_errno(err, errno, "cannot open %s", path);
    if (fr_sys.lock(k->lock) == 0)
        return FR_OK;
    if (errno == EAGAIN || errno == EACCES)
        return fr_fail(err, FR_BUSY, "another keeper has %s", k->place.home);
    return fr_fail_errno(err, errno, "cannot lock %s", path);
}

/* A process that removes what earlier keepers left here. It does not outlive the keeper. */
static void begin_sweep(struct keep *k)
{
    pid_t keeper = getpid();

    if (fork() != 0)
        return;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == keeper)
        keep_sweep(&k->place);
    _exit(0);
}

/* Makes the home, tries its journal, and listens. */
static enum fr_rc come_up(struct keep *k, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    struct fr_closing *trial = NULL;
    enum fr_rc rc = keep_home_make(&k->place, err);

    if (rc == FR_OK)
        rc = lock_home(k, err);
    if (rc == FR_OK)
        rc = fr_closing_begin(&k->serve, &trial, err);
    fr_closing_end(trial);
    if (rc != FR_OK)
        return rc;
    keep_socket(k->place.home, path);
    k->listening = fr_sys.listen_unix(path);
    if (k->listening < 0)
        return fr_fail_errno(err, errno, "cannot listen on %s", path);
    fr_sys.set_nonblock(k->listening, true);
    if ((rc = keep_write_up(&k->place, err)) == FR_OK)
        begin_sweep(k);
    return rc;
}

/* Waits until every attempt has ended. Kills from kill_ms on. */
static enum fr_rc end_attempts(struct keep *k, struct fr_err *err)
{
    size_t live = 0;
    enum fr_rc rc = fr_closing_step(k->end, &live, err);

    while (rc == FR_OK && live > 0 && fr_sys.mono_ms() < k->kill_ms + KILL_MS) {
        if (fr_sys.mono_ms() >= k->kill_ms)
            fr_closing_kill(k->end);
        turn(k, TICK_MS);
        rc = fr_closing_step(k->end, &live, err);
    }
    return rc;
}

/* Ends the serves. Meanwhile none begins. */
static void cut_serves(struct keep *k)
{
    int64_t until = fr_sys.mono_ms() + LEAVE_MS;
    struct fr_wait w;

    for (size_t i = 0; i < k->n_conns; i++)
        shutdown(k->conns[i].fd, SHUT_RDWR);
    while (k->n_conns > 0 && fr_sys.mono_ms() < until) {
        struct pollfd p = {.fd = k->signals, .events = POLLIN};
        if (fr_sys.poll(&p, 1, TICK_MS) > 0)
            take_told(k);
    }
    for (size_t i = 0; i < k->n_conns; i++) {
        fr_sys.kill(k->conns[i].serve, SIGKILL);
        fr_sys.wait(k->conns[i].serve.pid, &w, 0);
        fr_fd_close(&k->conns[i].fd);
    }
    k->n_conns = 0;
}

/* Lets the serves pass on the ends, then ends them. */
static void end_serves(struct keep *k)
{
    int64_t until = fr_sys.mono_ms() + TELL_MS;
    size_t live;

    while (k->n_conns > 0 && fr_closing_unacked(k->end) > 0 && fr_sys.mono_ms() < until &&
           fr_closing_step(k->end, &live, NULL) == FR_OK)
        turn(k, TICK_MS);
    fr_fd_close(&k->listening);
    cut_serves(k);
}

/* The job ends: no further attempt starts. */
static enum fr_rc close_home(struct keep *k, struct fr_err *err)
{
    int64_t wait_ms = k->a->kill_wait_ms > 0 ? k->a->kill_wait_ms : KILL_WAIT_MS;
    char path[FR_NODE_PATH];
    enum fr_rc rc;

    k->shared->closing = true;
    k->kill_ms = fr_sys.mono_ms();
    if (!k->orphan && wait_ms > RESERVE_MS)
        k->kill_ms += wait_ms - RESERVE_MS;
    if ((rc = fr_closing_begin(&k->serve, &k->end, err)) != FR_OK)
        return rc;
    fr_closing_notice(k->end, k->kill_ms);
    if ((rc = end_attempts(k, err)) != FR_OK)
        return rc;
    end_serves(k);
    if ((rc = fr_closing_prove(k->end, fr_sys.mono_ms() + PROVE_MS, err)) != FR_OK)
        return rc;
    keep_socket(k->place.home, path);
    fr_sys.unlink(path);
    rc = keep_write_closed(&k->place, k->lease.over ? k->lease.ms : 0, err);
    if (rc == FR_OK && fr_closing_unacked(k->end) == 0)
        keep_remove(&k->place); /* as far as Slurm leaves time for it */
    return rc;
}

static void look_at_lease(struct keep *k)
{
    if (!keep_lease_look(&k->lease, k->shared->heard_ms))
        return;
    cut_serves(k);
    keep_lease_agree(&k->lease, k->shared->heard_ms);
}

static enum fr_rc run(struct keep *k, struct fr_err *err)
{
    bool twin = false;
    enum fr_rc rc = keep_lease_init(&k->lease, &k->place, k->a, err);

    if (rc == FR_OK)
        rc = claim(k, &twin, err);
    if (rc != FR_OK || twin || k->told)
        return rc;
    if ((rc = come_up(k, err)) != FR_OK)
        return rc;
    while (!k->told && !k->lease.over) {
        turn(k, keep_lease_wait(&k->lease));
        look_at_lease(k);
    }
    return close_home(k, err);
}

static void finish(struct keep *k)
{
    fr_closing_end(k->end);
    fr_fd_close(&k->listening);
    fr_fd_close(&k->signals);
    fr_fd_close(&k->life);
    fr_fd_close(&k->lock);
    for (size_t i = 0; i < k->n_conns; i++)
        fr_fd_close(&k->conns[i].fd);
    fr_sys.free(k->conns);
    fr_arena_finish(&k->arena);
    munmap((void *)k->shared, sizeof(*k->shared));
}

static enum fr_rc begin(struct keep *k, struct fr_err *err)
{
    const struct fr_keep_args *a = k->a;
    void *shared;
    enum fr_rc rc;

    if ((rc = keep_folder_check(a->folder, err)) != FR_OK ||
        (rc = keep_place_init(&k->place, a, err)) != FR_OK)
        return rc;
    shared =
        mmap(NULL, sizeof(*k->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return fr_fail_errno(err, errno, "no shared memory");
    k->shared = shared;
    k->serve.home = k->place.home;
    k->serve.environ = a->environ;
    k->serve.self = a->self;
    k->serve.build = a->build;
    k->serve.descriptors = a->descriptors;
    k->serve.answers = true;
    k->serve.passed = a->inside ? keep_inside(a->environ, &k->arena) : fr_keep_environ;
    if (k->serve.passed == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for names of variables");
    k->serve.closing = &k->shared->closing;
    k->serve.heard_ms = &k->shared->heard_ms;
    if ((rc = take_signals(k, err)) != FR_OK)
        return rc;
    if (a->guarded && (k->life = fcntl(0, F_DUPFD_CLOEXEC, 3)) < 0)
        return fr_fail_errno(err, errno, "a guarded keeper has no input");
    return keep_leave_streams(err);
}

enum fr_rc fr_keep(const struct fr_keep_args *a, struct fr_err *err)
{
    struct keep k = {.a = a, .lock = -1, .listening = -1, .signals = -1, .life = -1};
    enum fr_rc rc = begin(&k, err);

    if (rc == FR_OK && (rc = run(&k, err)) != FR_OK)
        keep_write_error(&k.place, err);
    finish(&k);
    return rc;
}
