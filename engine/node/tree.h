/*
 * The processes of an attempt, and stopping them until the process table proves that they are gone.
 * A process belongs to the attempt when it descends from the supervisor (which is a subreaper, so
 * orphans come back to it), is in the supervisor's session or cgroup (cgroup.h), or has
 * FLOWRUN_ATTEMPT=its id in its environment. Zombies do not count: they only wait to be reaped.
 */
#ifndef FR_NODE_TREE_H
#define FR_NODE_TREE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "engine/wire/request.h"

struct fr_tree {
    char marker[FR_ID_TEXT];
    struct fr_proc
        supervisor; /* never part of what is found; pid 0: not known here, markers alone count */
    const char *cgroup; /* the supervisor's; NULL, "": it has none of its own. Borrowed */
    const pid_t *spare; /* sessions of sidecars, n_spare of them: left out; borrowed */
    size_t n_spare;
    /* What may not be signalled is handed to ARGV[0] "signal" through sudo -n; NULL: it is left.
     * Borrowed. */
    const char *self;
    const char *const *environ;
};

/* The attempt's processes now; fr_sys.free *list. One that was born while the table was read, and
 * is in the cgroup, is named "?" and has a start that fits nobody: the next look has all of it. */
enum fr_rc fr_tree_find(const struct fr_tree *t, struct fr_procinfo **list, size_t *n,
                        struct fr_err *err);

enum fr_stop_phase { FR_STOP_NONE, FR_STOP_TERM, FR_STOP_KILL, FR_STOP_DONE, FR_STOP_UNPROVEN };

enum { FR_STOP_TICK_MS = 20, FR_STOP_TICK_MAX_MS = 200, FR_KILL_WAIT_MS = 5000 };

/* SIGTERM once to each, grace_ms later SIGKILL to what is left and to what is born meanwhile, until
 * nothing is left (DONE), or FR_KILL_WAIT_MS after the first SIGKILL there still is (UNPROVEN:
 * survivors). */
struct fr_stopper {
    struct fr_tree tree;
    enum fr_stop_phase phase; /* zero to start */
    int64_t until_ms;         /* end of the phase */
    int64_t due_ms, tick_ms;  /* when step() is to be called again */
    struct fr_buf signalled;  /* owns: struct fr_proc that had their SIGTERM */
    struct fr_buf survivors;  /* owns: UNPROVEN: "pid comm state" lines, each ended by a newline */
    struct fr_buf denied;     /* owns: struct fr_proc that could not be signalled in this step */
};

void fr_stopper_begin(struct fr_stopper *s, int64_t grace_ms);

/* Looks and acts when due_ms has come, until phase is DONE or UNPROVEN. A process table that cannot
 * be read changes nothing. */
void fr_stopper_step(struct fr_stopper *s);

/* The lines of survivors; their text belongs to s. None without memory for the list. */
struct fr_strs fr_stopper_survivors(const struct fr_stopper *s, struct fr_arena *arena);

void fr_stopper_finish(struct fr_stopper *s);

#endif
