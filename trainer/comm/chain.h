/*
 * A reduce-scatter over several nodes whose sums go from node to node: the bits of
 * tr_comm_reduce_scatter, with other bytes between nodes.
 *
 * The ranks are n nodes of g ranks, numbered node by node. Rank l of each node works on the same n
 * slices, l*n to l*n + n-1, which lie side by side: its range. Its node's ranks send it their
 * values; it adds them in rank order to the sums that rank l of the node before has sent, and sends
 * these to rank l of the next node. The last node sends whole sums to their owners. With `add` a
 * slice's sum begins at its owner's `out`, which travels to the first node before.
 *
 * A range goes in pieces. In turn t the nodes work side by side: node i adds to piece t - i, and
 * sends it while the next node sends the piece before. A range of C pieces takes C + n-1 turns. The
 * ranks make the same calls in every turn.
 *
 * Bytes out of a node, of slices of S bytes in the type of sums: g*n*S; out of the last node
 * g*(n-1)*S; with `add` g*S more out of each node but the first. The reduce-scatter of comm.h sends
 * g*g*(n-1) slices out of each node, in the type of the values.
 */
#ifndef TR_COMM_CHAIN_H
#define TR_COMM_CHAIN_H

#include "trainer/comm/comm.h"

/* Nodes of equally many ranks, numbered node by node. */
struct tr_comm_nodes {
    int nodes, ranks; /* ranks: of a node */
};

/* false: nodes have different numbers of ranks, or their ranks do not follow each other. */
bool tr_comm_nodes(const struct tr_comm *comm, struct tr_comm_nodes *out);

/* A reduce-scatter, for its bytes. */
struct tr_scatter_size {
    struct tr_comm_nodes nodes;
    size_t slice; /* bytes of a slice in the type that ranks send */
    size_t sum;   /* bytes of a slice in the type of sums */
    bool add;
};

/* Payload of one call: of all ranks to themselves, to others of their node and to other nodes, as
 * class_bytes of tr_comm counts it; and out of the node that sends most. */
struct tr_scatter_bytes {
    size_t self, node, far, busiest;
};
/* Of tr_comm_reduce_scatter; of tr_chain_reduce. */
void tr_scatter_bytes(const struct tr_scatter_size *s, struct tr_scatter_bytes *out);
void tr_chain_bytes(const struct tr_scatter_size *s, struct tr_scatter_bytes *out);

/* Whether the chain sends fewer bytes: out of the busiest node or, where these are equal, between
 * all nodes. Depends on the ratio of slice and sum alone. */
bool tr_chain_fewer(const struct tr_scatter_size *s);

/* Elements of a piece of slices of n elements. Grows with n. */
int64_t tr_chain_piece(const struct tr_comm_nodes *nodes, int64_t n);

struct tr_chain {
    struct tr_comm_nodes nodes; /* at least 2 nodes; of all ranks of the communicator */
    struct tr_view out;         /* (n) f32*, not in `in` */
    struct tr_view in;          /* (size, n) any float */
    struct tr_view slices;      /* (ranks of a node, piece) in's type, workspace */
    struct tr_view sums;        /* (3, piece) out's type, workspace */
    size_t *lists;              /* 4*size, workspace */
    bool add;                   /* ((out + slice 0) + slice 1) + … */
    const char *what;
};
/* piece: of the views, any above 0; the same on all ranks. */
enum fr_rc tr_chain_reduce(struct tr_comm *comm, struct tr_queue *q, const struct tr_chain *x,
                           struct fr_err *err);

#endif
