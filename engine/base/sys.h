/*
 * fr_sys: everything the engine and the node ask of the machine. The real table calls the system; a
 * test replaces it (failing the Nth call) and the simulator replaces it whole (its own clock,
 * files, processes and links). Calls keep POSIX meaning: -1 and errno on failure.
 *
 * Clocks: mono_ms never steps and stops while the machine sleeps; boot_ms counts sleep too
 * (leases); wall_ms is the calendar, for cron and display alone.
 */
#ifndef FR_BASE_SYS_H
#define FR_BASE_SYS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* A process that cannot be mistaken for a later one with the same pid. */
struct fr_proc {
    pid_t pid;
    uint64_t start; /* /proc/PID/stat field 22, clock ticks since boot; 0: the process that has the
                     * pid now, which is enough for a child that is not reaped yet */
};

/* One process of the process table. */
struct fr_procinfo {
    struct fr_proc proc;
    pid_t ppid, pgrp, session;
    uid_t uid;
    char state; /* R S D Z T … */
    char comm[64];
    char marker[40]; /* value of FLOWRUN_ATTEMPT in its environment, "" when absent or unreadable */
};

struct fr_spawn {
    /* argv[0] is the program: a path, or a name that is searched in the folders of envp's PATH
     * ("/usr/local/bin:/bin:/usr/bin" where envp has none). A relative path is below cwd. */
    const char *const *argv;
    const char *const *envp;
    const char *cwd;   /* NULL: as the caller */
    bool *cwd_refused; /* NULL, or set: spawn failed because cwd could not be entered */
    int fds[3];        /* become 0, 1, 2; -1: /dev/null */
    bool new_session;
    bool new_group;       /* a process group of its own, in the caller's session */
    bool die_with_parent; /* PR_SET_PDEATHSIG = SIGKILL */
    bool no_core;         /* leaves no core unless it raises its limit itself */
    uint32_t umask;       /* FR_UMASK_SET | mask; 0: as the caller */
};

enum { FR_UMASK_SET = 01000 }; /* a mask stands beside it: 0 is none */

struct fr_endpoint { /* of TCP */
    char host[46];   /* a numeric address: "127.0.0.1", "::1" */
    int port;
};

struct fr_wait {
    pid_t pid; /* 0: nothing has ended */
    bool signaled;
    int code; /* exit status, or the signal's number */
};

struct fr_detach {
    int (*body)(void *arg); /* its return value is the exit code */
    void *arg;              /* flat memory of arg_bytes: body gets a copy and need not free it */
    size_t arg_bytes;
    const int *keep; /* descriptors that stay open, n_keep of them */
    size_t n_keep;
    /* Folder of the control group (cgroup v2) that the process starts in, which costs less than a
     * move later. If that fails it starts in the caller's group, and must check. NULL: the
     * caller's.
     */
    const char *cgroup;
};

enum fr_sys_wait { FR_WAIT_PEEK = 1 /* leave it a zombie */, FR_WAIT_NOHANG = 2 };

struct fr_sys {
    int64_t (*mono_ms)(void);
    int64_t (*boot_ms)(void);
    int64_t (*wall_ms)(void);
    int (*random)(void *p, size_t n); /* fills p; 0 or -1 */

    void *(*alloc)(size_t n);
    void *(*realloc)(void *p, size_t n);
    void (*free)(void *p);

    int (*open)(const char *path, int flags, mode_t mode); /* O_CLOEXEC is always added */
    int (*close)(int fd);
    ssize_t (*read)(int fd, void *p, size_t n);
    ssize_t (*write)(int fd, const void *p, size_t n);
    ssize_t (*pread)(int fd, void *p, size_t n, off_t at);
    ssize_t (*pwrite)(int fd, const void *p, size_t n, off_t at);
    int (*fdatasync)(int fd);
    int (*ftruncate)(int fd, off_t size);
    int (*reserve)(int fd, off_t size); /* blocks of [0, size) by fallocate(2); the file grows */
    int (*fstat)(int fd, struct stat *st);
    int (*lstat)(const char *path, struct stat *st);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*rmdir)(const char *path);
    int (*list)(const char *dir, char ***names,
                size_t *n);                 /* without . and ..; fr_sys_names_free */
    int64_t (*disk_free)(const char *path); /* bytes a user may still write, or -1 */
    int64_t (*fs_type)(const char *path);   /* f_type of statfs(2), or -1 */
    /* OFD locks. They never wait: EAGAIN when another holds the lock. A lock that the caller holds
     * is converted to the other kind. */
    int (*lock)(int fd);        /* exclusive */
    int (*lock_shared)(int fd); /* with others that share it */
    int (*locked)(int fd);      /* 1: another holds it, shared or exclusive; 0: free; -1 */
    int (*touch)(
        const char *path); /* sets the file's times to now; a link itself, not its target */

    int (*pipe)(int fds[2]);               /* close-on-exec */
    int (*socketpair)(int fds[2]);         /* stream, close-on-exec */
    int (*listen_unix)(const char *path);  /* a listening stream socket, in place of one
                                            * there; PATH.new until it listens */
    int (*connect_unix)(const char *path); /* never waits: EAGAIN when its queue is full */
    int (*accept)(int fd);
    /* One datagram to a unix socket; '@' begins a name of the abstract ones. It never waits. */
    int (*tell_unix)(const char *path, const void *p, size_t n);
    int (*peer_uid)(int fd, uid_t *out); /* who is at the other end of a unix socket; 0 or -1 */
    /* A listening TCP socket, which does not block; port 0: any free one. EINVAL: no address. */
    int (*listen_tcp)(const struct fr_endpoint *at);
    int (*endpoint)(int fd, bool peer, struct fr_endpoint *out); /* this end of it, or the other */
    int (*hold_port)(int port,
                     int *held); /* a bound TCP socket, port 0: any free one; EADDRINUSE */
    /* Reserves the port among the processes that use claim_port, until the descriptor is closed; no
     * socket is bound to it. EADDRINUSE: another process has reserved it. */
    int (*claim_port)(int port);
    int (*set_nonblock)(int fd, bool on);
    int (*poll)(struct pollfd *fds, nfds_t n, int timeout_ms); /* -1 for ever */
    /* Descriptors that become readable, until they are read empty, when a file in one of the
     * folders comes, goes or changes; when the wall clock is set. -1: the system cannot report it.
     * They do not block. */
    int (*dir_news)(const char *const *dirs, size_t n);
    int (*clock_news)(void);

    int (*spawn)(const struct fr_spawn *s, struct fr_proc *out); /* out->start may be 0 */
    /* Runs body(arg) in a new process of its own session whose parent is init (or the nearest
     * subreaper); all descriptors but those to keep are closed. In the simulator it is a new
     * simulated process. */
    int (*detach)(const struct fr_detach *d);
    int (*wait)(pid_t pid, struct fr_wait *w, int flags); /* pid -1: any child */
    int (*proc_fd)(pid_t child); /* readable once the child ended; ENOSYS on kernels before 5.3 */
    int (*kill)(struct fr_proc proc, int sig); /* ESRCH when that very process is gone */
    int (*subreaper)(void);                    /* orphans below this process become its children */
    int (*self)(struct fr_proc *out);
    uid_t (*uid)(void);                                 /* the effective user */
    int (*procs)(struct fr_procinfo **list, size_t *n); /* the whole table; fr_sys.free it */
    /* Calls run(arg) in another thread, and waits at most ms for it. Returns 1 when run has
     * returned; drop is not called. Returns 0 with errno ETIMEDOUT, or EINTR when a signal asked to
     * stop: the thread goes on and calls drop(arg) after run. Returns 0 with EAGAIN
     * (FR_THREADS_LEFT such threads go on) or ENOMEM (no thread): drop(arg) was called at once. */
    int (*within)(int64_t ms, void (*run)(void *arg), void (*drop)(void *arg), void *arg);

    int (*boot_id)(char out[40]);
    uint32_t (*umask)(void); /* of this process, as fr_spawn.umask */

    /* No call: the soft limit of descriptors that this process had before it raised its own
     * (fr_proc_raise_descriptors). Processes of spawn and detach get it back. 0: not raised. */
    uint64_t descriptors;
};

extern struct fr_sys fr_sys;

/* The table of the real machine, to restore after a test. */
extern const struct fr_sys fr_sys_real;

void fr_sys_names_free(char **names, size_t n);
/* A copy, to be freed by fr_sys.free(); NULL: no memory. */
char *fr_sys_dup(const char *s);

#endif
