/*
 * Expert parallelism: the ranks of a group own the routed experts; a MoE layer sends each token to
 * the ranks that own its experts and sums the results. route.h computes the routes. Not for
 * adapters on routed experts, nor for weights in host memory.
 *
 * A layer, on all ranks of the group in the same order:
 *
 *   begin    gathers the experts that each rank chose, after the router, on the group's own queue.
 *            Other work may follow in the compute queue.
 *   plan     waits for the choices, the host's only wait in the layer, and cuts the rounds. In a
 *            backward the plan of the forward is taken from the host's memory: no call, no wait.
 *   round    for each round: the tokens computed here and their local experts,
 *   out      sends rows of tokens to the ranks that compute them,
 *   back     sends the parts of each token, one a rank, back and sums them.
 *
 * Each rank gathers all choices and not only counts. So it knows the rows that it sends, receives
 * and forwards: rows need no header, and a forwarding rank does not wait. The lists of a round are
 * one copy to the device. Choices take 4*T_max*K bytes a rank and layer.
 *
 * Sums: a rank's part is rounded to the type of the rows; parts of a node are added in f32, ranks
 * ascending, and rounded; nodes are added in f32, ascending, to what the caller adds, and rounded
 * once. With one node, the parts are added to the caller's rows directly. The order of rows here is
 * (sending local rank, source, token): known from the choices, so bits do not depend on the order
 * of arrival.
 */
#ifndef TR_SHARD_EXCHANGE_H
#define TR_SHARD_EXCHANGE_H

#include "trainer/backend/backend.h"
#include "trainer/comm/comm.h"
#include "trainer/shard/route.h"

struct tr_exchange;

struct tr_exchange_opts {
    struct tr_backend *be; /* borrows */
    struct tr_comm *comm;  /* borrows: the group, from tr_comm_split, for these calls alone */
    int64_t per_token;     /* K */
    int64_t tokens_max;    /* T_max */
    int64_t row_bytes;     /* of the widest row that moves */
    int64_t rows_max;      /* of a round, see route.h; 0: the default */
    int64_t plans;         /* kept at once, for backward; at least 1 */
};

/* tr_exchange_alloc allocates the memory that tr_exchange_bytes counts. */
enum fr_rc tr_exchange_create(const struct tr_exchange_opts *o, struct tr_exchange **out,
                              struct fr_err *err);
enum fr_rc tr_exchange_alloc(struct tr_exchange *x, struct fr_err *err);
void tr_exchange_destroy(struct tr_exchange *x);

/* Bytes of tr_exchange_alloc on this rank. */
struct tr_exchange_bytes {
    size_t device; /* rows on their way, lists, choices of all ranks */
    size_t host;   /* staging, plans */
};
void tr_exchange_bytes(const struct tr_exchange *x, struct tr_exchange_bytes *out);
void tr_exchange_limits(const struct tr_exchange *x, struct tr_route_limits *out);
/* The most rounds that a layer has needed so far. */
int tr_exchange_most_rounds(const struct tr_exchange *x);

/* Rows sent so far in the layers whose rows were counted: a token goes once to each other node with
 * one of its experts, and inside a node once to each further rank. */
struct tr_exchange_routes {
    int64_t far;  /* to other nodes */
    int64_t near; /* to other ranks of this node, rows that landed here included */
};
void tr_exchange_routes(const struct tr_exchange *x, struct tr_exchange_routes *out);

/* A layer and the slot of its plan. */
struct tr_exchange_layer {
    const char *what; /* "layer 3 moe", valid until the next plan */
    const struct tr_owners *owners;
    int64_t plan;  /* below plans */
    int64_t *rows; /* (E) += rows that this rank's tokens give each expert; NULL: not counted */
};

/* ids (T, K) i32: experts chosen by this rank's tokens, T <= T_max. */
enum fr_rc tr_exchange_begin(struct tr_exchange *x, struct tr_queue *q, struct tr_view ids,
                             const struct tr_exchange_layer *layer, struct fr_err *err);
/* *rounds: the rounds of the layer. replay: takes the plan kept in slot layer->plan, without a
 * begin or a wait. */
enum fr_rc tr_exchange_plan(struct tr_exchange *x, const struct tr_exchange_layer *layer,
                            bool replay, int *rounds, struct fr_err *err);

struct tr_exchange_round {
    int64_t first, tokens; /* this rank's tokens of the round */
    int64_t here, rows;    /* tokens computed here; their (token, local expert) pairs */
    struct tr_view ids;    /* (here, K) i32 device: local experts, -1: elsewhere */
};
/* Makes round i the current round of out and back; views are valid until the next round. */
enum fr_rc tr_exchange_round(struct tr_exchange *x, struct tr_queue *q, int i,
                             struct tr_exchange_round *out, struct fr_err *err);

/* in (tokens, n): the round's tokens; out (here, n), same type: the tokens computed here. */
struct tr_exchange_out {
    struct tr_view out, in;
};
enum fr_rc tr_exchange_out(struct tr_exchange *x, struct tr_queue *q,
                           const struct tr_exchange_out *a, struct fr_err *err);

/* y (tokens, n) = add + sum of the tokens' parts on all ranks; in (here, n): those of this rank. y
 * may be add. */
struct tr_exchange_back {
    struct tr_view y;   /* type of in, or f32 */
    struct tr_view add; /* type of y, optional */
    struct tr_view in;
};
enum fr_rc tr_exchange_back(struct tr_exchange *x, struct tr_queue *q,
                            const struct tr_exchange_back *a, struct fr_err *err);

#endif
