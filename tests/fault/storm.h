/*
 * Storms: all flownodes of a machine, or of all, stand still (SIGSTOP) at once or at one of their
 * next records; a moment later every flowrun is killed, some by a power cut of control, or the host
 * stands still and loses its lock; and somebody resumes one of the runs. Then the flownodes go on,
 * one by one, with all that the dead had sent them. The runs that nobody has resumed may hold
 * slots, and what is on its way for them may still start.
 */
#ifndef TESTS_FAULT_STORM_H
#define TESTS_FAULT_STORM_H

#include "tests/sim/world.h"

struct storm {
    bool there;
    uint64_t step, more; /* when it begins; its choices */
    /* of one run of it */
    int phase;
    uint64_t records, kill_step;
    int64_t resume_us;
};

struct storm storm_make(uint64_t *s, uint64_t step);
void storm_reset(struct storm *st);
/* In look() of a test: what is due. Brings w->sim.fault_step and w->look_us forward. The machines,
 * as bits, that stood still, or lost power. */
unsigned storm_look(struct world *w, struct storm *st);
/* At each point of the simulator (sim.h). */
void storm_point(struct world *w, struct storm *st, enum sim_point what);

#endif
