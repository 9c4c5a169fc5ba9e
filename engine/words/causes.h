/*
 * Why an attempt ended, other than success: each cause once, with all its properties. A new cause
 * is a line here, and its source.
 */
#ifndef FR_WORDS_CAUSES_H
#define FR_WORDS_CAUSES_H

#include "engine/words/words.h"

/* What a cause says of the command. */
enum fr_cause_phase {
    FR_PHASE_UNSTARTED, /* it was not started: the reason is the text of the error alone */
    FR_PHASE_RAN,       /* it ran, and ended by itself or by its limits */
    FR_PHASE_CUT        /* it was ended by others, or nobody knows */
};

/* X(name, word, number with which a node reports it (0: none does), phase, whether retry.on may
 * list it, whether it does by default, what it means, and the reason of an instance that ended so;
 * "": none, or engine/run/reasons.c finds one for the instance). A node reports a cause by its
 * number, and keeps the cause of a stop by its position: append a new cause at the end, with the
 * next free number. */
#define FR_CAUSES(X)                                                                               \
    X(EXIT, "exit", 1, RAN, true, true, "the command ended with another status than 0", "")        \
    X(SIGNAL, "signal", 2, RAN, true, true, "a signal ended it", "")                               \
    X(TIMEOUT, "timeout", 3, RAN, true, true, "it ran longer than timeout:", "")                   \
    X(OOM, "oom", 4, RAN, true, false,                                                             \
      "the kernel ended it for memory; not retried unless listed",                                 \
      "killed by the kernel: out of memory")                                                       \
    X(START_FAILED, "start_failed", 5, UNSTARTED, true, true,                                      \
      "it could not be started, or its files could not be shipped", "its node did not start it")   \
    X(NODE_LOST, "node_lost", 7, CUT, true, true,                                                  \
      "its node was given up, or had no contact for lost_after:", "its node is given up")          \
    X(LOST, "lost", 6, CUT, true, true, "its supervisor was killed, so nobody knows how it ended", \
      "its outcome is not known")                                                                  \
    X(GANG_PEER, "gang_peer", 0, CUT, false, false, "another member of its gang failed",           \
      "another member of its gang ended")                                                          \
    X(STOPPED, "stopped", 8, CUT, false, false, "it was cancelled", "stopped by the user")         \
    X(UNREACHABLE, "unreachable", 0, UNSTARTED, true, true,                                        \
      "its node was not there for connect.retry_for", "")                                          \
    X(EXPRESSION, "expression", 0, UNSTARTED, false, false,                                        \
      "when: or a value that it starts with could not be worked out",                              \
      "an expression of it has no value")                                                          \
    X(TIME_LIMIT, "time_limit", 9, CUT, true, true, "its allocation reached its limit of time",    \
      "its allocation reached its time limit")                                                     \
    X(PREEMPTED, "preempted", 0, CUT, true, true,                                                  \
      "Slurm took its allocation back for others, or requeued it", "its allocation was preempted") \
    X(CANCELLED_OUTSIDE, "cancelled_outside", 0, CUT, true, false,                                 \
      "somebody else cancelled its allocation; not retried unless listed",                         \
      "its allocation was cancelled by somebody else")                                             \
    X(SUBMIT_FAILED, "submit_failed", 0, UNSTARTED, false, false,                                  \
      "of an allocation that Slurm refuses; its tasks have start_failed",                          \
      "Slurm refuses its allocation")                                                              \
    X(QUEUE_TIME, "queue_time", 0, UNSTARTED, false, false,                                        \
      "its allocation did not begin within queue_for:", "its allocation did not begin in time")    \
    X(NO_PROGRESS, "no_progress", 0, CUT, false, false,                                            \
      "two allocations of chain: in a row brought its training no newer checkpoint",               \
      "two allocations in a row brought no newer checkpoint")                                      \
    X(FAIL_FAST, "fail_fast", 0, CUT, false, false,                                                \
      "another instance of its task failed, and the task has fail_fast:",                          \
      "another instance of its task failed (fail_fast)")

#define FR_CAUSE_ID(name, ...) FR_CAUSE_##name,
enum fr_cause { FR_CAUSE_NONE, FR_CAUSES(FR_CAUSE_ID) FR_CAUSE_N };
#undef FR_CAUSE_ID
/* What a node reports as the cause; those that are 0 it does not. */
#define FR_END_ID(name, word, end, ...) FR_END_##name = end,
enum fr_end_cause { FR_CAUSES(FR_END_ID) };
#undef FR_END_ID

extern const struct fr_words fr_cause_words;
const char *fr_cause_name(enum fr_cause cause); /* "" of none */
bool fr_cause_parse(struct fr_str s, enum fr_cause *out);
bool fr_cause_ran(enum fr_cause cause);       /* whether its command ran, so that it has output */
bool fr_cause_unstarted(enum fr_cause cause); /* whether its command was not started */
bool fr_cause_retryable(enum fr_cause cause); /* whether retry.on may list it */
unsigned fr_causes_preset(void);              /* retry.on by default: bit 1u << enum fr_cause */
const char *fr_cause_meaning(enum fr_cause cause);
const char *fr_cause_reason(enum fr_cause cause); /* "killed by the kernel: out of memory" */
/* Of a number that a node reports; FR_CAUSE_N: no cause has it. */
enum fr_cause fr_cause_of_end(uint32_t end);

#endif
