/*
 * What is shown of an allocation of a cluster under Slurm.
 */
#ifndef FR_VIEW_ALLOCATIONS_H
#define FR_VIEW_ALLOCATIONS_H

#include "engine/base/json.h"
#include "engine/store/allocations.h"

/* The row, and beside it its run's number, its places ("train1 to train4") and Slurm's reason in
 * words ("others come first (Priority)"). NULL: no memory. */
json_t *fr_allocation_json(const struct fr_allocation_row *row, int64_t run);
json_t *fr_allocations_json(const struct fr_allocation_rows *rows, int64_t run);

#endif
