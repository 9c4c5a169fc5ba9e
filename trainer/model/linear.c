#include "trainer/model/linear.h"

static struct tr_weight weight(const struct tr_ctx *ctx, const struct tr_linear *l, int tensor)
{
    return ctx->decoder != NULL
               ? (struct tr_weight){.w = tr_decoder_view(ctx->decoder, l->unit, tensor)}
               : tr_shard_weight(ctx->shard, l->unit, tensor);
}

struct tr_weight tr_linear_weight(const struct tr_linear *l, const struct tr_ctx *ctx)
{
    struct tr_weight w = weight(ctx, l, l->tensor);

    if (l->scale >= 0 && ctx->decoder == NULL) {
        w.scale = tr_shard_view(ctx->shard, l->unit, l->scale);
        w.block_rows = l->block_rows;
        w.block_cols = l->block_cols;
    }
    return w;
}

static void dropout(const struct tr_adapter *a, struct tr_ctx *ctx, struct tr_view y,
                    struct tr_view x)
{
    struct tr_dropout d = {
        .y = y,
        .x = x,
        .place = ctx->tokens->sample,
        .pos = ctx->tokens->pos,
        .seed = ctx->seed,
        .module = (uint32_t)a->id,
        .epoch = (uint32_t)ctx->epoch,
        .p = a->dropout,
    };

    TR_RUN(ctx, dropout, &d);
}

static bool drops(const struct tr_adapter *a, const struct tr_ctx *ctx)
{
    return ctx->training && a->dropout > 0;
}

/* drop(x), carved; x itself without dropout. */
static struct tr_view dropped(const struct tr_adapter *a, struct tr_ctx *ctx, struct tr_view x)
{
    struct tr_view xd = x;

    if (drops(a, ctx)) {
        xd = tr_carve2(&ctx->work, ctx->compute, x.shape[0], x.shape[1]);
        dropout(a, ctx, xd, x);
    }
    return xd;
}

static struct tr_view carve_inner(const struct tr_adapter *a, struct tr_ctx *ctx, int64_t T)
{
    return tr_carve2(&ctx->work, ctx->compute, T, a->r);
}

/* u = xd At */
static void down(const struct tr_adapter *a, struct tr_ctx *ctx, struct tr_view u,
                 struct tr_view xd)
{
    struct tr_gemm g = {.c = u, .a = xd, .b = {.w = a->a}, .trans_b = true, .alpha = 1};

    TR_RUN(ctx, gemm, &g);
}

struct tr_view tr_linear_fwd(const struct tr_linear *l, struct tr_ctx *ctx, struct tr_view y,
                             struct tr_view x)
{
    const struct tr_adapter *a = l->lora;
    struct tr_view u = {0};
    struct tr_gemm g = {.c = y, .a = x, .b = tr_linear_weight(l, ctx), .trans_b = true, .alpha = 1};

    if (l->bias >= 0)
        g.bias = weight(ctx, l, l->bias).w;
    TR_RUN(ctx, gemm, &g);
    if (a != NULL) {
        struct tr_gemm up = {
            .c = y, .b = {.w = a->b}, .trans_b = true, .alpha = a->scale, .beta = 1};
        size_t mark;

        up.a = u = carve_inner(a, ctx, x.shape[0]);
        mark = ctx->work.used;
        down(a, ctx, u, dropped(a, ctx, x));
        ctx->work.used = mark;
        TR_RUN(ctx, gemm, &up);
    }
    return u;
}

/* g.c += the product. Beside trained weights it is summed apart first, as theirs is: some products
 * round otherwise where they add, so the bits would depend on the number of ranks. */
static void add_gradient(struct tr_ctx *ctx, struct tr_gemm *g)
{
    struct tr_view to = g->c;
    size_t mark = ctx->work.used;
    struct tr_sum s = {.y = to, .x = {to}, .alpha = {1, 1}, .n = 2};

    if (ctx->grads == NULL) {
        g->beta = 1;
        TR_RUN(ctx, gemm, g);
        return;
    }
    if (g->a.shape[0] == 0) /* no backend promises a product over no rows */
        return;
    g->c = s.x[1] = tr_carve2(&ctx->work, to.dtype, to.shape[0], to.shape[1]);
    TR_RUN(ctx, gemm, g);
    TR_RUN(ctx, sum, &s);
    ctx->work.used = mark;
}

/* dA, dB, and (want) the branch's part of dx. */
static void adapter_bwd(const struct tr_adapter *a, struct tr_ctx *ctx,
                        const struct tr_linear_grad *d)
{
    struct tr_view du = carve_inner(a, ctx, d->dy.shape[0]);
    struct tr_view u = d->u.p != NULL ? d->u : carve_inner(a, ctx, d->dy.shape[0]);
    struct tr_view xd = dropped(a, ctx, d->x);
    struct tr_gemm gu = {.c = du, .a = d->dy, .b = {.w = a->b}, .alpha = a->scale};
    struct tr_gemm gb = {.c = a->db, .a = d->dy, .b = {.w = u}, .trans_a = true, .alpha = a->scale};
    struct tr_gemm ga = {.c = a->da, .a = du, .b = {.w = xd}, .trans_a = true, .alpha = 1};

    if (d->u.p == NULL)
        down(a, ctx, u, xd);
    TR_RUN(ctx, gemm, &gu);
    add_gradient(ctx, &gb);
    add_gradient(ctx, &ga);
    if (d->dx.p == NULL)
        return;
    if (drops(a, ctx)) { /* xd is free now */
        struct tr_gemm gx = {.c = xd, .a = du, .b = {.w = a->a}, .alpha = 1};
        struct tr_sum s = {.y = d->dx, .x = {d->dx, xd}, .alpha = {1, 1}, .n = 2};

        TR_RUN(ctx, gemm, &gx);
        dropout(a, ctx, xd, xd);
        TR_RUN(ctx, sum, &s);
    } else {
        struct tr_gemm gx = {.c = d->dx, .a = du, .b = {.w = a->a}, .alpha = 1, .beta = 1};

        TR_RUN(ctx, gemm, &gx);
    }
}

static void weight_bwd(const struct tr_linear *l, struct tr_ctx *ctx,
                       const struct tr_linear_grad *d)
{
    struct tr_gemm g = {.a = d->dy, .b = {.w = d->x}, .trans_a = true, .alpha = 1};
    struct tr_colsum s = {.x = d->dy};

    if (l->trained) {
        g.c = tr_grads_view(ctx->grads, l->unit, l->tensor);
        if (d->dy.shape[0] > 0) /* no backend promises a product over no rows */
            TR_RUN(ctx, gemm, &g);
        else
            tr_ctx_zero(ctx, g.c);
    }
    if (l->bias_trained) {
        s.out = tr_grads_view(ctx->grads, l->unit, l->bias);
        tr_ctx_zero(ctx, s.out);
        TR_RUN(ctx, colsum, &s);
    }
}

void tr_linear_bwd(const struct tr_linear *l, struct tr_ctx *ctx, const struct tr_linear_grad *d)
{
    size_t mark = ctx->work.used;

    if (d->dx.p != NULL) {
        struct tr_gemm g = {.c = d->dx,
                            .a = d->dy,
                            .b = tr_linear_weight(l, ctx),
                            .alpha = 1,
                            .beta = d->add ? 1.0F : 0.0F};

        TR_RUN(ctx, gemm, &g);
    }
    weight_bwd(l, ctx, d);
    if (l->lora != NULL)
        adapter_bwd(l->lora, ctx, d);
    ctx->work.used = mark;
}
