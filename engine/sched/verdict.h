/* What becomes of an instance once what its task needs has ended: run_if:, states: and skip_with:
 * of the task decide, before its `when`. */
#ifndef FR_SCHED_VERDICT_H
#define FR_SCHED_VERDICT_H

#include "engine/sched/sched.h"

/* A need that failed and that the task does not accept makes it UPSTREAM_FAILED, unless the need is
 * best_effort; else what it does not accept skips it. */
enum fr_verdict_kind {
    FR_VERDICT_WAIT, /* for needs that have not ended */
    FR_VERDICT_RUN,
    FR_VERDICT_SKIP,
    FR_VERDICT_FAIL /* it becomes UPSTREAM_FAILED */
};
struct fr_verdict {
    enum fr_verdict_kind kind;
    uint32_t need; /* SKIP, FAIL: the place in needs of the first that led to it; FR_PLAN_NONE: all
                    * together (SKIP by run_if) */
    bool with;     /* SKIP: by skip_with */
};

/* Of an instance of a run whose stop has not begun. It follows from the states of the needs alone.
 * O(needs), of those joined item by item O(their width). */
struct fr_verdict fr_sched_verdict(const struct fr_sched *s, uint32_t inst);

#endif
