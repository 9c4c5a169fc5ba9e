/*
 * What an op must do, from its arguments alone: FLOP counts a multiply and an add as two, bytes are
 * those of the views that an op reads and writes once.
 */
#ifndef TR_BACKEND_COST_H
#define TR_BACKEND_COST_H

#include "trainer/backend/backend.h"

struct tr_cost {
    double flop, bytes;
    int64_t shape[3]; /* rows, in, out of a product; rows, row of others; 0: none */
    int64_t experts;  /* that a grouped product's rows are spread over; else 0 */
};

/* What one call must do. Attention's segments and an expert's rows lie on the device: segments are
 * taken as all max_len long, routed rows as spread evenly over the experts. */
struct tr_cost tr_cost_of(enum tr_op op, const void *args);

#endif
