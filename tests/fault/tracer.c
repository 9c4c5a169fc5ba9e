#include "tests/fault/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between serve and a supervisor; let go; of flowrun, before it is a program; not known yet; the
 * door. */
enum { KIND_MIDDLE = TRACER_KINDS, KIND_NONE, KIND_YOUNG, KIND_HELD, KIND_DOOR };

enum {
    STAYS_S = 60,
    OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
              PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC
};

static const long writing[] = {
    SYS_write,  SYS_writev,  SYS_pwrite64, SYS_fsync,    SYS_fdatasync, SYS_ftruncate,
    SYS_sendto, SYS_sendmsg, SYS_mkdirat,  SYS_unlinkat, SYS_renameat2,
#ifdef SYS_unlink
    SYS_unlink, SYS_rename,  SYS_mkdir,
#endif
};

static struct tracer_proc *find(struct tracer *t, pid_t pid)
{
    for (int i = 0; i < t->n; i++)
        if (t->procs[i].pid == pid)
            return &t->procs[i];
    return NULL;
}

static struct tracer_proc *add(struct tracer *t, pid_t pid, int kind)
{
    struct tracer_proc *p = find(t, pid);

    if (p == NULL && t->n < TRACER_PROCS) {
        p = &t->procs[t->n++];
        *p = (struct tracer_proc){.pid = pid, .kind = kind, .fresh = true};
    } else if (p != NULL) {
        p->kind = kind;
    }
    return p;
}

static void drop(struct tracer *t, pid_t pid)
{
    struct tracer_proc *p = find(t, pid);

    if (p != NULL)
        *p = t->procs[--t->n];
}

static void enter(const char *cgroup)
{
    char path[300];

    if (cgroup == NULL || cgroup[0] == '\0')
        return;
    snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        _exit(97);
    close(fd);
}

static pid_t start(const struct tracer *t, const char *const *argv, const char *out, bool traced)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    enter(t->cgroup);
    int fd = open(out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(in, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(99);
    if (traced)
        raise(SIGSTOP);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(98);
}

/* A child that stopped before its first act. */
static bool take_in(struct tracer *t, pid_t pid, int kind)
{
    int status;

    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* what outlives its parents is waited for, too */
    if (pid < 0 || waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
        return false;
    add(t, pid, kind)->fresh = false;
    if (ptrace(PTRACE_SETOPTIONS, pid, NULL, OPTIONS) != 0)
        return false;
    ptrace(kind == KIND_DOOR ? PTRACE_CONT : PTRACE_SYSCALL, pid, NULL, NULL);
    return true;
}

bool tracer_start(struct tracer *t, const char *const *argv, const char *out)
{
    t->root = start(t, argv, out, true);
    return take_in(t, t->root, t->victim == TRACER_TAKER ? TRACER_TAKER : TRACER_FLOWRUN);
}

static _Noreturn void open_door(int socket, const char *const *argv, const char *out)
{
    int log = open(out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(99);
    raise(SIGSTOP);
    for (;;) {
        int fd = accept4(socket, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && fork() == 0) {
            dup2(fd, 0);
            dup2(fd, 1);
            dup2(log, 2);
            execv(argv[0], (char *const *)(uintptr_t)argv);
            _exit(98);
        }
        if (fd >= 0)
            close(fd);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

bool tracer_door(struct tracer *t, int socket, const char *const *argv, const char *out)
{
    t->door = fork();
    if (t->door == 0)
        enter(t->cgroup);
    if (t->door == 0)
        open_door(socket, argv, out);
    return take_in(t, t->door, KIND_DOOR);
}

void tracer_beside(struct tracer *t, const char *const *argv, const char *out)
{
    t->extra = start(t, argv, out, false);
    t->extra_ended = false;
}

pid_t tracer_also(const struct tracer *t, const char *const *argv, const char *out)
{
    return start(t, argv, out, false);
}

/* What a process becomes with its new program. */
static int kind_of_program(pid_t pid)
{
    char path[64], line[4096] = "";

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof(line) - 1) : 0;
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i + 1 < n; i++)
        if (line[i] == '\0')
            line[i] = ' ';
    if (strstr(line, "flownode") != NULL && strstr(line, " serve") != NULL)
        return TRACER_SERVE;
    return KIND_NONE;
}

static int kind_of_child(int parent)
{
    return parent == TRACER_FLOWRUN || parent == TRACER_TAKER ? KIND_YOUNG
           : parent == TRACER_SERVE                           ? KIND_MIDDLE
           : parent == KIND_MIDDLE                            ? TRACER_SUPERVISOR
           : parent == KIND_DOOR                              ? TRACER_SSHD
                                                              : KIND_NONE;
}

/* Whether the descriptor is of the file from which on the victim's points count. */
static bool is_first(const struct tracer *t, pid_t pid, uint64_t fd)
{
    char link[64], path[512];

    snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, (int)fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    return strcmp(path, t->begins) == 0;
}

static bool is_writing(struct tracer *t, pid_t pid, bool entry)
{
    struct __ptrace_syscall_info i;

    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(i), &i) <= 0)
        return false;
    if (entry != (i.op == PTRACE_SYSCALL_INFO_ENTRY))
        return false;
    for (size_t k = 0; entry && k < sizeof(writing) / sizeof(writing[0]); k++)
        if ((long)i.entry.nr == writing[k]) {
            t->begun = t->begun || t->begins == NULL || is_first(t, pid, i.entry.args[0]);
            return t->begun;
        }
    return false;
}

/* A system call begins or ends. True: the process was killed. */
static bool at_call(struct tracer *t, struct tracer_proc *p)
{
    bool entry = !p->inside && is_writing(t, p->pid, true);

    if (!entry && !p->inside)
        return false;
    p->inside = entry;
    long point = t->counts[p->kind]++;
    if (p->kind != (int)t->victim || point != t->point || t->struck)
        return false;
    t->struck = true;
    t->killed = p->pid;
    kill(p->pid, SIGKILL);
    return true;
}

static void go_on(const struct tracer *t, const struct tracer_proc *p, int sig)
{
    long how = p->kind == KIND_NONE                      ? PTRACE_DETACH
               : p->kind == (int)t->victim && !t->struck ? PTRACE_SYSCALL
                                                         : PTRACE_CONT;

    ptrace((enum __ptrace_request)how, p->pid, NULL, (void *)(intptr_t)sig);
}

/* The kind of a new process is known; it may have stopped before its parent told of it. */
static void let_in(struct tracer *t, pid_t pid, int kind)
{
    struct tracer_proc *p = find(t, pid);
    bool held = p != NULL && p->kind == KIND_HELD;

    if (!held) {
        add(t, pid, kind);
        return;
    }
    p->kind = kind;
    p->fresh = false;
    go_on(t, p, 0);
    if (kind == KIND_NONE)
        drop(t, pid);
}

static void on_event(struct tracer *t, struct tracer_proc *p, int event)
{
    unsigned long child = 0;

    if (event == PTRACE_EVENT_EXEC) {
        if (p->pid != t->root && p->kind != TRACER_SSHD)
            p->kind = kind_of_program(p->pid);
        p->inside = false;
    } else {
        int kind = kind_of_child(p->kind);
        ptrace(PTRACE_GETEVENTMSG, p->pid, NULL, &child);
        let_in(t, (pid_t)child, kind);
    }
}

static void on_stop(struct tracer *t, pid_t pid, int status)
{
    struct tracer_proc *p = find(t, pid);
    int sig = WSTOPSIG(status);

    if (p == NULL) {
        add(t, pid, KIND_HELD);
        return;
    }
    if (p->fresh && sig == SIGSTOP) {
        p->fresh = false;
        sig = 0;
        if (p->kind == KIND_NONE) { /* a command of a supervisor: let go before it runs */
            go_on(t, p, 0);
            drop(t, pid);
            return;
        }
    } else if (sig == (SIGTRAP | 0x80)) {
        if (p->kind < TRACER_KINDS && at_call(t, p))
            return;
        sig = 0;
    } else if (sig == SIGTRAP && status >> 16 != 0) {
        on_event(t, p, status >> 16);
        p = find(t, pid);
        sig = 0;
    } else if (sig == SIGTRAP) {
        sig = 0;
    }
    go_on(t, p, sig);
    if (p->kind == KIND_NONE)
        drop(t, pid);
}

static void on_alarm(int sig)
{
    (void)sig; /* waitpid returns */
}

void tracer_run(struct tracer *t, bool all)
{
    const struct sigaction a = {.sa_handler = on_alarm};

    sigaction(SIGALRM, &a, NULL);
    alarm(all ? STAYS_S : 0);
    if (all && t->door > 0)
        kill(t->door, SIGKILL);
    for (;;) {
        int status;

        if ((t->root == 0 || t->root_ended) && (t->extra == 0 || t->extra_ended) && !all)
            return;
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            break;
        if (pid == t->extra && (WIFEXITED(status) || WIFSIGNALED(status))) {
            t->extra_ended = true;
            t->extra_status = status;
        } else if (WIFSTOPPED(status)) {
            on_stop(t, pid, status);
        } else {
            if (pid == t->root) {
                t->root_ended = true;
                t->root_status = status;
            }
            drop(t, pid);
        }
    }
    alarm(0);
}
