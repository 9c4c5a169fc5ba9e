#include "trainer/backend/cost.h"
#include "trainer/model/block.h"

#include <assert.h>

/* A piece at a multiple of 256 bytes. The dry run has measured the size, so the allocation suffices
 * (assert). */
static struct tr_view carve(struct tr_carve *c, enum tr_dtype t, int rank, const int64_t *shape)
{
    struct tr_view v = tr_view_of(c->base + c->used, t, rank, shape);

    c->used = (c->used + tr_view_bytes(v) + 255) / 256 * 256;
    if (c->used > c->peak)
        c->peak = c->used;
    assert(c->used <= c->limit);
    return v;
}

struct tr_view tr_carve1(struct tr_carve *c, enum tr_dtype t, int64_t n)
{
    return carve(c, t, 1, &n);
}

struct tr_view tr_carve2(struct tr_carve *c, enum tr_dtype t, int64_t rows, int64_t cols)
{
    int64_t shape[2] = {rows, cols};

    return carve(c, t, 2, shape);
}

struct tr_view tr_carve3(struct tr_carve *c, enum tr_dtype t, int64_t a, int64_t b, int64_t n)
{
    int64_t shape[3] = {a, b, n};

    return carve(c, t, 3, shape);
}

static void add_up(struct tr_row_work *w, enum tr_op op, const void *args)
{
    struct tr_cost c = tr_cost_of(op, args);

    if (op == TR_OP_dropout)
        w->draws += (double)tr_view_count(((const struct tr_dropout *)args)->y);
    else if (c.flop <= 0)
        w->bytes += c.bytes;
}

void tr_ctx_scratch(struct tr_ctx *ctx, enum tr_op op, const void *args)
{
    if (ctx->rows != NULL)
        add_up(ctx->rows, op, args);
    if (ctx->be->ops->scratch != NULL && !ctx->rehearsed)
        ctx->be->ops->scratch(ctx->be->self, op, args, &ctx->scratch);
}

/* A rehearsal gathers from the shard itself: a decoder has no windows then, and asks for the same.
 */
static bool decodes(const struct tr_ctx *ctx)
{
    return ctx->decoder != NULL && !ctx->rehearsed;
}

void tr_ctx_gather(struct tr_ctx *ctx, int first, int n)
{
    if (ctx->rc == FR_OK && (!ctx->dry || ctx->rehearsed))
        ctx->rc = decodes(ctx) ? tr_decoder_gather(ctx->decoder, ctx->q, first, n, ctx->err)
                               : tr_shard_gather(ctx->shard, ctx->q, first, n, ctx->err);
}

void tr_ctx_release(struct tr_ctx *ctx, int first, int n)
{
    if (ctx->rc == FR_OK && (!ctx->dry || ctx->rehearsed))
        ctx->rc = decodes(ctx) ? tr_decoder_release(ctx->decoder, ctx->q, first, n, ctx->err)
                               : tr_shard_release(ctx->shard, ctx->q, first, n, ctx->err);
}

void tr_ctx_reduce(struct tr_ctx *ctx, int unit)
{
    if (ctx->rc == FR_OK && !ctx->dry && ctx->grads != NULL)
        ctx->rc = tr_grads_reduce(ctx->grads, ctx->q, unit, ctx->err);
}

void tr_ctx_zero(struct tr_ctx *ctx, struct tr_view v)
{
    if (ctx->rc == FR_OK && !ctx->dry && !ctx->held)
        ctx->rc = tr_zero(ctx->be, ctx->q, v.p, tr_view_bytes(v));
}

void tr_keep_block(struct tr_ctx *ctx, const struct tr_saved *saved, int i)
{
    ctx->kept = NULL;
    if (!ctx->training || saved->kept[i].base == NULL)
        return;
    ctx->kept = &saved->kept[i];
    ctx->kept->used = 0;
}

static void swap(struct tr_ctx *ctx)
{
    struct tr_carve work = ctx->work;

    ctx->work = *ctx->kept;
    *ctx->kept = work;
}

void tr_keep(struct tr_ctx *ctx, bool again)
{
    if (ctx->kept == NULL)
        return;
    swap(ctx);
    ctx->held = again;
}

void tr_keep_end(struct tr_ctx *ctx)
{
    if (ctx->kept == NULL)
        return;
    swap(ctx);
    ctx->held = false;
}
