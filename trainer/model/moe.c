#include "engine/base/sys.h"
#include "trainer/model/blocks.h"

struct moe {
    struct tr_block block;
    struct tr_moe_opts o;
};

/* Routing of a micro-batch and its permuted rows; R = T*K. */
struct routed {
    struct tr_view n, rrms;         /* (T, H), (T) */
    struct tr_view weights, scores; /* (T, K) f32* */
    struct tr_view offsets;         /* (E+1) i32 */
    struct tr_view row_of, slot_of; /* (T, K), (R) i32 */
    struct tr_view ids;             /* (T, K) i32, the micro-batch's */
    struct tr_exchange_plan plan;
};

static void route(const struct moe *m, struct tr_ctx *ctx, const struct tr_saved *saved,
                  struct routed *r)
{
    const struct tr_moe_opts *o = &m->o;
    int64_t T = r->n.shape[0];
    struct tr_view counts = tr_carve1(&ctx->work, TR_I32, o->E);
    struct tr_router g = {
        .ids = r->ids = saved->ids[m->block.index],
        .weights = r->weights = tr_carve2(&ctx->work, ctx->sum, T, o->K),
        .scores = r->scores = tr_carve2(&ctx->work, ctx->sum, T, o->K),
        .x = r->n,
        .gate = tr_shard_view(ctx->shard, o->router_unit, o->gate_tensor),
        .n_group = o->n_group,
        .topk_group = o->topk_group,
        .factor = o->factor,
        .norm = o->norm_topk,
        .replay = ctx->replay,
    };
    struct tr_moe_plan p = {
        .counts = counts,
        .offsets = r->offsets = tr_carve1(&ctx->work, TR_I32, o->E + 1),
        .row_of = r->row_of = tr_carve2(&ctx->work, TR_I32, T, o->K),
        .slot_of = r->slot_of = tr_carve1(&ctx->work, TR_I32, T * o->K),
        .ids = g.ids,
    };

    if (o->bias_tensor >= 0)
        g.bias = tr_shard_view(ctx->shard, o->router_unit, o->bias_tensor);
    TR_RUN(ctx, router_fwd, &g);
    TR_RUN(ctx, moe_plan, &p);
    r->plan = (struct tr_exchange_plan){.sent = r->offsets, .sent_max = T * o->K};
    if (ctx->rc == FR_OK)
        ctx->rc = tr_exchange_begin(&o->exchange, ctx->q, &r->plan, ctx->err);
}

static struct routed routed_of(const struct moe *m, struct tr_ctx *ctx,
                               const struct tr_saved *saved, struct tr_view x)
{
    struct routed r = {
        .n = tr_carve2(&ctx->work, ctx->compute, x.shape[0], x.shape[1]),
        .rrms = tr_carve1(&ctx->work, ctx->sum, x.shape[0]),
    };

    tr_norm_fwd(&m->o.norm, ctx, r.n, r.rrms, x);
    route(m, ctx, saved, &r);
    return r;
}

/* The tokens' rows in expert order, where they are computed. */
static struct tr_view spread(const struct moe *m, struct tr_ctx *ctx, const struct routed *r,
                             struct tr_view x)
{
    struct tr_view rows = tr_carve2(&ctx->work, ctx->compute, r->plan.sent_max, x.shape[1]);
    struct tr_moe_permute p = {.xp = rows, .x = x, .slot_of = r->slot_of, .K = m->o.K};

    TR_RUN(ctx, moe_permute, &p);
    if (ctx->rc == FR_OK && !ctx->dry)
        ctx->rc = tr_exchange_out(&m->o.exchange, ctx->q, &r->plan, &rows, ctx->err);
    return rows;
}

/* A window of experts: [e0, e1), its rows, gate and up products. */
struct window {
    int64_t e0, e1;
    struct tr_rows rows;
    struct tr_view g, u; /* (R, I) */
};

/* Weights of the window's experts, by kind 0 gate, 1 up, 2 down: an [E] array for grouped_gemm. */
static const struct tr_weight *const *weights(const struct moe *m, const struct tr_ctx *ctx,
                                              int kind)
{
    return ctx->weight_at + (int64_t)kind * m->o.E;
}

static void name_weights(const struct moe *m, struct tr_ctx *ctx, const struct window *w)
{
    const struct tr_linear *kinds[3] = {&m->o.expert.gate, &m->o.expert.up, &m->o.expert.down};

    for (int64_t k = 0; k < 3; k++)
        for (int64_t e = 0; e < m->o.E; e++) {
            struct tr_linear l = *kinds[k];

            ctx->weight_at[k * m->o.E + e] = NULL;
            if (e < w->e0 || e >= w->e1)
                continue;
            l.unit = m->o.expert0 + (int)e;
            ctx->weights[k * m->o.E + e] = tr_linear_weight(&l, ctx);
            ctx->weight_at[k * m->o.E + e] = &ctx->weights[k * m->o.E + e];
        }
}

static void window_open(const struct moe *m, struct tr_ctx *ctx, const struct routed *r,
                        struct window *w)
{
    int64_t e1 = w->e0 + m->o.window;

    w->e1 = e1 < m->o.exchange.e1 ? e1 : m->o.exchange.e1;
    w->rows = (struct tr_rows){r->plan.offsets, w->e0, w->e1};
    tr_ctx_gather(ctx, m->o.expert0 + (int)w->e0, (int)(w->e1 - w->e0));
    name_weights(m, ctx, w);
}

static void window_close(const struct moe *m, struct tr_ctx *ctx, const struct window *w)
{
    tr_ctx_release(ctx, m->o.expert0 + (int)w->e0, (int)(w->e1 - w->e0));
}

struct product {
    int kind; /* 0 gate, 1 up, 2 down */
    struct tr_view c, a;
    bool trans_b, add;
};

static void multiply(const struct moe *m, struct tr_ctx *ctx, const struct window *w,
                     const struct product *p)
{
    struct tr_grouped_gemm g = {
        .c = p->c,
        .a = p->a,
        .weights = weights(m, ctx, p->kind),
        .offsets = w->rows.offsets,
        .e0 = w->e0,
        .e1 = w->e1,
        .trans_b = p->trans_b,
        .alpha = 1,
        .beta = p->add ? 1.0F : 0.0F,
    };

    TR_RUN(ctx, grouped_gemm, &g);
}

static void gate_up(const struct moe *m, struct tr_ctx *ctx, const struct window *w,
                    struct tr_view rows)
{
    multiply(m, ctx, w, &(struct product){.kind = 0, .c = w->g, .a = rows, .trans_b = true});
    multiply(m, ctx, w, &(struct product){.kind = 1, .c = w->u, .a = rows, .trans_b = true});
}

static struct window windows_begin(const struct moe *m, struct tr_ctx *ctx, const struct routed *r)
{
    return (struct window){
        .e0 = m->o.exchange.e0,
        .g = tr_carve2(&ctx->work, ctx->compute, r->plan.rows_max, m->o.expert.I),
        .u = tr_carve2(&ctx->work, ctx->compute, r->plan.rows_max, m->o.expert.I),
    };
}

/* Unweighted expert outputs replace the rows. */
static void experts_fwd(const struct moe *m, struct tr_ctx *ctx, const struct routed *r,
                        struct tr_view rows)
{
    size_t mark = ctx->work.used;
    struct window w = windows_begin(m, ctx, r);

    for (; w.e0 < m->o.exchange.e1; w.e0 = w.e1) {
        struct tr_swiglu s = {.h = w.g, .g = w.g, .u = w.u};

        window_open(m, ctx, r, &w);
        s.rows = w.rows;
        gate_up(m, ctx, &w, rows);
        TR_RUN(ctx, swiglu_fwd, &s);
        multiply(m, ctx, &w, &(struct product){.kind = 2, .c = rows, .a = w.g, .trans_b = true});
        window_close(m, ctx, &w);
    }
    ctx->work.used = mark;
}

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    const struct moe *m = (const struct moe *)b;
    struct tr_view x = saved->x[b->index], rows;
    size_t mark = ctx->work.used;
    struct routed r = routed_of(m, ctx, saved, x);
    struct tr_moe_combine c = {.y = y, .weight = r.weights, .row_of = r.row_of};

    if (m->o.has_shared) {
        tr_ffn_fwd(&m->o.shared, ctx, y, r.n);
        c.add = y;
    }
    rows = spread(m, ctx, &r, r.n);
    experts_fwd(m, ctx, &r, rows);
    if (ctx->rc == FR_OK && !ctx->dry)
        ctx->rc = tr_exchange_back(&m->o.exchange, ctx->q, &r.plan, &rows, ctx->err);
    c.yp = rows;
    TR_RUN(ctx, moe_combine, &c);
    tr_add(ctx, y, x);
    ctx->work.used = mark;
}

/* The gradient of the experts' inputs replaces drows (in: of their unweighted outputs); dweights
 * gets that of the routing weights. With d = dy W_down: dh = w*d and dweight = d.h, no more
 * products. */
static void experts_bwd(const struct moe *m, struct tr_ctx *ctx, const struct routed *r,
                        struct tr_view drows, struct tr_view dweights)
{
    struct tr_view rows = spread(m, ctx, r, r->n);
    struct window w = windows_begin(m, ctx, r);
    struct tr_view dh = tr_carve2(&ctx->work, ctx->compute, r->plan.rows_max, m->o.expert.I);

    for (; w.e0 < m->o.exchange.e1; w.e0 = w.e1) {
        struct tr_swiglu_grad s = {.dg = w.g,
                                   .du = w.u,
                                   .dh = dh,
                                   .g = w.g,
                                   .u = w.u,
                                   .weight = r->weights,
                                   .dweight = dweights,
                                   .slot_of = r->slot_of};

        window_open(m, ctx, r, &w);
        s.rows = w.rows;
        gate_up(m, ctx, &w, rows);
        multiply(m, ctx, &w, &(struct product){.kind = 2, .c = dh, .a = drows});
        TR_RUN(ctx, swiglu_bwd, &s);
        multiply(m, ctx, &w, &(struct product){.kind = 0, .c = drows, .a = w.g});
        multiply(m, ctx, &w, &(struct product){.kind = 1, .c = drows, .a = w.u, .add = true});
        window_close(m, ctx, &w);
    }
}

/* dn += through the routed experts and through their weights. */
static void routed_bwd(const struct moe *m, struct tr_ctx *ctx, const struct routed *r,
                       struct tr_view dn, struct tr_view d)
{
    size_t mark = ctx->work.used;
    const struct tr_moe_opts *o = &m->o;
    struct tr_view dweights = tr_carve2(&ctx->work, ctx->sum, d.shape[0], o->K);
    struct tr_view drows = spread(m, ctx, r, d);
    struct tr_moe_combine c = {.y = dn, .row_of = r->row_of};
    struct tr_router_grad g = {
        .dx = dn,
        .dweights = dweights,
        .ids = r->ids,
        .scores = r->scores,
        .gate = tr_shard_view(ctx->shard, o->router_unit, o->gate_tensor),
        .factor = o->factor,
        .norm = o->norm_topk,
        .add = true,
    };

    experts_bwd(m, ctx, r, drows, dweights);
    if (ctx->rc == FR_OK && !ctx->dry)
        ctx->rc = tr_exchange_back(&o->exchange, ctx->q, &r->plan, &drows, ctx->err);
    if (o->has_shared)
        c.add = dn;
    c.yp = drows;
    TR_RUN(ctx, moe_combine, &c);
    TR_RUN(ctx, router_bwd, &g);
    ctx->work.used = mark;
}

static void backward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d)
{
    const struct moe *m = (const struct moe *)b;
    struct tr_view x = saved->x[b->index], dn = {0};
    size_t mark = ctx->work.used;
    bool replay = ctx->replay;
    struct routed r;

    ctx->replay = true; /* the forward's choice, whatever rounding does */
    r = routed_of(m, ctx, saved, x);
    ctx->replay = replay;
    if (b->need_dx)
        dn = tr_carve2(&ctx->work, ctx->compute, x.shape[0], x.shape[1]);
    if (m->o.has_shared)
        tr_ffn_bwd(&m->o.shared, ctx, dn, d, r.n);
    if (b->need_dx) {
        struct tr_norm_grad g = {.dx = d, .dres = d, .dy = dn, .x = x, .rrms = r.rrms};

        routed_bwd(m, ctx, &r, dn, d);
        tr_norm_bwd(&m->o.norm, ctx, &g);
    }
    ctx->work.used = mark;
}

static void destroy(struct tr_block *b)
{
    fr_sys.free(b);
}

static const struct tr_block_ops moe_ops = {
    .name = "moe", .forward = forward, .backward = backward, .destroy = destroy};

enum fr_rc tr_moe_block(const struct tr_moe_opts *o, struct tr_block **out, struct fr_err *err)
{
    struct moe *m = fr_sys.alloc(sizeof(*m));

    *out = NULL;
    if (m == NULL)
        return fr_fail(err, FR_NOMEM, "a block");
    *m = (struct moe){.o = *o,
                      .block = {.ops = &moe_ops,
                                .layer = -1,
                                .routed = o->K,
                                .has_lora = o->has_shared && tr_ffn_has_lora(&o->shared)}};
    *out = &m->block;
    return FR_OK;
}
