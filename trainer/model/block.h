/*
 * A block: a piece of the model with one saved input (embedding; norm + attention + residual; norm +
 * FFN + residual; norm + head + loss). A model is a list of blocks, not a graph. A block is const once
 * assembled; all that belongs to one micro-batch lives in a tr_saved, so several may be in flight.
 * Blocks call ops through backend.h and know nothing of devices, ranks or files.
 *
 * backward owns its recompute: it rebuilds from the saved input what it needs, with the routing that
 * the forward chose, and accumulates (+=) the f32 gradients of its adapters.
 */
#ifndef TR_MODEL_BLOCK_H
#define TR_MODEL_BLOCK_H

#include "engine/base/err.h"
#include "trainer/backend/backend.h"
#include "trainer/shard/shard.h"
#include "trainer/tensor/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Device memory of one pass through a block, carved from one allocation. With base NULL it only
 * measures: blocks carve by the same code in both cases, so the memory table is exact. */
struct tr_carve {
    char *base;
    size_t used, peak, limit; /* bytes; peak is the largest used ever was */
};

/* A zero-offset-aligned (256 bytes) piece. p is NULL while measuring. Running out is a bug of ours
 * (assert), since the same code measured. */
struct tr_view tr_carve_view(struct tr_carve *c, enum tr_dtype t, int rank, const int64_t *shape);
struct tr_view tr_carve2(struct tr_carve *c, enum tr_dtype t, int64_t rows, int64_t cols);
struct tr_view tr_carve1(struct tr_carve *c, enum tr_dtype t, int64_t n);
size_t tr_carve_mark(const struct tr_carve *c);
void tr_carve_reset(struct tr_carve *c, size_t mark);

/* The micro-batch on the device. */
struct tr_tokens {
    int64_t T, B;
    struct tr_view index;    /* (T) i32  row of the fetched embedding table */
    struct tr_view pos;      /* (T) i32  */
    struct tr_view targets;  /* (T) i32  -1: none */
    struct tr_view offsets;  /* (B+1) i32 attention segments */
    struct tr_view sample;   /* (T) i64  place in the epoch's global order, keys dropout */
    struct tr_view table;    /* (rows, H) embedding rows that index points into */
};

/* What the blocks of one micro-batch keep between forward and backward. All device memory. */
struct tr_saved {
    struct tr_view *x;       /* [blocks+1] (T, H) input of block i; x[blocks] is the head's dF */
    struct tr_view *ids;     /* [blocks] (T, K) i32 chosen experts; absent unless MoE */
    struct tr_view loss;     /* (1) f64 += sum of -log p over the targets */
    struct tr_tokens tokens;
};

/* Everything a block's call may use. */
struct tr_ctx {
    struct tr_backend *be;
    struct tr_queue *q;
    struct tr_shard *shard;
    struct tr_carve *work;      /* workspace, reset by the block to where it found it */
    enum tr_dtype compute;      /* F32, BF16, F16; F64 in finite-difference checks */
    enum tr_dtype sum;          /* of sums and gradients: F32; F64 with compute F64 */
    bool training;              /* dropout on, saved inputs wanted */
    bool forced;                /* saved->ids hold the routing to use (replay, or injected) */
    uint64_t seed;              /* of dropout */
    int64_t epoch;
    double loss_scale;          /* gradient of one target: 1/N, times the scaler's scale */
};

struct tr_block;

struct tr_block_ops {
    const char *name; /* "mla", "mlp", "moe", "embed", "head" */
    /* y (T, H) = block(x (T, H)); y is not x. The head has no y: it adds to saved->loss and, when
     * training, leaves the gradient of its normalised input in saved->x[blocks]. The embedding has
     * no x. */
    enum fr_rc (*forward)(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                          struct tr_view y, struct fr_err *err);
    /* d (T, H): gradient of the output in, of the input out. Untouched by the lowest adapted block
     * (need_dx false), which stops at its last adapter. */
    enum fr_rc (*backward)(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                           struct tr_view d, struct fr_err *err);
    /* Carves, with work->base NULL, what forward and backward carve for T tokens. */
    void (*measure)(const struct tr_block *b, struct tr_ctx *ctx, int64_t T);
    void (*destroy)(struct tr_block *b);
};

struct tr_block {
    const struct tr_block_ops *ops;
    char what[48];   /* "layer 3 moe" */
    int index;       /* its place in the list: saved->x[index] is its input */
    int64_t layer;   /* -1: none */
    int64_t routed;  /* K of a MoE block, else 0: saved->ids[index] is (T, K) */
    bool has_lora;   /* an adapter inside */
    bool need_dx;    /* something below has an adapter */
};

#endif
