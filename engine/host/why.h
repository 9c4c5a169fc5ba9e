/*
 * Why a ready instance has not started yet, from the store alone: also when the host hangs.
 *
 * Such an instance waits for a connection to its node, for a place among max_parallel, or for slots
 * of the node (of a gang: of one of its nodes). Slots are counted by machine, over all runs.
 */
#ifndef FR_HOST_WHY_H
#define FR_HOST_WHY_H

#include "engine/base/err.h"
#include "engine/plan/plan.h"
#include "engine/store/store.h"

struct fr_why { /* zero it; owns all but plan and insts */
    struct fr_arena arena;
    const struct fr_plan *plan;
    const struct fr_inst_rows *insts;
    struct fr_held_rows held;
    struct fr_id *homes; /* of the plan's nodes; zero: not known */
    int64_t *away_wall;  /* of the same: since when unreachable; 0: it is not */
    uint32_t units;      /* of max_parallel that the run uses */
};

/* Reads what instances of the run may wait for. insts: all of the run; borrowed, like plan. */
enum fr_rc fr_why_open(struct fr_why *w, struct fr_store *st, struct fr_id run,
                       const struct fr_plan *plan, const struct fr_inst_rows *insts,
                       struct fr_err *err);
void fr_why_finish(struct fr_why *w);

/* Appends what a ready instance waits for ("waits for slots of n1, 1 of 1: t@n1 of run 5"); nothing
 * for one of another state, or where nothing is known to be in its way. */
void fr_why_ready(const struct fr_why *w, const struct fr_inst_row *row, struct fr_buf *out);

#endif
