/*
 * Conversion of weights on disk to f32 and back: FP8 in blocks with one f32 scale each, or a float
 * type.
 * Source: DeepSeek-V3 2024, section 3.3.2 (a block's largest magnitude is the largest code).
 */
#ifndef TR_SAVE_QUANTIZE_H
#define TR_SAVE_QUANTIZE_H

#include "trainer/config/model_config.h"
#include "trainer/tensor/safetensors.h"

#include <jansson.h>
#include <stdbool.h>

/* A matrix (rows, cols) and its blocks. */
struct tr_blocks {
    int64_t rows, cols, block_rows, block_cols;
};

static inline int64_t tr_blocks_down(const struct tr_blocks *b)
{
    return (b->rows + b->block_rows - 1) / b->block_rows;
}

static inline int64_t tr_blocks_across(const struct tr_blocks *b)
{
    return (b->cols + b->block_cols - 1) / b->block_cols;
}

/* The scales (f32) of w's blocks; their codes (f8_e4m3), to nearest. */
void tr_fp8_scales(const struct tr_blocks *b, const float *w, float *scales);
void tr_fp8_codes(const struct tr_blocks *b, const float *w, uint8_t *codes);

/* A tensor to read as f32; scale: the scales of its blocks, NULL for other types than FP8. */
struct tr_weight_source {
    const struct tr_st *st;
    const struct tr_st_tensor *weight, *scale;
    int64_t block_rows, block_cols; /* with scale */
};
enum fr_rc tr_weight_read(const struct tr_weight_source *s, float *w, struct fr_err *err);

/* Copies one file to another folder under the same name. optional: FR_OK if there is none to copy.
 */
enum fr_rc tr_copy_file(const char *from_dir, const char *to_dir, const char *name, bool optional,
                        struct fr_err *err);
/* Whether a file of a model folder is neither weights nor their index. */
bool tr_is_companion(const char *name);
/* Copies all files of a model folder but weights and their index to another folder. */
enum fr_rc tr_copy_companions(const char *model_dir, const char *out_dir, struct fr_err *err);

/* The quantization_config of a config.json for FP8 in blocks of 128 x 128. Owned by the caller;
 * NULL: no memory. */
json_t *tr_fp8_config(void);

struct tr_convert_opts {
    const struct tr_model_config *config;
    const struct tr_st *st;
    const char *model_dir, *out_dir;
    int64_t shard_bytes;
    bool fp8; /* linears to FP8 in blocks of 128 x 128, as DeepSeek-V3 is released; else FP8 to
                 bf16 */
};

/* Writes the checkpoint in the other form, with its config.json. Embedding, norms, routers and head
 * stay as they are. *converted: the number of converted weights. FR_USAGE: the checkpoint has that
 * form already. */
enum fr_rc tr_convert(const struct tr_convert_opts *o, int64_t *converted, struct fr_err *err);

#endif
