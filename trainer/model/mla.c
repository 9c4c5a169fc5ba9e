#include "trainer/model/attention.h"
#include "trainer/model/rope.h"

static const float LATENT_EPS = 1e-6F; /* the reference's default, not the config's */

struct mla {
    struct tr_block block;
    struct tr_mla_opts o;
};

/* Values that both directions compute first: latents, and q and kv from them. */
struct front {
    struct tr_view n, rrms;     /* (T, H), (T) */
    struct tr_view cq, rrms_q;  /* (T, qr) before its norm, (T); qr > 0 only */
    struct tr_view nq;          /* (T, qr) normalised; n itself when qr = 0 */
    struct tr_view ckv;         /* (T, kr+dr) */
    struct tr_view rrms_kv, nc; /* (T), (T, kr) normalised */
    struct tr_view q, kv;       /* (T, nh*(dn+dr)), (T, nh*(dn+dv)) */
    struct {
        struct tr_view qa, qb, kva, kvb; /* (T, r) of adapters */
    } u;
};

struct heads {
    struct tr_view Q, K, V; /* (T, nh, dn+dr), same, (T, nh, dv) */
};

/* kv: keys and values as well. */
static struct front front_fwd(const struct tr_mla_opts *o, struct tr_ctx *ctx, struct tr_view x,
                              bool kv)
{
    int64_t T = x.shape[0];
    struct tr_carve *w = &ctx->work;
    enum tr_dtype C = ctx->compute;
    struct front f = {
        .q = tr_carve2(w, C, T, o->nh * (o->dn + o->dr)),
        .kv = tr_carve2(w, C, kv ? T : 0, o->nh * (o->dn + o->dv)),
        .ckv = tr_carve2(w, C, T, o->kr + o->dr),
        .nc = tr_carve2(w, C, T, o->kr),
        .rrms_kv = tr_carve1(w, ctx->sum, T),
        .n = tr_carve2(w, C, T, o->H),
        .rrms = tr_carve1(w, ctx->sum, T),
    };

    f.nq = f.n;
    tr_norm_fwd(&o->norm, ctx, f.n, f.rrms, x);
    if (o->qr > 0) {
        f.cq = tr_carve2(w, C, T, o->qr);
        f.nq = tr_carve2(w, C, T, o->qr);
        f.rrms_q = tr_carve1(w, ctx->sum, T);
        f.u.qa = tr_linear_fwd(&o->qa, ctx, f.cq, f.n);
        tr_norm_fwd(&o->q_norm, ctx, f.nq, f.rrms_q, f.cq);
    }
    f.u.qb = tr_linear_fwd(&o->qb, ctx, f.q, f.nq);
    f.u.kva = tr_linear_fwd(&o->kva, ctx, f.ckv, f.n);
    tr_norm_fwd(&o->kv_norm, ctx, f.nc, f.rrms_kv, tr_view_cols(f.ckv, 0, o->kr));
    if (kv)
        f.u.kvb = tr_linear_fwd(&o->kvb, ctx, f.kv, f.nc);
    return f;
}

static struct heads carve_heads(const struct tr_mla_opts *o, struct tr_ctx *ctx, int64_t T)
{
    return (struct heads){
        tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->dn + o->dr),
        tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->dn + o->dr),
        tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->dv),
    };
}

static struct tr_rope_table table_of(const struct tr_mla_opts *o, const struct tr_ctx *ctx)
{
    return (struct tr_rope_table){ctx->cosines, ctx->sines, ctx->tokens->pos, o->interleave};
}

static void assemble(const struct tr_mla_opts *o, struct tr_ctx *ctx, const struct heads *h,
                     const struct front *f)
{
    struct tr_mla a = {
        .Q = h->Q,
        .K = h->K,
        .V = h->V,
        .q = f->q,
        .kv = f->kv,
        .k_pe = tr_view_cols(f->ckv, o->kr, o->dr),
        .table = table_of(o, ctx),
    };

    TR_RUN(ctx, mla_assemble_fwd, &a);
}

static struct tr_attention attend(const struct tr_mla_opts *o, struct tr_ctx *ctx,
                                  const struct heads *h)
{
    int64_t T = h->Q.shape[0];
    struct tr_attention a = {
        .O = tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->dv),
        .lse = tr_carve2(&ctx->work, ctx->sum, o->nh, T),
        .Q = h->Q,
        .K = h->K,
        .V = h->V,
        .offsets = ctx->tokens->offsets,
        .max_len = ctx->tokens->longest,
        .scale = o->scale,
        .causal = true,
    };

    TR_RUN(ctx, attention_fwd, &a);
    return a;
}

/* Attention over the call's own tokens. Stores their rows in the cache, if there is one. */
static struct tr_view own_heads(const struct tr_mla_opts *o, struct tr_ctx *ctx, struct tr_view x,
                                int index)
{
    struct tr_attention a;
    struct heads h;
    struct front f;
    size_t inner;

    tr_keep(ctx, false);
    h = carve_heads(o, ctx, x.shape[0]);
    inner = ctx->work.used;
    f = front_fwd(o, ctx, x, true);
    if (ctx->cache != NULL)
        tr_mla_store(o, ctx, ctx->cache->rows[index], f.nc, tr_view_cols(f.ckv, o->kr, o->dr));
    assemble(o, ctx, &h, &f);
    if (ctx->kept == NULL)
        ctx->work.used = inner; /* latents, q and kv are not needed any more */
    a = attend(o, ctx, &h);
    tr_keep_end(ctx);
    return tr_heads_flat(a.O);
}

/* The heads, recomputed for the backward. */
struct again {
    struct heads h;
    struct front f;
    struct tr_attention a;
};

static struct again heads_again(const struct tr_mla_opts *o, struct tr_ctx *ctx, struct tr_view x)
{
    struct again g;

    tr_keep(ctx, true);
    g.h = carve_heads(o, ctx, x.shape[0]);
    g.f = front_fwd(o, ctx, x, true);
    assemble(o, ctx, &g.h, &g.f);
    g.a = attend(o, ctx, &g.h);
    tr_keep_end(ctx);
    return g;
}

static struct tr_view cached_heads(const struct tr_mla_opts *o, struct tr_ctx *ctx,
                                   struct tr_view x, int index)
{
    struct tr_view y = tr_carve2(&ctx->work, ctx->compute, x.shape[0], o->nh * o->dv);
    struct front f = front_fwd(o, ctx, x, false);

    tr_mla_store(o, ctx, ctx->cache->rows[index], f.nc, tr_view_cols(f.ckv, o->kr, o->dr));
    tr_mla_attend(o, ctx, ctx->cache->rows[index], f.q, y);
    return y;
}

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    const struct tr_mla_opts *o = &((const struct mla *)b)->o;
    struct tr_view x = saved->x[b->index], heads;
    size_t mark = ctx->work.used;

    tr_ctx_gather(ctx, o->unit, 1);
    heads = ctx->cache != NULL && !ctx->cache->fresh ? cached_heads(o, ctx, x, b->index)
                                                     : own_heads(o, ctx, x, b->index);
    tr_linear_fwd(&o->o, ctx, y, heads);
    tr_ctx_release(ctx, o->unit, 1);
    tr_add(ctx, y, x);
    ctx->work.used = mark;
}

/* From d to the gradients of q, kv and k_pe, which replace q, kv and the last columns of dckv. */
static void heads_bwd(const struct tr_mla_opts *o, struct tr_ctx *ctx, const struct again *p,
                      struct tr_view dckv, struct tr_view d)
{
    size_t mark = ctx->work.used;
    int64_t T = d.shape[0];
    const struct front *f = &p->f;
    struct heads g = carve_heads(o, ctx, T);
    struct tr_attention a = p->a;
    struct tr_linear_grad out = {.dy = d};
    struct tr_mla_grad m = {
        .dq = f->q,
        .dkv = f->kv,
        .dk_pe = tr_view_cols(dckv, o->kr, o->dr),
        .dQ = g.Q,
        .dK = g.K,
        .dV = g.V,
        .table = table_of(o, ctx),
    };

    a.dO = tr_carve3(&ctx->work, ctx->compute, T, o->nh, o->dv);
    a.dQ = g.Q;
    a.dK = g.K;
    a.dV = g.V;
    out.x = tr_heads_flat(a.O);
    out.dx = tr_heads_flat(a.dO);
    tr_linear_bwd(&o->o, ctx, &out);
    TR_RUN(ctx, attention_bwd, &a);
    TR_RUN(ctx, mla_assemble_bwd, &m);
    ctx->work.used = mark;
}

static void q_bwd(const struct tr_mla_opts *o, struct tr_ctx *ctx, const struct front *f,
                  struct tr_view dn)
{
    size_t mark = ctx->work.used;
    struct tr_linear_grad qb = {.dy = f->q, .x = f->nq, .u = f->u.qb, .dx = dn};
    struct tr_linear_grad qa = {.x = f->n, .u = f->u.qa, .dx = dn};

    if (o->qr > 0) {
        struct tr_view dq = tr_carve2(&ctx->work, ctx->compute, f->q.shape[0], o->qr);
        struct tr_norm_grad g = {.dx = dq, .dy = dq, .x = f->cq, .rrms = f->rrms_q};
        bool below = dn.p != NULL || tr_linear_trains(&o->qa) || o->q_norm.trained;

        qb.dx = below ? dq : (struct tr_view){0};
        tr_linear_bwd(&o->qb, ctx, &qb);
        if (below) {
            tr_norm_bwd(&o->q_norm, ctx, &g);
            qa.dy = dq;
            tr_linear_bwd(&o->qa, ctx, &qa);
        }
    } else {
        tr_linear_bwd(&o->qb, ctx, &qb);
    }
    ctx->work.used = mark;
}

static void kv_bwd(const struct tr_mla_opts *o, struct tr_ctx *ctx, const struct front *f,
                   struct tr_view dckv, struct tr_view dn)
{
    size_t mark = ctx->work.used;
    struct tr_view dc = tr_carve2(&ctx->work, ctx->compute, dckv.shape[0], o->kr);
    bool below = dn.p != NULL || tr_linear_trains(&o->kva) || o->kv_norm.trained;
    struct tr_linear_grad kvb = {.dy = f->kv, .x = f->nc, .u = f->u.kvb, .dx = dc};
    struct tr_linear_grad kva = {.dy = dckv, .x = f->n, .u = f->u.kva, .dx = dn, .add = true};
    struct tr_norm_grad g = {
        .dx = tr_view_cols(dckv, 0, o->kr),
        .dy = dc,
        .x = tr_view_cols(f->ckv, 0, o->kr),
        .rrms = f->rrms_kv,
    };

    if (!below)
        kvb.dx = (struct tr_view){0};
    tr_linear_bwd(&o->kvb, ctx, &kvb);
    if (below) {
        tr_norm_bwd(&o->kv_norm, ctx, &g);
        tr_linear_bwd(&o->kva, ctx, &kva);
    }
    ctx->work.used = mark;
}

/* Whether the gradient of the attention's output must reach something. */
static bool trains_inside(const struct tr_mla_opts *o)
{
    return tr_linear_trains(&o->qa) || tr_linear_trains(&o->qb) || tr_linear_trains(&o->kva) ||
           tr_linear_trains(&o->kvb) || (o->qr > 0 && o->q_norm.trained) || o->kv_norm.trained ||
           o->norm.trained;
}

static void backward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d)
{
    const struct tr_mla_opts *o = &((const struct mla *)b)->o;
    struct tr_view x = saved->x[b->index], dn = {0}, dckv;
    size_t mark = ctx->work.used;
    struct again p;

    tr_ctx_gather(ctx, o->unit, 1);
    p = heads_again(o, ctx, x);
    if (b->need_dx || trains_inside(o)) {
        dckv = tr_carve2(&ctx->work, ctx->compute, x.shape[0], o->kr + o->dr);
        heads_bwd(o, ctx, &p, dckv, d);
        if (b->need_dx || o->norm.trained)
            dn = tr_carve2(&ctx->work, ctx->compute, x.shape[0], o->H);
        q_bwd(o, ctx, &p.f, dn);
        kv_bwd(o, ctx, &p.f, dckv, dn);
    } else { /* o alone */
        struct tr_linear_grad g = {.dy = d, .x = tr_heads_flat(p.a.O)};

        tr_linear_bwd(&o->o, ctx, &g);
    }
    tr_ctx_release(ctx, o->unit, 1);
    tr_ctx_reduce(ctx, o->unit);
    if (dn.p != NULL) {
        struct tr_norm_grad g = {.dx = d, .dres = d, .dy = dn, .x = x, .rrms = p.f.rrms};

        tr_norm_bwd(&o->norm, ctx, &g);
    }
    ctx->work.used = mark;
}

static const struct tr_block_ops mla_ops = {
    .name = "mla", .forward = forward, .backward = backward};

static enum fr_rc block(const struct tr_attention_parts *p, const struct tr_model_config *c,
                        int64_t layer, struct tr_block **out, struct fr_err *err)
{
    struct mla m = {.o = {.unit = p->unit,
                          .norm = p->norm[TR_NORM_ATTENTION],
                          .q_norm = p->norm[TR_NORM_Q],
                          .kv_norm = p->norm[TR_NORM_KV],
                          .qa = p->linear[TR_LIN_Q_A],
                          .qb = p->linear[c->q_lora_rank > 0 ? TR_LIN_Q_B : TR_LIN_Q],
                          .kva = p->linear[TR_LIN_KV_A],
                          .kvb = p->linear[TR_LIN_KV_B],
                          .o = p->linear[TR_LIN_O],
                          .H = c->hidden_size,
                          .nh = c->num_attention_heads,
                          .dn = c->qk_nope_head_dim,
                          .dr = c->qk_rope_head_dim,
                          .dv = c->v_head_dim,
                          .qr = c->q_lora_rank,
                          .kr = c->kv_lora_rank,
                          .scale = (float)tr_rope_softmax_scale(c),
                          .interleave = c->rope.interleave}};

    (void)layer;
    m.o.q_norm.eps = m.o.kv_norm.eps = LATENT_EPS;
    m.block = (struct tr_block){.ops = &mla_ops,
                                .layer = -1,
                                .cached = m.o.kr + m.o.dr,
                                .trains = trains_inside(&m.o) || tr_linear_trains(&m.o.o)};
    return tr_block_make(&m.block, sizeof(m), out, err);
}

const struct tr_attention_row *tr_attention_mla(void)
{
    static const enum tr_op ops[] = {TR_OP_mla_assemble_fwd, TR_OP_COUNT};
    static const enum tr_op grads[] = {TR_OP_mla_assemble_bwd, TR_OP_COUNT};
    static const enum tr_op caches[] = {TR_OP_rope, TR_OP_cast, TR_OP_COUNT};
    static const struct tr_attention_row row = {block, ops, grads, caches};

    return &row;
}
