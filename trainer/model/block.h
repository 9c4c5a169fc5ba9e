/*
 * A block: a piece of the model with one saved input (embedding; norm + attention + residual; norm
 * + FFN + residual; norm + head + loss). A model is a list of blocks, not a graph. A block is const
 * once assembled. The state of one micro-batch is a tr_saved, so several micro-batches may be in
 * flight. Blocks call ops through backend.h and do not depend on devices, ranks or files.
 *
 * backward recomputes its intermediate values from the saved input, with the routing of the
 * forward. It accumulates (+=) the f32 gradients of its adapters, and hands those of its trained
 * weights to grads.h, unit by unit. A block may keep values between
 * the two directions. Both then run the same code between tr_keep() and tr_keep_end(), but its ops
 * run only the first time.
 */
#ifndef TR_MODEL_BLOCK_H
#define TR_MODEL_BLOCK_H

#include "engine/base/err.h"
#include "trainer/backend/backend.h"
#include "trainer/model/decode.h"
#include "trainer/shard/grads.h"
#include "trainer/shard/exchange.h"
#include "trainer/shard/shard.h"
#include "trainer/tensor/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The work of ops other than products: bytes of the views that they read and write, and numbers
 * that dropout draws. */
struct tr_row_work {
    double bytes, draws;
};

/* Device memory of one call of a block, carved from one allocation. */
struct tr_carve {
    char *base;
    size_t used, peak, limit; /* bytes; peak is the largest used ever was */
};

struct tr_view tr_carve1(struct tr_carve *c, enum tr_dtype t, int64_t n);
struct tr_view tr_carve2(struct tr_carve *c, enum tr_dtype t, int64_t rows, int64_t cols);
struct tr_view tr_carve3(struct tr_carve *c, enum tr_dtype t, int64_t a, int64_t b, int64_t n);

/* The micro-batch on the device. */
struct tr_tokens {
    int64_t T, B;
    int64_t longest;        /* tokens of the longest segment */
    int64_t scored;         /* number of tokens with a target */
    struct tr_view index;   /* (T) i32  row of the fetched embedding table */
    struct tr_view pos;     /* (T) i32  */
    struct tr_view targets; /* (scored) i32 */
    struct tr_view token;   /* (scored) i32 token of each target, ascending */
    struct tr_view score;   /* (T) i32  index of the token's target; -1: none */
    struct tr_view offsets; /* (B+1) i32 attention segments */
    struct tr_view sample;  /* (T) i64  place in the epoch's global order; keys dropout */
    struct tr_view table;   /* (rows, H) embedding rows that index points into */
    struct tr_view compact; /* (T) i32  as tr_fetch_rows; absent unless the embedding is trained */
};

/* Values of one micro-batch between forward and backward. All device memory. */
struct tr_saved {
    struct tr_view *x;     /* [blocks] (T, H) C input of block i; absent for the embedding */
    struct tr_view *ids;   /* [blocks] (T, K) i32 chosen experts; absent unless MoE */
    struct tr_carve *kept; /* [blocks] kept values beside the input; base NULL: none */
    struct tr_view dF;     /* (T, H) C from the head's forward, of tokens with a target */
    struct tr_view m, l;   /* (T) f32* maximum and sum of a trained head's softmax, ditto */
    struct tr_view loss;   /* (1) f64 += sum of -log p over the targets */
    int slot;              /* index among the micro-batches in flight */
};

/* The caches of attention blocks in one call. A call either begins sequences (fresh: attention
 * covers the call's own tokens) or adds one token to each sequence. */
struct tr_cache {
    const struct tr_view *rows; /* [blocks] (R, n) C cached row of each token; else absent */
    struct tr_view at;          /* (T) i32 the tokens' rows */
    struct tr_view first;       /* (B) i32 first row of each segment's sequence */
    struct tr_view len;         /* (B) i32 tokens of the sequence, with those of the call */
    int64_t tokens;             /* rows of a sequence: no len is larger */
    bool fresh;
};

/* Results of the head for each token with a target, in the type of sums. */
struct tr_scores {
    void *loss;   /* (scored) -log p of the target */
    void *target; /* (scored) the target's logit */
    void *most;   /* (scored) the largest logit */
};

/*
 * The context of a block's call. Errors stick: once rc is not FR_OK, the calls below do nothing, so
 * a block reads as the list of its ops. A dry run measures the workspace: it runs the same code,
 * but calls no ops and gathers nothing.
 */
struct tr_ctx {
    struct tr_backend *be;
    struct tr_queue *q;
    struct tr_shard *shard;
    struct tr_decoder *decoder;   /* NULL: weights are used as they lie in the shard */
    struct tr_exchange *exchange; /* NULL: every rank computes its own tokens */
    struct tr_grads *grads;       /* NULL: no weight is trained */
    struct tr_carve work;         /* workspace; a block leaves used as it found it */
    enum tr_dtype compute;        /* C of ops.h: F32, BF16, F16; F64 in finite-difference checks */
    enum tr_dtype sum;            /* f32* of ops.h */
    struct tr_scratch scratch;    /* of a dry run: the largest scratch that the backend keeps */
    struct tr_carve *kept;        /* kept values of the running block; NULL: none */
    bool dry;
    struct tr_row_work *rows; /* of a rehearsal, a sum; NULL: not counted */
    bool rehearsed;           /* a dry run that gathers from a shard without weights */
    bool held;                /* results are kept already: ops do not run */
    bool training;            /* dropout on, gradients wanted */
    bool replay;              /* saved->ids hold the routing to use */
    uint64_t seed;            /* of dropout */
    int64_t epoch;
    const struct tr_cache *cache; /* NULL: none */
    struct tr_scores *scores; /* host arrays that the head fills, valid after a sync; NULL: none */
    double loss_scale;        /* gradient of one target: 1/N, times the scaler's scale */
    const struct tr_tokens *tokens;
    struct tr_view cosines;    /* (positions, dr/2) f32* rotary tables */
    struct tr_view sines;      /* (positions, dr/2) f32* */
    struct tr_weight *weights; /* [3E] host scratch of the MoE blocks, and pointers to them */
    const struct tr_weight **weight_at;
    const struct tr_view **grad_at; /* [E] ditto: the gradient of an expert's weight */
    struct fr_err *err;
    enum fr_rc rc;
};

/* Runs op with args unless rc is an error. A dry run asks for the backend's scratch instead. */
#define TR_RUN(ctx, op, args)                                                                      \
    ((ctx)->rc != FR_OK || (ctx)->held ? (void)0                                                   \
     : (ctx)->dry                      ? tr_ctx_scratch((ctx), TR_OP_##op, (args))                 \
                  : (void)((ctx)->rc = tr_##op((ctx)->be, (ctx)->q, (args), (ctx)->err)))

void tr_ctx_scratch(struct tr_ctx *ctx, enum tr_op op, const void *args);

/* Call before either direction of block i. */
void tr_keep_block(struct tr_ctx *ctx, const struct tr_saved *saved, int i);

/* Between these, work carves from the kept values of a block that keeps any. again: the backward,
 * which must carve the same pieces in the same order as the forward. */
void tr_keep(struct tr_ctx *ctx, bool again);
void tr_keep_end(struct tr_ctx *ctx);

/* Makes units first .. first+n-1 whole for the ops that follow, and releases them. */
void tr_ctx_gather(struct tr_ctx *ctx, int first, int n);
void tr_ctx_release(struct tr_ctx *ctx, int first, int n);

/* The gradients of a unit are written: adds them to their owners' sums. */
void tr_ctx_reduce(struct tr_ctx *ctx, int unit);
/* v = 0 */
void tr_ctx_zero(struct tr_ctx *ctx, struct tr_view v);

struct tr_block;

struct tr_block_ops {
    const char *name; /* "mla", "gqa", "mlp", "moe", "embed", "head" */
    /* y (T, H) = block(x), x = saved->x[b->index]; y is not x. The embedding has no x. The head has
     * no y: it adds to saved->loss and, in training, writes the gradient of its normalised input
     * to saved->dF, or if it is trained saved->m and l. */
    void (*forward)(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y);
    /* d (T, H): gradient of the output in, of the input out. Without need_dx the block may stop
     * at what it trains, and d has no meaning afterwards. NULL: the block has no backward. */
    void (*backward)(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d);
};

struct tr_block {
    const struct tr_block_ops *ops;
    char what[48];  /* "layer 3 moe", for messages */
    int index;      /* position in the model's list */
    int64_t layer;  /* -1: none */
    int64_t cached; /* elements of a token's row in the cache; 0: none */
    int64_t routed; /* K of a MoE block, else 0: saved->ids[index] is (T, K) */
    bool trains;    /* the block has an adapter or a trained weight */
    bool need_dx;   /* a block below does */
};

#endif
