/*
 * The simulated nodes of sched_random_test: what truly became of each attempt there, and how they
 * answer what the engine asks of them. And the world around them, the test's own.
 */
#ifndef TESTS_UNIT_SCHED_NODES_H
#define TESTS_UNIT_SCHED_NODES_H

#include "engine/sched/sched.h"

#include "tests/unit/check.h"
#include "tests/unit/sched/minispec.h"

enum { MAX_ATTS = 4096, MAX_Q = 4096, NODES = MINI_NODES + 1, CHAOS = 400, LIMIT = 60000 };

enum at { AT_UNKNOWN, AT_PREPARED, AT_RUNNING, AT_ENDED, AT_TOMBSTONED };

struct att { /* the truth about an attempt on its node */
    uint32_t inst;
    enum at st;
    unsigned boot;
    bool launched, acked, survivors;
    enum fr_cause cause;
    int code;
    bool proven;
};

struct place {     /* a node, its link, and the commands and answers under way */
    bool wire, up; /* the link works; the engine knows it */
    bool wanted;
    int64_t cut_ms;
    int64_t limit_ms, lasts_ms; /* of its allocation, as the engine knows it; 0: it has none */
    unsigned boot;
    struct fr_act cmd[MAX_Q];
    size_t cmd_at, cmd_n;
    struct fr_event msg[MAX_Q];
    size_t msg_at, msg_n;
};

struct world {
    uint64_t random;
    struct minispec mini;
    struct fr_arena arena;
    struct fr_plan *plan;
    struct fr_sched *s;
    struct fr_acts acts;
    struct fr_row rows[256];   /* committed */
    struct fr_row before[256]; /* by the commit before that */
    int64_t due_ms[256];
    struct fr_run_now run;
    struct att atts[MAX_ATTS];
    size_t n_atts; /* ids given out: id n is atts[n - 1] */
    struct place at[NODES];
    struct fr_event self[MAX_Q]; /* answers to EVAL */
    size_t self_at, self_n;
    int64_t now_ms;
    bool over, calm, cancelled, fenced; /* fenced: an attempt was given up, so BUSY may come */
    bool retrying;
    unsigned list[MINI_TASKS]; /* elements of a list that is known and not committed; 0: none */
    bool held[MINI_TASKS];     /* its elements are committed, and may not start yet */
    uint32_t n_lists;          /* that are committed */
    unsigned launches[256];    /* by instance */
    bool again[256];
    bool doubt[256]; /* booked when the engine crashed: beside the pools until its node was asked */
};

static inline uint64_t draw(struct world *w, uint64_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % n;
}

static inline bool chance(struct world *w, unsigned percent)
{
    return draw(w, 100) < percent;
}

static inline struct att *att_of(struct world *w, struct fr_id id)
{
    uint64_t n;

    memcpy(&n, id.b + 8, sizeof n);
    return n >= 1 && n <= w->n_atts ? &w->atts[n - 1] : NULL;
}

static inline struct fr_id id_of(size_t n)
{
    struct fr_id id = {{7}};
    uint64_t v = n;

    memcpy(id.b + 8, &v, sizeof v);
    return id;
}

static inline struct fr_event about(const struct fr_act *a, enum fr_event_kind kind)
{
    return (struct fr_event){.kind = kind, .inst = a->inst, .attempt = a->attempt};
}

/* A command has reached its node, which does it and answers. */
void nodes_do(struct world *w, const struct fr_act *a);

/* One of the attempts ends by itself, where any runs. */
void nodes_end_one(struct world *w);

/* All attempts of a node end so; lost_ms > 0: only those that it may not hear of for so long. */
void nodes_kill_all(struct world *w, uint32_t node, enum fr_cause cause, int64_t lost_ms);

#endif
