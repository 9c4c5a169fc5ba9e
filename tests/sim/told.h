/*
 * Whether what a client printed is the story that the store and the logs tell: no change of a task
 * and no line of its output is missing, and none is there twice; nothing that was not committed
 * when it was printed; and its exit code is its run's end. Of a client that came to a run that went
 * on, all of this counts from one moment of the story on, whichever that was.
 */
#ifndef TESTS_SIM_TOLD_H
#define TESTS_SIM_TOLD_H

#include "tests/sim/world.h"

/* In the end, of each client that was started. held: machines, as bits, whose bytes of logs
 * something lost, or kept from coming home; of the others all were printed. A wrong one is a rule
 * broken (world_violated). */
void told_check(struct world *w, unsigned held);

#endif
