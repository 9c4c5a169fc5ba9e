#include "trainer/model/blocks.h"

void tr_norm_fwd(const struct tr_norm *n, struct tr_ctx *ctx, struct tr_view y, struct tr_view rrms,
                 struct tr_view x)
{
    struct tr_rmsnorm a = {.y = y,
                           .rrms = rrms,
                           .x = x,
                           .gain = tr_shard_view(ctx->shard, n->unit, n->tensor),
                           .eps = n->eps};

    TR_RUN(ctx, rmsnorm_fwd, &a);
}

void tr_norm_bwd(const struct tr_norm *n, struct tr_ctx *ctx, const struct tr_norm_grad *g)
{
    struct tr_rmsnorm_grad a = {.dx = g->dx,
                                .dres = g->dres,
                                .dy = g->dy,
                                .x = g->x,
                                .rrms = g->rrms,
                                .gain = tr_shard_view(ctx->shard, n->unit, n->tensor)};

    if (n->trained)
        a.dgain = tr_grads_view(ctx->grads, n->unit, n->tensor);
    TR_RUN(ctx, rmsnorm_bwd, &a);
}

void tr_add(struct tr_ctx *ctx, struct tr_view y, struct tr_view x)
{
    struct tr_sum s = {.y = y, .x = {y, x}, .alpha = {1, 1}, .n = 2};

    TR_RUN(ctx, sum, &s);
}
