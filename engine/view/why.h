/*
 * Why a ready instance has not started yet, from the store alone: also when the host hangs.
 *
 * Such an instance waits for a connection to its node, for a place among max_parallel, or for slots
 * of the node (of a gang: of one of its nodes). Slots are counted by machine, over all runs. Free
 * ones may be kept for a gang that collects them (arbiter.h), one of each run at a time.
 */
#ifndef FR_VIEW_WHY_H
#define FR_VIEW_WHY_H

#include "engine/base/err.h"
#include "engine/plan/plan.h"
#include "engine/store/allocations.h"
#include "engine/store/drained.h"
#include "engine/store/store.h"

struct fr_why_part {
    struct fr_id home; /* a machine */
    uint32_t slots;    /* the gang takes so many there */
};

struct fr_why_gang {      /* a gang that collects slots */
    int64_t no, priority; /* of its run */
    const char *task;
    uint32_t first; /* its first instance, of fr_why.plan; FR_PLAN_NONE: it is of another run */
    struct fr_why_part *parts;
    size_t n_parts;
};

struct fr_why { /* zero it; owns all but plan and insts */
    struct fr_arena arena;
    const struct fr_plan *plan;
    const struct fr_inst_rows *insts;
    struct fr_held_rows held;
    struct fr_id *homes; /* of the plan's nodes; zero: not known */
    struct fr_drained_rows drained;
    struct fr_allocation_rows allocations; /* of the run */
    int64_t *away_wall;                    /* of the same: since when unreachable; 0: it is not */
    uint32_t units;                        /* of max_parallel that the run uses */
    int64_t priority;                      /* of the run */
    struct fr_why_gang *gangs; /* those that the host serves: in their runs their turn has come */
    size_t n_gangs;
};

/* Reads what instances of the run may wait for. insts: all of the run; borrowed, like plan. */
enum fr_rc fr_why_open(struct fr_why *w, struct fr_store *st, struct fr_id run,
                       const struct fr_plan *plan, const struct fr_inst_rows *insts,
                       struct fr_err *err);
void fr_why_finish(struct fr_why *w);

/* Of fr_why_open(): finds the gangs. */
enum fr_rc fr_why_gangs(struct fr_why *w, struct fr_store *st, struct fr_id run,
                        struct fr_err *err);

/* Appends what a ready instance waits for ("waits for slots of n1, 1 of 1: t@n1 of run 5"), of a
 * gang also which free slots it keeps meanwhile; nothing for one of another state, or where nothing
 * is known to be in its way. */
void fr_why_ready(const struct fr_why *w, const struct fr_inst_row *row, struct fr_buf *out);

#endif
