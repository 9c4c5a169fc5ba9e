/*
 * The owner of each expert of a layer among the ranks of a group. Pure: every rank computes the
 * same table from the same numbers.
 */
#ifndef TR_SHARD_OWNERS_H
#define TR_SHARD_OWNERS_H

#include "engine/base/err.h"

#include <stdint.h>

/* The owner of each expert of a layer. */
struct tr_owners {
    int64_t experts;      /* E */
    const int32_t *rank;  /* (E) the owner: its rank in the group */
    const int32_t *local; /* (E) its number among the experts of that rank, ascending */
};

/*
 * Fills rank and local (E each) for P ranks, P <= E; every rank has 1 to ceil(E/P) experts. rows
 * NULL: expert e goes to rank e*P/E. Else rows (E) is the load of each expert, and experts are
 * placed heaviest first, each on the rank with the least load that has room; ties go to the fewer
 * experts, the lower expert and the lower rank (Graham 1969, longest processing time first).
 */
enum fr_rc tr_owners_place(int64_t E, int P, const int64_t *rows, int32_t *rank, int32_t *local,
                           struct fr_err *err);

/* Fills local from rank. */
void tr_owners_number(int64_t E, const int32_t *rank, int32_t *local);

/* The load of the busiest rank over the mean of all; 1 without any load. */
double tr_owners_skew(int64_t E, int P, const int64_t *rows, const int32_t *rank);

#endif
