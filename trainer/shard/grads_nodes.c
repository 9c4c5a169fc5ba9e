/* How shares of gradients get to their owners, inside a node and between nodes. */
#include "engine/base/log.h"
#include "trainer/shard/grads_private.h"

#include <string.h>

static struct tr_scatter_size size_of(const struct tr_grads *g, bool later, size_t elements)
{
    return (struct tr_scatter_size){.nodes = g->nodes,
                                    .slice = elements * tr_dtype_bytes(g->wire),
                                    .sum = elements * tr_dtype_bytes(g->o.sum),
                                    .add = later};
}

void grads_choose_way(struct tr_grads *g)
{
    g->nodes = (struct tr_comm_nodes){1, g->ranks};
    if (g->ranks == 1 || !tr_comm_nodes(g->o.comm, &g->nodes))
        return;
    for (int later = 0; later < 2; later++) {
        struct tr_scatter_size s = size_of(g, later, 1);

        g->chain[later] = tr_chain_fewer(&s);
    }
}

void grads_say_way(const struct tr_grads *g)
{
    struct tr_comm_nodes nodes;

    if (g->me != 0 || g->ranks == 1)
        return;
    if (!tr_comm_nodes(g->o.comm, &nodes))
        fr_log(FR_LOG_INFO, "shard",
               "gradients go from each rank to their owners, not from node to node: nodes have "
               "different numbers of ranks, or their ranks are not numbered node by node");
    else if (nodes.nodes > 1)
        fr_log(FR_LOG_INFO, "shard", "gradients nodes=%d ranks_of_node=%d first=%s later=%s",
               nodes.nodes, nodes.ranks, g->chain[0] ? "chain" : "all_to_all",
               g->chain[1] ? "chain" : "all_to_all");
}

static int64_t piece(const struct tr_grads *g, int64_t n)
{
    return g->chain[0] || g->chain[1] ? tr_chain_piece(&g->nodes, n) : 0;
}

int64_t grads_arrived(const struct tr_grads *g, int64_t n)
{
    if (g->ranks == 1)
        return 0;
    return g->chain[0] && g->chain[1] ? g->nodes.ranks * piece(g, n) : g->ranks * n;
}

int64_t grads_passed(const struct tr_grads *g, int64_t n)
{
    return 3 * piece(g, n);
}

static enum fr_rc chain(struct tr_grads *g, struct tr_queue *q, const struct tr_reduce_scatter *x,
                        struct fr_err *err)
{
    int64_t n = piece(g, tr_view_count(x->out));
    struct tr_chain c = {.nodes = g->nodes,
                         .out = x->out,
                         .in = x->in,
                         .slices = tr_view2(g->arrived.p, g->wire, g->nodes.ranks, n),
                         .sums = tr_view2(g->passed.p, g->o.sum, 3, n),
                         .lists = g->lists,
                         .add = x->add,
                         .what = x->what};

    return tr_chain_reduce(grads_beside(g) ? g->o.beside : g->o.comm, q, &c, err);
}

enum fr_rc grads_scatter(struct tr_grads *g, struct tr_queue *q, struct tr_reduce_scatter *x,
                         struct fr_err *err)
{
    struct tr_comm *comm = grads_beside(g) ? g->o.beside : g->o.comm;
    struct tr_reduce own = {.out = x->out, .slices = x->in, .add = x->add};
    size_t before[TR_LINK_CLASSES];
    enum fr_rc rc;

    if (g->ranks == 1)
        return tr_reduce_ordered(g->o.be, q, &own, err);
    x->slices = tr_view2(g->arrived.p, g->wire, g->ranks, tr_view_count(x->out));
    memcpy(before, comm->class_bytes, sizeof(before));
    rc = g->chain[x->add] ? chain(g, q, x, err) : tr_comm_reduce_scatter(comm, q, x, err);
    grads_count(comm, before, g->moved.reduced);
    return rc;
}

void tr_grads_way(const struct tr_grads *g, bool later, struct tr_grads_way *out)
{
    struct tr_grads_shares shares;
    struct tr_scatter_size s;

    tr_grads_shares(g, &shares);
    s = size_of(g, later, shares.summed / tr_dtype_bytes(g->o.sum));
    *out = (struct tr_grads_way){.chain = g->chain[later]};
    if (g->ranks == 1)
        return;
    if (out->chain)
        tr_chain_bytes(&s, &out->bytes);
    else
        tr_scatter_bytes(&s, &out->bytes);
}
