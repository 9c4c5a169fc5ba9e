/*
 * Who may use the slots of a machine that several runs share. Pure: no I/O, no clock, no memory of
 * its own.
 *
 * The capacity is the smallest number of slots that one of the runs gives the machine. What is in
 * use stays with its run, also above the capacity (a run that was loaded with booked attempts, a
 * number that was lowered): each slot that gets free goes back until it fits. What is free goes to
 * who waits: higher priority first, then whoever waits longer, then the older run. A gang is served
 * as a whole, in its turn: the slots that it collects are lent to no one else, and since its turn
 * is the same on all its machines, two gangs cannot block each other. What nobody waits for is lent
 * to the first run, so that one that is alone has the whole machine.
 */
#ifndef FR_ADMIT_ARBITER_H
#define FR_ADMIT_ARBITER_H

#include "engine/sched/sched.h"

struct fr_claim {         /* of one run on the machine */
    uint32_t slots;       /* of the machine, as the run's inventory says */
    int64_t priority, no; /* of the run */
    struct fr_demand demand;
    uint32_t lent;  /* out: slots that the run may use */
    bool contended; /* out: what gets free goes back, as another run waits, … */
    bool over;      /* out: … or as too much is in use */
};

/* Sets .lent and .contended of all: O(n) for each request that gets slots, for n runs on one
 * machine. */
void fr_arbiter_share(struct fr_claim *claims, size_t n);

#endif
