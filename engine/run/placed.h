/*
 * Places: nodes that a run has only while its driver holds an allocation (slurm/allocation.h).
 * fr_run_uses() is asked after each drain; as long as a place is nowhere, what is to start there
 * waits.
 */
#ifndef FR_RUN_PLACED_H
#define FR_RUN_PLACED_H

#include "engine/run/run.h"

struct fr_run_use {
    enum fr_need need; /* NOW where something lives */
    bool lives;        /* an attempt, or output is to come */
    bool up;           /* it is connected */
    uint32_t ready;    /* with drained: instances that may start there */
    /* An attempt there was stopped before the limit of its allocation, for whose end it waits; or
     * what is to start there next waits for a further one (FR_EV_LIMIT). */
    bool spent;
};
/* Of all nodes of the plan, one after the other. drained: of each, whether nothing new starts
 * there; what is ready there is no need NOW, nor is a gang elsewhere that needs such a node. NULL:
 * none is. O(nodes + attempts); with drained also O(instances of gangs). */
void fr_run_uses(const struct fr_run *run, const bool *drained, struct fr_run_use *uses);
/* The node is at that numeric address, for those that meet there, until deadline_wall (ms; 0: no
 * limit). The text is copied. */
enum fr_rc fr_run_placed(struct fr_run *run, uint32_t node, const char *address,
                         int64_t deadline_wall, struct fr_err *err);
/* It is gone: attempts that lived there end by cause. proven: none of their processes is left. */
void fr_run_displaced(struct fr_run *run, uint32_t node, enum fr_cause cause, bool proven);
/* There will be none: what is ready to start there fails with that cause and reason. */
void fr_run_unplaced(struct fr_run *run, uint32_t node, enum fr_cause cause, const char *why);
void fr_run_node_say(struct fr_run *run, uint32_t node, const char *text); /* a FR_NOTE_NODE */

#endif
