/*
 * The routes of tokens of one MoE layer under expert parallelism, from the experts that every rank
 * of a group chose. All ranks have the same choices, so each computes its lists, its receive counts
 * and the rounds without communication. Pure: host arrays in, host arrays out.
 *
 * A token goes once to each node that has one of its experts: to the landing rank there, which is
 * the rank whose number in that node is that of the source in its own, modulo the node's ranks. The
 * landing rank, and the source for its own node, hand it once to each rank that has one of its
 * experts. Results are summed at these two places, ranks ascending, then nodes ascending.
 *
 * Rounds bound memory under any routing: the tokens of each rank are cut into RANGES equal ranges;
 * a round is as many neighbouring ranges as fit, the same on all ranks of the group.
 */
#ifndef TR_SHARD_ROUTE_H
#define TR_SHARD_ROUTE_H

#include "engine/base/err.h"
#include "trainer/shard/owners.h"

#include <stddef.h>
#include <stdint.h>

enum { TR_ROUTE_RANGES = 64, TR_ROUTE_NONE = 0xffff };

struct tr_route_opts {
    int size, rank;
    const int *node_of; /* (size) ascending runs; NULL: one node. Borrowed for create */
    int64_t per_token;  /* K */
    int64_t tokens_max; /* T_max of every rank */
    int64_t rows_max;   /* the most routed rows of a round on a rank; 0: 2 * T_max * K. Raised to
                           the need of one range */
};

/* Bounds of any round on any rank of the group. */
struct tr_route_limits {
    int64_t rows;     /* (token, expert) pairs computed here */
    int64_t here;     /* tokens computed here; also the rows handed out inside the node */
    int64_t far;      /* rows handed to other nodes */
    int64_t lands;    /* rows of other nodes that land here */
    int64_t lists;    /* numbers of the round's lists */
    int nodes, local; /* nodes of the group; its ranks on this node */
};

/* A run of rows for each rank of the group: [at[k], at[k] + n[k]). Unit: rows. */
struct tr_run_of {
    size_t *at, *n; /* (size) */
};

/* One round. Offsets of the lists are numbers from the beginning of the block that
 * tr_route_round fills; a list's shape stands beside it. */
struct tr_route_round {
    int64_t first, tokens; /* this rank's tokens of the round */
    int64_t here, rows;
    int64_t far, lands, handed;
    struct tr_run_of far_out, far_in; /* far rows by landing rank; rows that land here by source */
    struct tr_run_of near_out, near_in; /* handed rows by local rank; rows here by local rank */
    size_t far_from;                    /* (far) which of the round's own tokens */
    size_t near_own;                    /* (handed) which of the round's own tokens, -1: none */
    size_t near_landed;                 /* (handed) which of the rows that landed, -1: none */
    size_t own_parts;    /* (tokens, local) the handed row of each local rank's part, -1: none */
    size_t landed_parts; /* (lands, local) the same of a row that landed */
    size_t sums;         /* (tokens, nodes) row of each node's sum: this node's in [0, tokens), then
                            those of far rows; -1: none */
    size_t ids;          /* (here, K) local experts, -1: not here */
    size_t lists;        /* numbers of all lists */
};

struct tr_route;

/* FR_USAGE: more than 64 experts a token, or more than 64 ranks. */
enum fr_rc tr_route_create(const struct tr_route_opts *o, struct tr_route **out,
                           struct fr_err *err);
void tr_route_destroy(struct tr_route *r);
void tr_route_limits(const struct tr_route *r, struct tr_route_limits *out);

/* The rounds of a micro-batch: round i is the ranges [at[i], at[i+1]). */
struct tr_route_cuts {
    int rounds; /* 0: not cut yet */
    uint8_t at[TR_ROUTE_RANGES + 1];
};

/*
 * Takes the choices of all ranks, and cuts the micro-batch into at least one round unless *cuts has
 * rounds. ids (size, T_max, K): the tokens of a rank, then rows of TR_ROUTE_NONE, which is above
 * all ids. ids and owners are borrowed until the next plan. FR_PROTO names rank and token of an id
 * that is no expert.
 */
enum fr_rc tr_route_plan(struct tr_route *r, const uint16_t *ids, const struct tr_owners *owners,
                         struct tr_route_cuts *cuts, struct fr_err *err);

/* Round i of the plan. lists: at least limits.lists numbers. The runs in *out belong to r and are
 * valid until the next call. */
void tr_route_round(struct tr_route *r, int i, int32_t *lists, struct tr_route_round *out);

#endif
