#include "engine/base/sys.h"
#include "trainer/model/blocks.h"

struct head {
    struct tr_block block;
    struct tr_head_opts o;
};

static struct tr_weight chunk_weight(const struct tr_head_opts *o, const struct tr_ctx *ctx, int i)
{
    return tr_shard_weight(ctx->shard, o->chunk0 + i, 0);
}

static struct tr_view normalised(const struct tr_head_opts *o, struct tr_ctx *ctx, struct tr_view x)
{
    struct tr_view F = tr_carve2(&ctx->work, ctx->compute, x.shape[0], o->H);

    tr_norm_fwd(&o->norm, ctx, F, (struct tr_view){0}, x);
    return F;
}

static struct tr_xent_state carve_state(const struct tr_head_opts *o, struct tr_ctx *ctx, int64_t T)
{
    struct tr_xent_state s = {
        .m = tr_carve1(&ctx->work, ctx->sum, T),
        .l = tr_carve1(&ctx->work, ctx->sum, T),
        .target_logit = tr_carve1(&ctx->work, ctx->sum, T),
    };

    if (ctx->training) {
        s.acc = tr_carve2(&ctx->work, ctx->sum, T, o->H);
        s.target_row = tr_carve2(&ctx->work, ctx->compute, T, o->H);
    }
    return s;
}

/* What the scores are copied from is workspace: the caller's sync comes before its next use. */
static void copy_scores(struct tr_ctx *ctx, const struct tr_xent_finish *f)
{
    const struct tr_scores *s = ctx->scores;
    const struct {
        void *to;
        struct tr_view from;
    } rows[] = {{s->loss, f->loss}, {s->target, f->state.target_logit}, {s->most, f->state.m}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && ctx->rc == FR_OK && !ctx->dry; i++)
        ctx->rc = tr_copy(ctx->be, ctx->q, rows[i].to, rows[i].from.p, tr_view_bytes(rows[i].from));
}

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    const struct tr_head_opts *o = &((const struct head *)b)->o;
    struct tr_view x = saved->x[b->index];
    size_t mark = ctx->work.used;
    struct tr_xent c = {.F = normalised(o, ctx, x), .targets = ctx->tokens->targets};
    struct tr_xent_finish f = {
        .targets = c.targets, .loss_sum = saved->loss, .scale = ctx->loss_scale};

    (void)y;
    c.state = carve_state(o, ctx, x.shape[0]);
    for (int i = 0; i < o->chunks; i++) {
        tr_ctx_gather(ctx, o->chunk0 + i, 1);
        c.w = chunk_weight(o, ctx, i);
        c.row0 = i * o->rows;
        c.first = i == 0;
        TR_RUN(ctx, xent_chunk, &c);
        tr_ctx_release(ctx, o->chunk0 + i, 1);
    }
    f.state = c.state;
    if (ctx->training)
        f.dF = saved->dF;
    if (ctx->scores != NULL)
        f.loss = tr_carve1(&ctx->work, ctx->sum, x.shape[0]);
    TR_RUN(ctx, xent_finish, &f);
    if (ctx->scores != NULL)
        copy_scores(ctx, &f);
    ctx->work.used = mark;
}

static void backward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d)
{
    const struct tr_head_opts *o = &((const struct head *)b)->o;
    struct tr_view x = saved->x[b->index];
    size_t mark = ctx->work.used;
    struct tr_view F = tr_carve2(&ctx->work, ctx->compute, x.shape[0], o->H);
    struct tr_view rrms = tr_carve1(&ctx->work, ctx->sum, x.shape[0]);
    struct tr_norm_grad g = {.dx = d, .dy = saved->dF, .x = x, .rrms = rrms};

    tr_norm_fwd(&o->norm, ctx, F, rrms, x);
    tr_norm_bwd(&o->norm, ctx, &g);
    ctx->work.used = mark;
}

void tr_head_logits(const struct tr_block *b, struct tr_ctx *ctx, struct tr_view x,
                    const struct tr_head_emit *emit)
{
    const struct tr_head_opts *o = &((const struct head *)b)->o;
    size_t mark = ctx->work.used;
    struct tr_view F = normalised(o, ctx, x);
    struct tr_view z = tr_carve2(&ctx->work, ctx->sum, x.shape[0], o->rows);

    for (int i = 0; i < o->chunks; i++) {
        int64_t rows = o->V - i * o->rows < o->rows ? o->V - i * o->rows : o->rows;
        struct tr_gemm g = {.a = F, .trans_b = true, .alpha = 1};

        tr_ctx_gather(ctx, o->chunk0 + i, 1);
        g.b = chunk_weight(o, ctx, i);
        g.c = tr_view2(z.p, z.dtype, x.shape[0], rows);
        TR_RUN(ctx, gemm, &g);
        tr_ctx_release(ctx, o->chunk0 + i, 1);
        if (ctx->rc == FR_OK && !ctx->dry)
            emit->out(emit->arg, ctx, g.c, i * o->rows);
    }
    ctx->work.used = mark;
}

static void destroy(struct tr_block *b)
{
    fr_sys.free(b);
}

static const struct tr_block_ops head_ops = {
    .name = "head", .forward = forward, .backward = backward, .destroy = destroy};

enum fr_rc tr_head_block(const struct tr_head_opts *o, struct tr_block **out, struct fr_err *err)
{
    struct head *h = fr_sys.alloc(sizeof(*h));

    *out = NULL;
    if (h == NULL)
        return fr_fail(err, FR_NOMEM, "a block");
    *h = (struct head){.o = *o, .block = {.ops = &head_ops, .what = "head", .layer = -1}};
    *out = &h->block;
    return FR_OK;
}
