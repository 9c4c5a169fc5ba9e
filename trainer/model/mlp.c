#include "trainer/model/blocks.h"

struct mlp {
    struct tr_block block;
    struct tr_norm norm;
    struct tr_ffn ffn;
};

bool tr_ffn_trains(const struct tr_ffn *f)
{
    return tr_linear_trains(&f->gate) || tr_linear_trains(&f->up) || tr_linear_trains(&f->down);
}

/* gate and up of n, carved. */
struct wide {
    struct tr_view g, u;         /* (T, I) */
    struct tr_view gate_u, up_u; /* (T, r) of adapters */
};

static struct wide widen(const struct tr_ffn *f, struct tr_ctx *ctx, struct tr_view n, bool again)
{
    struct wide w;

    tr_keep(ctx, again);
    w.g = tr_carve2(&ctx->work, ctx->compute, n.shape[0], f->I);
    w.u = tr_carve2(&ctx->work, ctx->compute, n.shape[0], f->I);
    w.gate_u = tr_linear_fwd(&f->gate, ctx, w.g, n);
    w.up_u = tr_linear_fwd(&f->up, ctx, w.u, n);
    tr_keep_end(ctx);
    return w;
}

void tr_ffn_fwd(const struct tr_ffn *f, struct tr_ctx *ctx, struct tr_view y, struct tr_view n)
{
    size_t mark = ctx->work.used;
    struct wide w;
    struct tr_swiglu s;

    tr_ctx_gather(ctx, f->unit, 1);
    w = widen(f, ctx, n, false);
    s = (struct tr_swiglu){.h = w.g, .g = w.g, .u = w.u};
    if (ctx->kept != NULL)
        s.h = tr_carve2(&ctx->work, ctx->compute, n.shape[0], f->I);
    TR_RUN(ctx, swiglu_fwd, &s);
    tr_linear_fwd(&f->down, ctx, y, s.h);
    tr_ctx_release(ctx, f->unit, 1);
    ctx->work.used = mark;
}

void tr_ffn_bwd(const struct tr_ffn *f, struct tr_ctx *ctx, struct tr_view dn, struct tr_view dy,
                struct tr_view n)
{
    size_t mark = ctx->work.used;
    bool below = dn.p != NULL || tr_linear_trains(&f->gate) || tr_linear_trains(&f->up);
    struct tr_linear_grad down = {.dy = dy}, gate = {.dx = dn, .x = n};
    struct tr_linear_grad up = {.dx = dn, .x = n, .add = true};
    struct tr_view dh = tr_carve2(&ctx->work, ctx->compute, n.shape[0], f->I);
    struct tr_swiglu_grad s;
    struct wide w;

    tr_ctx_gather(ctx, f->unit, 1);
    w = widen(f, ctx, n, true);
    if (tr_linear_trains(&f->down)) {
        struct tr_swiglu h = {.g = w.g, .u = w.u};

        h.h = tr_carve2(&ctx->work, ctx->compute, n.shape[0], f->I);
        down.x = h.h;
        TR_RUN(ctx, swiglu_fwd, &h);
    }
    if (below)
        down.dx = dh;
    tr_linear_bwd(&f->down, ctx, &down);
    if (below) {
        s = (struct tr_swiglu_grad){.dg = w.g, .du = w.u, .dh = dh, .g = w.g, .u = w.u};
        TR_RUN(ctx, swiglu_bwd, &s);
        gate.dy = w.g;
        gate.u = w.gate_u;
        up.dy = w.u;
        up.u = w.up_u;
        tr_linear_bwd(&f->gate, ctx, &gate);
        tr_linear_bwd(&f->up, ctx, &up);
    }
    tr_ctx_release(ctx, f->unit, 1);
    tr_ctx_reduce(ctx, f->unit);
    ctx->work.used = mark;
}

struct normal {
    struct tr_view n, rrms; /* (T, H), (T) */
};

static struct normal normalise(const struct mlp *m, struct tr_ctx *ctx, struct tr_view x,
                               bool again)
{
    struct normal in;

    tr_keep(ctx, again);
    in.n = tr_carve2(&ctx->work, ctx->compute, x.shape[0], m->ffn.H);
    in.rrms = tr_carve1(&ctx->work, ctx->sum, x.shape[0]);
    tr_norm_fwd(&m->norm, ctx, in.n, in.rrms, x);
    tr_keep_end(ctx);
    return in;
}

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    const struct mlp *m = (const struct mlp *)b;
    struct tr_view x = saved->x[b->index];
    size_t mark = ctx->work.used;

    tr_ffn_fwd(&m->ffn, ctx, y, normalise(m, ctx, x, false).n);
    tr_add(ctx, y, x);
    ctx->work.used = mark;
}

static void backward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d)
{
    const struct mlp *m = (const struct mlp *)b;
    struct tr_view x = saved->x[b->index], dn = {0};
    size_t mark = ctx->work.used;
    struct normal in = normalise(m, ctx, x, true);

    if (b->need_dx || m->norm.trained)
        dn = tr_carve2(&ctx->work, ctx->compute, x.shape[0], m->ffn.H);
    tr_ffn_bwd(&m->ffn, ctx, dn, d, in.n);
    if (dn.p != NULL) {
        struct tr_norm_grad g = {.dx = d, .dres = d, .dy = dn, .x = x, .rrms = in.rrms};

        tr_norm_bwd(&m->norm, ctx, &g);
    }
    ctx->work.used = mark;
}

static const struct tr_block_ops mlp_ops = {
    .name = "mlp", .forward = forward, .backward = backward};

enum fr_rc tr_mlp_block(const struct tr_norm *norm, const struct tr_ffn *f, struct tr_block **out,
                        struct fr_err *err)
{
    const struct mlp m = {
        .norm = *norm,
        .ffn = *f,
        .block = {.ops = &mlp_ops, .layer = -1, .trains = norm->trained || tr_ffn_trains(f)}};

    return tr_block_make(&m.block, sizeof(m), out, err);
}
