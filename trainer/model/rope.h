/*
 * Rotary frequencies of each kind (model_config.h; YaRN: Peng et al. 2023, section 3.4), and the
 * softmax scale that goes with them, as the reference models compute them.
 */
#ifndef TR_MODEL_ROPE_H
#define TR_MODEL_ROPE_H

#include "trainer/config/model_config.h"
#include "trainer/tensor/tensor.h"

/* inv[i], i < dr/2: the frequency of pair i. */
void tr_rope_frequencies(const struct tr_rope_config *r, int64_t dr, double *inv);

/* The factor of cos and sin: 1 without YaRN. */
double tr_rope_attention_factor(const struct tr_rope_config *r);

/* qk^-1/2 of tr_model_head; with YaRN times m(factor, mscale_all_dim)^2 where the architecture has
 * mscale_in_softmax. */
double tr_rope_softmax_scale(const struct tr_model_config *c);

/* FR_UNSUPPORTED for type dynamic if tokens exceeds max_position_embeddings. The reference then
 * takes frequencies from the longest batch so far, padding included, so that the loss of a sample
 * depends on earlier batches, on its rank and on resumes. */
enum fr_rc tr_rope_check(const struct tr_model_config *c, int64_t tokens, struct fr_err *err);

/* Fills cosines and sines (positions, dr/2) in host memory, f32 or f64. */
void tr_rope_tables(const struct tr_rope_config *r, struct tr_view cosines, struct tr_view sines);

#endif
