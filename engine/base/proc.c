#include "engine/base/proc.h"

#include "engine/base/str.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STAT_MAX = 4096, FIRST_SPARE_FD = 3 };

#define INTO_CGROUP 0x200000000u /* CLONE_INTO_CGROUP of linux/sched.h */

/* Reads a small /proc file whole; its length, or -1. */
static ssize_t read_proc(pid_t pid, const char *name, char *out, size_t cap)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t n = 0;
    ssize_t k;
    while (n + 1 < cap && (k = read(fd, out + n, cap - 1 - n)) > 0)
        n += (size_t)k;
    close(fd);
    out[n] = '\0';
    return (ssize_t)n;
}

/* Fields of /proc/PID/stat; the name may hold blanks and parentheses, so fields count from the last
 * ')'. *user, where given: it is no
 * thread of the kernel. Source: proc(5). */
static int read_stat(pid_t pid, struct fr_procinfo *info, bool *user)
{
    const unsigned kernel_thread = 0x00200000; /* PF_KTHREAD of linux/sched.h */
    char text[STAT_MAX];

    if (read_proc(pid, "stat", text, sizeof(text)) <= 0) {
        errno = ESRCH;
        return -1;
    }
    char *open = strchr(text, '('), *shut = strrchr(text, ')');
    if (open == NULL || shut == NULL || shut < open) {
        errno = ESRCH;
        return -1;
    }
    snprintf(info->comm, sizeof(info->comm), "%.*s", (int)(shut - open - 1), open + 1);
    int ppid, pgrp, session;
    unsigned flags;
    unsigned long long start;
    if (sscanf(shut + 1,
               " %c %d %d %d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &info->state, &ppid, &pgrp, &session, &flags, &start) != 6) {
        errno = ESRCH;
        return -1;
    }
    info->proc = (struct fr_proc){.pid = pid, .start = start};
    info->ppid = ppid;
    info->pgrp = pgrp;
    info->session = session;
    if (user != NULL)
        *user = (flags & kernel_thread) == 0;
    return 0;
}

/* Whether a process without an environment is just becoming another program, or ending: the field
 * env_end is 0 then. */
static bool is_between(pid_t pid)
{
    enum { STATE = 3, ENV_END = 51 };
    char text[STAT_MAX];
    char *p = read_proc(pid, "stat", text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;

    for (int field = STATE; p != NULL && (p = strchr(p, ' ')) != NULL; field++) {
        p++;
        if (field == STATE && (*p == 'Z' || *p == 'X'))
            return false;
        if (field == ENV_END)
            return strtoull(p, NULL, 10) == 0;
    }
    return false;
}

/* The environment as far as it fits; waits a while for one that is not there yet, and looks once
 * more when it is: the file that was open may have been the old program's. */
static ssize_t read_environ(pid_t pid, char *out, size_t cap)
{
    enum { WAITS = 200 };
    const struct timespec pause = {.tv_nsec = 1000000};
    ssize_t n = read_proc(pid, "environ", out, cap);

    for (int i = 0, between = 1; i < WAITS && n == 0 && between; i++) {
        between = is_between(pid);
        if (between)
            nanosleep(&pause, NULL);
        n = read_proc(pid, "environ", out, cap);
    }
    return n;
}

/* The value of FLOWRUN_ATTEMPT in the process's environment, of which the first 128 KiB are read.
 */
static void read_marker(struct fr_procinfo *info)
{
    static const char name[] = "FLOWRUN_ATTEMPT=";
    enum { ENVIRON_MAX = 128 * 1024 };
    char *text = fr_sys.alloc(ENVIRON_MAX);
    ssize_t n = text != NULL ? read_environ(info->proc.pid, text, ENVIRON_MAX) : -1;

    for (char *p = text; n > 0 && p < text + n; p += strlen(p) + 1)
        if (strncmp(p, name, sizeof(name) - 1) == 0) {
            snprintf(info->marker, sizeof(info->marker), "%s", p + sizeof(name) - 1);
            break;
        }
    fr_sys.free(text);
}

int fr_proc_self(struct fr_proc *out)
{
    struct fr_procinfo info = {0};

    if (read_stat(getpid(), &info, NULL) != 0)
        return -1;
    *out = info.proc;
    return 0;
}

int fr_proc_list(struct fr_procinfo **list, size_t *n)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    size_t cap = 0;

    *list = NULL;
    *n = 0;
    if (d == NULL)
        return -1;
    while ((e = readdir(d)) != NULL) {
        struct fr_procinfo info = {0};
        struct stat st;
        bool user;
        if (!isdigit((unsigned char)e->d_name[0]) ||
            read_stat((pid_t)strtol(e->d_name, NULL, 10), &info, &user) != 0)
            continue;
        if (fstatat(dirfd(d), e->d_name, &st, 0) == 0)
            info.uid = st.st_uid;
        if (user)
            read_marker(&info);
        if (*n == cap) {
            cap = cap == 0 ? 256 : 2 * cap;
            struct fr_procinfo *more = fr_sys.realloc(*list, cap * sizeof(**list));
            if (more == NULL)
                break;
            *list = more;
        }
        (*list)[(*n)++] = info;
    }
    closedir(d);
    if (e == NULL)
        return 0;
    fr_sys.free(*list);
    *list = NULL;
    *n = 0;
    errno = ENOMEM;
    return -1;
}

/* Puts fds[0..3) at 0, 1, 2: first out of the way, then into place. Only system calls: runs after
 * vfork. */
static int place_fds(const int fds[3])
{
    int high[3];

    for (int i = 0; i < 3; i++) {
        int fd = fds[i] >= 0 ? fds[i] : open("/dev/null", O_RDWR);
        if (fd < 0 || (high[i] = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_SPARE_FD)) < 0)
            return -1;
    }
    for (int i = 0; i < 3; i++)
        if (dup2(high[i], i) < 0)
            return -1;
    return 0;
}

/* execve, and what execvpe does beyond it: a file that no loader knows is a script for sh. */
static void exec_file(const char *path, const struct fr_spawn *s)
{
    enum { ARGS_MAX = 1024 };
    const char *argv[ARGS_MAX + 2] = {"/bin/sh", path};
    size_t n = 1;

    execve(path, (char *const *)s->argv, (char *const *)s->envp);
    if (errno != ENOEXEC)
        return;
    while (s->argv[n] != NULL && n < ARGS_MAX)
        n++;
    if (n == ARGS_MAX) {
        errno = E2BIG;
        return;
    }
    memcpy(&argv[2], &s->argv[1], (n - 1) * sizeof(argv[0]));
    execve(argv[0], (char *const *)argv, (char *const *)s->envp);
}

/* Looks for the program in the folders of its own PATH, not of this process's. Returns only where
 * it could not be started, with errno: EACCES when a file was there that must not be executed.
 * Only system calls: runs after vfork. Source: exec(3). */
static void exec_program(const struct fr_spawn *s)
{
    const char *name = s->argv[0], *path = "/usr/local/bin:/bin:/usr/bin";
    bool denied = false;
    char file[PATH_MAX];

    for (size_t i = 0; s->envp[i] != NULL; i++)
        if (strncmp(s->envp[i], "PATH=", 5) == 0)
            path = s->envp[i] + 5;
    if (strchr(name, '/') != NULL || name[0] == '\0') {
        exec_file(name, s);
        return;
    }
    errno = ENOENT;
    for (const char *end; path != NULL; path = *end == ':' ? end + 1 : NULL) {
        end = strchrnul(path, ':');
        size_t n = (size_t)(end - path), name_n = strlen(name);
        if (n + name_n + 2 > sizeof(file))
            continue;
        memcpy(file, path, n);
        if (n > 0)
            file[n++] = '/'; /* an empty folder is the current one */
        memcpy(file + n, name, name_n + 1);
        exec_file(file, s);
        if (errno == EACCES)
            denied = true;
        else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV)
            return;
    }
    errno = denied ? EACCES : ENOENT;
}

size_t fr_proc_raise_descriptors(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) != 0)
        return 0;
    const struct rlimit raised = {l.rlim_max, l.rlim_max};
    if (l.rlim_cur < l.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) {
        fr_sys.descriptors = l.rlim_cur;
        l = raised;
    }
    return l.rlim_cur;
}

size_t fr_proc_max_descriptors(void)
{
    struct rlimit l;

    return getrlimit(RLIMIT_NOFILE, &l) == 0 ? l.rlim_cur : 0;
}

/* In a new process: the limit that its parent had at first. Only system calls. */
static void lower_descriptors(void)
{
    struct rlimit l;

    if (fr_sys.descriptors == 0 || getrlimit(RLIMIT_NOFILE, &l) != 0)
        return;
    l.rlim_cur = fr_sys.descriptors;
    setrlimit(RLIMIT_NOFILE, &l);
}

/* The child's side of spawn, in the parent's memory until exec (vfork): leaves errno in *failed. */
static void become(const struct fr_spawn *s, volatile int *failed)
{
    sigset_t none;

    sigemptyset(&none);
    if ((!s->new_session || setsid() >= 0) && (!s->new_group || setpgid(0, 0) == 0) &&
        (!s->die_with_parent || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0) &&
        place_fds(s->fds) == 0) {
        if (s->cwd != NULL && chdir(s->cwd) != 0) {
            *failed = errno;
            if (s->cwd_refused != NULL)
                *s->cwd_refused = true;
            return;
        }
        if (s->umask != 0)
            umask(s->umask & 0777);
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        struct rlimit core;
        if (s->no_core && getrlimit(RLIMIT_CORE, &core) == 0) {
            core.rlim_cur = 0;
            setrlimit(RLIMIT_CORE, &core);
        }
        lower_descriptors();
        sigprocmask(SIG_SETMASK, &none, NULL);
        exec_program(s);
    }
    *failed = errno;
}

int fr_proc_spawn(const struct fr_spawn *s, struct fr_proc *out)
{
    volatile int failed = 0;
    sigset_t all, before;

    if (s->cwd_refused != NULL)
        *s->cwd_refused = false;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0) {
        become(s, &failed);
        _exit(127);
    }
    int e = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        errno = e;
        return -1;
    }
    if (failed != 0) {
        waitpid(pid, NULL, 0);
        errno = failed;
        return -1;
    }
    *out = (struct fr_proc){.pid = pid}; /* until it is reaped, no other has its pid */
    return 0;
}

/* Each thread of the process sees the other mask for a moment: called before there are others. */
uint32_t fr_proc_umask(void)
{
    mode_t mask = umask(077);

    umask(mask);
    return FR_UMASK_SET | (uint32_t)mask;
}

static void close_others(const int *keep, size_t n)
{
    long max = sysconf(_SC_OPEN_MAX);
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;

    for (int fd = 0; d == NULL && fd < max; fd++) {
        bool kept = false;
        for (size_t i = 0; i < n; i++)
            kept = kept || keep[i] == fd;
        if (!kept)
            close(fd);
    }
    while (d != NULL && (e = readdir(d)) != NULL) {
        int fd = isdigit((unsigned char)e->d_name[0]) ? (int)strtol(e->d_name, NULL, 10) : dirfd(d);
        bool kept = fd == dirfd(d);
        for (size_t i = 0; i < n; i++)
            kept = kept || keep[i] == fd;
        if (!kept)
            close(fd);
    }
    if (d != NULL)
        closedir(d);
    while ((max = open("/dev/null", O_RDWR)) >= 0 && max < FIRST_SPARE_FD) {
    }
    if (max >= FIRST_SPARE_FD)
        close((int)max);
}

/* fork(2) into a cgroup by clone3(2), whose arguments these are (Linux 5.7); -1 where that cannot
 * be. libc takes the new process for its parent: all that it may do is to fork and to end. */
static pid_t fork_into(const char *cgroup)
{
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
            set_tid_size, cgroup;
    } args = {.flags = INTO_CGROUP, .exit_signal = SIGCHLD};
    int fd = open(cgroup, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    args.cgroup = (uint64_t)fd;
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid != 0)
        close(fd);
    return pid;
}

int fr_proc_detach(const struct fr_detach *d)
{
    int status;
    pid_t pid = d->cgroup != NULL ? fork_into(d->cgroup) : -1;

    if (pid < 0)
        pid = fork(); /* copies arg with everything else */
    if (pid < 0)
        return -1;
    if (pid == 0) {
        pid_t child = setsid() >= 0 ? fork() : -1;
        if (child != 0)
            _exit(child < 0 ? 1 : 0);
        setsid(); /* the grandchild leads a session of its own */
        close_others(d->keep, d->n_keep);
        lower_descriptors();
        fr_sys.descriptors = 0;
        _exit(d->body(d->arg));
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    errno = EAGAIN;
    return -1;
}

int fr_proc_wait(pid_t pid, struct fr_wait *w, int flags)
{
    siginfo_t info = {0};
    int options =
        WEXITED | (flags & FR_WAIT_PEEK ? WNOWAIT : 0) | (flags & FR_WAIT_NOHANG ? WNOHANG : 0);

    *w = (struct fr_wait){0};
    while (waitid(pid == -1 ? P_ALL : P_PID, pid == -1 ? 0 : (id_t)pid, &info, options) != 0)
        if (errno != EINTR)
            return -1;
    w->pid = info.si_pid;
    w->signaled = info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    w->code = info.si_status;
    return 0;
}

int fr_proc_fd(pid_t child)
{
    return (int)syscall(SYS_pidfd_open, child, 0); /* close-on-exec by itself: pidfd_open(2) */
}

int fr_proc_kill(struct fr_proc proc, int sig)
{
    struct fr_procinfo info = {0};
    int fd = (int)syscall(SYS_pidfd_open, proc.pid, 0);

    if (fd < 0 && errno != ENOSYS && errno != EPERM)
        return -1;
    int rc = read_stat(proc.pid, &info, NULL);
    if (rc == 0 && proc.start != 0 && info.proc.start != proc.start) {
        errno = ESRCH;
        rc = -1;
    }
    if (rc == 0)
        rc = fd >= 0 ? (int)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) : kill(proc.pid, sig);
    if (fd >= 0)
        (void)fr_proc_close(fd);
    return rc;
}

int fr_proc_close(int fd)
{
    int e = errno;

    close(fd);
    errno = e;
    return -1;
}

int fr_proc_long_path(const char *path, const char *slash, char *out, size_t cap, int *dir_fd)
{
    char dir[4096];

    if ((size_t)(slash - path) >= sizeof(dir)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(dir, path, (size_t)(slash - path));
    dir[slash - path] = '\0';
    *dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir_fd < 0)
        return -1;
    snprintf(out, cap, "/proc/self/fd/%d%s", *dir_fd, slash);
    return 0;
}
