/*
 * The login node of a cluster under Slurm: its flownode runs Slurm's commands for this process, all
 * of them over one connection, which is made as that of a node over SSH and is made again, after
 * growing pauses, when it is lost. The commands that run then end, for their owners, without an
 * exit status: nothing is known of what they did. flownode keeps nothing of them.
 */
#ifndef FR_EXEC_LOGIN_H
#define FR_EXEC_LOGIN_H

#include "engine/exec/exec.h"

struct fr_login;

struct fr_login_args {
    struct fr_nodes *nodes;
    const struct fr_exec_node *node; /* copied */
    const char *path;                /* there, a folder in front of PATH; NULL. Copied */
    void (*changed)(void *arg);      /* fr_login_is() has changed; from the loop's turn */
    void *arg;
};

/* Connects at once, and stays connected. */
enum fr_rc fr_login_create(const struct fr_login_args *args, struct fr_login **out,
                           struct fr_err *err);
/* Links of its runner may be there still: they can only be closed and destroyed. NULL is fine. */
void fr_login_destroy(struct fr_login *l);

struct fr_login_state {
    bool up;
    bool failed; /* not up: after a try that failed, or a connection that was lost */
    bool final;  /* not up, and not tried again before fr_login_connect() */
    int64_t
        until_ms;    /* not up: mono_ms of the outage's begin and connect.retry_for; -1: for ever */
    const char *why; /* not up: the newest error, or what it is doing; "": neither */
};
struct fr_login_state fr_login_is(const struct fr_login *l);
void fr_login_connect(struct fr_login *l); /* tries now */
const struct fr_runner *fr_login_runner(const struct fr_login *l);

#endif
