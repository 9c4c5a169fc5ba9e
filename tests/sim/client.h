/*
 * flowruns of users, as processes of control in the world (world.h). Each is the real program: what
 * engine/cli does behind its options (go, along, follow, drive, show, client), with engine/web
 * between a client and its host. It becomes the home's host if there is none, else it hands its run
 * over and follows, and takes over when the host goes. Beneath it are the world's loop, links and
 * system calls.
 *
 * Not run: main.c and the commands' options; the threads that write to a slow reader (its output is
 * a file); the table on a terminal.
 */
#ifndef TESTS_SIM_CLIENT_H
#define TESTS_SIM_CLIENT_H

#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_proc;
struct world;

struct client_pause { /* one got SIGSTOP */
    const struct client *who;
    bool host; /* it had the home's lock */
    int64_t from_us, until_us;
};

struct client {
    /* What is started. */
    char file[32]; /* `flowrun FILE`; "": `flowrun resume RUN` … */
    char run[40];  /* … with this id; of a FILE: drawn by the client, before it does anything */
    bool retry;    /* `flowrun retry RUN` */
    bool json;     /* --json; else --verbose */
    bool older;    /* its binary knows the schema before this one */
    bool serve;    /* `flowrun serve --standby` of the world's folder */
    /* What became of it. */
    struct sim_proc *proc; /* NULL: it ended */
    bool nested;           /* a task is this client: client_nested() */
    bool led;              /* it was the host */
    bool cancelled, left;  /* its user said so, by one Ctrl-C; by two, or by SIGTERM */
    bool robbed;           /* while it was stopped and the host, its lock was taken away */
    bool terminated;       /* it got SIGTERM */
    int64_t began_us, ended_us;
    int code;         /* its exit code; -1: a signal ended it, or it lives */
    long since;       /* the newest event of its run when it began */
    char outcome[16]; /* of its run when it ended; "": it was not over … */
    long seq;         /* … and its newest event */
};

/* Once, behind world_setup(). */
void client_setup(void);
/* Starts it; its number among w->clients. */
size_t client_start(struct world *w, const struct client *how);
/* The current process is a task: it becomes this client. Its exit code. env is as for sim_env(). */
int client_nested(struct world *w, const struct client *how, const void *env);
/* What it printed, borrowed until it prints more. */
struct fr_str client_printed(const struct world *w, size_t i);
/* The process that holds the home's lock, flowrun or not; NULL: none. */
struct sim_proc *client_host(struct world *w);
struct client *client_of(struct world *w, const struct sim_proc *p); /* NULL: it is none */
void client_int(struct world *w, struct client *c, bool leave); /* Ctrl-C; twice, if it leaves */
void client_term(struct world *w, struct client *c);
/* SIGSTOP, and SIGCONT so much later. False: not now, it is inside of a transaction, in which the
 * real SQLite would wait for it. */
bool client_stop(struct world *w, struct client *c, int64_t us);
/* The same with the host; somebody takes its lock away meanwhile, so that another one can have it.
 */
bool client_rob(struct world *w, struct client *host, int64_t us);

/* Whether one of them lives. */
bool client_any(const struct world *w);
/* Somebody resumes each run that is not over, unless a living client has it. False: all are over.
 */
bool client_resume_left(struct world *w);

/* For world.c: its end; before a power cut, what was printed is not on control's disk. */
void client_ended(struct world *w, const struct sim_proc *p);
void client_keep_printed(struct world *w);

#endif
