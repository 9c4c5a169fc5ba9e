/*
 * LoRA as PEFT has it: which modules are adapted, rank and scale of each, and adapter_config.json.
 * Linears of attention, dense FFNs and shared experts can be adapted. Routers, norms, embeddings
 * and routed experts are refused.
 *
 * "all" means what PEFT's "all-linear" means on transformers 5 (PEFT 0.18.1, transformers 5.23;
 * recorded by tests/golden/targets.py): every torch Linear but the head. Routed experts are two
 * fused parameters there and no Linears. The checkpoint's layout does not matter.
 *
 * The stacks differ in adapters on FFNs of models with routed experts, so a run with such adapters
 * gets a note:
 *   transformers 4, any PEFT        loads them; its "all-linear" has the routed experts too
 *   transformers 5, PEFT <= 0.18    loads them
 *   transformers 5, PEFT >= 0.19    takes gate_proj, up_proj and down_proj for names of fused
 *                                   routed experts and loads none of them
 *
 * Source: Hu et al. 2021; PEFT's documentation of LoraConfig and of its checkpoint format, and its
 * utils/transformers_weight_conversion.py (0.21.2).
 */
#ifndef TR_CONFIG_LORA_CONFIG_H
#define TR_CONFIG_LORA_CONFIG_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/config/args.h"
#include "trainer/config/model_config.h"
#include "trainer/tensor/safetensors.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_lora_pattern {
    const char *key;    /* regular expression: (.*\.)?(key)$ matches the name from its start */
    double value;
};

/* Everything lives in arena. */
struct tr_lora_config {
    struct fr_arena arena;
    int64_t r;
    double alpha, dropout;
    bool rslora;                       /* scale = alpha / sqrt(r) instead of alpha / r */
    const char *target_regex;          /* must match the whole name; NULL: the list decides */
    bool all_linear;                   /* as above; tr_lora_resolve makes a list of it */
    const char *const *targets;        /* names or ".suffix"es */
    size_t ntargets;
    const char *exclude_regex;
    const char *const *excludes;
    size_t nexcludes;
    const int64_t *layers;             /* layers_to_transform; nlayers 0: all */
    size_t nlayers;
    const struct tr_lora_pattern *rank_pattern, *alpha_pattern;
    size_t nrank, nalpha;
    const char *base_model;            /* base_model_name_or_path, may be NULL */
    const char *dir;                   /* the folder it was read from; NULL: from arguments */
};

enum fr_rc tr_lora_from_args(const struct tr_args *a, struct tr_lora_config *out,
                             struct fr_err *err);
void tr_lora_finish(struct tr_lora_config *c);

/* Replaces all_linear by the list of names that stand for it in this model, so that the adapter
 * that is written means the same on every stack. Otherwise does nothing. */
enum fr_rc tr_lora_resolve(struct tr_lora_config *c, const struct tr_model_config *m,
                           struct fr_err *err);

/* Reads DIR/adapter_config.json. Variants that change the base model or the formula (DoRA, biases,
 * modules_to_save, pissa …) are FR_UNSUPPORTED by key. */
enum fr_rc tr_lora_read(const char *dir, struct tr_lora_config *out, struct fr_err *err);

/* Opens DIR/adapter_model.safetensors. Pickled weights instead of it are not read: FR_NOTFOUND says
 * how to convert them. */
enum fr_rc tr_lora_weights(const char *dir, struct tr_st **out, struct fr_err *err);

/* FR_UNSUPPORTED where the head is a target: a model that is tied has no module of that name here,
 * and PEFT would adapt it all the same. */
enum fr_rc tr_lora_refuse_head(const struct tr_lora_config *c, struct fr_err *err);

/* Writes DIR/adapter_config.json: sorted keys, indent 2, the keys that every PEFT since 0.10
 * knows. */
enum fr_rc tr_lora_write(const char *dir, const struct tr_lora_config *c, struct fr_err *err);

/* What a module gets. */
struct tr_lora_hit {
    bool adapted;
    int64_t r;
    float scale;
    double alpha;
};

/* module is a path without ".weight": model.layers.0.self_attn.q_a_proj. FR_USAGE for a regular
 * expression that does not compile. */
enum fr_rc tr_lora_match(const struct tr_lora_config *c, const char *module,
                         struct tr_lora_hit *out, struct fr_err *err);

/* All modules of a model that have a weight. */
struct tr_lora_modules {
    const char *const *names;
    const bool *linear;    /* LoRA may adapt names[i], or it is of a routed expert */
    const int64_t *routed; /* of a routed expert: in + out of the linear; else 0 */
    size_t n;
};

/* Checks the targets against a whole model. FR_USAGE: no match at all, or a target that is not a
 * linear map. FR_UNSUPPORTED: routed experts, with the parameters that their adapters would have.
 * A list entry that matches nothing adds a line to notes, and so do adapters that a stack would
 * not load. *hits gets the number of modules adapted. */
enum fr_rc tr_lora_check(const struct tr_lora_config *c, const struct tr_lora_modules *m,
                         size_t *hits, struct fr_buf *notes, struct fr_err *err);

#endif
