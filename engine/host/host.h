/*
 * The host drives the runs of a home: it turns the loop, lets each run that has something to do
 * take its events, writes what all of them decided in one transaction, and then lets them act.
 *
 * One turn. 1. The loop makes the calls that are due; what arrives marks its run. 2. Each marked
 * run, and each whose time has come, is drained (fr_run_drain). 3. When the rows of a run must be
 * committed, those of all runs that have some are written in that commit. The commit is synced
 * unless each of its rows can be recovered (fr_run_due.soft). 4. Each of these runs acts
 * (fr_run_act).
 *
 * A commit that fails changes nothing: no run acts, each says why (once), and the same rows are
 * written again a second later. FR_DENIED does not pass by itself and ends the host.
 *
 * Runs come from this process (it shows them, and ends when they are over) and from others, which
 * hand them over and follow them through the host's interface (api.h). The host drives a run of
 * another process while a process follows the run. It drives a cancelled run until its tasks have
 * stopped. A host that stays drives every run. Any other run is parked: its tasks go on, no task is
 * started, and the process that resumes the run drives it further.
 *
 * A host that stays repeats a failed run if rerun: of its pipeline says so. The commit that ends
 * the run has the time at which the repeat is due; the commit that begins the repeat removes it.
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

/* env: the services of all runs; the host fills in all but loop, store, self, program
 * and program_arg. links: only flownode_dir, make_link and make_link_arg are read; a node stays
 * connected for a minute after its last run. Copies both structs and borrows what they point to.
 * The caller holds the home's lock (store/home.h).
 *
 * Order of calls: create, lock, configure; for a host that stays also stay and recover; then turns,
 * until the run of this process is over or a signal asks to stop; then destroy. */
enum fr_rc fr_host_create(const struct fr_run_env *env, const struct fr_nodes_args *links,
                          struct fr_host **out, struct fr_err *err);
/* Destroys its runs too; their tasks continue. NULL is fine. */
void fr_host_destroy(struct fr_host *host);
/* Borrows lock_fd, the descriptor of the home's lock. If the lock's file was removed, the host
 * makes a new one and changes *lock_fd (home.h). */
void fr_host_lock(struct fr_host *host, int *lock_fd);
/* From now on the host also drives runs that no process follows. */
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

/* Adds an address of the host's pages, "http://127.0.0.1:8470/". Runs that users begin on the pages
 * get *shell, which is copied. */
enum fr_rc fr_host_pages(struct fr_host *host, const char *url, const struct fr_run_shell *shell,
                         struct fr_err *err);

/* Something of runs that are over is not done: a message was not tried yet, an allocation is being
 * given back. Who ends the host turns it some seconds longer. */
bool fr_host_owes(const struct fr_host *host);
/* For people, a line each: what of it they should know of when the host ends all the same. */
void fr_host_owed(const struct fr_host *host, struct fr_buf *out);

/* The interface of the host, for engine/web and tests. Valid as long as the host. */
struct fr_api fr_host_api(struct fr_host *host);

#endif
