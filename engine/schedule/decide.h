/*
 * Decisions on the occurrences of a schedule: which run, which are missed, and how live runs of the
 * pipeline matter. Pure: state in, decisions out; the caller commits them as rows before it acts.
 *
 * The state of a schedule is `seen`: every occurrence at or before it is decided. At first sight,
 * after a change of its rule or zone, and after a resume it is the time of that, so the past is
 * never judged by a new rule.
 */
#ifndef FR_SCHEDULE_DECIDE_H
#define FR_SCHEDULE_DECIDE_H

#include "engine/schedule/rule.h"
#include "engine/words/words.h"

enum { FR_CATCHUP_LIMIT = 10, FR_CATCHUP_LIMIT_MAX = 1000, FR_GRACE_MS = 600000 };

#define FR_CATCHUPS(X)                                                                             \
    X(FR_CATCHUP_NONE, "none") /* the newest runs if within grace; the others are missed */        \
    X(FR_CATCHUP_LAST, "last") /* the newest runs */                                               \
    X(FR_CATCHUP_ALL, "all")   /* the newest `limit` run one by one; the others are dropped */
enum fr_catchup { FR_CATCHUPS(FR_WORD_ID) FR_CATCHUP_N };

/* The decision on an occurrence. */
#define FR_FATES(X)                                                                                \
    X(FR_FATE_RAN, "ran") /* a run was made */                                                     \
    X(FR_FATE_MISSED, "missed")                                                                    \
    X(FR_FATE_DROPPED, "dropped")       /* older than the newest `limit` */                        \
    X(FR_FATE_SKIPPED, "skipped")       /* a live run of the pipeline was in the way */            \
    X(FR_FATE_SUPERSEDED, "superseded") /* its waiting run made room for a newer one */            \
    X(FR_FATE_PAUSED, "paused")                                                                    \
    X(FR_FATE_INVALID, "invalid") /* its pipeline could not be loaded */
enum fr_fate { FR_FATES(FR_WORD_ID) FR_FATE_N };

const char *fr_fate_name(enum fr_fate fate); /* "ran" */
extern const struct fr_words fr_fate_words;

/* One decision: of the one occurrence at_ms, or of `count` occurrences from first_ms to at_ms. */
struct fr_decision {
    enum fr_fate fate;
    bool late; /* RAN: to catch up, not in time */
    int64_t first_ms, at_ms, count;
};

/* A stored decision. Only those after `seen` matter: they exist if the clock was set back. */
struct fr_decided {
    enum fr_fate fate;
    int64_t first_ms, at_ms;
    int64_t decided_ms; /* the clock then */
};

struct fr_due { /* a schedule, when it is asked what is due; borrows everything */
    const struct fr_rule *rule;
    int64_t seen_ms, now_ms;
    int64_t delay_ms; /* fr_jitter_ms: an occurrence is due that long after its instant */
    int64_t grace_ms;
    enum fr_catchup catchup;
    size_t limit; /* of ALL; 1 … FR_CATCHUP_LIMIT_MAX */
    bool paused;
    const struct fr_decided *decided; /* those behind seen, ascending by at_ms */
    size_t n_decided;
};

/* Decides all due occurrences: at most limit + 1 decisions into out, ascending, one for each
 * occurrence that runs. *seen_ms is the new value of seen, unchanged if nothing was due. */
size_t fr_decide(const struct fr_due *due, struct fr_decision *out, int64_t *seen_ms);

/* The undecided occurrences at or before an instant, due or not, as one decision without a fate.
 * false: none. */
bool fr_undecided_upto(const struct fr_due *due, int64_t upto_ms, struct fr_decision *out);

/* When to call fr_decide again: at the next occurrence plus its delay. FR_NO_END: never. */
int64_t fr_next_due(const struct fr_due *due);

/* The wall clock was set back, to now. seen falls to now, never below *since (the last first sight,
 * resume or change of the rule), which itself falls to now when it lies in the future. Decisions
 * behind seen stand, except those of fr_decide_anew. */
int64_t fr_seen_back(int64_t seen_ms, int64_t now_ms, int64_t *since_ms);
/* Whether a decision was made by a clock ahead of now and started no run: its occurrences after
 * seen are decided again. */
bool fr_decide_anew(const struct fr_decided *d, int64_t now_ms);

/* ---- overlap ---- */

/* The policies, and what becomes of an instant by each: a new one is a line here, and its decisions
 * in overlap.c. */
#define FR_OVERLAPS(X)                                                                             \
    X(FR_OVERLAP_SKIP, "skip", "no run")                                                           \
    X(FR_OVERLAP_QUEUE, "queue", "a run that waits")                                               \
    X(FR_OVERLAP_CANCEL, "cancel_previous",                                                        \
      "a run, once the schedule's previous one is cancelled")                                      \
    X(FR_OVERLAP_PARALLEL, "parallel", "a run beside it")
enum fr_overlap { FR_OVERLAPS(FR_WORD_ID) FR_OVERLAP_N };

/* Who made a run. */
#define FR_ORIGINS(X)                                                                              \
    X(FR_ORIGIN_CLI, "cli")                                                                        \
    X(FR_ORIGIN_API, "api")                                                                        \
    X(FR_ORIGIN_SCHEDULE, "schedule")                                                              \
    X(FR_ORIGIN_CATCHUP, "catchup")                                                                \
    X(FR_ORIGIN_BACKFILL, "backfill")                                                              \
    X(FR_ORIGIN_RETRY, "retry")
enum fr_origin { FR_ORIGINS(FR_WORD_ID) FR_ORIGIN_N };

const char *fr_origin_name(enum fr_origin origin); /* "cli" */
extern const struct fr_words fr_origin_words;

/* A run of the pipeline that is not over, in the order of their numbers. */
struct fr_live {
    int64_t no;
    const char *schedule; /* key of the one that made it; "": none */
    enum fr_origin origin;
    bool queued; /* not started */
};

enum fr_overlap_act {
    FR_ENTER, /* a run enters the queue; fr_overlap_blocker says when it may start */
    FR_SKIP   /* no run: `by` is in the way */
};

struct fr_overlap_of { /* an occurrence that is to run, or a run in the queue */
    enum fr_overlap policy;
    const char *schedule;  /* its key */
    enum fr_origin origin; /* SCHEDULE or CATCHUP */
    int queue_max;         /* of QUEUE, where one enters: how many may wait, at least 1 */
    const struct fr_live *live;
    size_t n_live;
};

struct fr_overlap_out {
    enum fr_overlap_act act;
    int64_t by;        /* SKIP: number of the run in the way */
    int64_t supersede; /* ENTER: the waiting run that makes room for it; 0: none */
};

/* Decides an occurrence beside the live runs. */
struct fr_overlap_out fr_overlap_enter(const struct fr_overlap_of *of);
/* CANCEL: the occurrence that enters asks this live run to end. */
bool fr_overlap_cancels(const struct fr_overlap_of *of, const struct fr_live *run);
/* The run that a queued one with number `no` waits for; 0: it may start. */
int64_t fr_overlap_blocker(const struct fr_overlap_of *of, int64_t no);

#endif
