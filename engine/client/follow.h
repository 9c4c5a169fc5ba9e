/*
 * Follows a run that another process drives, by what that process commits and writes: the events of
 * the store and the copies of logs (runs/<id>/). Of them it makes the notes (run.h) that the run
 * gives to its own process. Notes about nodes and troubles are missing: no row has them.
 *
 * Its position is the seq of the newest event taken, and an offset in the log of each attempt that
 * lives or whose output is not complete. An end is noted behind the output that is here; note.left
 * says how much is still to come. Nothing is written.
 *
 * Whoever takes the run over calls cli_follow_catch_up() once nobody else writes it and before the
 * run is resumed, whose notes then go to the same model: they begin where the position is. The plan
 * that the model borrows is the follower's, which stays until the view is gone.
 */
#ifndef FR_CLIENT_FOLLOW_H
#define FR_CLIENT_FOLLOW_H

#include "engine/run/run.h"

struct cli_follow;

struct cli_follow_opts {
    struct fr_store *store; /* borrowed; may be open for reading alone */
    const char *run;        /* its id, see fr_store_run_find() */
    void (*note)(void *arg, const struct fr_note *note);
    void *arg;
};

/* Loads the run's pipeline and begins before its first event. FR_NOTFOUND, FR_UNSUPPORTED,
 * FR_CORRUPT. */
enum fr_rc cli_follow_create(struct cli_follow **out, const struct cli_follow_opts *opts,
                             struct fr_err *err);
void cli_follow_destroy(struct cli_follow *f);                       /* NULL is fine */
const struct fr_run_row *cli_follow_row(const struct cli_follow *f); /* as it was at first */
const struct fr_plan *cli_follow_plan(const struct cli_follow *f);

/* Takes what is new, a slice of it: some hundred events and 64 KiB of output. *more: call again
 * without waiting for anything. FR_STOPPED: the run goes on with another pipeline, which this
 * follower does not know; err says so. */
enum fr_rc cli_follow_news(struct cli_follow *f, bool *more, struct fr_err *err);
/* All slices. */
enum fr_rc cli_follow_catch_up(struct cli_follow *f, struct fr_err *err);
/* For who takes the run over: also what is here of attempts that a host booked, as their start is
 * in no row yet. What is noted of them next is behind that. */
enum fr_rc cli_follow_booked(struct cli_follow *f, struct fr_err *err);

/* For now and then: output of a node that is unreachable is not awaited (note.left is 0). Reads
 * rows only while some is. */
enum fr_rc cli_follow_nodes(struct cli_follow *f, struct fr_err *err);

/* The run's end was noted. *complete: all of its output, too. */
bool cli_follow_over(const struct cli_follow *f, bool *complete);

#endif
