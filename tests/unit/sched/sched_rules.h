/* The rules of run_if:, states: and skip_with: in plain words, for random runs. */
#ifndef TESTS_UNIT_SCHED_RULES_H
#define TESTS_UNIT_SCHED_RULES_H

#include "tests/unit/sched/sched_nodes.h"

/* Of what the last commit brought: whatever left WAITING did what its task's rules say of the
 * committed ends of what it needs. */
void rules_check(struct world *w);

#endif
