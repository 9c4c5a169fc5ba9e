/*
 * LoRA as PEFT has it: which modules are adapted, rank and scale of each, and adapter_config.json.
 * Only attention, FFN and expert projections can be adapted; routers, norms and embeddings are
 * refused. Source: Hu et al. 2021; PEFT's documentation of LoraConfig and of its checkpoint format.
 */
#ifndef TR_CONFIG_LORA_CONFIG_H
#define TR_CONFIG_LORA_CONFIG_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/config/args.h"

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
    bool all_linear;                   /* every linear but the head */
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
};

enum fr_rc tr_lora_from_args(const struct tr_args *a, struct tr_lora_config *out,
                             struct fr_err *err);
void tr_lora_finish(struct tr_lora_config *c);

/* Reads DIR/adapter_config.json. Variants that change the base model or the formula (DoRA, biases,
 * modules_to_save, pissa …) are FR_UNSUPPORTED by key. */
enum fr_rc tr_lora_read(const char *dir, struct tr_lora_config *out, struct fr_err *err);

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

/* All modules of a model that have a weight; linear[i] says whether LoRA may adapt names[i]. */
struct tr_lora_modules {
    const char *const *names;
    const bool *linear;
    size_t n;
};

/* Checks the targets against a whole model: no match at all, or a target that is not a linear
 * map, is FR_USAGE; a list entry that matches nothing adds a line to notes. *hits gets the number
 * of modules adapted. */
enum fr_rc tr_lora_check(const struct tr_lora_config *c, const struct tr_lora_modules *m,
                         size_t *hits, struct fr_buf *notes, struct fr_err *err);

#endif
