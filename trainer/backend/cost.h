/*
 * The work of an op, from its arguments alone. FLOP counts a multiply and an add as two; bytes are
 * those of the views, each read or written once.
 */
#ifndef TR_BACKEND_COST_H
#define TR_BACKEND_COST_H

#include "trainer/backend/backend.h"

struct tr_cost {
    double flop, bytes;
    int64_t shape[3]; /* rows, in, out of a product; rows, row length of other ops; 0: none */
    int64_t experts;  /* of a grouped product; else 0 */
};

/* The cost of one call. Lengths of segments and counts of routed rows are on the device: all
 * segments count as max_len long, routed rows as spread evenly over the experts. */
struct tr_cost tr_cost_of(enum tr_op op, const void *args);

#endif
