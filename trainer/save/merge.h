/*
 * A checkpoint with an adapter folded in: W' = W + scale * B A in f32, rounded once to W's type.
 * FP8 weights are decoded, merged and coded anew, each block by its new largest value. Other
 * tensors are copied as bytes, but for those that st has in the places of the base's (modules that
 * were trained whole, tr_lora_settle): they are rounded to the base's types. Without an adapter all
 * of them are, but for the head of a tied model, which transformers does not save either. Source:
 * Hu et al. 2021; DeepSeek-V3 2024, section 3.3.2.
 */
#ifndef TR_SAVE_MERGE_H
#define TR_SAVE_MERGE_H

#include "trainer/model/model.h"
#include "trainer/tensor/safetensors.h"

struct tr_merge_opts {
    const struct tr_model_config *config;
    const struct tr_st *st;          /* the base */
    const struct tr_params *params;  /* of a model with the adapter's rules; it need not be loaded.
                                        NULL: no adapter */
    const float *flat;               /* the adapter's values (tr_import_adapter) */
    const char *model_dir, *out_dir; /* files beside the weights are copied from one to the other */
    int64_t shard_bytes;
    int64_t rows; /* vocab_size of config.json, where the adapter has more; 0: the base's */
    bool untied;  /* the base's head is its embedding, and no longer is: config.json says so */
};

/* Makes and writes out_dir: weights that were there go first, and a failure leaves them as they
 * were. FR_CORRUPT when a merged value is not finite or beyond its type. *merged: the number of
 * weights changed; without an adapter, of tensors copied. */
enum fr_rc tr_merge(const struct tr_merge_opts *o, int64_t *merged, struct fr_err *err);

#endif
