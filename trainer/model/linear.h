/*
 * A linear, frozen or trained, with or without LoRA (Hu et al. 2021):
 *
 *   Y = X Wt + s U Bt,   U = drop(X) At              A (r, in), B (out, r), X (T, in)
 *   dB += s dYt U;  dU = s dY B;  dA += dUt drop(X);  dX = dY W + drop(dU A)
 *   dW = dYt X, its bias: sum of dY over T, in the places of grads.h
 *
 * A and B are views of the model's working copies (compute type), their gradients of its flat f32
 * buffer. The base product is rounded to the compute type, then the adapter's is added.
 */
#ifndef TR_MODEL_LINEAR_H
#define TR_MODEL_LINEAR_H

#include "trainer/model/block.h"

/* The adapter of one linear, and its offsets in the flat order of all adapters. */
struct tr_adapter {
    const char *module; /* of the model's arena: "model.layers.0.self_attn.q_a_proj" */
    int64_t r, in, out;
    float scale; /* alpha/r or alpha/sqrt(r) */
    float dropout;
    uint64_t id;           /* keys dropout: a hash of module */
    int64_t a_at, b_at;    /* first element of A (r, in) and B (out, r) in the flat buffers */
    struct tr_view a, b;   /* working copies; absent before tr_model_load */
    struct tr_view da, db; /* gradients, += */
};

struct tr_linear {
    int unit, tensor; /* in the shard */
    int scale, bias;  /* tensors of the same unit; -1: none */
    bool trained;     /* the weight */
    bool bias_trained;
    int64_t in, out;
    int block_rows, block_cols;    /* of FP8 scales */
    const struct tr_adapter *lora; /* borrows; NULL: frozen */
};

/* Whether the backward needs the forward's input. */
static inline bool tr_linear_trains(const struct tr_linear *l)
{
    return l->lora != NULL || l->trained || l->bias_trained;
}

/* The weight as an op takes it, while its unit is whole. */
struct tr_weight tr_linear_weight(const struct tr_linear *l, const struct tr_ctx *ctx);

/* y (T, out) = linear(x (T, in)). y is not x. Both may be column slices. Returns U (T, r), which
 * stays in the workspace for a backward; absent without an adapter. */
struct tr_view tr_linear_fwd(const struct tr_linear *l, struct tr_ctx *ctx, struct tr_view y,
                             struct tr_view x);

struct tr_linear_grad {
    struct tr_view dx; /* (T, in) =, with add +=; absent: not computed */
    bool add;
    struct tr_view dy; /* (T, out) */
    struct tr_view x;  /* (T, in) the forward's input; may be absent if nothing is trained */
    struct tr_view u;  /* (T, r) U of the forward; absent: computed here */
};

/* Writes dx and the gradients of what is trained. */
void tr_linear_bwd(const struct tr_linear *l, struct tr_ctx *ctx, const struct tr_linear_grad *g);

#endif
