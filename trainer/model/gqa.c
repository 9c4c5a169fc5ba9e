/*
 * gqa: y = x + o(attention(norm(x))), grouped-query attention (Ainslie et al. 2023) over rotated
 * heads of half-split pairs. A token's row in a cache is its rotated keys and its values.
 */
#include "trainer/model/attention.h"
#include "trainer/model/rope.h"

struct opts {
    int unit; /* all linears */
    struct tr_norm norm;
    struct tr_norm q_norm, k_norm; /* of each head, with qk_norm */
    struct tr_linear q, k, v, o;
    int64_t H, nh, nkv, hd;
    int64_t window; /* tokens that a token sees, itself included; 0: all before it */
    bool qk_norm;
    float scale; /* of the softmax */
};

struct gqa {
    struct tr_block block;
    struct opts o;
};

/* Values that both directions compute first. Without norms of heads, q0 is q and k0 is k. */
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
static struct tr_view each_head(const struct opts *o, struct tr_view v)
{
    return tr_view2(v.p, v.dtype, v.shape[0] * (v.shape[1] / o->hd), o->hd);
}

static struct tr_view as_heads(const struct opts *o, struct tr_view v)
{
    return tr_view_heads(v, v.shape[1] / o->hd, o->hd);
}

/* In place; inverse: the backward. */
static void rotate(const struct opts *o, struct tr_ctx *ctx, struct tr_view x, bool inverse)
{
    struct tr_rope r = {.y = as_heads(o, x),
                        .x = as_heads(o, x),
                        .table = {ctx->cosines, ctx->sines, ctx->tokens->pos, false},
                        .inverse = inverse};

    TR_RUN(ctx, rope, &r);
}

static void front_norms(const struct opts *o, struct tr_ctx *ctx, struct front *f)
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

static struct front front_fwd(const struct opts *o, struct tr_ctx *ctx, struct tr_view x)
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

static struct tr_attention attend(const struct opts *o, struct tr_ctx *ctx, const struct front *f)
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

/* Keys and values of the call's tokens go into the cache, side by side. */
static void store(const struct opts *o, struct tr_ctx *ctx, struct tr_view cache,
                  const struct front *f)
{
    int64_t kv = o->nkv * o->hd;
    struct tr_put_rows k = {.y = tr_view_cols(cache, 0, kv), .x = f->k, .index = ctx->cache->at};
    struct tr_put_rows v = {.y = tr_view_cols(cache, kv, kv), .x = f->v, .index = ctx->cache->at};

    TR_RUN(ctx, put_rows, &k);
    TR_RUN(ctx, put_rows, &v);
}

static struct tr_view cached_heads(const struct opts *o, struct tr_ctx *ctx, struct tr_view cache,
                                   const struct front *f)
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
    const struct opts *o = &((const struct gqa *)b)->o;
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
                : tr_heads_flat(attend(o, ctx, &f).O);
    tr_keep_end(ctx);
    tr_linear_fwd(&o->o, ctx, y, heads);
    tr_ctx_release(ctx, o->unit, 1);
    tr_add(ctx, y, x);
    ctx->work.used = mark;
}

/* Gradients of the outputs of q, k and v. */
struct grads {
    struct tr_view q, k, v;
};

static void unnorm(const struct tr_norm *n, struct tr_ctx *ctx, struct tr_view d, struct tr_view x,
                   struct tr_view rrms)
{
    struct tr_norm_grad g = {.dx = d, .dy = d, .x = x, .rrms = rrms};

    tr_norm_bwd(n, ctx, &g);
}

static struct grads heads_bwd(const struct opts *o, struct tr_ctx *ctx, const struct front *f,
                              struct tr_attention a, struct tr_view d)
{
    int64_t T = d.shape[0];
    struct tr_linear_grad out = {.dy = d, .x = tr_heads_flat(a.O)};
    struct grads g;

    a.dO = tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->hd);
    a.dQ = tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->hd);
    a.dK = tr_carve3(&ctx->work, ctx->compute, T, o->nkv, o->hd);
    a.dV = tr_carve3(&ctx->work, ctx->compute, T, o->nkv, o->hd);
    out.dx = tr_heads_flat(a.dO);
    tr_linear_bwd(&o->o, ctx, &out);
    TR_RUN(ctx, attention_bwd, &a);
    g = (struct grads){tr_heads_flat(a.dQ), tr_heads_flat(a.dK), tr_heads_flat(a.dV)};
    rotate(o, ctx, g.q, true);
    rotate(o, ctx, g.k, true);
    if (o->qk_norm) {
        unnorm(&o->q_norm, ctx, each_head(o, g.q), each_head(o, f->q0), f->rrms_q);
        unnorm(&o->k_norm, ctx, each_head(o, g.k), each_head(o, f->k0), f->rrms_k);
    }
    return g;
}

/* Whether the gradient of the attention's output must reach something. */
static bool trains_inside(const struct opts *o)
{
    return tr_linear_trains(&o->q) || tr_linear_trains(&o->k) || tr_linear_trains(&o->v) ||
           (o->qk_norm && (o->q_norm.trained || o->k_norm.trained)) || o->norm.trained;
}

/* dn: absent where adapters alone want the gradient. */
static void project_bwd(const struct opts *o, struct tr_ctx *ctx, const struct front *f,
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
    const struct opts *o = &((const struct gqa *)b)->o;
    struct tr_view x = saved->x[b->index], dn = {0};
    size_t mark = ctx->work.used;
    struct tr_attention a;
    struct front f;

    tr_ctx_gather(ctx, o->unit, 1);
    tr_keep(ctx, true);
    f = front_fwd(o, ctx, x);
    a = attend(o, ctx, &f);
    tr_keep_end(ctx);
    if (b->need_dx || trains_inside(o)) {
        struct grads g = heads_bwd(o, ctx, &f, a, d);

        if (b->need_dx || o->norm.trained)
            dn = tr_carve2(&ctx->work, ctx->compute, x.shape[0], o->H);
        project_bwd(o, ctx, &f, &g, dn);
    } else { /* o alone */
        struct tr_linear_grad g = {.dy = d, .x = tr_heads_flat(a.O)};

        tr_linear_bwd(&o->o, ctx, &g);
    }
    tr_ctx_release(ctx, o->unit, 1);
    tr_ctx_reduce(ctx, o->unit);
    if (dn.p != NULL) {
        struct tr_norm_grad g = {.dx = d, .dres = d, .dy = dn, .x = x, .rrms = f.rrms};

        tr_norm_bwd(&o->norm, ctx, &g);
    }
    ctx->work.used = mark;
}

static const struct tr_block_ops gqa_ops = {
    .name = "gqa", .forward = forward, .backward = backward};

static enum fr_rc block(const struct tr_attention_parts *p, const struct tr_model_config *c,
                        int64_t layer, struct tr_block **out, struct fr_err *err)
{
    struct gqa g = {.o = {.unit = p->unit,
                          .norm = p->norm[TR_NORM_ATTENTION],
                          .q_norm = p->norm[TR_NORM_Q],
                          .k_norm = p->norm[TR_NORM_K],
                          .q = p->linear[TR_LIN_Q],
                          .k = p->linear[TR_LIN_K],
                          .v = p->linear[TR_LIN_V],
                          .o = p->linear[TR_LIN_O],
                          .H = c->hidden_size,
                          .nh = c->num_attention_heads,
                          .nkv = c->num_key_value_heads,
                          .hd = c->head_dim,
                          .window = tr_model_window(c, layer),
                          .qk_norm = c->qk_norm,
                          .scale = (float)tr_rope_softmax_scale(c)}};

    g.block = (struct tr_block){.ops = &gqa_ops,
                                .layer = -1,
                                .cached = 2 * g.o.nkv * g.o.hd,
                                .trains = trains_inside(&g.o) || tr_linear_trains(&g.o.o)};
    return tr_block_make(&g.block, sizeof(g), out, err);
}

const struct tr_attention_row *tr_attention_gqa(void)
{
    static const enum tr_op ops[] = {TR_OP_rope, TR_OP_COUNT};
    static const enum tr_op none[] = {TR_OP_COUNT};
    static const struct tr_attention_row row = {block, ops, none, none};

    return &row;
}
