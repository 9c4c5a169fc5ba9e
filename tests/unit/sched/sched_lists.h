/* Lists of random runs that get known: what the run layer does with them. */
#ifndef TESTS_UNIT_SCHED_LISTS_H
#define TESTS_UNIT_SCHED_LISTS_H

#include "tests/unit/sched/sched_nodes.h"

/* FR_ACT_EXPAND: the list has elements, and lists_grow() follows; true: the answer is ev. */
bool lists_ask(struct world *w, const struct fr_act *a, struct fr_event *ev);
/* When all actions have been performed, and no answer is under way: a list that is known is
 * committed. True: one was. */
bool lists_grow(struct world *w);
/* The event that lets the elements of such a task start; false: none waits for it. */
bool lists_next(struct world *w, struct fr_event *ev);
void lists_forget(struct world *w); /* a crash */
/* After a commit: elements that are held have not started. */
void lists_check(const struct world *w);

#endif
