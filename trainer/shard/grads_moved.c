/* What gradients move, and what they have moved. */
#include "trainer/shard/grads_private.h"

void tr_grads_shares(const struct tr_grads *g, struct tr_grads_shares *out)
{
    const struct tr_shard *s = g->o.shard;

    *out = (struct tr_grads_shares){0};
    for (size_t k = 0; k < g->nparts; k++) {
        const struct grads_part *p = &g->parts[k];

        if (p->unit < 0 || s->units[p->unit].kind != TR_UNIT_ROWS) {
            out->reduced += (size_t)p->n * tr_dtype_bytes(g->wire);
            out->summed += (size_t)p->n * tr_dtype_bytes(g->o.sum);
        }
        if (grads_part_whole(g, p))
            out->updated += p->unit >= 0 ? s->units[p->unit].share : shard_norms_share(s);
    }
}

void grads_count(const struct tr_comm *comm, const size_t before[TR_LINK_CLASSES],
                 size_t out[TR_LINK_CLASSES])
{
    for (int c = 0; c < TR_LINK_CLASSES; c++)
        out[c] += comm->class_bytes[c] - before[c];
}

void tr_grads_moved(const struct tr_grads *g, struct tr_grads_moved *out)
{
    *out = g->moved;
}
