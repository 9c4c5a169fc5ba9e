/*
 * Allocations of clusters under Slurm, as the host takes them for its runs: one when a task needs a
 * node of it, given back when nothing needs it. slurm/allocation.h decides; here its row is
 * written, its actions are performed, and the runs hear of it.
 *
 *   allocations.c  the part of the host: what runs need, turns
 *   rows.c         an event, and the row that it changes
 *   drive.c        actions: the folder, squeue, scancel
 *   submit.c       sbatch; which copies are one array
 *   needs.c        what a run needs of places; copies that go to another one
 *   places.c       where a place is, and that it is gone
 *   accounting.c   what Slurm's accounting says of one that is over
 *   folder.c       what keepers have written
 *   job.c          calls on the folder of an allocation
 *   login.c        the login node of a cluster
 *   left.c         what is left of it when the host ends
 *   container.c    whether a cluster starts the container that is asked for
 */
#ifndef FR_ALLOCATE_ALLOCATE_H
#define FR_ALLOCATE_ALLOCATE_H

#include "engine/runs/state.h"

extern const struct host_part allocations_part;

#endif
