/*
 * flowtrain launch: torchrun's job. Starts the ranks of one node with the environment contract of
 * trainer/comm/launch_env.h, passes signals on, ends all when one fails, restarts all when asked.
 * launch_args.h has the flags.
 */
#include "trainer/cli/cli.h"
#include "trainer/cli/launch_args.h"
#include "trainer/cli/ranks.h"

#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GRACE_MS = 30000 };

struct rank {
    struct fr_proc proc;
    bool alive, failed;
    struct fr_wait end;
    int order; /* of its end among the local ranks, from 1 */
};

struct job {
    int64_t nproc, nnodes, node_rank, port, max_restarts, restart;
    const char *addr, *run_id;
    const char *const *program; /* what each rank runs: our own binary and the words after -- */
    struct rank *ranks;         /* nproc */
    int (*socks)[2];            /* nproc*nproc: a socket pair for each i < j at [i*nproc+j] */
    int signals;                /* signalfd */
    int caught;                 /* a signal that asked us to end; 0: none */
    int ended;                  /* ranks of this try that have ended */
    enum fr_rc why;             /* how the first rank that failed ended */
};

/* Sockets between the local ranks, over which they pass shared memory. */
static enum fr_rc make_socks(struct job *j, struct fr_err *err)
{
    for (int64_t a = 0; a < j->nproc; a++)
        for (int64_t b = a + 1; b < j->nproc; b++)
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, j->socks[a * j->nproc + b]) != 0)
                return fr_fail_errno(err, errno, "sockets between %lld local ranks",
                                     (long long)j->nproc);
    return FR_OK;
}

static int sock_of(const struct job *j, int64_t me, int64_t other)
{
    return me < other ? j->socks[me * j->nproc + other][0] : j->socks[other * j->nproc + me][1];
}

static void close_socks(struct job *j)
{
    for (int64_t a = 0; a < j->nproc; a++)
        for (int64_t b = a + 1; b < j->nproc; b++) {
            int *p = j->socks[a * j->nproc + b];
            for (int k = 0; k < 2; k++) {
                if (p[k] >= 0)
                    close(p[k]);
                p[k] = -1;
            }
        }
}

/* The variables that a rank gets. */
static void rank_vars(const struct job *j, int64_t local, struct fr_buf *out)
{
    struct fr_buf socks = {0};

    for (int64_t k = 0; k < j->nproc; k++)
        fr_buf_fmt(&socks, k > 0 ? ",%d" : "%d", k == local ? -1 : sock_of(j, local, k));
    const struct {
        const char *name;
        int64_t value;
        const char *text;
    } vars[] = {
        {"RANK", j->node_rank * j->nproc + local, NULL},
        {"LOCAL_RANK", local, NULL},
        {"WORLD_SIZE", j->nnodes * j->nproc, NULL},
        {"LOCAL_WORLD_SIZE", j->nproc, NULL},
        {"GROUP_RANK", j->node_rank, NULL},
        {"GROUP_WORLD_SIZE", j->nnodes, NULL},
        {"ROLE_RANK", j->node_rank * j->nproc + local, NULL},
        {"ROLE_WORLD_SIZE", j->nnodes * j->nproc, NULL},
        {"ROLE_NAME", 0, "default"},
        {"MASTER_ADDR", 0, j->addr},
        {"MASTER_PORT", j->port, NULL},
        {"TORCHELASTIC_RESTART_COUNT", j->restart, NULL},
        {"TORCHELASTIC_MAX_RESTARTS", j->max_restarts, NULL},
        {"TORCHELASTIC_RUN_ID", 0, j->run_id},
        {"TORCHELASTIC_USE_AGENT_STORE", 0, "False"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", 1, NULL},
        {"FLOWTRAIN_LOCAL_SOCKS", 0, socks.p},
        {"OMP_NUM_THREADS", tr_rank_threads(j->nproc), NULL},
    };
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
        if (vars[i].text != NULL)
            tr_add_variable(out, "%s=%s", vars[i].name, vars[i].text);
        else
            tr_add_variable(out, "%s=%lld", vars[i].name, (long long)vars[i].value);
    out->bad = out->bad || socks.bad;
    fr_buf_finish(&socks);
}

static void inherit_socks(const struct job *j, int64_t local, bool on)
{
    for (int64_t k = 0; k < j->nproc; k++)
        if (k != local)
            fcntl(sock_of(j, local, k), F_SETFD, on ? 0 : FD_CLOEXEC);
}

static enum fr_rc start_rank(struct job *j, int64_t local, struct fr_err *err)
{
    struct fr_buf text = {0};
    const char **env;

    rank_vars(j, local, &text);
    if ((env = tr_environment(&text)) == NULL) {
        fr_buf_finish(&text);
        return fr_fail(err, FR_NOMEM, "no memory for the environment of a rank");
    }
    struct fr_spawn s = {
        .argv = j->program, .envp = env, .fds = {-1, 1, 2}, .die_with_parent = true};
    inherit_socks(j, local, true);
    int rc = fr_sys.spawn(&s, &j->ranks[local].proc);
    int e = errno;
    inherit_socks(j, local, false);
    j->ranks[local].alive = rc == 0;
    fr_sys.free(env);
    fr_buf_finish(&text);
    return rc == 0 ? FR_OK
                   : fr_fail_errno(err, e, "cannot start local rank %lld", (long long)local);
}

static void signal_all(struct job *j, int sig)
{
    for (int64_t i = 0; i < j->nproc; i++)
        if (j->ranks[i].alive)
            fr_sys.kill(j->ranks[i].proc, sig);
}

/* Reaps what has ended; true while some rank lives. */
static bool reap(struct job *j, bool *failed)
{
    struct fr_wait w;
    bool alive = false;

    while (fr_sys.wait(-1, &w, FR_WAIT_NOHANG) == 0 && w.pid > 0)
        for (int64_t i = 0; i < j->nproc; i++) {
            struct rank *r = &j->ranks[i];
            if (!r->alive || r->proc.pid != w.pid)
                continue;
            r->alive = false;
            r->end = w;
            r->order = ++j->ended;
            r->failed = w.signaled || w.code != 0;
            *failed = *failed || r->failed;
        }
    for (int64_t i = 0; i < j->nproc; i++)
        alive = alive || j->ranks[i].alive;
    return alive;
}

/* Waits for the ranks of one try: a failure or a signal ends them all, by force after GRACE_MS. */
static bool wait_all(struct job *j)
{
    bool failed = false, stopping = false;
    int64_t kill_at = 0;
    struct signalfd_siginfo info;

    while (reap(j, &failed)) {
        struct pollfd p = {.fd = j->signals, .events = POLLIN};
        if ((failed || j->caught != 0) && !stopping) {
            stopping = true;
            kill_at = fr_sys.mono_ms() + GRACE_MS;
            signal_all(j, j->caught != 0 ? j->caught : SIGTERM);
        }
        if (stopping && fr_sys.mono_ms() >= kill_at)
            signal_all(j, SIGKILL);
        if (fr_sys.poll(&p, 1, 1000) > 0 && read(j->signals, &info, sizeof(info)) == sizeof(info) &&
            info.ssi_signo != SIGCHLD) {
            if (j->caught != 0)
                signal_all(j, (int)info.ssi_signo);
            j->caught = (int)info.ssi_signo;
        }
    }
    return !failed && j->caught == 0;
}

/* Whether a try shall be made. What was refused would be refused again. */
static bool again(const struct job *j)
{
    return j->caught == 0 && j->restart <= j->max_restarts && j->why != FR_USAGE &&
           j->why != FR_STOPPED;
}

/* Whether a rank's exit status means that another rank ended first (cli.h, tr_exits). */
static bool victim(const struct rank *r)
{
    return !r->end.signaled && r->end.code == 4;
}

/* The earliest failure is the cause; the others usually ended because of it. Ends that come close
 * together are reaped in any order, so who names another rank is asked last. */
static void summarize(struct job *j)
{
    const struct rank *first = NULL;

    for (int64_t i = 0; i < j->nproc; i++) {
        const struct rank *r = &j->ranks[i];
        if (!r->failed)
            continue;
        if (first == NULL || (victim(first) && !victim(r)) ||
            (victim(first) == victim(r) && r->order < first->order))
            first = r;
    }
    if (first == NULL)
        return;
    j->why = first->end.signaled || victim(first) ? FR_PEER
             : first->end.code == 2               ? FR_USAGE
             : first->end.code == 3               ? FR_STOPPED
                                                  : FR_IO;
    long long local = first - j->ranks;
    char host[65] = "";
    gethostname(host, sizeof(host) - 1);
    fr_complain("flowtrain launch: rank %lld (local rank %lld on %s, pid %d) %s %d%s\n",
                (long long)(j->node_rank * j->nproc) + local, local, host, (int)first->proc.pid,
                first->end.signaled ? "was killed by signal" : "exited with status",
                first->end.code,
                again(j) && j->restart < j->max_restarts ? "; restarting all" : "");
}

static enum fr_rc run_try(struct job *j, bool *ok, struct fr_err *err)
{
    enum fr_rc rc = make_socks(j, err);

    j->ended = 0;
    memset(j->ranks, 0, (size_t)j->nproc * sizeof(*j->ranks));
    for (int64_t i = 0; i < j->nproc && rc == FR_OK; i++)
        rc = start_rank(j, i, err);
    close_socks(j);
    if (rc != FR_OK) {
        signal_all(j, SIGKILL);
        wait_all(j);
        return rc;
    }
    *ok = wait_all(j);
    if (!*ok)
        summarize(j);
    return FR_OK;
}

static enum fr_rc block_signals(struct job *j, struct fr_err *err)
{
    static const int caught[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
        sigaddset(&set, caught[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    j->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return j->signals >= 0 ? FR_OK : fr_fail_errno(err, errno, "signalfd");
}

static enum fr_rc run_job(struct job *j, struct fr_err *err)
{
    bool ok = false;
    size_t pairs = (size_t)(j->nproc * j->nproc);
    enum fr_rc rc;

    j->ranks = fr_sys.alloc((size_t)j->nproc * sizeof(*j->ranks));
    j->socks = fr_sys.alloc(pairs * sizeof(*j->socks));
    if (j->ranks == NULL || j->socks == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %lld ranks", (long long)j->nproc);
    else {
        memset(j->socks, 0xff, pairs * sizeof(*j->socks));
        rc = block_signals(j, err);
        for (; rc == FR_OK && !ok && again(j); j->restart++)
            rc = run_try(j, &ok, err);
    }
    fr_sys.free(j->ranks);
    fr_sys.free(j->socks);
    if (j->signals >= 0)
        close(j->signals);
    if (rc == FR_OK && !ok)
        rc = j->caught != 0         ? fr_fail(err, FR_STOPPED, "stopped by signal %d", j->caught)
             : j->why == FR_STOPPED ? fr_fail(err, FR_STOPPED, "the ranks stopped as asked")
                                    : fr_fail(err, j->why, "a rank failed");
    return rc;
}

const char *tr_program(void)
{
    const char *bundle = getenv("FLOWRUN_BUNDLE"); /* /proc/self/exe is the loader then */

    return bundle != NULL && bundle[0] == '/' ? bundle : "/proc/self/exe";
}

enum fr_rc tr_launch(const struct tr_launch_args *a, struct fr_err *err)
{
    const char **program = fr_sys.alloc(((size_t)a->nwords + 2) * sizeof(*program));
    struct job j = {.nproc = a->nproc,
                    .nnodes = a->nnodes,
                    .node_rank = a->node_rank,
                    .port = a->port,
                    .max_restarts = a->max_restarts,
                    .addr = a->addr,
                    .run_id = a->run_id,
                    .program = program,
                    .signals = -1};
    enum fr_rc rc;

    if (program == NULL)
        return fr_fail(err, FR_NOMEM, "no memory");
    program[0] = tr_program();
    memcpy(program + 1, a->words, (size_t)a->nwords * sizeof(*program));
    program[a->nwords + 1] = NULL;
    rc = run_job(&j, err);
    fr_sys.free(program);
    return rc;
}
