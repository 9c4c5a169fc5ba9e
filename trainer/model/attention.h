/*
 * Private to trainer/model: a block of attention, one file each, which has its row (TR_ATTENTIONS,
 * trainer/config/arch.h). The walk in assemble.c makes embedding, FFNs, experts, norms and head of
 * every decoder-only model.
 */
#ifndef TR_MODEL_ATTENTION_H
#define TR_MODEL_ATTENTION_H

#include "trainer/config/arch.h"
#include "trainer/model/blocks.h"

/* The weights of a layer's attention, by their kinds in the inventory; zero where it has none. */
struct tr_attention_parts {
    int unit; /* of all linears */
    struct tr_linear linear[TR_LIN_ATTENTION];
    struct tr_norm norm[TR_NORM_KINDS]; /* all norms of the layer; eps as in config.json */
};

struct tr_attention_row {
    /* The block of a layer; it copies of p what it needs. FR_NOMEM. */
    enum fr_rc (*block)(const struct tr_attention_parts *p, const struct tr_model_config *c,
                        int64_t layer, struct tr_block **out, struct fr_err *err);
    /* Ops beyond those of every model, each list ended by TR_OP_COUNT: in every call, in training,
     * with caches. */
    const enum tr_op *ops, *grads, *caches;
};

#define TR_ROW(name) const struct tr_attention_row *tr_attention_##name(void);
TR_ATTENTIONS(TR_ROW)
#undef TR_ROW

/* The row of the model's attention. */
const struct tr_attention_row *tr_attention_of(const struct tr_model_config *c);

#endif
