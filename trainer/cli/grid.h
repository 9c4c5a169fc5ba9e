/*
 * Search for NCCL's best socket settings between nodes: times the exchange of tokens with each set
 * and keeps the set whose slowest rank is fastest. NCCL reads these variables once per process, so
 * each set runs in new processes, one a rank, on a port of their own.
 *
 * Parameters are tried in turn; the best value of each is used for the next ones. A value must be
 * at least 3 % faster than the best one so far. Settings of the user, in the environment or in
 * NCCL's files, are not changed.
 * Source: NCCL user guide, "Environment Variables".
 */
#ifndef TR_CLI_GRID_H
#define TR_CLI_GRID_H

#include "trainer/cli/collective_bench.h"

struct tr_grid_opts {
    size_t bytes; /* a rank sends so many in a call */
    int rounds;   /* timed calls with each set */
    const struct tr_comm_opts *comm;
};

/* Collective. Rank 0 prints a row for each set and adds {"set": {NAME: VALUE}, "us",
 * "bandwidth_gbps"} to the array grid; the object best gets {NAME: VALUE} of the best set. Both are
 * used on rank 0 only. A set that fails has "why" instead of times. */
enum fr_rc tr_grid(struct tr_bench *r, const struct tr_grid_opts *o, json_t *grid, json_t *best,
                   struct fr_err *err);

#endif
