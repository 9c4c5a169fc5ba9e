/*
 * A simulated machine room beneath fr_sys: several machines with their own clocks, files, processes
 * and sockets, all in this one process. Each simulated process is a coroutine; calls of fr_sys are
 * the points at which another one may go on, or a fault may strike. Time passes when everybody
 * waits. All choices come from one seed.
 *
 * Files lose what was not synced when their machine reboots (any prefix of it may have survived),
 * and get their old names back if the folder was not synced since they were renamed; new and
 * removed names do not get lost. A file that is renamed must be synced: on_unsynced is told of one
 * that is not. Links carry bytes between the engine's process and a `serve`
 * on a machine, late and in order; a cut link delivers them when it heals.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "engine/link/link.h"
#include "engine/loop/loop.h"

#include <setjmp.h>
#include <ucontext.h>

enum {
    SIM_FDS = 128,
    SIM_PIPE_BYTES = 65536,
    SIM_NAMES = 4096,
    SIM_RENAMES = 64,
    SIM_MACHINES = 4
};

struct sim_inode {
    char *data;
    size_t n, cap, synced;
    int refs; /* names and open files */
    bool dir;
    mode_t mode;
    const struct sim_file *locker;
    int sharers; /* of a shared lock */
    int64_t mtime_ms;
    uint64_t birth; /* the step */
};

struct sim_name {
    char *path; /* NULL: free */
    struct sim_inode *inode;
};

struct sim_rename { /* not yet synced */
    struct sim_name *from, *to;
    struct sim_inode *moved, *replaced; /* NULL: there was none */
};

struct sim_pipe {
    char *data;
    size_t n;
    int readers, writers;
};

enum sim_kind { SIM_FILE, SIM_STREAM, SIM_LISTEN, SIM_CHILD, SIM_PORT, SIM_CLAIM };

struct sim_frames { /* where a stream of frames is */
    size_t left, n_head, skip;
    unsigned char head[5];
};

struct sim_file { /* an open file description */
    enum sim_kind kind;
    int refs, flags;
    struct sim_frames *frames; /* STREAM: what is written are frames, each a point */
    size_t at;
    struct sim_inode *inode; /* FILE; LISTEN: of its name */
    struct sim_pipe *rd, *wr;
    char *path;                 /* FILE: of a folder */
    struct sim_file *queue[16]; /* LISTEN: connections not yet accepted */
    size_t n_queue;
    pid_t child; /* CHILD */
    int port;    /* PORT */
    bool shares; /* the lock of its inode */
};

struct sim_chunk {
    struct sim_chunk *next;
    int64_t due_us;
    size_t n;
    char bytes[];
};

struct sim_machine;

enum sim_state { SIM_READY, SIM_BLOCKED, SIM_ZOMBIE };

struct sim_block { /* memory of a process: freed with it */
    struct sim_block *next, *prev;
    struct sim_proc *owner; /* NULL: the scheduler's, in no list */
    size_t n;
    char bytes[] __attribute__((aligned(16)));
};

struct sim_proc {
    struct sim_proc *next;
    struct sim_machine *m;
    pid_t pid, ppid, session, pgrp;
    uint64_t start;
    bool subreaper, ignores_term, dies_with_parent;
    char comm[16], marker[40];
    enum sim_state state;
    struct fr_wait end;
    ucontext_t ctx; /* where it begins; later it goes on from here */
    jmp_buf here;
    bool begun;
    char *stack;
    int (*body)(void *arg);
    void *arg;
    struct sim_file *fds[SIM_FDS];
    struct sim_block *blocks;
    bool (*ready)(void *arg); /* BLOCKED */
    void *ready_arg;
    int64_t until_us; /* INT64_MAX: for ever */
    int64_t held_us;  /* it gets no processor before */
    int64_t stuck_us; /* no signal ends it before */
    int nested;       /* calls of fr_sys under way: those within one are the simulator's own */
    unsigned handled, pending, came; /* signals, as bits: its loop waits for them; they wait for it;
                                      * all that it ever got */
    char **vars;                     /* its environment, for getenv(); NULL: that of the test */
    struct fr_printer printer; /* with vars: where fr_print() goes; put NULL: to descriptor 1 */
    void *fiber;               /* of the address sanitizer */
};

struct sim_machine {
    char name[16], boot[40];
    bool up, cut, full, was_full, wiped;
    bool read_only;    /* its disk; who has a file open to write it writes no more */
    bool untidy;       /* a supervisor was killed, and no serve has tidied up since then */
    int64_t untidy_us; /* when the last one was */
    int64_t boot_us, up_us, heal_us, room_us; /* last boot; when each of the three is over */
    int64_t skew_ms;
    int64_t awake_us, slept_us;        /* asleep until; how long it slept since its boot */
    int64_t late_us, us_a_kb, rate_us; /* of its link: delay, what a KiB takes, until when */
    int64_t stale_us; /* so much later than a new connection an old one gets over a cut */
    pid_t last_pid;
    struct sim_proc *procs;
    struct sim_name names[SIM_NAMES];
    struct sim_rename renames[SIM_RENAMES]; /* in their order; the oldest is safe when it is full */
    size_t n_renames;
    bool renames_lost; /* a power cut undid some */
};

struct sim_link;

/* Where a kill changes the story: each is counted before it takes effect and after. */
enum sim_point {
    SIM_AT_COMMIT, /* of the store; before and after */
    SIM_AT_RECORD, /* in a node's journal */
    SIM_AT_SEND,   /* a frame, by the engine */
    SIM_AT_ANSWER, /* a frame, by serve */
    SIM_AT_ARRIVE, /* bytes at the engine */
    SIM_AT_EFFECT, /* of a command of Slurm (slurm.h) */
    SIM_POINTS
};

struct sim {
    uint64_t rng;
    int64_t now_us;
    uint64_t steps;
    struct sim_machine machines[SIM_MACHINES]; /* 0 is control */
    struct sim_proc *cur;                      /* NULL: the scheduler */
    jmp_buf main_here;
    struct sim_link *links;
    bool no_proc_fd;     /* a kernel before 5.3 */
    uint64_t fault_step; /* the scheduler is entered at this step */
    int64_t wake_us;     /* the test wants to look at this time; INT64_MAX */
    void (*on_spawn)(struct sim *s, struct sim_machine *m, const struct fr_spawn *sp);
    void (*on_exit)(struct sim *s, struct sim_proc *p);   /* its descriptors are still open */
    void (*on_point)(struct sim *s, enum sim_point what); /* may end any process */
    void (*on_unsynced)(struct sim *s, const char *path); /* a file that is not safe is renamed */
    void (*on_lend)(struct sim_proc *p, bool begins);
    struct sim_proc *doomed; /* on_doom is called at its next call of fr_sys */
    void (*on_doom)(struct sim *s);
    int (*program)(void *arg); /* body of every spawned program; arg: its fr_spawn, flat */
    int (*command)(void *arg); /* of those with another name than "sim"; NULL: there are none */
    void *test;
    void *main_fiber;
};

/* The world that fr_sys works on. */
extern struct sim *sim;

/* sim.c: numbers, coroutines, clocks */
uint64_t sim_draw(uint64_t *rng); /* the next number of a stream of one's own */
uint64_t sim_random(struct sim *s);
int64_t sim_between(struct sim *s, int64_t lo, int64_t hi);
void sim_init(struct sim *s, uint64_t seed);
void sim_finish(struct sim *s);
struct sim_proc *sim_start(struct sim_machine *m, int (*body)(void *arg), const void *arg,
                           size_t arg_bytes);
void sim_give_stack(char *stack);               /* of a process that ended */
void sim_name(char comm[16], const char *name); /* what a process is called */
void sim_step(void);
void sim_point(enum sim_point what);
/* How many of the n bytes at p end the frame that they are in; *starts: one begins there. */
size_t sim_frame(struct sim_frames *f, const char *p, size_t n, bool *starts);
/* Suspends m for a while: its processes, its monotonic clock and its link stop. Only the scheduler
 * calls it. */
void sim_suspend(struct sim_machine *m, int64_t us);
/* Waits until ready(arg), or until_us; false: the time came. */
bool sim_block(bool (*ready)(void *arg), void *arg, int64_t until_us);
/* Runs one process until it waits. False: no process can run before the clock moves. It was moved;
 * or nothing waits for it (*idle). */
bool sim_turn(struct sim *s, bool *idle);
void sim_end(struct sim_proc *p, bool signaled, int code); /* at once, whatever it was doing */
void sim_sweep(struct sim *s);                             /* frees what ended; scheduler only */
void sim_switch_to_scheduler(void);
/* From now on the current process has these variables, and what it prints goes to its descriptor 1.
 * on_lend (if any) is called whenever it begins to run, and ends. */
void sim_own(char **vars);

/* sim_proc.c */
const char *sim_arg(const void *arg, size_t i);         /* of a spawned program's arg; NULL */
const char *sim_env(const void *arg, const char *name); /* "" */
struct sim_proc *sim_find(const struct sim_machine *m, pid_t pid);
void sim_crash(struct sim_machine *m, bool reboot); /* all its processes; reboot: files too */
/* SIGKILL ends it. Of others, one that its loop waits for comes there; the rest end it, or are
 * ignored. From within any process, also of itself. */
void sim_signal(struct sim_proc *p, int signo);

/* sim_fs.c */
struct sim_inode *sim_lookup(const struct sim_machine *m, const char *path);
bool sim_has_name(const struct sim_machine *m, const char *part); /* a file: in its path */
void sim_put_file(struct sim_machine *m, const char *path, const char *text);
void sim_put_bytes(struct sim_machine *m, const char *path, const void *p, size_t n);
void sim_remove_file(struct sim_machine *m, const char *path);
void sim_lose_unsynced(struct sim *s, struct sim_machine *m);
void sim_wipe(struct sim_machine *m); /* a new disk; after a crash */
void sim_unref_inode(struct sim_inode *i);
bool sim_read_only(void); /* the disk of the current process; then EROFS */

/* sim_io.c */
int sim_fd_new(struct sim_proc *p, struct sim_file *f);
struct sim_file *sim_fd(int fd); /* of the current process; NULL and EBADF */
void sim_file_unref(struct sim_file *f);
struct sim_pipe *sim_pipe_new(void);
struct sim_file *sim_stream(struct sim_pipe *rd, struct sim_pipe *wr);
size_t sim_pipe_put(struct sim_pipe *p, const char *b, size_t n);
size_t sim_pipe_take(struct sim_pipe *p, char *b, size_t n);

/* sim_loop.c: the engine's loop */
enum fr_rc sim_loop_create(struct fr_loop *loop, struct fr_err *err);

/* sim_link.c: links to serve on a machine */
enum fr_rc sim_link_create(struct fr_link *out, struct sim_machine *m, int (*serve)(void *arg));
size_t sim_links_to(const struct sim *s, const struct sim_machine *m); /* of the current process */
void sim_links_pump(struct sim *s);                                    /* moves what is due */
int64_t sim_links_due(const struct sim *s); /* when there is something to move; INT64_MAX */
void sim_links_orphan(struct sim *s, const struct sim_proc *owner); /* that process is gone */
void sim_links_drop(struct sim_machine *m); /* its sshd is killed: all connections end */
/* Connections that stand carry nothing for so long; new ones are not held up. */
void sim_links_stall(struct sim_machine *m, int64_t us);
void sim_links_finish(struct sim *s);
bool sim_links_pending(const struct sim *s, const struct sim_proc *owner); /* something to hear */
void sim_links_tell(struct sim *s); /* the current process, one event: it may free any link */

/* Each puts its calls into the table that becomes fr_sys. */
void sim_sys_fs(struct fr_sys *t);
void sim_sys_io(struct fr_sys *t);
void sim_sys_proc(struct fr_sys *t);
void sim_sys_core(struct fr_sys *t);

#endif
