/*
 * The state machine of allocation.h, in two files: allocation.c has its events, answer.c what an
 * answer of Slurm changes. Only they include this.
 */
#ifndef FR_SLURM_PRIVATE_H
#define FR_SLURM_PRIVATE_H

#include "engine/slurm/allocation.h"

struct turn {
    struct fr_allocation *a;
    struct fr_allocation_life *life;
    const struct fr_allocation_event *ev;
    struct fr_allocation_now *out;
    int64_t mono, wall;
};

/* The note: the text, and behind it what more says. */
void turn_note(const struct turn *t, struct fr_str more, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* That job, as Slurm's commands name it. */
struct turn_job {
    char text[FR_SLURM_JOB_TEXT];
};
struct turn_job turn_job(const struct turn *t, int64_t job);

/* When Slurm is asked: after ms; every 5 s from now on; more seldom after a minute of that; seldom,
 * and at its limit; at once, and then every 5 s. */
void turn_ask_in(const struct turn *t, int64_t ms);
void turn_begin_pace(const struct turn *t);
void turn_keep_pace(const struct turn *t);
void turn_pace_up(const struct turn *t);
void turn_ask_now(const struct turn *t);

/* cause: unless it has one. */
void turn_be_over(const struct turn *t, enum fr_cause cause, bool proven);
void turn_cancel(const struct turn *t);
void turn_cancel_twin(const struct turn *t, int64_t job);
/* To be cancelled because of cause, once its job is known. */
void turn_release(const struct turn *t, enum fr_cause cause);
/* Sets the job, which a scancel of another one does not reach. */
void turn_adopt(const struct turn *t, int64_t job);

void turn_answered(const struct turn *t);

#endif
