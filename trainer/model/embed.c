#include "engine/base/sys.h"
#include "trainer/model/blocks.h"

#include <string.h>

static void forward(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y)
{
    struct tr_embed e = {.y = y, .table = ctx->tokens->table, .ids = ctx->tokens->index};

    (void)b;
    (void)saved;
    TR_RUN(ctx, embed_fwd, &e);
}

static const struct tr_block_ops embed_ops = {.name = "embed", .forward = forward};

enum fr_rc tr_embed_block(struct tr_block **out, struct fr_err *err)
{
    const struct tr_block b = {.ops = &embed_ops, .what = "embedding", .layer = -1};

    return tr_block_make(&b, sizeof(b), out, err);
}

enum fr_rc tr_block_make(const struct tr_block *b, size_t size, struct tr_block **out,
                         struct fr_err *err)
{
    if ((*out = fr_sys.alloc(size)) == NULL)
        return fr_fail(err, FR_NOMEM, "a block");
    memcpy(*out, b, size);
    return FR_OK;
}
