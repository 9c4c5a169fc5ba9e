/*
 * Whether what a client printed is the story that the store and the logs tell: no change of a task
 * and no line of its output is missing, and none is there twice; and its exit code is its run's
 * end.
 */
#ifndef TESTS_SIM_TOLD_H
#define TESTS_SIM_TOLD_H

#include "tests/sim/world.h"

/* In the end, of each client that was started. whole: nothing kept the bytes of logs from coming
 * home, so all of them were printed. A wrong one is a rule broken (world_violated). */
void told_check(struct world *w, bool whole);

#endif
