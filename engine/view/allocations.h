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

/* left.c: of a job that a run still has as somebody leaves it. n: so many elements of its array, of
 * which row is the first. cluster: "": it is not known. */
struct fr_left {
    const struct fr_allocation_row *row;
    const char *cluster;
    size_t n;
};
/* Appends "allocation train: Slurm job 4711 of cluster hpc". */
void fr_left_name(const struct fr_left *left, struct fr_buf *out);
/* Appends that, and where it is, who goes on with it, and what ends it. also: who does beside
 * 'flowrun resume', as "the next 'flowrun serve' or "; "". */
void fr_left_say(const struct fr_left *left, int64_t run, const char *also, struct fr_buf *out);
/* Likewise, a line for each of rows that Slurm has or may have; alike elements together. */
void fr_left_rows(const struct fr_allocation_rows *rows, int64_t run, const char *also,
                  struct fr_buf *out);

#endif
