/*
 * NCCL's settings for messages between nodes over sockets, tried out: the exchange of tokens is
 * timed with each, and the set that is fastest for the slowest rank is kept. NCCL reads these
 * variables once a process, so every set is tried in processes of its own, one a rank, which meet
 * on a port of their own.
 *
 * Parameters are tried in turn, the best value of each kept for those behind it. A value must be 3
 * % faster than what is known already. What the user has set, in the environment or in a file that
 * NCCL reads, stays as it is.
 * Source: NCCL user guide, "Environment Variables".
 */
#ifndef TR_CLI_GRID_H
#define TR_CLI_GRID_H

#include "trainer/cli/collective_bench.h"

struct tr_grid_opts {
    size_t bytes; /* that a rank sends in a call */
    int rounds;
    const struct tr_comm_opts *comm;
};

/* All ranks call. On rank 0 prints a row a set, and adds to *grid {"set": {NAME: VALUE}, "us",
 * "bandwidth_gbps"} of each, and to *best {NAME: VALUE} of the best one. A set that does not work
 * has no times but "why". */
enum fr_rc tr_grid(struct tr_bench *r, const struct tr_grid_opts *o, json_t *grid, json_t *best,
                   struct fr_err *err);

#endif
