#include "trainer/model/blocks.h"

#include <assert.h>

/* Columns [col, col+n) of a rank-2 view as one head of each token. */
static struct tr_view one_head(struct tr_view v, int64_t col, int64_t n)
{
    return tr_view_heads(tr_view_cols(v, col, n), 1, n);
}

static void rotate(const struct tr_mla_opts *o, struct tr_ctx *ctx, struct tr_view y,
                   struct tr_view x)
{
    struct tr_rope r = {
        .y = y, .x = x, .table = {ctx->cosines, ctx->sines, ctx->tokens->pos, o->interleave}};

    TR_RUN(ctx, rope, &r);
}

void tr_mla_store(const struct tr_mla_opts *o, struct tr_ctx *ctx, struct tr_view cache,
                  struct tr_view nc, struct tr_view k_pe)
{
    size_t mark = ctx->work.used;
    struct tr_view row = tr_carve2(&ctx->work, ctx->compute, nc.shape[0], o->kr + o->dr);
    struct tr_cast c = {.y = tr_view_cols(row, 0, o->kr), .x = nc};
    struct tr_put_rows p = {.y = cache, .x = row, .index = ctx->cache->at};

    TR_RUN(ctx, cast, &c);
    rotate(o, ctx, one_head(row, o->kr, o->dr), one_head(k_pe, 0, o->dr));
    TR_RUN(ctx, put_rows, &p);
    ctx->work.used = mark;
}

/* Rows [row, row+n) of a linear's weight; scales begin with the block that row lies in. */
static struct tr_weight weight_rows(const struct tr_linear *l, const struct tr_ctx *ctx,
                                    int64_t row, int64_t n)
{
    struct tr_weight w = tr_linear_weight(l, ctx);

    assert(!w.repacked);
    w.w = tr_view_rows(w.w, row, n);
    w.packed = NULL; /* covers all rows only */
    if (!tr_view_absent(w.scale)) {
        int64_t block = row / w.block_rows, end = (row + n + w.block_rows - 1) / w.block_rows;

        w.scale = tr_view_rows(w.scale, block, end - block);
        w.row0 = row - block * w.block_rows;
    }
    return w;
}

/* Shared by the products of one call. */
struct absorb {
    const struct tr_mla_opts *o;
    struct tr_ctx *ctx;
    struct tr_view u; /* (T, nh*r): of the adapter */
    int64_t r;
};

/* Head h of the query, taken to the latent: Q = [q_nope Wk, rope(q_pe)], Wk with its adapter. */
static void query(const struct absorb *x, int64_t h, struct tr_view Q, struct tr_view q)
{
    const struct tr_mla_opts *o = x->o;
    const struct tr_adapter *a = o->kvb.lora;
    int64_t row = h * (o->dn + o->dv), at = h * (o->kr + o->dr), from = h * (o->dn + o->dr);
    struct tr_view nope = tr_view_cols(q, from, o->dn), latent = tr_view_cols(Q, at, o->kr);
    struct tr_gemm g = {
        .c = latent, .a = nope, .b = weight_rows(&o->kvb, x->ctx, row, o->dn), .alpha = 1};

    TR_RUN(x->ctx, gemm, &g);
    if (a != NULL) {
        struct tr_view u = tr_view_cols(x->u, h * a->r, a->r);
        struct tr_gemm down = {
            .c = u, .a = nope, .b = {.w = tr_view_rows(a->b, row, o->dn)}, .alpha = 1};
        struct tr_gemm up = {.c = latent, .a = u, .b = {.w = a->a}, .alpha = a->scale, .beta = 1};

        TR_RUN(x->ctx, gemm, &down);
        TR_RUN(x->ctx, gemm, &up);
    }
    rotate(o, x->ctx, one_head(Q, at + o->kr, o->dr), one_head(q, from + o->dn, o->dr));
}

/* Head h of the result out of the latent: y = l Wv^T. */
static void value(const struct absorb *x, int64_t h, struct tr_view y, struct tr_view l)
{
    const struct tr_mla_opts *o = x->o;
    const struct tr_adapter *a = o->kvb.lora;
    int64_t row = h * (o->dn + o->dv) + o->dn;
    struct tr_view latent = tr_view_cols(l, h * o->kr, o->kr),
                   v = tr_view_cols(y, h * o->dv, o->dv);
    struct tr_gemm g = {.c = v,
                        .a = latent,
                        .b = weight_rows(&o->kvb, x->ctx, row, o->dv),
                        .trans_b = true,
                        .alpha = 1};

    TR_RUN(x->ctx, gemm, &g);
    if (a != NULL) {
        struct tr_view u = tr_view_cols(x->u, h * a->r, a->r);
        struct tr_gemm down = {.c = u, .a = latent, .b = {.w = a->a}, .trans_b = true, .alpha = 1};
        struct tr_gemm up = {.c = v,
                             .a = u,
                             .b = {.w = tr_view_rows(a->b, row, o->dv)},
                             .trans_b = true,
                             .alpha = a->scale,
                             .beta = 1};

        TR_RUN(x->ctx, gemm, &down);
        TR_RUN(x->ctx, gemm, &up);
    }
}

void tr_mla_attend(const struct tr_mla_opts *o, struct tr_ctx *ctx, struct tr_view cache,
                   struct tr_view q, struct tr_view y)
{
    size_t mark = ctx->work.used;
    int64_t T = q.shape[0], r = o->kvb.lora != NULL ? o->kvb.lora->r : 0;
    struct tr_view Q = tr_carve2(&ctx->work, ctx->compute, T, o->nh * (o->kr + o->dr));
    struct tr_view l = tr_carve2(&ctx->work, ctx->compute, T, o->nh * o->kr);
    struct absorb x = {.o = o, .ctx = ctx, .r = r};
    struct tr_attention_cached a = {
        .O = tr_view_heads(l, o->nh, o->kr),
        .Q = tr_view_heads(Q, o->nh, o->kr + o->dr),
        .K = tr_view_heads(cache, 1, o->kr + o->dr),
        .V = tr_view_heads(tr_view_cols(cache, 0, o->kr), 1, o->kr),
        .offsets = ctx->tokens->offsets,
        .first = ctx->cache->first,
        .len = ctx->cache->len,
        .max_len = ctx->cache->tokens,
        .scale = o->scale,
    };

    if (r > 0)
        x.u = tr_carve2(&ctx->work, ctx->compute, T, o->nh * r);
    for (int64_t h = 0; h < o->nh; h++)
        query(&x, h, Q, q);
    TR_RUN(ctx, attention_cached, &a);
    for (int64_t h = 0; h < o->nh; h++)
        value(&x, h, y, l);
    ctx->work.used = mark;
}
