/*
 * The processes of an attempt, and stopping them until the process table proves that they are gone.
 * A process belongs to the attempt when it descends from the supervisor (which is a subreaper, so
 * orphans come back to it), is in the supervisor's session or cgroup (cgroup.h), or has
 * FLOWRUN_ATTEMPT=its id in its environment. Zombies do not count: they only wait to be reaped.
 */
#ifndef FR_SUPERVISE_TREE_H
#define FR_SUPERVISE_TREE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "engine/wire/request.h"

struct fr_tree {
    char marker[FR_ID_TEXT];
    struct fr_proc supervisor; /* never in the result; pid 0: not known here, only markers count */
    const char *cgroup;        /* of the supervisor; NULL, "": it has none of its own. Borrowed */
    const pid_t *spare;        /* sessions of sidecars, n_spare of them: left out; borrowed */
    size_t n_spare;
    /* Path of this flownode: `sudo -n SELF signal`, run with environ, signals processes of other
     * users. NULL: those are not signalled. Both borrowed. */
    const char *self;
    const char *const *environ;
};

/* The attempt's processes now, parents before their children; fr_sys.free *list. Signals are sent
 * in this order: a shell whose command is ended first takes that for a failure (sh -e exits), and
 * its trap never runs. A process of the cgroup that was born while the process table was read comes
 * last; it is named "?", with a start time that matches no process. The next call finds it whole.
 */
enum fr_rc fr_tree_find(const struct fr_tree *t, struct fr_procinfo **list, size_t *n,
                        struct fr_err *err);

enum fr_stop_phase { FR_STOP_NONE, FR_STOP_TERM, FR_STOP_KILL, FR_STOP_DONE, FR_STOP_UNPROVEN };

enum { FR_STOP_TICK_MS = 20, FR_STOP_TICK_MAX_MS = 200, FR_KILL_WAIT_MS = 5000 };

/* Sends SIGTERM once to each process, parents first, and after grace_ms SIGKILL to those that are
 * left or new. DONE: no process is left. UNPROVEN: there are survivors FR_KILL_WAIT_MS after the
 * first SIGKILL.
 */
struct fr_stopper {
    struct fr_tree tree;
    enum fr_stop_phase phase; /* zero to start */
    int64_t until_ms;         /* end of the phase */
    int64_t due_ms, tick_ms;  /* call step() again at due_ms (fr_sys.mono_ms) */
    struct fr_buf signalled;  /* owns: struct fr_proc that had their SIGTERM */
    struct fr_buf survivors;  /* owns: UNPROVEN: "pid comm state" lines, each ended by a newline */
    struct fr_buf denied;     /* owns: struct fr_proc that could not be signalled in this step */
};

void fr_stopper_begin(struct fr_stopper *s, int64_t grace_ms);

/* Does the next step if due_ms has come, until phase is DONE or UNPROVEN. Without a readable
 * process table it does nothing. */
void fr_stopper_step(struct fr_stopper *s);

/* The lines of survivors; their text belongs to s. None without memory for the list. */
struct fr_strs fr_stopper_survivors(const struct fr_stopper *s, struct fr_arena *arena);

void fr_stopper_finish(struct fr_stopper *s);

#endif
