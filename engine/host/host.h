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
 *
 * Runs come from this process (it shows them, and ends when they are over) and from others, which
 * hand them over and follow them through the host's interface (api.h). A run of others is driven
 * while somebody follows it, until its tasks have stopped where it was cancelled, or for ever where
 * the host stays; else it is parked: its tasks go on, nothing is started, and whoever resumes it
 * goes on with it.
 *
 * A host that stays runs again what failed, where rerun: of its pipeline says so. When that is due
 * is in the commit that ended the run; the commit that begins it says that it is due no more.
 *
 * A submitted run, and a retry, starts at once, or is queued while a limit is reached
 * (view/queue.h).
 */
#ifndef FR_HOST_HOST_H
#define FR_HOST_HOST_H

#include "engine/api/api.h"
#include "engine/base/err.h"
#include "engine/loop/loop.h"
#include "engine/deliver/deliver.h"
#include "engine/run/run.h"
#include "engine/runs/runs.h"
#include "engine/store/store.h"
#include "engine/timetable/timetable.h"

struct fr_host;
struct fr_config;

/* env: what all of its runs need; shell and view are of each run, epoch and nodes are the host's.
 * links: of its connections, flownode_dir and make_link; a node stays connected for a
 * minute after its last run. Whoever calls holds the home's lock
 * (store/home.h). Borrows what they point to. */
enum fr_rc fr_host_create(const struct fr_run_env *env, const struct fr_nodes_args *links,
                          struct fr_host **out, struct fr_err *err);
/* Destroys its runs too; their tasks continue. NULL is fine. */
void fr_host_destroy(struct fr_host *host);
/* Borrows the home's lock; the host replaces it if its file was removed (home.h). */
void fr_host_lock(struct fr_host *host, int *lock_fd);
/* From now on runs of other processes are driven without followers, too. */
void fr_host_stay(struct fr_host *host);
/* Resumes the runs that the previous host drove and that were not parked, and all queued runs,
 * which are admitted in their turn. A run that cannot be resumed is logged and stays as it is. */
enum fr_rc fr_host_recover(struct fr_host *host, struct fr_err *err);
/* Fetches output of ended runs that the previous host left on nodes (store/unfetched.h); part of
 * fr_host_recover(). What is not fetched when this host ends is left to the next. */
void fr_host_fetch(struct fr_host *host);
struct fr_host_load {
    size_t runs, queued; /* driven runs; queued ones among them */
    size_t schedules;    /* in the served folders */
};
struct fr_host_load fr_host_load(const struct fr_host *host);
/* Sets the home's limits, channels and rules; a new host has none and sends nothing. Active runs
 * stay active. */
enum fr_rc fr_host_configure(struct fr_host *host, const struct fr_config *config,
                             struct fr_err *err);

/* One turn: waits for an event, decides, commits, acts. Fails if a run of this process cannot go on
 * (no memory, a fault of the scheduler) or the store is lost. */
enum fr_rc fr_host_turn(struct fr_host *host, struct fr_err *err);

/* Adds an address of its pages, "http://127.0.0.1:8470/". Runs begun there get this process's
 * shell. */
enum fr_rc fr_host_pages(struct fr_host *host, const char *url, const struct fr_run_shell *shell,
                         struct fr_err *err);

/* The interface of the host, for engine/web and tests. Valid as long as the host. */
struct fr_api fr_host_api(struct fr_host *host);

#endif
