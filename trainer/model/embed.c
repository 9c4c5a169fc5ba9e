#include "engine/base/sys.h"
#include "trainer/model/blocks.h"

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    struct tr_embed e = {.y = y, .table = ctx->tokens->table, .ids = ctx->tokens->index};

    (void)b;
    (void)saved;
    TR_RUN(ctx, embed_fwd, &e);
}

static void destroy(struct tr_block *b)
{
    fr_sys.free(b);
}

static const struct tr_block_ops embed_ops = {
    .name = "embed", .forward = forward, .destroy = destroy};

enum fr_rc tr_embed_block(struct tr_block **out, struct fr_err *err)
{
    *out = fr_sys.alloc(sizeof(**out));
    if (*out == NULL)
        return fr_fail(err, FR_NOMEM, "a block");
    **out = (struct tr_block){.ops = &embed_ops, .what = "embedding", .layer = -1};
    return FR_OK;
}

void tr_block_destroy(struct tr_block *b)
{
    if (b != NULL)
        b->ops->destroy(b);
}
