/*
 * Follows a run that another process drives, from what that process commits and writes: the events
 * of the store and the copies of logs (runs/<id>/). It makes the notes (run.h) that a run gives to
 * its own process, except notes about nodes and troubles, for which no row exists.
 *
 * The position is the seq of the newest event taken, and one log offset for each attempt that lives
 * or whose output is incomplete. An end is noted after the output that is here; note.left is the
 * number of bytes still to come. Nothing is written.
 *
 * A process that takes the run over calls cli_follow_catch_up() once nobody else writes, before it
 * resumes the run. The notes of that run then feed the same model. The model borrows the follower's
 * plan, so the follower outlives the view. With FR_NOTE_PLAN it gets another one, before the note
 * of any new instance; the old one lives until the note has been taken.
 */
#ifndef FR_CLIENT_FOLLOW_H
#define FR_CLIENT_FOLLOW_H

#include "engine/run/run.h"

struct cli_follow;

struct cli_follow_opts {
    struct fr_store *store; /* borrowed; may be open for reading alone */
    const char *run;        /* id, see fr_store_run_find() */
    void (*note)(void *arg, const struct fr_note *note);
    void *arg;
};

/* Loads the run's pipeline; the position is before the first event. FR_NOTFOUND, FR_UNSUPPORTED,
 * FR_CORRUPT. */
enum fr_rc cli_follow_create(struct cli_follow **out, const struct cli_follow_opts *opts,
                             struct fr_err *err);
void cli_follow_destroy(struct cli_follow *f);                       /* NULL is fine */
const struct fr_run_row *cli_follow_row(const struct cli_follow *f); /* as first read */
const struct fr_plan *cli_follow_plan(const struct cli_follow *f);   /* of now */

/* Notes the next slice: at most 200 events and 64 KiB of output. *more: call again at once.
 * FR_STOPPED: the run goes on with another pipeline file, which this follower does not know. */
enum fr_rc cli_follow_news(struct cli_follow *f, bool *more, struct fr_err *err);
/* All slices. */
enum fr_rc cli_follow_catch_up(struct cli_follow *f, struct fr_err *err);
/* For a process that takes the run over: catches up, and follows also the logs of booked attempts,
 * whose start no row has yet. */
enum fr_rc cli_follow_booked(struct cli_follow *f, struct fr_err *err);

/* Call it at intervals, such as 500 ms: output of an unreachable node is not awaited (note.left is
 * 0). Reads rows only while output is awaited. */
enum fr_rc cli_follow_nodes(struct cli_follow *f, struct fr_err *err);

/* Whether the end of the run was noted. *complete: all output was noted, too. */
bool cli_follow_over(const struct cli_follow *f, bool *complete);

#endif
