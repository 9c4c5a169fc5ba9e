#include "engine/supervise/tree.h"

#include "engine/base/arena.h"
#include "engine/supervise/cgroup.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static int compare_pids(const void *a, const void *b)
{
    const struct fr_procinfo *x = a, *y = b;

    return (x->proc.pid > y->proc.pid) - (x->proc.pid < y->proc.pid);
}

/* Index of pid in the list, which is sorted by pid; -1 when it is not there. */
static int by_pid(const struct fr_procinfo *list, size_t n, pid_t pid)
{
    struct fr_procinfo key = {.proc = {.pid = pid}};
    const struct fr_procinfo *p = bsearch(&key, list, n, sizeof(key), compare_pids);

    return p != NULL ? (int)(p - list) : -1;
}

struct ranked {
    struct fr_procinfo p;
    size_t depth; /* how many ancestors the list has */
};

static int compare_ranks(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return compare_pids(&x->p, &y->p);
}

/* Sorts the list so that each process comes after its parent. */
static enum fr_rc rank(struct fr_procinfo *list, size_t n, struct fr_err *err)
{
    struct ranked *v = fr_sys.alloc((n + 1) * sizeof(*v));

    if (v == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the process table");
    for (size_t i = 0; i < n; i++) {
        int at = (int)i;

        v[i] = (struct ranked){.p = list[i]};
        /* pids that were reused while the table was read may form a circle */
        while (v[i].depth < n && (at = by_pid(list, n, list[at].ppid)) >= 0)
            v[i].depth++;
    }
    qsort(v, n, sizeof(*v), compare_ranks);
    for (size_t i = 0; i < n; i++)
        list[i] = v[i].p;
    fr_sys.free(v);
    return FR_OK;
}

static bool is_spared(const struct fr_tree *t, const struct fr_procinfo *p)
{
    for (size_t i = 0; i < t->n_spare; i++)
        if (p->session == t->spare[i])
            return true;
    return false;
}

/* Ours by marker or by session. If the environment is unreadable, only the session counts. */
static bool is_marked(const struct fr_tree *t, const struct fr_procinfo *p)
{
    if (strcmp(p->marker, t->marker) == 0)
        return true;
    /* 0 is no session of ours: kernel threads have it, and whoever's leader is in an outer
     * namespace */
    return t->supervisor.pid > 1 && p->session == t->supervisor.pid && p->marker[0] == '\0' &&
           p->proc.start >= t->supervisor.start;
}

/* Marks in ours the processes of the cgroup. The pids of those that are not in the list come to the
 * front of pids; returns how many. */
static size_t mark_inside(struct fr_buf *pids, const struct fr_procinfo *list, size_t n, bool *ours)
{
    pid_t *pid = (pid_t *)(void *)pids->p;
    size_t born = 0;

    for (size_t i = 0; i < pids->n / sizeof(*pid); i++) {
        int at = by_pid(list, n, pid[i]);
        if (at >= 0)
            ours[at] = true;
        else
            pid[born++] = pid[i];
    }
    return born;
}

/* Marks in ours what belongs to the tree, then their descendants until nothing is added. */
static void mark(const struct fr_tree *t, const struct fr_procinfo *list, size_t n, bool *ours)
{
    bool more = true;

    for (size_t i = 0; i < n; i++)
        ours[i] = ours[i] || is_marked(t, &list[i]) ||
                  (t->supervisor.pid > 1 && list[i].proc.pid == t->supervisor.pid &&
                   list[i].proc.start == t->supervisor.start);
    while (more) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            int parent = ours[i] ? -1 : by_pid(list, n, list[i].ppid);
            if (parent >= 0 && ours[parent]) {
                ours[i] = true;
                more = true;
            }
        }
    }
}

enum fr_rc fr_tree_find(const struct fr_tree *t, struct fr_procinfo **list, size_t *n,
                        struct fr_err *err)
{
    size_t all = 0, kept = 0, born = 0;
    struct fr_proc self = {0, 0};
    struct fr_buf pids = {0};
    struct fr_procinfo *more = NULL;
    enum fr_rc rc;

    *n = 0;
    fr_sys.self(&self);
    if (fr_sys.procs(list, &all) != 0) {
        *list = NULL;
        return fr_fail_errno(err, errno, "cannot read the process table");
    }
    fr_cgroup_pids(t->cgroup, &pids); /* after the table: who is in neither is gone */
    bool *ours = fr_sys.alloc(all + 1);
    if (ours != NULL && !pids.bad)
        more = fr_sys.realloc(*list, (all + pids.n / sizeof(pid_t) + 1) * sizeof(**list));
    if (more == NULL) {
        fr_sys.free(ours);
        fr_sys.free(*list);
        fr_buf_finish(&pids);
        *list = NULL;
        return fr_fail(err, FR_NOMEM, "no memory for the process table");
    }
    *list = more;
    memset(ours, 0, all + 1);
    qsort(*list, all, sizeof(**list), compare_pids);
    born = mark_inside(&pids, *list, all, ours);
    mark(t, *list, all, ours);
    for (size_t i = 0; i < all; i++) {
        const struct fr_procinfo *p = &(*list)[i];
        if (ours[i] && p->state != 'Z' && p->state != 'X' && !is_spared(t, p) &&
            p->proc.pid != t->supervisor.pid && p->proc.pid != self.pid && p->proc.pid > 1)
            (*list)[kept++] = *p;
    }
    rc = rank(*list, kept, err);
    for (size_t i = 0; i < born; i++)
        (*list)[kept++] =
            (struct fr_procinfo){.proc = {((const pid_t *)(const void *)pids.p)[i], UINT64_MAX},
                                 .state = '?',
                                 .comm = "?"};
    fr_buf_finish(&pids);
    fr_sys.free(ours);
    if (rc != FR_OK) {
        fr_sys.free(*list);
        *list = NULL;
        return rc;
    }
    *n = kept;
    return FR_OK;
}

void fr_stopper_begin(struct fr_stopper *s, int64_t grace_ms)
{
    int64_t now = fr_sys.mono_ms(), until = now + (grace_ms > 0 ? grace_ms : 0);

    /* a second stop may only shorten the first */
    if (s->phase == FR_STOP_KILL || (s->phase == FR_STOP_TERM && s->until_ms <= until))
        return;
    if (s->phase != FR_STOP_TERM) {
        fr_buf_finish(&s->survivors);
        fr_buf_finish(&s->signalled);
    }
    s->phase = FR_STOP_TERM;
    s->until_ms = until;
    s->due_ms = now;
    s->tick_ms = FR_STOP_TICK_MS;
}

/* All in the cgroup at once. Not for the supervisor, which is in it itself. */
static void kill_inside(const struct fr_tree *t)
{
    struct fr_proc self;

    if (t->cgroup != NULL && t->cgroup[0] != '\0' && fr_sys.self(&self) == 0 &&
        self.pid != t->supervisor.pid)
        fr_cgroup_kill(t->cgroup);
}

static void send_signal(struct fr_stopper *s, struct fr_proc proc, int sig)
{
    if (fr_sys.kill(proc, sig) != 0 && errno == EPERM)
        fr_buf_add(&s->denied, &proc, sizeof(proc));
}

/* Signals through sudo what belongs to root: `flownode signal SIG PID:START …`. Waits for it: sudo
 * -n never asks, and while it runs it would be taken for a process of the attempt. */
static void signal_denied(struct fr_stopper *s, int sig)
{
    const struct fr_proc *p = (const struct fr_proc *)(const void *)s->denied.p;
    size_t n = s->denied.n / sizeof(*p);
    struct fr_arena arena = {0};
    const char **argv = fr_arena_array(&arena, n + 7, sizeof(char *));
    struct fr_spawn sp = {.argv = argv, .envp = s->tree.environ, .fds = {-1, -1, -1}};
    struct fr_proc helper;
    struct fr_wait w;

    if (n > 0 && s->tree.self != NULL && argv != NULL) {
        const char *head[] = {"sudo", "-n", "--", s->tree.self, "signal"};
        memcpy(argv, head, sizeof(head));
        argv[5] = fr_arena_fmt(&arena, "%d", sig);
        for (size_t i = 0; i < n; i++)
            argv[6 + i] =
                fr_arena_fmt(&arena, "%d:%llu", (int)p[i].pid, (unsigned long long)p[i].start);
        if (fr_sys.spawn(&sp, &helper) == 0)
            fr_sys.wait(helper.pid, &w, 0);
    }
    fr_arena_finish(&arena);
    fr_buf_finish(&s->denied);
}

/* A process gets SIGTERM once: for many programs a second one means "at once". */
static void terminate(struct fr_stopper *s, const struct fr_procinfo *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct fr_proc *done = (const struct fr_proc *)(const void *)s->signalled.p;
        size_t k = 0, n_done = s->signalled.n / sizeof(*done);
        while (k < n_done &&
               (done[k].pid != list[i].proc.pid || done[k].start != list[i].proc.start))
            k++;
        if (k < n_done)
            continue;
        fr_buf_add(&s->signalled, &list[i].proc, sizeof(list[i].proc));
        send_signal(s, list[i].proc, SIGTERM);
        send_signal(s, list[i].proc, SIGCONT); /* one that is halted acts on SIGTERM only then */
    }
}

void fr_stopper_step(struct fr_stopper *s)
{
    struct fr_procinfo *list;
    size_t n;
    struct fr_err err;
    int64_t now = fr_sys.mono_ms();

    if ((s->phase != FR_STOP_TERM && s->phase != FR_STOP_KILL) || now < s->due_ms)
        return;
    s->due_ms = now + s->tick_ms;
    s->tick_ms =
        s->tick_ms * 3 / 2 < FR_STOP_TICK_MAX_MS ? s->tick_ms * 3 / 2 : FR_STOP_TICK_MAX_MS;
    if (fr_tree_find(&s->tree, &list, &n, &err) != FR_OK)
        return;
    if (n == 0) {
        s->phase = FR_STOP_DONE;
    } else if (s->phase == FR_STOP_TERM && now < s->until_ms) {
        terminate(s, list, n);
        signal_denied(s, SIGTERM);
        s->due_ms = s->due_ms < s->until_ms ? s->due_ms : s->until_ms;
    } else if (s->phase == FR_STOP_TERM || now < s->until_ms) {
        if (s->phase == FR_STOP_TERM)
            s->until_ms = now + FR_KILL_WAIT_MS;
        s->phase = FR_STOP_KILL;
        s->tick_ms = FR_STOP_TICK_MS;
        kill_inside(&s->tree);
        for (size_t i = 0; i < n; i++)
            send_signal(s, list[i].proc, SIGKILL);
        signal_denied(s, SIGKILL);
    } else {
        for (size_t i = 0; i < n; i++)
            fr_buf_fmt(&s->survivors, "%d %s %c\n", (int)list[i].proc.pid, list[i].comm,
                       list[i].state);
        s->phase = FR_STOP_UNPROVEN;
    }
    fr_sys.free(list);
}

struct fr_strs fr_stopper_survivors(const struct fr_stopper *s, struct fr_arena *arena)
{
    const struct fr_buf *b = &s->survivors;
    struct fr_strs out = {NULL, 0};
    size_t n = 0;

    for (size_t i = 0; i < b->n; i++)
        n += b->p[i] == '\n';
    out.v = fr_arena_array(arena, n + 1, sizeof(struct fr_str));
    for (size_t i = 0, from = 0; out.v != NULL && i < b->n; i++)
        if (b->p[i] == '\n') {
            out.v[out.n++] = (struct fr_str){b->p + from, i - from};
            from = i + 1;
        }
    return out;
}

void fr_stopper_finish(struct fr_stopper *s)
{
    fr_buf_finish(&s->survivors);
    fr_buf_finish(&s->signalled);
    fr_buf_finish(&s->denied);
}
