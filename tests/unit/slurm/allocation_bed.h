/*
 * An allocation at a time of the test's own, the events that it is told, and what comes out as
 * text: the state, the actions, and why it is or will be over.
 */
#ifndef TESTS_UNIT_SLURM_ALLOCATION_BED_H
#define TESTS_UNIT_SLURM_ALLOCATION_BED_H

#include "engine/slurm/allocation.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND };
#define T0 (1000 * (int64_t)MINUTE)
#define W0 (1700000000 * (int64_t)SECOND)
#define LIMIT (W0 + 60 * (int64_t)MINUTE)

struct bed {
    struct fr_allocation a;
    struct fr_allocation_now now;
    int64_t ms; /* since T0, W0 */
};

/* An allocation in that state, which it reached on the usual path. */
struct bed bed_in(enum fr_allocation_state state);

void apply(struct bed *b, const struct fr_allocation_event *ev);
void tell(struct bed *b, enum fr_allocation_event_kind kind);
void tell_job(struct bed *b, enum fr_allocation_event_kind kind, int64_t job);
void refuse(struct bed *b, bool transient);
/* Slurm's answer: up to two jobs, each as "7 PENDING Priority"; NULL: none. */
void answer(struct bed *b, const char *one, const char *two);
void answer_all(struct bed *b, const struct fr_slurm_job *jobs, size_t n);
struct fr_slurm_job job_of(const char *text);

/* "over end, stopped, proven"; the cause only where the life changed. */
const char *seen(const struct bed *b);
/* Seconds until Slurm is asked in turn; "never". */
const char *seen_at(const struct bed *b);

#endif
