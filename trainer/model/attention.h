/*
 * Private to trainer/model: the blocks of attention. Each is one file with one row; TR_ATTENTIONS
 * in trainer/config/arch.h lists them. assemble.c makes all other blocks of a decoder-only model.
 */
#ifndef TR_MODEL_ATTENTION_H
#define TR_MODEL_ATTENTION_H

#include "trainer/config/arch.h"
#include "trainer/model/blocks.h"

/* The weights of a layer's attention, indexed by kind; zero if the inventory has none of a kind. */
struct tr_attention_parts {
    int unit; /* of all linears */
    struct tr_linear linear[TR_LIN_ATTENTION];
    struct tr_norm norm[TR_NORM_KINDS]; /* of the whole layer; eps of config.json */
};

struct tr_attention_row {
    /* Makes the block of a layer; copies its parts from p. FR_NOMEM. */
    enum fr_rc (*block)(const struct tr_attention_parts *p, const struct tr_model_config *c,
                        int64_t layer, struct tr_block **out, struct fr_err *err);
    /* Required ops beyond those of every model: always, in training, with caches. TR_OP_COUNT ends
     * each list. */
    const enum tr_op *ops, *grads, *caches;
};

/* The (T, n, hd) heads as the (T, n*hd) matrix that linears take. */
static inline struct tr_view tr_heads_flat(struct tr_view v)
{
    return tr_view2(v.p, v.dtype, v.shape[0], v.shape[1] * v.shape[2]);
}

#define TR_ROW(name) const struct tr_attention_row *tr_attention_##name(void);
TR_ATTENTIONS(TR_ROW)
#undef TR_ROW

/* The row of the model's attention. */
const struct tr_attention_row *tr_attention_of(const struct tr_model_config *c);

#endif
