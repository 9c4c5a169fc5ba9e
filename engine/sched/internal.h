/* clang-format off */
/*
 * What the files of the scheduler share; nobody else includes it.
 *
 *   sched.c   life, loading, views, the switch over events
 *   move.c    states, rows, actions, slots
 *   place.c   who starts where and when
 *   end.c     ends of attempts, gangs, retries
 *   verdict.c how needs ended, and what follows
 *   flow.c    needs, `when`, hooks, outcome
 *   link.c    links to nodes, and how long a task waits for one
 *   grow.c    elements of a list that gets known
 *   limit.c   allocations of nodes, and what comes too late for them
 *   user.c    cancel, retry, resume
 */
/* clang-format on */
#ifndef FR_SCHED_INTERNAL_H
#define FR_SCHED_INTERNAL_H

#include "engine/base/heap.h"
#include "engine/sched/sched.h"
#include "engine/sched/verdict.h"

#define NONE FR_PLAN_NONE

struct inst {
    struct fr_row row;
    uint32_t stamp;      /* grows with every change of state */
    uint32_t lost_stamp; /* of its lost_after timer */
    uint32_t prev, next; /* live attempts of its node */
    int64_t due_ms;      /* RETRYING: the end of its delay (before RESUME the delay); READY: since
                          * when it is */
    int64_t ended_ms;    /* when its newest attempt ended; 0: not in this process */
    bool asked;          /* EVAL was given out: the value of its `when` is awaited */
    bool prepared;       /* gang: answered */
    bool queried;        /* an answer to QUERY is awaited */
    bool slotted;        /* the instance holds slots of its node */
    bool again;          /* STOP_UNPROVEN, stopped once more: WAITING once it is proven gone */
    bool no_retry;       /* its last end forbids it */
    /* Answers since its launch or retry that led to no start. At IDLE_ANSWERS_MAX it is given up:
     * else a node could hold it up for ever. */
    uint8_t idle_answers;
    bool booked; /* READY: its next attempt is written ahead; row.live is false meanwhile */
    bool unsure; /* STARTING: loaded as booked, so its start may not have left */
    bool loaded; /* STARTING: loaded as that, and nothing is known of it yet */
    bool reset;  /* of a retry: so is what it waits for */
};

struct task {
    uint32_t count[FR_ST_N]; /* its instances by state */
    uint32_t open;           /* instances that have not ended */
    uint32_t needs_left;     /* needs that have not ended; without those of items (same) */
    uint32_t asked;          /* instances whose `when` is being evaluated */
    bool joined;             /* tasks wait for it item by item */
    uint32_t gangs;          /* of a task of gangs: that of its first item in s->gangs */
    bool blocked;            /* FR_EV_BLOCK: none of it gets ready */
    bool concluded;          /* its end was passed on */
    bool held;               /* its elements are not all committed: none of them starts */
    bool going;              /* in s->going … */
    uint32_t at;             /* … from this member on, or from this gang on */
};

/* A gang, one generation of it: the instances of an item of a task with gang: true. */
struct gang {
    uint32_t first, n;  /* its instances */
    uint32_t next_wait; /* gangs that wait for the same node */
    uint32_t generation, live, prepared, held;
    uint32_t stamp;        /* of its entry among the ready gangs */
    uint32_t first_failed; /* member whose end failed the generation; NONE: none yet */
    bool failing;          /* being stopped; the next generation waits until live is 0 */
    bool free;             /* failed because a member had never started: no cost */
    bool unproven;         /* a member may still live */
    bool unit;             /* counts in max_parallel */
};

enum link_state { LINK_NEW, LINK_ASKED, LINK_UP, LINK_DOWN, LINK_REFUSED };

struct node {
    enum link_state link;
    uint32_t slots; /* the run may use so many */
    bool contended; /* slots that get free are given back */
    bool over;      /* of the machine more are in use than it has */
    uint32_t used;
    uint32_t waiting;     /* slots that its ready single instances take */
    uint32_t open, busy;  /* instances there that have not ended; those that are ready or live */
    uint32_t reserved;    /* slots kept for the gang s->reserver */
    bool res_ok;          /* the slots are free */
    struct fr_heap ready; /* single instances by key */
    uint64_t offered;     /* key of its entry in s->offers; UINT64_MAX: none */
    uint32_t live;        /* first of its live attempts */
    uint32_t gang_wait;   /* first gang that waits for its link */
    uint32_t booked;      /* of its ready instances */
    bool touched;         /* in s->touched */
    enum fr_cause why;    /* REFUSED: what is to start there fails with it */
    bool fails;           /* REFUSED: some that were ready there have not failed yet */
    int64_t look_ms;      /* when what waits for its link is looked at; -1: no timer is set */
    int64_t away_ms;      /* ASKED, DOWN: since when it is not connected */
    int64_t limit_ms;     /* its allocation ends then; 0: never … */
    int64_t lasts_ms;     /* … so long after this was told */
};

struct fr_sched {
    const struct fr_plan *plan;
    struct inst *insts;
    struct task *tasks;
    struct node *nodes;
    struct fr_heap offers; /* nodes, by the key of the best that could start there now */
    struct gang *gangs;
    uint32_t n_gangs;
    struct fr_heap ready_gangs; /* by key */
    struct fr_heap timers;      /* instances by due time; LOST_TIMER: of lost_after */
    uint32_t *queue;            /* tasks that ended and have not been passed on; ring of n_tasks */
    uint32_t queue_at, queue_n;
    uint32_t *items; /* owns: an instance of each item of a joined task that ended meanwhile */
    size_t items_n, items_cap;
    uint32_t *going; /* tasks whose waiting instances go on; ring of n_tasks */
    uint32_t going_at, going_n;
    uint32_t cancel_at, cancel_k; /* stopping: tasks from here on, and members, are not looked at */
    uint32_t slice;               /* instances that may still change their state with this event */
    bool late;                    /* work of this event is left, beyond its slice */
    uint32_t *touched; /* nodes where something started since they were last booked for */
    uint32_t n_touched;
    uint32_t n_refused; /* nodes with .fails */
    uint32_t reserver;  /* the ready gang that collects slots; NONE */
    uint32_t missing;   /* nodes that have too few for it yet */
    uint32_t units;     /* of max_parallel */
    uint32_t largest_gang;
    uint32_t main_open; /* instances that are no hooks and have not ended */
    uint32_t main_bad;  /* instances that ended badly, without best_effort */
    uint32_t hook_at;   /* task: the hook that is next or runs */
    size_t count[FR_ST_N], live, booked;
    struct fr_run_now run;
    bool stopping;       /* nothing new starts: cancelled */
    unsigned char *what; /* owns: how much of each task a retry resets; NULL: none does … */
    uint32_t reset_at, reset_k; /* … from this member of that task on; nothing starts meanwhile */
    bool begun, broken, starved;
    bool unstarted;    /* cancelled before it began: no hook runs either */
    struct fr_id *ids; /* ids_at .. ids_n are unused */
    size_t ids_at, ids_n, ids_cap;
    uint64_t random;
    int64_t margin_ms, now_ms;
    int64_t timeout_ms; /* 0: none */
    int64_t end_due_ms; /* it has timed out if it ends later; INT64_MAX: never */
    int64_t ago_ms;     /* of the event: the end that it tells of was so long before now_ms */
    int64_t ended_ms;   /* the latest end of an attempt, hooks not counted */
    uint32_t asking;    /* instances with .asked */
    bool in_doubt;      /* end_due_ms is over, but the run may have ended before: time_out() */
    struct fr_acts *acts;
};

enum {
    LOST_TIMER = 1u << 31, /* with an instance: of its lost_after */
    AWAY_TIMER = 1u << 30, /* with a node: of what waits for it */
    AWAY_STEP_MS = 100,    /* between two looks at what waits for a node, at least … */
    AWAY_LOOK_MS = 10000,  /* … and at most: a look so late says that this process stood */
    FIRST_TRY_MS = 2000,   /* beyond connect.timeout, until the first try has ended */
    CONTROL_RETRY_FOR_MS = 120000, /* connect.retry_for of control, which no inventory names */
    IDLE_ANSWERS_MAX = 32,
    BOOK_MAX = 16,           /* attempts booked on a node … */
    BOOK_MIN = BOOK_MAX / 2, /* … again once so few are left */
    BOOK_ALL = 4 * BOOK_MAX  /* on all nodes: with many, enough runs anyway */
};

static inline const struct fr_plan_task *plan_task(const struct fr_sched *s, uint32_t inst)
{
    return &s->plan->tasks[s->plan->insts[inst].task];
}

/* Its place in s->gangs; only for an instance of a gang. */
static inline uint32_t gang_of(const struct fr_sched *s, uint32_t inst)
{
    const struct fr_plan_inst *in = &s->plan->insts[inst];

    return s->tasks[in->task].gangs + in->item;
}

static inline bool is_hook(const struct fr_sched *s, uint32_t task)
{
    return s->plan->tasks[task].hook >= 0;
}

static inline uint64_t key_of(const struct fr_sched *s, uint32_t inst)
{
    return (uint64_t)(UINT32_MAX - plan_task(s, inst)->rank) << 32 | inst;
}

/* sched.c */
void *zeroed(size_t n, size_t size); /* of fr_sys; NULL: no memory */

/* move.c */
void put_act(struct fr_sched *s, enum fr_act_kind kind, uint32_t inst);
struct fr_act *new_act(struct fr_sched *s,
                       enum fr_act_kind kind); /* NULL: no memory, broken is set */
void put_row(struct fr_sched *s, uint32_t inst);
void put_run(struct fr_sched *s);
void set_state(struct fr_sched *s, uint32_t inst, enum fr_state_of state); /* counts; puts no row */
void set_row(struct fr_sched *s, uint32_t inst, enum fr_state_of state);   /* puts its row, too */
void count_state(struct fr_sched *s, uint32_t inst, int by);
void set_timer(struct fr_sched *s, uint32_t id, uint32_t stamp, int64_t due_ms);
void take_slot(struct fr_sched *s, uint32_t inst);
void mark_booked(struct fr_sched *s, uint32_t inst);
void unmark_booked(struct fr_sched *s, uint32_t inst);
void make_live(struct fr_sched *s, uint32_t inst);
/* Ends the attempt: takes it off its node's list, frees its slots and, unless it is of a gang, its
 * unit. */
void end_live(struct fr_sched *s, uint32_t inst, enum fr_state_of how, enum fr_cause cause);
void put_stop(struct fr_sched *s, uint32_t inst, enum fr_cause cause); /* STOPPING, row, STOP */
bool ended_badly(enum fr_state_of state);

/* place.c */
void enqueue(struct fr_sched *s, uint32_t inst); /* an instance in READY; of a gang: its first */
void dispatch(struct fr_sched *s);
/* The start of the attempt never reached its node, and others may use its slots: an earlier process
 * committed the start, and its node has too few slots now. (A start that this process sent may be
 * on its way.) */
bool slot_is_lost(const struct fr_sched *s, uint32_t inst);
/* The start of the attempt of a single instance never reached its node. True: the attempt waits for
 * its turn again, since an earlier process booked it, or since its slot is lost. */
bool waits_again(struct fr_sched *s, uint32_t inst);
void want_link(struct fr_sched *s, uint32_t node);    /* asks once for a node without a link */
void drop_reservation(struct fr_sched *s);            /* frees the slots that the reserver kept */
void room_changed(struct fr_sched *s, uint32_t node); /* slots or link of node have changed */
void node_gone(struct fr_sched *s, uint32_t node);    /* link lost: reserved slots are freed */
void node_back(struct fr_sched *s, uint32_t node);
uint32_t best_of(struct fr_sched *s, uint32_t node); /* its best ready single instance; NONE */

/* grow.c: a task whose elements came from what a retry would reset (what[t]: 0: nothing of t), so
 * that its list would be another one; NONE: there is none. */
uint32_t loses_list(const struct fr_sched *s, const unsigned char *what);

/* limit.c */
void limit_node(struct fr_sched *s, uint32_t node, int64_t left_ms); /* FR_EV_LIMIT */
/* The allocation of its node is too near its limit, and was not when it began to count. */
bool is_late(const struct fr_sched *s, uint32_t inst);
/* The node of a member that comes too late for its allocation, NONE: none does. */
uint32_t node_spent(const struct fr_sched *s, const struct gang *gang);

/* end.c */
void attempt_ended(struct fr_sched *s, uint32_t inst, const struct fr_event *ev);
/* Starts the same attempt, perhaps again: the journal of its node makes it run once. One of a task
 * that is blocked gives its slot back, once its node has proven that it never starts. */
void send_again(struct fr_sched *s, uint32_t inst, enum fr_act_kind kind);
void attempt_tombstoned(struct fr_sched *s, uint32_t inst);
/* Counts an answer that leads to no start. True when there were too many: the attempt is over. */
bool idle_answer(struct fr_sched *s, uint32_t inst);
/* Fails an instance (of a gang: all) that has no attempt. start_failed and expression are final;
 * unreachable is retried as retry.on says. */
void fail_unstarted(struct fr_sched *s, uint32_t inst, enum fr_cause cause);
void gang_stop(struct fr_sched *s, uint32_t gang, enum fr_cause cause);
void make_ready(struct fr_sched *s, uint32_t inst); /* gang: all of it; waits while it is blocked */

/* verdict.c */
struct fr_verdict verdict_of(const struct fr_sched *s, uint32_t task, uint32_t item);
bool item_over(const struct fr_sched *s, uint32_t task, uint32_t item); /* has it ended? */
/* The state that shows of ended instances, counted by state; WAITING: there are none. */
enum fr_state_of worst_state(const uint32_t *count);

/* flow.c */
void activate(struct fr_sched *s, uint32_t task); /* all it needs has ended: settle() goes on */
/* Whether an instance of a task with fail_fast has failed: activate() then cancels the others. It
 * follows from the rows alone, so a crash in between changes nothing. */
bool fails_fast(const struct fr_sched *s, uint32_t task);
/* Of a task with max_parallel, when one of its instances has ended: the next go on. */
void activate_more(struct fr_sched *s, uint32_t task);
void block_task(struct fr_sched *s, uint32_t task, bool blocked);
void answer_when(struct fr_sched *s, const struct fr_event *ev); /* WHEN or LIST */
void conclude(struct fr_sched *s, uint32_t task);   /* when its last instance has ended */
void item_ended(struct fr_sched *s, uint32_t inst); /* of a joined task, if it is the last one */
void settle(struct fr_sched *s);                    /* passes ends on until nothing changes */
void recount_needs(struct fr_sched *s);             /* counts anew; activates tasks that are free */

/* link.c */
void node_event(struct fr_sched *s, const struct fr_event *ev);
void give_up(struct fr_sched *s, uint32_t inst); /* ends its attempt as node_lost */
/* An instance is ready there. If the node is not connected, it waits at most connect.retry_for. */
void wait_for_node(struct fr_sched *s, uint32_t node);
void end_waits(struct fr_sched *s, uint32_t node, int64_t due_ms); /* the timer of wait_for_node */
void fail_refused(struct fr_sched *s); /* a slice of what nodes have refused */

/* user.c */
void cancel_run(struct fr_sched *s);
/* The members of the task from *k on, while *slice lasts; a gang as a whole. cause: STOPPED or
 * FAIL_FAST. false: some are left. */
bool cancel_task(struct fr_sched *s, uint32_t task, uint32_t *k, uint32_t *slice,
                 enum fr_cause cause);
void cancel_some(struct fr_sched *s); /* cancels a slice of the instances that are left */
void reset_some(struct fr_sched *s);  /* likewise of what a retry resets */
enum fr_rc retry_run(struct fr_sched *s, const struct fr_event *ev, struct fr_err *err);
void resume_run(struct fr_sched *s);
void limit_run(struct fr_sched *s, int64_t left_ms); /* the run may take so long from now on */
bool past_limit(const struct fr_sched *s);           /* true: start nothing */
/* Whether the run, which has just ended, took longer than it may. */
bool ended_late(const struct fr_sched *s);
bool time_out(struct fr_sched *s); /* true: it is being cancelled now */
void tick(struct fr_sched *s);

#endif
