#include "trainer/model/blocks.h"

struct moe {
    struct tr_block block;
    struct tr_moe_opts o;
};

/* Routing of a micro-batch. */
struct routed {
    struct tr_view n, rrms;              /* (T, H), (T) */
    struct tr_view ids, weights, scores; /* (T, K) i32, f32*, f32* */
    struct tr_view all;                  /* (T, E) f32*, where the router's backward takes them */
    int parts;
};

/* Tokens that are computed on this rank at once: the whole micro-batch where all experts are here,
 * else what a round of the exchange brings. C tokens with K slots each, R rows: the slots that name
 * an expert of this rank. */
struct part {
    int64_t first, tokens;          /* of the micro-batch's own */
    int64_t rows;                   /* R */
    struct tr_view ids, weights;    /* (C, K) i32, f32* */
    struct tr_view offsets;         /* (experts here + 1) i32 */
    struct tr_view row_of, slot_of; /* (C, K), (R) i32 */
};

/* The shared experts may run between begin and plan: they wait for no choice. */
static void route(const struct moe *m, struct tr_ctx *ctx, const struct tr_saved *saved,
                  struct routed *r)
{
    const struct tr_moe_opts *o = &m->o;
    int64_t T = r->n.shape[0];
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
        .softmax = o->softmax,
        .replay = ctx->replay,
    };

    if (o->softmax && !o->norm_topk)
        g.all = r->all = tr_carve2(&ctx->work, ctx->sum, T, o->E);
    if (o->bias_tensor >= 0)
        g.bias = tr_shard_view(ctx->shard, o->bias_unit, o->bias_tensor);
    TR_RUN(ctx, router_fwd, &g);
}

static struct routed routed_of(const struct moe *m, struct tr_ctx *ctx,
                               const struct tr_saved *saved, bool again)
{
    struct tr_view x = saved->x[m->block.index];
    struct routed r = {.parts = 1};

    tr_keep(ctx, again);
    r.n = tr_carve2(&ctx->work, ctx->compute, x.shape[0], x.shape[1]);
    r.rrms = tr_carve1(&ctx->work, ctx->sum, x.shape[0]);
    tr_norm_fwd(&m->o.norm, ctx, r.n, r.rrms, x);
    route(m, ctx, saved, &r);
    tr_keep_end(ctx);
    return r;
}

/* ---- exchange: no effect where all experts are here ---- */

static bool exchanges(const struct tr_ctx *ctx)
{
    return ctx->exchange != NULL && !ctx->dry && ctx->rc == FR_OK;
}

static struct tr_exchange_layer layer_of(const struct moe *m, const struct tr_ctx *ctx,
                                         const struct tr_saved *saved)
{
    return (struct tr_exchange_layer){m->block.what, m->o.owners, m->o.plan0 + saved->slot,
                                      ctx->training ? m->o.rows : NULL};
}

static void begin_exchange(const struct moe *m, struct tr_ctx *ctx, const struct tr_saved *saved,
                           const struct routed *r)
{
    struct tr_exchange_layer l = layer_of(m, ctx, saved);

    if (exchanges(ctx))
        ctx->rc = tr_exchange_begin(ctx->exchange, ctx->q, r->ids, &l, ctx->err);
}

static void plan_exchange(const struct moe *m, struct tr_ctx *ctx, const struct tr_saved *saved,
                          struct routed *r, bool replay)
{
    struct tr_exchange_layer l = layer_of(m, ctx, saved);

    if (exchanges(ctx))
        ctx->rc = tr_exchange_plan(ctx->exchange, &l, replay, &r->parts, ctx->err);
}

/* The rows of the part's tokens in x (T, n), where they are computed: (C, n). */
static struct tr_view bring(const struct part *p, struct tr_ctx *ctx, struct tr_view x)
{
    struct tr_view mine = tr_view_rows(x, p->first, p->tokens);
    struct tr_exchange_out a = {.in = mine};

    if (ctx->exchange == NULL)
        return mine;
    a.out = tr_carve2(&ctx->work, x.dtype, p->ids.shape[0], x.shape[1]);
    if (exchanges(ctx))
        ctx->rc = tr_exchange_out(ctx->exchange, ctx->q, &a, ctx->err);
    return a.out;
}

/* The part's rows of y (T, n) = rows of add + the results of all ranks for them. */
static void give_back(const struct part *p, struct tr_ctx *ctx, struct tr_view y,
                      struct tr_view add, struct tr_view in)
{
    struct tr_exchange_back a = {.y = tr_view_rows(y, p->first, p->tokens), .in = in};

    if (add.p != NULL)
        a.add = tr_view_rows(add, p->first, p->tokens);
    if (exchanges(ctx))
        ctx->rc = tr_exchange_back(ctx->exchange, ctx->q, &a, ctx->err);
}

/* The sizes of part i and its choices. */
static struct part part_at(const struct moe *m, struct tr_ctx *ctx, const struct routed *r, int i)
{
    struct part p = {.tokens = r->ids.shape[0], .rows = r->ids.shape[0] * m->o.K, .ids = r->ids};
    struct tr_exchange_round round = {0};
    struct tr_route_limits most;

    if (ctx->exchange == NULL)
        return p;
    if (ctx->dry) {
        tr_exchange_limits(ctx->exchange, &most);
        p.rows = most.rows;
        p.ids = tr_view2(r->ids.p, TR_I32, most.here, m->o.K);
        return p;
    }
    if (ctx->rc == FR_OK)
        ctx->rc = tr_exchange_round(ctx->exchange, ctx->q, i, &round, ctx->err);
    p = (struct part){round.first, round.tokens, round.rows, .ids = round.ids};
    if (ctx->rc != FR_OK) /* nothing runs any more */
        p.ids = tr_view2(NULL, TR_I32, 0, m->o.K);
    return p;
}

static struct part part_of(const struct moe *m, struct tr_ctx *ctx, const struct routed *r, int i)
{
    struct part p = part_at(m, ctx, r, i);
    int64_t C = p.ids.shape[0];
    struct tr_moe_plan plan = {
        .counts = tr_carve1(&ctx->work, TR_I32, m->o.here),
        .offsets = p.offsets = tr_carve1(&ctx->work, TR_I32, m->o.here + 1),
        .row_of = p.row_of = tr_carve2(&ctx->work, TR_I32, C, m->o.K),
        .slot_of = tr_carve1(&ctx->work, TR_I32, C * m->o.K),
        .ids = p.ids,
    };

    p.slot_of = tr_view1(plan.slot_of.p, TR_I32, p.rows);
    TR_RUN(ctx, moe_plan, &plan);
    p.weights = bring(&p, ctx, r->weights);
    return p;
}

/* Rows of the part's tokens in x (T, n), in expert order, times their weights if weighted: (R, n).
 */
static struct tr_view spread(const struct moe *m, struct tr_ctx *ctx, const struct part *p,
                             struct tr_view x, bool weighted)
{
    struct tr_view rows = tr_carve2(&ctx->work, ctx->compute, p->rows, x.shape[1]);
    size_t mark = ctx->work.used;
    struct tr_moe_permute a = {.xp = rows, .slot_of = p->slot_of, .K = m->o.K};

    a.x = bring(p, ctx, x);
    if (weighted)
        a.weight = p->weights;
    TR_RUN(ctx, moe_permute, &a);
    ctx->work.used = mark;
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
        for (int64_t e = w->e0; e < w->e1; e++) {
            struct tr_linear l = *kinds[k];

            l.unit = m->o.expert0 + (int)e;
            ctx->weights[k * m->o.E + e] = tr_linear_weight(&l, ctx);
            ctx->weight_at[k * m->o.E + e] = &ctx->weights[k * m->o.E + e];
        }
}

static void window_open(const struct moe *m, struct tr_ctx *ctx, const struct part *p,
                        struct window *w)
{
    int64_t e1 = w->e0 + m->o.window;

    w->e1 = e1 < m->o.here ? e1 : m->o.here;
    w->rows = (struct tr_rows){p->offsets, w->e0, w->e1};
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

/* Experts keep their products, unless rows come from other ranks. */
static bool keeps(const struct tr_ctx *ctx)
{
    return ctx->kept != NULL && ctx->exchange == NULL;
}

static struct window windows_begin(const struct moe *m, struct tr_ctx *ctx, const struct part *p)
{
    bool keep = keeps(ctx);
    struct window w = {.e0 = 0};

    if (keep)
        tr_keep(ctx, false);
    w.g = tr_carve2(&ctx->work, ctx->compute, p->rows, m->o.expert.I);
    w.u = tr_carve2(&ctx->work, ctx->compute, p->rows, m->o.expert.I);
    if (keep)
        tr_keep_end(ctx);
    return w;
}

/* Unweighted expert outputs replace the rows. */
static void experts_fwd(const struct moe *m, struct tr_ctx *ctx, const struct part *p,
                        struct tr_view rows)
{
    size_t mark = ctx->work.used;
    struct window w = windows_begin(m, ctx, p);
    struct tr_view h = w.g;

    if (keeps(ctx))
        h = tr_carve2(&ctx->work, ctx->compute, p->rows, m->o.expert.I);
    for (; w.e0 < m->o.here; w.e0 = w.e1) {
        struct tr_swiglu s = {.h = h, .g = w.g, .u = w.u};

        window_open(m, ctx, p, &w);
        s.rows = w.rows;
        gate_up(m, ctx, &w, rows);
        TR_RUN(ctx, swiglu_fwd, &s);
        multiply(m, ctx, &w, &(struct product){.kind = 2, .c = rows, .a = h, .trans_b = true});
        window_close(m, ctx, &w);
    }
    ctx->work.used = mark;
}

/* The part's rows of y (T, n) = those of add + the sum over the slots of the tokens' rows, weighted
 * where weights are given. */
static void join(const struct part *p, struct tr_ctx *ctx, struct tr_view y,
                 const struct tr_moe_combine *rows)
{
    struct tr_moe_combine c = *rows;

    c.row_of = p->row_of;
    c.y = y;
    if (ctx->exchange != NULL) {
        c.add = (struct tr_view){0};
        c.y = tr_carve2(&ctx->work, ctx->compute, p->ids.shape[0], y.shape[1]);
    }
    TR_RUN(ctx, moe_combine, &c);
    if (ctx->exchange != NULL)
        give_back(p, ctx, y, rows->add, c.y);
}

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    const struct moe *m = (const struct moe *)b;
    struct tr_view x = saved->x[b->index];
    size_t mark = ctx->work.used;
    struct routed r = routed_of(m, ctx, saved, false);

    begin_exchange(m, ctx, saved, &r);
    if (m->o.has_shared)
        tr_ffn_fwd(&m->o.shared, ctx, y, r.n);
    plan_exchange(m, ctx, saved, &r, false);
    for (int i = 0; i < r.parts; i++) {
        size_t round = ctx->work.used;
        struct part p = part_of(m, ctx, &r, i);
        struct tr_moe_combine c = {.weight = p.weights};

        c.yp = spread(m, ctx, &p, r.n, false);
        experts_fwd(m, ctx, &p, c.yp);
        if (m->o.has_shared)
            c.add = y;
        join(&p, ctx, y, &c);
        ctx->work.used = round;
    }
    tr_add(ctx, y, x);
    ctx->work.used = mark;
}

/* Rows of a part in its backward. */
struct rows_grad {
    struct tr_view rows, drows; /* (R, H); rows are absent where nothing reads them */
    struct tr_view wdrows;      /* (R, H) drows times the routing weights, for trained experts */
    struct tr_view dweights;    /* (C, K) f32* */
};

/* Gradients of the weights of the window's experts, one expert after the other. h: the input of
 * down. */
static void window_weights(const struct moe *m, struct tr_ctx *ctx, const struct window *w,
                           const struct rows_grad *g, struct tr_view h)
{
    const struct tr_ffn *f = &m->o.expert;
    const struct {
        const struct tr_linear *l;
        struct tr_view dy, x;
    } products[] = {{&f->gate, w->g, g->rows}, {&f->up, w->u, g->rows}, {&f->down, g->wdrows, h}};

    for (int64_t e = w->e0; e < w->e1; e++) {
        for (int k = 0; k < 3; k++) {
            struct tr_view dw =
                tr_grads_view(ctx->grads, m->o.expert0 + (int)e, products[k].l->tensor);
            struct tr_grouped_wgrad p = {.dw = ctx->grad_at,
                                         .dy = products[k].dy,
                                         .x = products[k].x,
                                         .offsets = w->rows.offsets,
                                         .e0 = e,
                                         .e1 = e + 1,
                                         .alpha = 1};

            if (!products[k].l->trained)
                continue;
            ctx->grad_at[e] = &dw;
            if (h.shape[0] > 0)
                TR_RUN(ctx, grouped_wgrad, &p);
            else
                tr_ctx_zero(ctx, dw);
        }
        tr_ctx_reduce(ctx, m->o.expert0 + (int)e);
    }
}

/* The gradient of the experts' inputs replaces drows (in: of their unweighted outputs); dweights
 * gets that of the routing weights. With d = dy W_down: dh = w*d and dweight = d.h, no more
 * products. */
static void experts_bwd(const struct moe *m, struct tr_ctx *ctx, const struct part *p,
                        const struct rows_grad *g)
{
    struct window w = windows_begin(m, ctx, p);
    struct tr_view dh = tr_carve2(&ctx->work, ctx->compute, p->rows, m->o.expert.I), h = {0};

    if (tr_ffn_trains(&m->o.expert))
        h = tr_carve2(&ctx->work, ctx->compute, p->rows, m->o.expert.I);
    for (; w.e0 < m->o.here; w.e0 = w.e1) {
        struct tr_swiglu_grad s = {.dg = w.g,
                                   .du = w.u,
                                   .dh = dh,
                                   .g = w.g,
                                   .u = w.u,
                                   .weight = p->weights,
                                   .dweight = g->dweights,
                                   .slot_of = p->slot_of};
        struct tr_swiglu again = {.h = h, .g = w.g, .u = w.u};

        window_open(m, ctx, p, &w);
        s.rows = again.rows = w.rows;
        if (!keeps(ctx))
            gate_up(m, ctx, &w, g->rows);
        multiply(m, ctx, &w, &(struct product){.kind = 2, .c = dh, .a = g->drows});
        if (h.p != NULL)
            TR_RUN(ctx, swiglu_fwd, &again);
        TR_RUN(ctx, swiglu_bwd, &s);
        if (h.p != NULL)
            window_weights(m, ctx, &w, g, h);
        multiply(m, ctx, &w, &(struct product){.kind = 0, .c = g->drows, .a = w.g});
        multiply(m, ctx, &w, &(struct product){.kind = 1, .c = g->drows, .a = w.u, .add = true});
        window_close(m, ctx, &w);
    }
}

/* Gradients of the weights of the part's slots. Slots of experts on other ranks are 0, so that the
 * returned sums are exact. */
static struct tr_view dweights_of(const struct part *p, struct tr_ctx *ctx, struct tr_view all)
{
    struct tr_fill f = {0};

    if (ctx->exchange == NULL)
        return all;
    f.y = tr_carve2(&ctx->work, ctx->sum, p->ids.shape[0], p->ids.shape[1]);
    TR_RUN(ctx, fill, &f);
    return f.y;
}

/* The part's share of routed_bwd: the rows of its tokens in router->dx and router->dweights. */
static void part_bwd(const struct moe *m, struct tr_ctx *ctx, const struct part *p,
                     const struct tr_router_grad *router, struct tr_view d)
{
    struct rows_grad g = {.drows = spread(m, ctx, p, d, false)};
    struct tr_moe_combine c = {.yp = g.drows};

    if (tr_ffn_trains(&m->o.expert))
        g.wdrows = spread(m, ctx, p, d, true);
    if (!keeps(ctx) || tr_ffn_trains(&m->o.expert))
        g.rows = spread(m, ctx, p, router->x, false);
    g.dweights = dweights_of(p, ctx, router->dweights);
    experts_bwd(m, ctx, p, &g);
    if (m->o.has_shared)
        c.add = router->dx;
    join(p, ctx, router->dx, &c);
    if (ctx->exchange != NULL)
        give_back(p, ctx, router->dweights, (struct tr_view){0}, g.dweights);
}

/* dn += through the routed experts and through their weights. */
static void routed_bwd(const struct moe *m, struct tr_ctx *ctx, const struct routed *r,
                       struct tr_view dn, struct tr_view d)
{
    size_t mark = ctx->work.used;
    const struct tr_moe_opts *o = &m->o;
    struct tr_router_grad g = {
        .dx = dn,
        .dweights = tr_carve2(&ctx->work, ctx->sum, d.shape[0], o->K),
        .ids = r->ids,
        .scores = r->scores,
        .all = r->all,
        .x = r->n,
        .gate = tr_shard_view(ctx->shard, o->router_unit, o->gate_tensor),
        .factor = o->factor,
        .norm = o->norm_topk,
        .softmax = o->softmax,
        .add = true,
    };

    for (int i = 0; i < r->parts; i++) {
        size_t round = ctx->work.used;
        struct part p = part_of(m, ctx, r, i);

        part_bwd(m, ctx, &p, &g, d);
        ctx->work.used = round;
    }
    if (o->router_trained)
        g.dgate = tr_grads_view(ctx->grads, o->router_unit, o->gate_tensor);
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
    r = routed_of(m, ctx, saved, true);
    ctx->replay = replay;
    if (b->need_dx || tr_ffn_trains(&m->o.expert) || m->o.router_trained || m->o.norm.trained)
        dn = tr_carve2(&ctx->work, ctx->compute, x.shape[0], x.shape[1]);
    if (m->o.has_shared)
        tr_ffn_bwd(&m->o.shared, ctx, dn, d, r.n);
    if (dn.p != NULL) {
        struct tr_norm_grad g = {.dx = d, .dres = d, .dy = dn, .x = x, .rrms = r.rrms};

        plan_exchange(m, ctx, saved, &r, true);
        routed_bwd(m, ctx, &r, dn, d);
        tr_norm_bwd(&m->o.norm, ctx, &g);
    }
    ctx->work.used = mark;
}

static const struct tr_block_ops moe_ops = {
    .name = "moe", .forward = forward, .backward = backward};

enum fr_rc tr_moe_block(const struct tr_moe_opts *o, struct tr_block **out, struct fr_err *err)
{
    struct moe m = {.o = *o, .block = {.ops = &moe_ops, .layer = -1, .routed = o->K}};

    m.block.trains = tr_ffn_trains(&o->expert) || o->router_trained || o->norm.trained ||
                     (o->has_shared && tr_ffn_trains(&o->shared));
    return tr_block_make(&m.block, sizeof(m), out, err);
}
