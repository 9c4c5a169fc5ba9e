/*
 * LoRA with PEFT's rules: the modules to adapt, rank and scale of each, and adapter_config.json.
 * Linears of attention, dense FFNs and shared experts can be adapted. Routers, norms, embeddings
 * and routed experts are refused.
 *
 * "all" means what PEFT's "all-linear" means on transformers 5 (PEFT 0.18.1, transformers 5.23;
 * recorded by tests/golden/targets.py): every torch Linear but the head. Routed experts are two
 * fused parameters there and no Linears. The checkpoint's layout does not matter.
 *
 * If a model has routed experts, stacks differ about adapters on its FFNs. A run with such adapters
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
    const char *key; /* regular expression: (.*\.)?(key)$ matches the name from its start */
    double value;
};

/* arena owns everything that the pointers lead to. */
struct tr_lora_config {
    struct fr_arena arena;
    int64_t r;
    double alpha, dropout;
    bool rslora;                /* scale = alpha / sqrt(r) instead of alpha / r */
    const char *target_regex;   /* must match the whole name; NULL: the list decides */
    bool all_linear;            /* "all"; tr_lora_resolve replaces it by a model's list */
    const char *const *targets; /* names or ".suffix"es */
    size_t ntargets;
    const char *const *saves; /* modules trained whole, see lora_saves.h; they have no adapter */
    size_t nsaves;
    const char *exclude_regex;
    const char *const *excludes;
    size_t nexcludes;
    const int64_t *layers; /* layers_to_transform; nlayers 0: all */
    size_t nlayers;
    const struct tr_lora_pattern *rank_pattern, *alpha_pattern;
    size_t nrank, nalpha;
    const char *base_model; /* base_model_name_or_path, may be NULL */
    const char *dir;        /* the folder of the adapter; NULL: from arguments */
};

/* The configuration that the flags describe. The caller calls tr_lora_finish after success. */
enum fr_rc tr_lora_from_args(const struct tr_args *a, struct tr_lora_config *out,
                             struct fr_err *err);
void tr_lora_finish(struct tr_lora_config *c);

/* If all_linear is set, replaces it by the list of its names in this model. A written adapter then
 * means the same on every stack. */
enum fr_rc tr_lora_resolve(struct tr_lora_config *c, const struct tr_model_config *m,
                           struct fr_err *err);

/* Reads DIR/adapter_config.json. Variants that change the base model or the formula (DoRA, biases,
 * pissa …) are FR_UNSUPPORTED by key. */
enum fr_rc tr_lora_read(const char *dir, struct tr_lora_config *out, struct fr_err *err);

/* Opens DIR/adapter_model.safetensors; the caller closes *out. Pickled weights are not read: the
 * message of FR_NOTFOUND has the command that converts them. */
enum fr_rc tr_lora_weights(const char *dir, struct tr_st **out, struct fr_err *err);

/* FR_UNSUPPORTED if the head, of any architecture, is a target. Tied models need this check, too:
 * they have no such module here, but PEFT would adapt it. */
enum fr_rc tr_lora_refuse_head(const struct tr_lora_config *c, struct fr_err *err);

/* Writes DIR/adapter_config.json with sorted keys, indented by 2. All keys are known to PEFT 0.10
 * and later. */
enum fr_rc tr_lora_write(const char *dir, const struct tr_lora_config *c, struct fr_err *err);

/* The adapter of one module. */
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
/* The same of a tensor of the model, whose module is copied; adapted only if it is a linear map. */
enum fr_rc tr_lora_match_tensor(const struct tr_lora_config *c, const struct tr_model_tensor *t,
                                char module[TR_NAME_MAX], struct tr_lora_hit *out,
                                struct fr_err *err);

/* Checks the targets against a whole model. FR_USAGE: no module matches, or a target is not a
 * linear map. FR_UNSUPPORTED: a target is a routed expert. A target without a match adds a line to
 * notes, and so do adapters that some stack does not load. *hits receives the number of adapted
 * modules. */
enum fr_rc tr_lora_check(const struct tr_lora_config *c, const struct tr_model_config *m,
                         size_t *hits, struct fr_buf *notes, struct fr_err *err);

#endif
