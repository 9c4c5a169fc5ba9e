/*
 * The states of instances, of runs, and how runs end: each once. The pages get the same table
 * (engine/web/embed.py).
 */
#ifndef FR_WORDS_STATES_H
#define FR_WORDS_STATES_H

#include "engine/words/words.h"

/* X(name, word, letter where there are many, concern, failed by itself). Of several instances the
 * state with the least concern number shows: failures, then activity, then the rest. The order is
 * part of the store's format; from SUCCEEDED on they have ended. */
#define FR_STATES(X)                                                                               \
    X(WAITING, "waiting", 'w', 11, false)  /* for its needs, its `when`, or a blocked task */      \
    X(READY, "ready", 'e', 8, false)       /* for a slot, its node, its gang */                    \
    X(STARTING, "starting", 'a', 7, false) /* prepare committed; gang: go once row.go is set */    \
    X(RUNNING, "running", 'r', 6, false)   /* its command was launched */                          \
    X(STOPPING, "stopping", 'o', 5, false) /* row.stop_cause says why; before the first signal */  \
    X(RETRYING, "retrying", 'y', 4, false) /* back-off: ready when row.delay_ms is over */         \
    X(SUCCEEDED, "succeeded", 's', 12, false)                                                      \
    X(FAILED, "failed", 'f', 1, true)                                                              \
    X(TIMED_OUT, "timed_out", 't', 2, true)                                                        \
    X(CANCELLED, "cancelled", 'c', 9, false)                                                       \
    X(LOST, "lost", 'l', 3, true)                                                                  \
    X(STOP_UNPROVEN, "stop_unproven", 'u', 0, true) /* processes may remain: no retry by itself */ \
    X(SKIPPED, "skipped", 'k', 13, false)                                                          \
    X(UPSTREAM_FAILED, "upstream_failed", 'p', 10, false)

#define FR_STATE_ID(name, word, letter, concern, failed) FR_ST_##name,
enum fr_state_of { FR_STATES(FR_STATE_ID) FR_ST_N, FR_ST_NONE = FR_ST_N };
#undef FR_STATE_ID

extern const struct fr_words fr_state_words, fr_state_or_none_words;
const char *fr_state_name(enum fr_state_of state); /* "stop_unproven"; "" of none */
bool fr_state_parse(const char *name, enum fr_state_of *state);
bool fr_state_ended(enum fr_state_of state);
bool fr_state_lives(enum fr_state_of state);  /* an attempt may have processes on a node */
bool fr_state_failed(enum fr_state_of state); /* by itself, not by a failure upstream */
char fr_state_letter(enum fr_state_of state);
/* Of two instances of a task, the state that shows. */
enum fr_state_of fr_state_shown(enum fr_state_of a, enum fr_state_of b);
enum fr_state_of fr_state_at(int concern); /* 0 to FR_ST_N - 1 */
/* Appends the names of those with a bit 1u << state: "succeeded, skipped". */
void fr_states_add(unsigned bits, struct fr_buf *out);

/* X(name, word). QUEUED has not begun; the scheduler itself has no such state. */
#define FR_RUN_STATES(X)                                                                           \
    X(RUNNING, "running")                                                                          \
    X(CANCELLING, "cancelling") /* tasks are being stopped */                                      \
    X(HOOKS, "hooks")           /* outcome known, hooks run */                                     \
    X(OVER, "over")                                                                                \
    X(QUEUED, "queued")
#define FR_OUTCOMES(X)                                                                             \
    X(SUCCEEDED, "succeeded")                                                                      \
    X(FAILED, "failed")                                                                            \
    X(CANCELLED, "cancelled")

#define FR_RUN_STATE_ID(name, word) FR_RUN_##name,
enum fr_run_state {
    FR_RUN_STATES(FR_RUN_STATE_ID) FR_RUN_N,
    FR_RUN_REMOVED =
        FR_RUN_N /* rows of the run are being deleted: only the store sees this state */
};
#undef FR_RUN_STATE_ID
#define FR_OUTCOME_ID(name, word) FR_OUT_##name,
enum fr_outcome {
    FR_OUT_NONE,
    FR_OUTCOMES(FR_OUTCOME_ID) FR_OUT_N,
    FR_OUT_LIVE = FR_OUT_N /* of an instant alone: its run goes on */
};
#undef FR_OUTCOME_ID

extern const struct fr_words fr_run_state_words, fr_outcome_words;
const char *fr_run_state_name(enum fr_run_state state);
const char *fr_outcome_name(enum fr_outcome outcome); /* "" of none */
extern const struct fr_words fr_outcome_or_live_words;
/* The outcome of a run that is over, else its state. */
const char *fr_run_word(enum fr_run_state state, enum fr_outcome outcome);

/* ---- schedules, backfills, deliveries ---- */

#define FR_SCHEDULE_STATES(X)                                                                      \
    X(FR_SCHEDULE_ACTIVE, "active")                                                                \
    X(FR_SCHEDULE_PAUSED, "paused")
enum fr_schedule_state { FR_SCHEDULE_STATES(FR_WORD_ID) };
#define FR_BACKFILL_STATES(X)                                                                      \
    X(FR_BACKFILL_ACTIVE, "active")                                                                \
    X(FR_BACKFILL_PAUSED, "paused")                                                                \
    X(FR_BACKFILL_OVER, "over")                                                                    \
    X(FR_BACKFILL_CANCELLED, "cancelled")
enum fr_backfill_state { FR_BACKFILL_STATES(FR_WORD_ID) };
/* What a backfill does at an instant that has a run; one that goes on always stays. */
#define FR_EXISTINGS(X)                                                                            \
    X(FR_EXISTING_SKIP, "skip")     /* no other run if it succeeded */                             \
    X(FR_EXISTING_FAILED, "failed") /* a run only where it failed */                               \
    X(FR_EXISTING_ALL, "all")
enum fr_existing { FR_EXISTINGS(FR_WORD_ID) };
#define FR_DELIVERY_STATES(X)                                                                      \
    X(FR_DELIVERY_WAITING, "waiting")                                                              \
    X(FR_DELIVERY_SENT, "sent")                                                                    \
    X(FR_DELIVERY_DEAD, "dead")   /* no further try */                                             \
    X(FR_DELIVERY_HELD, "held")   /* by the throttle of its rule */                                \
    X(FR_DELIVERY_QUIET, "quiet") /* until the quiet hours of its rule end */
enum fr_delivery_state { FR_DELIVERY_STATES(FR_WORD_ID) };

/* Of an allocation of a cluster under Slurm; slurm/allocation.h says what they mean. */
#define FR_ALLOCATION_STATES(X)                                                                    \
    X(FR_ALLOCATION_WANTED, "wanted")                                                              \
    X(FR_ALLOCATION_SUBMITTING, "submitting")                                                      \
    X(FR_ALLOCATION_LOOKING, "looking")                                                            \
    X(FR_ALLOCATION_QUEUED, "queued")                                                              \
    X(FR_ALLOCATION_STARTING, "starting")                                                          \
    X(FR_ALLOCATION_UP, "up")                                                                      \
    X(FR_ALLOCATION_RELEASING, "releasing")                                                        \
    X(FR_ALLOCATION_OVER, "over")
enum fr_allocation_state { FR_ALLOCATION_STATES(FR_WORD_ID) };

/* What is known of it from Slurm's accounting: nothing is asked for, or its cluster has none; asked
 * for; answered; asked for in vain. */
#define FR_ACCOUNTINGS(X)                                                                          \
    X(FR_ACCOUNTING_NONE, "")                                                                      \
    X(FR_ACCOUNTING_WANTED, "wanted")                                                              \
    X(FR_ACCOUNTING_KNOWN, "known")                                                                \
    X(FR_ACCOUNTING_MISSING, "missing")
enum fr_accounting { FR_ACCOUNTINGS(FR_WORD_ID) };

extern const struct fr_words fr_schedule_state_words, fr_backfill_state_words, fr_existing_words,
    fr_delivery_state_words, fr_allocation_state_words, fr_accounting_words;

#endif
