/*
 * Private to trainer/model: an architecture, one file each. The walk in assemble.c makes embedding,
 * FFNs, experts, norms and head of every decoder-only model; an architecture says what its
 * attention is made of.
 */
#ifndef TR_MODEL_ARCH_H
#define TR_MODEL_ARCH_H

#include "trainer/model/blocks.h"

/* The attention of one layer while its tensors are collected: zeroed when the layer begins, then
 * the part of its architecture is filled. */
struct tr_attention_parts {
    struct tr_mla_opts latent;
    struct tr_gqa_opts grouped;
};

struct tr_arch_ops {
    /* The place of a linear of attention; every kind of the inventory has one. */
    struct tr_linear *(*linear)(struct tr_attention_parts *p, enum tr_linear_kind kind);
    /* Takes a norm of the block by its tensor's name, false: it is not one of attention's. */
    bool (*take_norm)(struct tr_attention_parts *p, const char *name, const struct tr_norm *n);
    /* The units of all linears and of all norms are known. */
    void (*set_units)(struct tr_attention_parts *p, int linears, int norms);
    enum fr_rc (*block)(struct tr_attention_parts *p, const struct tr_model_config *c,
                        int64_t layer, struct tr_block **out, struct fr_err *err);
    /* Ops beyond those of every model, each list ended by TR_OP_COUNT: in every call, in training,
     * with caches. */
    const enum tr_op *ops, *grads, *caches;
};

const struct tr_arch_ops *tr_arch_of(const struct tr_model_config *c);
const struct tr_arch_ops *tr_arch_deepseek(void); /* arch_deepseek.c */
const struct tr_arch_ops *tr_arch_llama(void);    /* arch_llama.c */

#endif
