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
    const int *node_of; /* (size) node of each rank, ascending; NULL: one node. Read by create */
    int64_t per_token;  /* K */
    int64_t tokens_max; /* T_max of every rank */
    int64_t rows_max;   /* most (token, expert) rows of a round on a rank; 0: 2 * T_max * K. create
                           raises it to what one range can need */
};

/* Bounds of any round on any rank of the group. */
struct tr_route_limits {
    int64_t rows;     /* (token, expert) pairs computed here */
    int64_t here;     /* tokens computed here; also the rows handed out inside the node */
    int64_t far;      /* rows handed to other nodes */
    int64_t lands;    /* rows of other nodes that land here */
    int64_t lists;    /* int32_t of all lists of a round */
    int nodes, local; /* nodes of the group; its ranks on this node */
};

/* A run of rows for each rank of the group: rows [at[k], at[k] + n[k]) for rank k. */
struct tr_run_of {
    size_t *at, *n; /* (size) */
};

/* One round. tr_route_round fills one block of int32_t with all lists. The size_t fields are the
 * offsets of the lists in that block, in int32_t; each has the shape of its list beside it. */
struct tr_route_round {
    int64_t first, tokens;      /* this rank's tokens [first, first + tokens) are in the round */
    int64_t here, rows;         /* as in limits, of this round */
    int64_t far, lands, handed; /* as in limits; rows that this rank hands out inside the node */
    struct tr_run_of far_out, far_in; /* far rows by landing rank; rows that land here by source */
    struct tr_run_of near_out, near_in; /* handed rows by local rank; rows here by local rank */
    size_t far_from;                    /* (far) the row's token, counted from first */
    size_t near_own;     /* (handed) the row's token, counted from first; -1: a landed row */
    size_t near_landed;  /* (handed) the landed row it comes from; -1: an own token */
    size_t own_parts;    /* (tokens, local) the handed row for each local rank; -1: none */
    size_t landed_parts; /* (lands, local) the handed row of a landed row, likewise */
    size_t sums;         /* (tokens, nodes) where a node's sum of a token is: for this node the
                            token, for others tokens + its far row; -1: no expert there */
    size_t ids;          /* (here, K) local experts; -1: the expert is on another rank */
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
 * Takes the choices of all ranks. If cuts->rounds is 0, cuts the micro-batch into one round or more
 * and fills *cuts; else takes *cuts as it is. ids (size, T_max, K): for each rank the experts of
 * its tokens; rows after its last token begin with TR_ROUTE_NONE. ids and owners are borrowed until
 * the next tr_route_plan. FR_PROTO names rank and token of an id that is no expert.
 */
enum fr_rc tr_route_plan(struct tr_route *r, const uint16_t *ids, const struct tr_owners *owners,
                         struct tr_route_cuts *cuts, struct fr_err *err);

/* Round i of the plan. lists: room for tr_route_limits.lists numbers. The arrays in *out belong to
 * r and are valid until the next tr_route_round. */
void tr_route_round(struct tr_route *r, int i, int32_t *lists, struct tr_route_round *out);

#endif
