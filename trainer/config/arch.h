/*
 * The architectures. Each is a file arch_NAME.c with one row: its types, its keys, the names of its
 * tensors, and the shapes of the tensors of its attention. To add an architecture, write its file
 * and put NAME into archs of meson.build. To add a block of attention, write its file in
 * trainer/model and put its name into TR_ATTENTIONS.
 */
#ifndef TR_CONFIG_ARCH_H
#define TR_CONFIG_ARCH_H

#include "trainer/config/model_config.h"

/* Blocks of attention: multi-head latent, grouped-query. */
#define TR_ATTENTIONS(X) X(mla) X(gqa)

#define TR_ATTENTION(name) TR_ATTENTION_##name,
enum tr_attention_kind { TR_ATTENTIONS(TR_ATTENTION) };
#undef TR_ATTENTION

/* Marks that stand in place of a default. */
#define TR_NEEDED (-1e300)  /* config.json must have the key */
#define TR_DERIVED (-2e300) /* the field is 0 until the reader derives its value */
#define TR_REFUSED (-3e300) /* null is an error: transformers has no default for it */

/* The value of a key that config.json lacks or sets to null. */
struct tr_key_default {
    const char *key; /* a key of the table in model_keys.c */
    double absent, null;
};

/* A type of models: the defaults of its class in transformers, and its properties. */
struct tr_model_type {
    const char *type, *architecture; /* config.json: model_type, architectures[0] */
    /* Keys that other types lack, and keys whose default differs from that of all types. */
    const struct tr_key_default *defaults;
    size_t n_defaults;
    const char *with_layer_types; /* type to use if config.json has layer_types; NULL: this type */
    bool layer_types;             /* layer_types selects the layers with a window */
    bool qkv_bias;                /* q, k and v have biases, whatever attention_bias says */
    bool qk_norm;                 /* as in struct tr_model_config */
    bool block_sparse_moe;        /* as in struct tr_model_config */
};

/* Added to the kind of an FFN's linear (TR_LIN_GATE … TR_LIN_DOWN) for the shared expert and for a
 * routed expert. */
enum { TR_OF_SHARED = TR_LIN_DOWN + 1 - TR_LIN_GATE, TR_OF_EXPERT = 2 * TR_OF_SHARED };

/* The names of an architecture's tensors by role; NULL: it has no such tensor. Norms and linears
 * are named without ".weight" and ".bias", tensors of layer N without "LAYERS.N.", linears of
 * routed expert N without "LAYERS.N.EXPERTS.N.". */
struct tr_tensor_names {
    const char *embed, *layers, *experts, *head, *router, *router_bias;
    const char *norm[TR_NORM_FINAL + 1];
    const char *linear[TR_LIN_DOWN + TR_OF_EXPERT + 1];
};

struct tr_model_read; /* model_read.h */
struct tr_walk;       /* inventory.c */

struct tr_arch_row {
    const struct tr_model_type *types;
    size_t n_types;
    const struct tr_tensor_names *names, *names_sparse; /* sparse: of types with block_sparse_moe */
    enum tr_attention_kind attention;
    bool mscale_in_softmax; /* YaRN's mscale_all_dim enters the softmax scale */
    /* Returns FR_USAGE or FR_UNSUPPORTED for an unknown key. NULL: unknown keys are ignored. */
    enum fr_rc (*refuse_unknown)(const struct tr_model_read *r, struct fr_err *err);
    /* Runs after the table of keys: reads the other keys and checks the whole. */
    enum fr_rc (*read)(const struct tr_model_read *r, struct fr_err *err);
    /* As tr_model_head. */
    struct tr_head_sizes (*head)(const struct tr_model_config *c);
    /* Lists the tensors of a layer's attention by tr_put_norm and tr_put_linear, in the order of
     * the forward pass. The norm before attention is not among them. */
    void (*attention_tensors)(struct tr_walk *w, const struct tr_model_config *c);
};

#define TR_ROW(name) const struct tr_arch_row *tr_arch_##name(void);
TR_ARCHS(TR_ROW)
#undef TR_ROW

/* Row number i, which is an enum tr_arch; static. NULL: there are not so many. */
const struct tr_arch_row *tr_arch_at(size_t i);

/* The row of the model's architecture; static. */
const struct tr_arch_row *tr_arch_of(const struct tr_model_config *c);

/* Type number i of all types, and its architecture. NULL: there are not so many. */
const struct tr_model_type *tr_model_type(size_t i, enum tr_arch *arch);

/* The names of the model's tensors; static. */
const struct tr_tensor_names *tr_names_of(const struct tr_model_config *c);

/* As tr_model_tensors, with these names. */
enum fr_rc tr_names_tensors(const struct tr_tensor_names *names, const struct tr_model_config *c,
                            tr_each_tensor *each, void *arg, struct fr_err *err);

/* The index of the module's linear in names->linear, also in an MTP layer; -1: it is no linear. */
int tr_names_linear(const struct tr_tensor_names *names, const char *module);

/* Whether module is t, or ends with "." t. */
bool tr_module_ends(const char *module, const char *t);

/* Lists the weight (n) of a norm of the layer. */
void tr_put_norm(struct tr_walk *w, enum tr_norm_kind kind, int64_t n);

/* Lists the weight (out, in) of a linear of the layer and, with bias, its bias (out). */
struct tr_linear_sizes {
    int64_t out, in;
    bool bias;
};
void tr_put_linear(struct tr_walk *w, enum tr_linear_kind kind, struct tr_linear_sizes s);

#endif
