/*
 * The scheduler of one run: a pure state machine. An event and the time go in, actions come out. It
 * does no I/O, reads no clock, and draws nothing at random but the jitter of retries, from a seed.
 *
 *     fr_sched_create -> [fr_sched_load for each stored row] -> fr_sched_apply(BEGIN | RESUME)
 *     -> drains: top up the ids, fr_sched_apply for each event, perform the actions
 *
 * A drain. Actions pile up in one list over all events of a turn of the loop. Then the run layer
 *   1. performs those that touch nothing outside (FR_ACT_EVAL) and applies their results,
 *   2. writes all rows (FR_ACT_ROW, FR_ACT_ROW_RUN) in one commit,
 *   3. performs the effects (all kinds from FR_ACT_EFFECTS on) in their order, only after that
 * commit. When the commit fails, it keeps the list and tries again: no effect takes place
 * meanwhile, and events may still be applied. When fr_sched_apply fails (FR_NOMEM, FR_BUG) the
 * scheduler is unusable: drop it and the list, and load a new one from the store.
 *
 * A task whose list is awaited (plan.h) asks for it with FR_ACT_EXPAND once it would run. When all
 * actions have been performed, fr_sched_grow() gives the scheduler the plan that has its elements;
 * they wait until FR_EV_EXPANDED, so that the run layer may write their rows in several commits.
 * Instances keep their numbers but for those of awaited tasks (fr_plan_moved()). After a RESUME
 * with the plan that has them they wait for nothing more.
 *
 * Time. now_ms never steps back. Rows carry delays, not times: the run layer stores (wall time,
 * delay) and gives the remaining delay, clamped to the delay, on load. Delays and the run's limit
 * count from the end itself (ago_ms), not from the arrival of its report.
 *
 * Cost. An event costs O(log n) plus O(affected items: users of a task that ended, members of a
 * gang, live attempts of a node). A look at the instances that wait for an absent node costs
 * O(ready ones), at most ten times a second. Nothing is O(n) but load, BEGIN, RESUME, CANCEL and
 * RETRY, and with any event, the answers to it among them, at most FR_SCHED_SLICE instances (or one
 * gang) get ready, are reset, cancelled or fail without an attempt: the rest follows with later
 * events. Memory is below 256 bytes an instance.
 *
 * The rules kept here: at most one live attempt an instance; a new one only after the last ended,
 * or was lost and is proven gone; members of a gang start together or not at all, and a new
 * generation only when every old member is proven gone; slots and max_parallel are never exceeded;
 * hooks start when the outcome is known, one after the other (those of the outcome, then on_exit),
 * once, and never change it.
 */
#ifndef FR_SCHED_SCHED_H
#define FR_SCHED_SCHED_H

#include "engine/base/str.h"
#include "engine/plan/plan.h"
#include "engine/words/states.h"

struct fr_sched;
enum { FR_SCHED_SLICE = 500 };

/*
 * Booking. While a node is full, the next attempts of its best ready instances are written ahead:
 * such a row is READY, its attempt_state STARTING, and live, for once it is committed its start
 * (FR_ACT_START with .booked) may leave the moment a slot is free, before the commit of the end
 * that freed it. In the scheduler that booked it, the attempt has no slot and its node does not
 * know it: more urgent ones go first, and a booking that became obsolete is dropped
 * (FR_ACT_FORGET). A loaded booking may run already, so it is STARTING and its node is queried; if
 * the node does not know it, it is booked again. Any loaded start is treated so where slots are
 * short, but a gang begins anew, and an attempt that its node has prepared keeps its slot until it
 * has a tombstone there.
 *
 * Everything durable about an instance, with its newest attempt. attempt_state is STARTING,
 * RUNNING, STOPPING while the attempt may live, else how it ended (SUCCEEDED, FAILED, TIMED_OUT,
 * CANCELLED, LOST, STOP_UNPROVEN), which stays when the instance goes on to RETRYING. A member of a
 * gang whose command exited with 0 before its peers is held: state RUNNING, live false, cause EXIT,
 * code 0, attempt_state RUNNING; it becomes SUCCEEDED with the last of them, or FAILED by gang_peer
 * with a peer's failure. A tombstoned attempt ends as CANCELLED with cause NONE. An attempt that
 * was stopped but not proven gone has attempt_state STOP_UNPROVEN until a later end proves it (then
 * CANCELLED; state stays); a retry by the user stops such an attempt again, proven, before anything
 * else starts in its place.
 */
struct fr_row {
    uint32_t inst;
    enum fr_state_of state;
    uint32_t attempt_no;  /* 1, 2, …; 0: no attempt yet. Grows over retries by the user too */
    struct fr_id attempt; /* zero when attempt_no is 0 */
    enum fr_state_of attempt_state;
    bool live;                /* the attempt may live: not yet ended and proven */
    bool go;                  /* gang: go is committed (single instances: always with the start) */
    uint32_t generation;      /* of the gang, 1, 2, …; single instances: attempt_no */
    uint32_t retries;         /* used of retry.times; equal on all members of a gang */
    uint32_t chained;         /* used of the chain: of its allocation, likewise */
    enum fr_cause cause;      /* how the attempt ended */
    int code;                 /* exit code or signal number */
    enum fr_cause stop_cause; /* STOPPING: gang_peer, stopped */
    int64_t delay_ms;         /* RETRYING: until ready, from now */
    bool unreachable;         /* its node is, while it lives; nothing is concluded from it */
    bool blocked;             /* WAITING for the end of a FR_EV_BLOCK alone; not stored */
};

static inline bool fr_row_booked(const struct fr_row *row)
{
    return row->state == FR_ST_READY && row->live;
}

/* How many attempts were sent to their node, for people: without the newest if it is booked,
 * dropped or tombstoned. */
static inline uint32_t fr_row_began(const struct fr_row *row)
{
    bool never = row->attempt_state == FR_ST_CANCELLED &&
                 (row->cause == FR_CAUSE_NONE || fr_cause_unstarted(row->cause));

    return row->attempt_no > 0 && (never || fr_row_booked(row)) ? row->attempt_no - 1
                                                                : row->attempt_no;
}

struct fr_run_now {
    enum fr_run_state state;
    enum fr_outcome outcome;
    uint32_t round; /* 1; one more each time the user retries: hooks run once a round */
    bool timed_out; /* a stored row says so while CANCELLING: its outcome is FAILED already */
};

enum fr_event_kind {
    FR_EV_BEGIN,  /* first event of a new run; every instance is WAITING, without a row */
    FR_EV_RESUME, /* first event after the rows were loaded; of an OVER run nothing follows. value:
                   * that was while fr_sched_resets(), by a RETRY from task */
    FR_EV_TICK,   /* time passed: due when fr_sched_next_due() is reached */
    /* about the attempt `attempt` of `inst`; ignored when it is not the newest of it (one that
     * ended, proven, is acknowledged all the same) */
    FR_EV_PREPARED, /* also as the answer to a query: then it may be unready */
    FR_EV_LAUNCHED, /* its command runs; also as the answer to a query */
    FR_EV_ENDED,    /* over: cause, code; proven: every process is gone. A lost one too */
    FR_EV_BUSY,     /* answer to a start: attempt `other` of the same instance lives on that node */
    FR_EV_CLEARED,  /* the other attempt is proven gone, or was ours: start again */
    FR_EV_UNKNOWN,  /* answer to a query: the node knows none; same_home, same_boot, prepared */
    FR_EV_TOMBSTONED,  /* the attempt never started and never will */
    FR_EV_NO_PROGRESS, /* allocations are followed by others in vain: it is stopped, for good */
    FR_EV_WHEN,        /* answer to FR_ACT_EVAL: value; failed: could not be evaluated */
    FR_EV_LIST,        /* answer to FR_ACT_EXPAND: it has no element; failed: it is no list */
    /* about `node`, which is not up until the first UP. What is ready to start on one that is not
     * there waits connect.retry_for (0: for ever; anew if no TICK came for long), and until the
     * first try has ended or should have, then fails as unreachable, which may be retried. */
    FR_EV_NODE_UP,   /* connected, hello done: live attempts there are queried */
    FR_EV_NODE_DOWN, /* unreachable; since_ms: of its last reply, lost_after counts from there.
                      * value: it was left, as all that was sent there has ended: no outage */
    /* cannot be used (host key, login, no flownode): what is to start there fails with cause (NONE:
     * start_failed), without retry, until a NODE_UP; live attempts are left alone */
    FR_EV_NODE_REFUSED,
    FR_EV_ABANDON, /* it is given up: its live attempts end by cause. proven: they are gone, as the
                    * user says, or as what gave the node to the run has shown */
    /* slots: how many of it the run may use from now on. contended: others wait for some, or (over)
     * too many are in use: each slot that gets free is given back. While more are in use than lent,
     * nothing starts there; nothing is stopped */
    FR_EV_SLOTS,
    /* a place: its allocation ends in left_ms (0: never). What was in time for that when this was
     * told, and is not any more (fr_task_last_ms), waits for a further one */
    FR_EV_LIMIT,
    /* about the run */
    FR_EV_BLOCK, /* value: what would get ready of `task` waits, takes no slot and is row.blocked;
                  * else it goes on. Again: its rows are put again. May precede the first event */
    FR_EV_EXPANDED, /* task: all its rows are committed since fr_sched_grow(), and they may start */
    FR_EV_CANCEL,
    FR_EV_RETRY /* of a run that is OVER, else FR_BUSY. task: it and all that waits for it, and what
                 * failed above it; FR_PLAN_NONE: all that failed and what waits for it */
};

struct fr_event {
    enum fr_event_kind kind;
    uint32_t inst, node, task;
    struct fr_id attempt, other;
    enum fr_cause cause; /* ENDED. NODE_LOST: its lease ended. STOPPED: by our stop, whose cause is
                          * recorded */
    int code;
    bool proven, no_retry;       /* no_retry: ENDED: a built-in task refused its `with` */
    bool value, failed, unready; /* unready: PREPARED: another one follows, once it waits for go */
    bool same_home, same_boot, prepared /* UNKNOWN: it was, and may yet be started there */;
    int64_t since_ms;
    int64_t ago_ms;  /* ENDED: it ended so long before now */
    int64_t left_ms; /* RESUME: until the run has taken its timeout; < 0: it has. LIMIT */
    uint32_t slots;
    bool contended, over;
};

enum fr_act_kind {
    FR_ACT_PAST,   /* an effect that has been performed: the run layer marks it so */
    FR_ACT_EVAL,   /* evaluate inst's `when` (gang: of its first member), answer with FR_EV_WHEN */
    FR_ACT_EXPAND, /* evaluate the list of inst's task; answer: FR_EV_LIST, or fr_sched_grow() */
    /* rows: one commit a drain */
    FR_ACT_ROW,     /* .row: the whole of it, each time it changes */
    FR_ACT_ROW_RUN, /* .run */

    /* effects: after the commit, in this order */
    FR_ACT_EFFECTS,
    FR_ACT_CONNECT =
        FR_ACT_EFFECTS, /* node: something wants to start there; asked once until UP or REFUSED */
    /* single instance: prepare and go at once. .booked: its attempt is of an earlier row; once that
     * is committed, this need not wait for the commit. Comes again for the same attempt when its
     * node does not know it; there it runs once */
    FR_ACT_START,
    /* gang member `member` of `members`; all follow each other, but after CLEARED one is alone */
    FR_ACT_PREPARE,
    FR_ACT_GO,   /* likewise; that they may go is committed. Alone: repeated after a resume */
    FR_ACT_STOP, /* stop the attempt: stop_cause, grace_ms. May come again, and for one that was
                  * given up (NODE_LOST) in case its start is still under way */
    FR_ACT_STOP_OTHER, /* attempt `other`, which lives where ours should start: FR_EV_CLEARED */
    FR_ACT_QUERY,      /* what became of it? Answer: PREPARED, LAUNCHED, ENDED, UNKNOWN */
    FR_ACT_TOMBSTONE,  /* journal there that it never starts: TOMBSTONED, LAUNCHED or ENDED */
    FR_ACT_ATTACH,     /* after a resume or reconnect: it lives; follow its output after the copy */
    FR_ACT_ACK,        /* its end is committed: once its log is copied, the node may forget it */
    FR_ACT_FORGET,     /* a booked attempt that will never start */
    FR_ACT_OVER /* the run is over, outcome in .run; nothing lives but what is STOP_UNPROVEN */
};

struct fr_act {
    enum fr_act_kind kind;
    uint32_t inst, node, task;
    struct fr_run_now run; /* ROW_RUN, OVER */
    union {
        struct fr_row row; /* ROW */
        struct {           /* the others */
            struct fr_id attempt, other;
            uint32_t generation;
            uint32_t attempt_no;
            uint32_t member, members; /* PREPARE, GO */
            enum fr_cause stop_cause;
            int64_t grace_ms;
            bool booked; /* START */
        };
    };
};
struct fr_acts { /* zero it to start; set n to 0 to use it again */
    struct fr_act *v;
    size_t n, cap;
};
void fr_acts_finish(struct fr_acts *acts);

struct fr_sched_opts {
    uint64_t seed;          /* of the jitter */
    int64_t lost_margin_ms; /* added to lost_after; 0: 10 s */
    int64_t timeout_ms;     /* of the run, from BEGIN or RETRY until its hooks; 0: none */
    bool lent; /* FR_EV_SLOTS lends slots, none before the first; else they are those of the plan */
};

enum fr_rc fr_sched_create(const struct fr_plan *plan, const struct fr_sched_opts *opts,
                           struct fr_sched **out, struct fr_err *err); /* borrows plan */
void fr_sched_destroy(struct fr_sched *s);

/* A stored run, before RESUME; without a row an instance is WAITING. FR_CORRUPT: makes no sense. */
enum fr_rc fr_sched_load_run(struct fr_sched *s, const struct fr_run_now *row, struct fr_err *err);
enum fr_rc fr_sched_load(struct fr_sched *s, const struct fr_row *row, struct fr_err *err);

/* Random ids for attempts to come, else starts wait: before each drain as many as wanted says. */
size_t fr_sched_ids_wanted(const struct fr_sched *s);
enum fr_rc fr_sched_add_ids(struct fr_sched *s, const struct fr_id *ids, size_t n,
                            struct fr_err *err);

/* Applies ev and appends actions to acts. FR_NOMEM, FR_BUG: the scheduler is unusable from then on.
 * FR_USAGE, FR_BUSY: the event is refused and nothing has changed. */
enum fr_rc fr_sched_apply(struct fr_sched *s, const struct fr_event *ev, int64_t now_ms,
                          struct fr_acts *acts, struct fr_err *err);

/* Whether FR_EV_RETRY from task (FR_PLAN_NONE: from all failures) is accepted; else why not. */
enum fr_rc fr_sched_may_retry(const struct fr_sched *s, uint32_t task, struct fr_err *err);

bool fr_sched_awaits(const struct fr_sched *s, uint32_t task); /* it has asked for its list */
/* That list is known: plan is that of the same spec, and is borrowed. Instances have its numbers
 * from now on (fr_plan_moved()). FR_NOMEM: nothing has changed. */
enum fr_rc fr_sched_grow(struct fr_sched *s, const struct fr_plan *plan, uint32_t task,
                         struct fr_err *err);

int64_t fr_sched_next_due(const struct fr_sched *s); /* of FR_EV_TICK; INT64_MAX: never */
bool fr_sched_more(const struct fr_sched *s);        /* due now: the next slice; commit first */
bool fr_sched_resets(const struct fr_sched *s);      /* of a retry, some are still to be reset */
/* Whether all live attempts may have ended: nodes have not answered, or (away) are absent. O(live)
 */
bool fr_sched_in_doubt(const struct fr_sched *s, bool away);
/* Views, O(1) unless noted. */
struct fr_row fr_sched_row(const struct fr_sched *s, uint32_t inst, int64_t now_ms);
struct fr_run_now fr_sched_now(const struct fr_sched *s);
size_t fr_sched_count(const struct fr_sched *s, enum fr_state_of state); /* instances, hooks too */
size_t fr_sched_live(const struct fr_sched *s);                          /* live attempts */
size_t fr_sched_booked(const struct fr_sched *s);                        /* none of them */

/* The slots of a node that the run uses, and those that it would use at once if it had more. */
struct fr_demand {
    uint32_t slots, used;       /* slots: those that it may use now */
    uint32_t single, gang;      /* more: of tasks without a gang, of the gang whose turn it is */
    int64_t single_ms, gang_ms; /* since when the one whose turn it is has been ready */
    bool gang_first;            /* slots go to the gang before any of them goes to the others */
};
struct fr_demand fr_sched_demand(struct fr_sched *s, uint32_t node); /* O(1) amortised */

/* Whether the run uses a node, also one that is not there. O(1). */
enum fr_need {
    FR_NEED_NONE,
    FR_NEED_LATER, /* nothing now, but an instance there has not ended */
    FR_NEED_NOW    /* an attempt lives there, or something is ready to start there */
};
enum fr_need fr_sched_need(const struct fr_sched *s, uint32_t node);
bool fr_sched_lives(const struct fr_sched *s, uint32_t node);     /* an attempt does there */
uint32_t fr_sched_ready(const struct fr_sched *s, uint32_t node); /* instances, or live ones */
bool fr_sched_spent(struct fr_sched *s, uint32_t node); /* the next waits for an allocation */
/* For ${{ success() }} and failure() of an instance: whether a need of its task failed, of one that
 * is joined item by item its item of that; of a hook: whether the run did. O(needs). A task that is
 * best_effort never counts as failed. */
bool fr_sched_needs_failed(const struct fr_sched *s, uint32_t inst);
/* Of its instances the worst once all ended, else the furthest. The one of an empty task succeeds
 * once all that it needs ended, where an instance would have run. */
enum fr_state_of fr_sched_task_state(const struct fr_sched *s, uint32_t task);

#endif
