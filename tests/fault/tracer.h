/*
 * Runs a program and all that it starts under ptrace(2), and kills one of its kind of process at
 * its Nth writing system call: just before it takes effect, or just after. The program is the real
 * one and knows nothing of it.
 *
 * Kinds are told by descent: the program itself; `flownode serve` that it starts; the supervisor
 * that serve forks twice for; and what a door starts for a connection: an sshd. What a supervisor
 * or an sshd starts is let go.
 */
#ifndef TESTS_FAULT_TRACER_H
#define TESTS_FAULT_TRACER_H

#include <stdbool.h>
#include <sys/types.h>

enum tracer_kind {
    TRACER_FLOWRUN,
    TRACER_SERVE,
    TRACER_SUPERVISOR,
    TRACER_SSHD,
    TRACER_TAKER, /* the program itself, from its first write to a file on */
    TRACER_KINDS
};

enum { TRACER_PROCS = 256 };

struct tracer_proc {
    pid_t pid;
    int kind; /* enum tracer_kind, or one of the private ones */
    bool fresh, inside;
};

struct tracer {
    enum tracer_kind victim;
    long point;         /* 2k: before its k-th write, 2k + 1: after it, k = 0, 1 …; -1: none */
    const char *begins; /* of TRACER_TAKER: that file */
    bool begun;
    const char *cgroup;        /* what is started goes there first; "" or NULL: stays */
    long counts[TRACER_KINDS]; /* points seen of the victim's kind */
    bool struck;
    pid_t killed;      /* who was; 0: nobody yet */
    pid_t root, extra; /* the program; one that was started beside it, not traced; 0: none */
    pid_t door;        /* starts a program for each connection; 0: none */
    int root_status, extra_status;
    bool root_ended, extra_ended;
    struct tracer_proc procs[TRACER_PROCS];
    int n;
};

/* Starts argv under trace, its output appended to the file out. false: ptrace is not allowed. */
bool tracer_start(struct tracer *t, const char *const *argv, const char *out);

/* Starts argv beside it, not traced: a resume. */
void tracer_beside(struct tracer *t, const char *const *argv, const char *out);

/* The same, and nobody waits for it before tracer_run() does for all. Its pid. */
pid_t tracer_also(const struct tracer *t, const char *const *argv, const char *out);

/* A process that starts argv for each connection to the listening socket, with that as its input
 * and output; all of them under trace. false: ptrace is not allowed. */
bool tracer_door(struct tracer *t, int socket, const char *const *argv, const char *out);

/* Goes on until the program (and what runs beside it) ended; all: the door is closed, and until
 * everything that they left has ended, too, or a minute is over. */
void tracer_run(struct tracer *t, bool all);

#endif
