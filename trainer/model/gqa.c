#include "engine/base/sys.h"
#include "trainer/model/blocks.h"

struct gqa {
    struct tr_block block;
    struct tr_gqa_opts o;
};

/* What both directions compute first. Without norms of heads q0 is q and k0 is k. */
struct front {
    struct tr_view n, rrms;        /* (T, H), (T) */
    struct tr_view q0, k0;         /* (T, nh*hd), (T, nkv*hd) before the norms of heads */
    struct tr_view rrms_q, rrms_k; /* (T*nh), (T*nkv) */
    struct tr_view q, k, v;        /* (T, nh*hd), (T, nkv*hd) twice; q and k rotated */
    struct {
        struct tr_view q, k, v; /* (T, r) of adapters */
    } u;
};

/* One row a head: (T*n, hd) of a contiguous (T, n*hd). */
static struct tr_view each_head(const struct tr_gqa_opts *o, struct tr_view v)
{
    return tr_view2(v.p, v.dtype, v.shape[0] * (v.shape[1] / o->hd), o->hd);
}

static struct tr_view as_heads(const struct tr_gqa_opts *o, struct tr_view v)
{
    return tr_view_heads(v, v.shape[1] / o->hd, o->hd);
}

/* In place; inverse: the backward. */
static void rotate(const struct tr_gqa_opts *o, struct tr_ctx *ctx, struct tr_view x, bool inverse)
{
    struct tr_rope r = {.y = as_heads(o, x),
                        .x = as_heads(o, x),
                        .table = {ctx->cosines, ctx->sines, ctx->tokens->pos, false},
                        .inverse = inverse};

    TR_RUN(ctx, rope, &r);
}

static void front_norms(const struct tr_gqa_opts *o, struct tr_ctx *ctx, struct front *f)
{
    struct tr_carve *w = &ctx->work;
    int64_t T = f->n.shape[0];

    f->q = tr_carve2(w, ctx->compute, T, o->nh * o->hd);
    f->k = tr_carve2(w, ctx->compute, T, o->nkv * o->hd);
    f->rrms_q = tr_carve1(w, ctx->sum, T * o->nh);
    f->rrms_k = tr_carve1(w, ctx->sum, T * o->nkv);
    tr_norm_fwd(&o->q_norm, ctx, each_head(o, f->q), f->rrms_q, each_head(o, f->q0));
    tr_norm_fwd(&o->k_norm, ctx, each_head(o, f->k), f->rrms_k, each_head(o, f->k0));
}

static struct front front_fwd(const struct tr_gqa_opts *o, struct tr_ctx *ctx, struct tr_view x)
{
    struct tr_carve *w = &ctx->work;
    enum tr_dtype C = ctx->compute;
    int64_t T = x.shape[0];
    struct front f = {
        .n = tr_carve2(w, C, T, o->H),
        .rrms = tr_carve1(w, ctx->sum, T),
        .q0 = tr_carve2(w, C, T, o->nh * o->hd),
        .k0 = tr_carve2(w, C, T, o->nkv * o->hd),
        .v = tr_carve2(w, C, T, o->nkv * o->hd),
    };

    tr_norm_fwd(&o->norm, ctx, f.n, f.rrms, x);
    f.u.q = tr_linear_fwd(&o->q, ctx, f.q0, f.n);
    f.u.k = tr_linear_fwd(&o->k, ctx, f.k0, f.n);
    f.u.v = tr_linear_fwd(&o->v, ctx, f.v, f.n);
    f.q = f.q0;
    f.k = f.k0;
    if (o->qk_norm)
        front_norms(o, ctx, &f);
    rotate(o, ctx, f.q, false);
    rotate(o, ctx, f.k, false);
    return f;
}

static struct tr_attention attend(const struct tr_gqa_opts *o, struct tr_ctx *ctx,
                                  const struct front *f)
{
    int64_t T = f->q.shape[0];
    struct tr_attention a = {
        .O = tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->hd),
        .lse = tr_carve2(&ctx->work, ctx->sum, o->nh, T),
        .Q = as_heads(o, f->q),
        .K = as_heads(o, f->k),
        .V = as_heads(o, f->v),
        .offsets = ctx->tokens->offsets,
        .max_len = ctx->tokens->longest,
        .scale = o->scale,
        .causal = true,
        .window = o->window,
    };

    TR_RUN(ctx, attention_fwd, &a);
    return a;
}

/* The (T, n, hd) heads as the (T, n*hd) matrix that linears take. */
static struct tr_view flat(struct tr_view v)
{
    return tr_view2(v.p, v.dtype, v.shape[0], v.shape[1] * v.shape[2]);
}

/* Keys and values of the call's tokens go into the cache, side by side. */
static void store(const struct tr_gqa_opts *o, struct tr_ctx *ctx, struct tr_view cache,
                  const struct front *f)
{
    int64_t kv = o->nkv * o->hd;
    struct tr_put_rows k = {.y = tr_view_cols(cache, 0, kv), .x = f->k, .index = ctx->cache->at};
    struct tr_put_rows v = {.y = tr_view_cols(cache, kv, kv), .x = f->v, .index = ctx->cache->at};

    TR_RUN(ctx, put_rows, &k);
    TR_RUN(ctx, put_rows, &v);
}

static struct tr_view cached_heads(const struct tr_gqa_opts *o, struct tr_ctx *ctx,
                                   struct tr_view cache, const struct front *f)
{
    int64_t kv = o->nkv * o->hd;
    struct tr_view y = tr_carve2(&ctx->work, ctx->compute, f->q.shape[0], o->nh * o->hd);
    struct tr_attention_cached a = {
        .O = as_heads(o, y),
        .Q = as_heads(o, f->q),
        .K = as_heads(o, tr_view_cols(cache, 0, kv)),
        .V = as_heads(o, tr_view_cols(cache, kv, kv)),
        .offsets = ctx->tokens->offsets,
        .first = ctx->cache->first,
        .len = ctx->cache->len,
        .max_len = ctx->cache->tokens,
        .window = o->window,
        .scale = o->scale,
    };

    TR_RUN(ctx, attention_cached, &a);
    return y;
}

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    const struct tr_gqa_opts *o = &((const struct gqa *)b)->o;
    struct tr_view x = saved->x[b->index], heads;
    size_t mark = ctx->work.used;
    struct front f;

    tr_ctx_gather(ctx, o->unit, 1);
    tr_keep(ctx, false);
    f = front_fwd(o, ctx, x);
    if (ctx->cache != NULL)
        store(o, ctx, ctx->cache->rows[b->index], &f);
    heads = ctx->cache != NULL && !ctx->cache->fresh
                ? cached_heads(o, ctx, ctx->cache->rows[b->index], &f)
                : flat(attend(o, ctx, &f).O);
    tr_keep_end(ctx);
    tr_linear_fwd(&o->o, ctx, y, heads);
    tr_ctx_release(ctx, o->unit, 1);
    tr_add(ctx, y, x);
    ctx->work.used = mark;
}

/* Gradients of what q, k and v gave. */
struct grads {
    struct tr_view q, k, v;
};

static void unnorm(const struct tr_norm *n, struct tr_ctx *ctx, struct tr_view d, struct tr_view x,
                   struct tr_view rrms)
{
    struct tr_norm_grad g = {.dx = d, .dy = d, .x = x, .rrms = rrms};

    tr_norm_bwd(n, ctx, &g);
}

static struct grads heads_bwd(const struct tr_gqa_opts *o, struct tr_ctx *ctx,
                              const struct front *f, struct tr_attention a, struct tr_view d)
{
    int64_t T = d.shape[0];
    struct tr_linear_grad out = {.dy = d, .x = flat(a.O)};
    struct grads g;

    a.dO = tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->hd);
    a.dQ = tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->hd);
    a.dK = tr_carve3(&ctx->work, ctx->compute, T, o->nkv, o->hd);
    a.dV = tr_carve3(&ctx->work, ctx->compute, T, o->nkv, o->hd);
    out.dx = flat(a.dO);
    tr_linear_bwd(&o->o, ctx, &out);
    TR_RUN(ctx, attention_bwd, &a);
    g = (struct grads){flat(a.dQ), flat(a.dK), flat(a.dV)};
    rotate(o, ctx, g.q, true);
    rotate(o, ctx, g.k, true);
    if (o->qk_norm) {
        unnorm(&o->q_norm, ctx, each_head(o, g.q), each_head(o, f->q0), f->rrms_q);
        unnorm(&o->k_norm, ctx, each_head(o, g.k), each_head(o, f->k0), f->rrms_k);
    }
    return g;
}

/* An adapter that the gradient of the attention's output must reach. */
static bool lora_inside(const struct tr_gqa_opts *o)
{
    return o->q.lora != NULL || o->k.lora != NULL || o->v.lora != NULL;
}

/* dn: absent where adapters alone want the gradient. */
static void project_bwd(const struct tr_gqa_opts *o, struct tr_ctx *ctx, const struct front *f,
                        const struct grads *g, struct tr_view dn)
{
    struct tr_linear_grad q = {.dy = g->q, .x = f->n, .u = f->u.q, .dx = dn};
    struct tr_linear_grad k = {.dy = g->k, .x = f->n, .u = f->u.k, .dx = dn, .add = true};
    struct tr_linear_grad v = {.dy = g->v, .x = f->n, .u = f->u.v, .dx = dn, .add = true};

    tr_linear_bwd(&o->q, ctx, &q);
    tr_linear_bwd(&o->k, ctx, &k);
    tr_linear_bwd(&o->v, ctx, &v);
}

static void backward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d)
{
    const struct tr_gqa_opts *o = &((const struct gqa *)b)->o;
    struct tr_view x = saved->x[b->index], dn = {0};
    size_t mark = ctx->work.used;
    struct tr_attention a;
    struct front f;

    tr_ctx_gather(ctx, o->unit, 1);
    tr_keep(ctx, true);
    f = front_fwd(o, ctx, x);
    a = attend(o, ctx, &f);
    tr_keep_end(ctx);
    if (b->need_dx || lora_inside(o)) {
        struct grads g = heads_bwd(o, ctx, &f, a, d);

        if (b->need_dx)
            dn = tr_carve2(&ctx->work, ctx->compute, x.shape[0], o->H);
        project_bwd(o, ctx, &f, &g, dn);
    } else { /* the lowest adapter is that of o */
        struct tr_linear_grad g = {.dy = d, .x = flat(a.O)};

        tr_linear_bwd(&o->o, ctx, &g);
    }
    tr_ctx_release(ctx, o->unit, 1);
    if (b->need_dx) {
        struct tr_norm_grad g = {.dx = d, .dres = d, .dy = dn, .x = x, .rrms = f.rrms};

        tr_norm_bwd(&o->norm, ctx, &g);
    }
    ctx->work.used = mark;
}

static void destroy(struct tr_block *b)
{
    fr_sys.free(b);
}

static const struct tr_block_ops gqa_ops = {
    .name = "gqa", .forward = forward, .backward = backward, .destroy = destroy};

enum fr_rc tr_gqa_block(const struct tr_gqa_opts *o, struct tr_block **out, struct fr_err *err)
{
    struct gqa *g = fr_sys.alloc(sizeof(*g));

    *out = NULL;
    if (g == NULL)
        return fr_fail(err, FR_NOMEM, "a block");
    *g = (struct gqa){.o = *o,
                      .block = {.ops = &gqa_ops,
                                .layer = -1,
                                .cached = 2 * o->nkv * o->hd,
                                .has_lora = lora_inside(o) || o->o.lora != NULL}};
    *out = &g->block;
    return FR_OK;
}
