/*
 * The host drives the runs of a home: it turns the loop, lets each run that has something to do
 * take its events, writes what all of them decided in one transaction, and then lets them act.
 *
 * One turn. 1. The loop makes the calls that are due; what arrives marks its run. 2. Each marked
 * run, and each whose time has come, is drained (fr_run_drain). 3. When the rows of a run must be
 * committed, those of all runs that have some are written in that commit. It is synced unless each
 * row can be found out again (fr_run_due.soft). 4. Each of these runs acts (fr_run_act).
 *
 * A commit that fails changes nothing: no run acts, each says why (once), and the same rows are
 * written again a second later. FR_DENIED does not pass by itself and ends the host.
 */
#ifndef FR_HOST_HOST_H
#define FR_HOST_HOST_H

#include "engine/base/err.h"
#include "engine/exec/loop.h"
#include "engine/run/run.h"
#include "engine/store/store.h"

struct fr_host;

/* Borrows both for the host's life. */
enum fr_rc fr_host_create(struct fr_loop *loop, struct fr_store *store, struct fr_host **out,
                          struct fr_err *err);
/* Destroys its runs too; their tasks go on. NULL is fine. */
void fr_host_destroy(struct fr_host *host);

/* The host owns the run from here on, also after an error. */
enum fr_rc fr_host_add(struct fr_host *host, struct fr_run *run, struct fr_err *err);
void fr_host_drop(struct fr_host *host, struct fr_run *run); /* and destroys it */

/* Waits for something to happen, writes it, does what follows. The error of a run that cannot go on
 * (no memory, a fault of the scheduler), or of the store. */
enum fr_rc fr_host_turn(struct fr_host *host, struct fr_err *err);

#endif
