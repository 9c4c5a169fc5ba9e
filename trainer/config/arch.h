/*
 * The architectures: a file arch_NAME.c and a row each, which has all that one differs in but its
 * block. A new one is its file and its name in TR_ARCHS (model_config.h); a new block of attention
 * is its file in trainer/model and its name in TR_ATTENTIONS.
 */
#ifndef TR_CONFIG_ARCH_H
#define TR_CONFIG_ARCH_H

#include "trainer/config/model_config.h"

/* Blocks of attention: multi-head latent, grouped-query. */
#define TR_ATTENTIONS(X) X(mla) X(gqa)

#define TR_ATTENTION(name) TR_ATTENTION_##name,
enum tr_attention_kind { TR_ATTENTIONS(TR_ATTENTION) };
#undef TR_ATTENTION

/* In the place of a default. */
#define TR_NEEDED (-1e300)  /* config.json must have the key */
#define TR_DERIVED (-2e300) /* 0, from which the value follows later */
#define TR_REFUSED (-3e300) /* null is refused, as transformers has no default for it */

/* What a type of models takes where a key is absent or null. */
struct tr_key_default {
    const char *key; /* of the table in model_keys.c */
    double absent, null;
};

/* A type of models. What of transformers' class is no default of a key is a property here. */
struct tr_model_type {
    const char *type, *architecture; /* in config.json: model_type, architectures[0] */
    /* Of its own keys, and those that differ from the defaults of all types. */
    const struct tr_key_default *defaults;
    size_t n_defaults;
    const char *with_layer_types; /* the type of a config.json that has layer_types; NULL: this */
    bool layer_types;             /* layer_types counts: it chooses the layers with a window */
    bool qkv_bias;                /* q, k and v have biases whatever attention_bias is */
    bool qk_norm;                 /* as in struct tr_model_config */
    bool block_sparse_moe;        /* as there */
};

struct tr_model_read; /* model_read.h */
struct tr_walk;       /* inventory.c */

struct tr_arch_row {
    const struct tr_model_type *types;
    size_t n_types;
    enum tr_attention_kind attention;
    bool mscale_in_softmax; /* YaRN's mscale_all_dim counts in the scale of the softmax */
    /* FR_USAGE or FR_UNSUPPORTED for an unknown key. NULL: unknown keys are ignored. */
    enum fr_rc (*refuse_unknown)(const struct tr_model_read *r, struct fr_err *err);
    /* Reads what is not of the table of keys, which was read before, and checks all. */
    enum fr_rc (*read)(const struct tr_model_read *r, struct fr_err *err);
    struct tr_head_sizes (*head)(const struct tr_model_config *c);
    /* Puts the tensors of a layer's attention, without the norm before it. */
    void (*attention_tensors)(struct tr_walk *w, const struct tr_model_config *c);
};

#define TR_ROW(name) const struct tr_arch_row *tr_arch_##name(void);
TR_ARCHS(TR_ROW)
#undef TR_ROW

const struct tr_arch_row *tr_arch_of(const struct tr_model_config *c);

/* The type of place i among all, with its architecture; NULL beyond the last. */
const struct tr_model_type *tr_model_type(size_t i, enum tr_arch *arch);

/* One tensor of the layer: NAME.weight (n). */
void tr_put_norm(struct tr_walk *w, enum tr_norm_kind kind, const char *name, int64_t n);

/* NAME.weight (out, in), and NAME.bias (out) with bias. */
struct tr_linear_sizes {
    int64_t out, in;
    bool bias;
};
void tr_put_linear(struct tr_walk *w, enum tr_linear_kind kind, const char *name,
                   struct tr_linear_sizes s);

#endif
