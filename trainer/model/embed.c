#include "engine/base/sys.h"
#include "trainer/model/blocks.h"

#include <string.h>

struct embed {
    struct tr_block block;
    struct tr_embed_opts o;
};

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    struct tr_embed e = {.y = y, .table = ctx->tokens->table, .ids = ctx->tokens->index};

    (void)b;
    (void)saved;
    TR_RUN(ctx, embed_fwd, &e);
}

static void backward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d)
{
    const struct tr_embed_opts *o = &((const struct embed *)b)->o;
    struct tr_grads_rows r = {
        .unit = o->unit, .units = o->units, .dy = d, .compact = ctx->tokens->compact};

    (void)saved;
    if (ctx->rc == FR_OK && !ctx->dry)
        ctx->rc = tr_grads_rows(ctx->grads, ctx->q, &r, ctx->err);
}

static const struct tr_block_ops embed_ops = {
    .name = "embed", .forward = forward, .backward = backward};

enum fr_rc tr_embed_block(const struct tr_embed_opts *o, struct tr_block **out, struct fr_err *err)
{
    const struct embed e = {
        .o = *o,
        .block = {.ops = &embed_ops, .what = "embedding", .layer = -1, .trains = o->trained}};

    return tr_block_make(&e.block, sizeof(e), out, err);
}

enum fr_rc tr_block_make(const struct tr_block *b, size_t size, struct tr_block **out,
                         struct fr_err *err)
{
    if ((*out = fr_sys.alloc(size)) == NULL)
        return fr_fail(err, FR_NOMEM, "a block");
    memcpy(*out, b, size);
    return FR_OK;
}
