#include "trainer/model/blocks.h"

struct head {
    struct tr_block block;
    struct tr_head_opts o;
};

static struct tr_weight chunk_weight(const struct tr_head_opts *o, const struct tr_ctx *ctx, int i)
{
    return tr_shard_weight(ctx->shard, o->chunk0 + i, 0);
}

static int64_t rows_of(const struct tr_head_opts *o, int i)
{
    return o->V - i * o->rows < o->rows ? o->V - i * o->rows : o->rows;
}

/* Rows of x (T, H) of the tokens with a target: x itself, or in `to` (scored, H). */
static struct tr_view scored_rows(struct tr_ctx *ctx, struct tr_view x, struct tr_view to)
{
    struct tr_embed e = {.y = to, .table = x, .ids = ctx->tokens->token};

    if (ctx->tokens->scored == x.shape[0] && !ctx->dry)
        return x;
    TR_RUN(ctx, embed_fwd, &e);
    return to;
}

static struct tr_view carve_rows(const struct tr_head_opts *o, struct tr_ctx *ctx, int64_t n)
{
    return tr_carve2(&ctx->work, ctx->compute, n, o->H);
}

/* A trained head keeps m and l for its backward; a frozen one makes the gradient of F at once. */
static struct tr_xent_state carve_state(const struct tr_head_opts *o, struct tr_ctx *ctx,
                                        const struct tr_saved *saved, int64_t T)
{
    struct tr_xent_state s = {.target_logit = tr_carve1(&ctx->work, ctx->sum, T)};

    if (ctx->training && o->trained) {
        s.m = tr_view_rows(saved->m, 0, T);
        s.l = tr_view_rows(saved->l, 0, T);
    } else {
        s.m = tr_carve1(&ctx->work, ctx->sum, T);
        s.l = tr_carve1(&ctx->work, ctx->sum, T);
    }
    if (ctx->training && !o->trained) {
        s.acc = tr_carve2(&ctx->work, ctx->sum, T, o->H);
        s.target_row = tr_carve2(&ctx->work, ctx->compute, T, o->H);
    }
    return s;
}

/* The exponentials of chunk i's logits, from its forward to its backward if the block keeps them.
 * They are at most 1: in f16, half of the smallest ones would be 0. */
static void carve_exp(const struct tr_head_opts *o, struct tr_ctx *ctx, int i, struct tr_xent *c)
{
    int64_t n = c->F.shape[0];

    c->p =
        tr_carve2(&ctx->work, ctx->compute == TR_F16 ? ctx->sum : ctx->compute, n, rows_of(o, i));
    c->top = tr_carve1(&ctx->work, ctx->sum, n);
}

/* The scores are copied from the workspace; the caller syncs before its next use. */
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
    int64_t n = ctx->tokens->scored;
    size_t mark = ctx->work.used;
    struct tr_xent c = {.F = carve_rows(o, ctx, n), .targets = ctx->tokens->targets};
    struct tr_view x = scored_rows(ctx, saved->x[b->index], c.F);
    struct tr_xent_finish f = {
        .targets = c.targets, .loss_sum = saved->loss, .scale = ctx->loss_scale};

    (void)y;
    tr_norm_fwd(&o->norm, ctx, c.F, (struct tr_view){0}, x);
    c.state = carve_state(o, ctx, saved, n);
    for (int i = 0; i < o->chunks; i++) {
        tr_ctx_gather(ctx, o->chunk0 + i, 1);
        c.w = chunk_weight(o, ctx, i);
        c.row0 = i * o->rows;
        c.first = i == 0;
        if (ctx->kept != NULL && o->trained) {
            tr_keep(ctx, false);
            carve_exp(o, ctx, i, &c);
            tr_keep_end(ctx);
        }
        TR_RUN(ctx, xent_chunk, &c);
        tr_ctx_release(ctx, o->chunk0 + i, 1);
    }
    f.state = c.state;
    if (ctx->training && !o->trained)
        f.dF = tr_view_rows(saved->dF, 0, n);
    if (ctx->scores != NULL)
        f.loss = tr_carve1(&ctx->work, ctx->sum, n);
    TR_RUN(ctx, xent_finish, &f);
    if (ctx->scores != NULL)
        copy_scores(ctx, &f);
    ctx->work.used = mark;
}

/* chunk.F (scored, H) is the head's input, chunk.state for logits that were not kept; dF f32*. */
struct head_grad {
    const struct tr_saved *saved;
    struct tr_xent chunk;
    struct tr_view dF;
};

/* The gradients of chunk i, and dF += its part, = for the first. */
static void chunk_bwd(const struct tr_head_opts *o, struct tr_ctx *ctx, int i, struct head_grad *h)
{
    struct tr_xent *c = &h->chunk;
    int64_t n = c->F.shape[0];
    size_t mark = ctx->work.used;
    struct tr_view dz, dw = tr_grads_view(ctx->grads, o->chunk0 + i, 0);
    struct tr_gemm x = {.c = h->dF, .alpha = 1, .beta = i > 0 ? 1.0F : 0.0F};
    struct tr_gemm w = {.c = dw, .b = {.w = c->F}, .trans_a = true, .alpha = 1};

    c->w = x.b = chunk_weight(o, ctx, i);
    c->row0 = i * o->rows;
    c->first = i == 0;
    tr_keep(ctx, true);
    carve_exp(o, ctx, i, c);
    TR_RUN(ctx, xent_chunk, c);
    tr_keep_end(ctx);
    dz = c->p;
    if (dz.dtype != ctx->compute)
        dz = tr_carve2(&ctx->work, ctx->compute, n, rows_of(o, i));
    struct tr_xent_grad g = {.dz = dz,
                             .p = c->p,
                             .top = c->top,
                             .m = tr_view_rows(h->saved->m, 0, n),
                             .l = tr_view_rows(h->saved->l, 0, n),
                             .targets = ctx->tokens->targets,
                             .row0 = c->row0,
                             .scale = ctx->loss_scale};

    x.a = w.a = dz;
    TR_RUN(ctx, xent_bwd, &g);
    TR_RUN(ctx, gemm, &x);
    if (n > 0)
        TR_RUN(ctx, gemm, &w);
    else
        tr_ctx_zero(ctx, dw);
    ctx->work.used = mark;
}

/* dF (scored, H) f32* of a trained head: sums over all chunks are rounded once. */
static void trained_bwd(const struct tr_head_opts *o, struct tr_ctx *ctx,
                        const struct tr_saved *saved, struct tr_view F, struct tr_view dF)
{
    struct head_grad h = {saved, {.F = F, .targets = ctx->tokens->targets}, dF};
    struct tr_cast round = {.y = dF};

    h.chunk.state.m = tr_carve1(&ctx->work, ctx->sum, F.shape[0]);
    h.chunk.state.l = tr_carve1(&ctx->work, ctx->sum, F.shape[0]);
    h.chunk.state.target_logit = tr_carve1(&ctx->work, ctx->sum, F.shape[0]);
    if (ctx->compute != ctx->sum)
        h.dF = tr_carve2(&ctx->work, ctx->sum, F.shape[0], o->H);
    for (int i = 0; i < o->chunks; i++) {
        tr_ctx_gather(ctx, o->chunk0 + i, 1);
        chunk_bwd(o, ctx, i, &h);
        tr_ctx_release(ctx, o->chunk0 + i, 1);
        tr_ctx_reduce(ctx, o->chunk0 + i);
    }
    round.x = h.dF;
    if (h.dF.p != dF.p)
        TR_RUN(ctx, cast, &round);
}

/* Tokens without a target get zeros. */
static void backward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d)
{
    const struct tr_head_opts *o = &((const struct head *)b)->o;
    int64_t n = ctx->tokens->scored;
    size_t mark = ctx->work.used;
    struct tr_view F = carve_rows(o, ctx, n), rrms = tr_carve1(&ctx->work, ctx->sum, n);
    struct tr_view dF = tr_view_rows(saved->dF, 0, n), all = saved->x[b->index];
    struct tr_view x = scored_rows(ctx, all, carve_rows(o, ctx, n));
    bool whole = x.p == all.p;
    struct tr_norm_grad g = {.dx = whole ? d : dF, .dy = dF, .x = x, .rrms = rrms};
    struct tr_embed spread = {.y = d, .table = dF, .ids = ctx->tokens->score};

    tr_norm_fwd(&o->norm, ctx, F, rrms, x);
    if (o->trained)
        trained_bwd(o, ctx, saved, F, dF);
    if (!b->need_dx)
        g.dx = (struct tr_view){0};
    if (b->need_dx || o->norm.trained)
        tr_norm_bwd(&o->norm, ctx, &g);
    if (!whole)
        TR_RUN(ctx, embed_fwd, &spread);
    ctx->work.used = mark;
}

void tr_head_logits(const struct tr_block *b, struct tr_ctx *ctx, struct tr_view x,
                    const struct tr_head_emit *emit)
{
    const struct tr_head_opts *o = &((const struct head *)b)->o;
    size_t mark = ctx->work.used;
    struct tr_view F = carve_rows(o, ctx, x.shape[0]);
    struct tr_view z = tr_carve2(&ctx->work, ctx->sum, x.shape[0], o->rows);

    tr_norm_fwd(&o->norm, ctx, F, (struct tr_view){0}, x);
    for (int i = 0; i < o->chunks; i++) {
        int64_t rows = rows_of(o, i);
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

static const struct tr_block_ops head_ops = {
    .name = "head", .forward = forward, .backward = backward};

enum fr_rc tr_head_block(const struct tr_head_opts *o, struct tr_block **out, struct fr_err *err)
{
    const struct head h = {.o = *o,
                           .block = {.ops = &head_ops,
                                     .what = "head",
                                     .layer = -1,
                                     .trains = o->trained || o->norm.trained}};

    return tr_block_make(&h.block, sizeof(h), out, err);
}
