/*
 * A block: a piece of the model with one saved input (embedding; norm + attention + residual; norm
 * + FFN + residual; norm + head + loss). A model is a list of blocks, not a graph. A block is const
 * once assembled; all that belongs to one micro-batch lives in a tr_saved, so several may be in
 * flight. Blocks call ops through backend.h and know nothing of devices, ranks or files.
 *
 * backward owns its recompute: it rebuilds from the saved input what it needs, with the routing
 * that the forward chose, and accumulates (+=) the f32 gradients of its adapters. A block that
 * keeps what it computed has it there instead: both directions go through the same code between
 * tr_keep() and tr_keep_end(), whose ops do not run the second time.
 */
#ifndef TR_MODEL_BLOCK_H
#define TR_MODEL_BLOCK_H

#include "engine/base/err.h"
#include "trainer/backend/backend.h"
#include "trainer/model/decode.h"
#include "trainer/shard/exchange.h"
#include "trainer/shard/shard.h"
#include "trainer/tensor/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What ops that are no products do: bytes of the views they read and write, and numbers that
 * dropout draws, which take longer than any bytes. */
struct tr_row_work {
    double bytes, draws;
};

/* Device memory of one call of a block, carved from one allocation. */
struct tr_carve {
    char *base;
    size_t used, peak, limit; /* bytes; peak is the largest used ever was */
};

/* A piece at a multiple of 256 bytes. Running out is our own bug (assert): the dry run measured. */
struct tr_view tr_carve_view(struct tr_carve *c, enum tr_dtype t, int rank, const int64_t *shape);
struct tr_view tr_carve1(struct tr_carve *c, enum tr_dtype t, int64_t n);
struct tr_view tr_carve2(struct tr_carve *c, enum tr_dtype t, int64_t rows, int64_t cols);
struct tr_view tr_carve3(struct tr_carve *c, enum tr_dtype t, int64_t a, int64_t b, int64_t n);

/* The micro-batch on the device. */
struct tr_tokens {
    int64_t T, B;
    int64_t longest;        /* tokens of the longest segment */
    int64_t scored;         /* tokens with a target */
    struct tr_view index;   /* (T) i32  row of the fetched embedding table */
    struct tr_view pos;     /* (T) i32  */
    struct tr_view targets; /* (scored) i32 */
    struct tr_view token;   /* (scored) i32 the target's token, ascending */
    struct tr_view score;   /* (T) i32  which of the targets is the token's; -1: none */
    struct tr_view offsets; /* (B+1) i32 attention segments */
    struct tr_view sample;  /* (T) i64  place in the epoch's global order, keys dropout */
    struct tr_view table;   /* (rows, H) embedding rows that index points into */
};

/* What the blocks of one micro-batch keep between forward and backward. All device memory. */
struct tr_saved {
    struct tr_view *x;     /* [blocks] (T, H) C input of block i; absent for the embedding */
    struct tr_view *ids;   /* [blocks] (T, K) i32 chosen experts; absent unless MoE */
    struct tr_carve *kept; /* [blocks] what each keeps beside its input; base NULL: nothing */
    struct tr_view dF;     /* (T, H) C from the head's forward, of tokens with a target */
    struct tr_view loss;   /* (1) f64 += sum of -log p over the targets */
    int slot;              /* which of the micro-batches in flight */
};

/* The caches of attention blocks in one call; NULL in a ctx: none. A call begins sequences (fresh:
 * attention is over its own tokens), or adds one token to each of some. */
struct tr_cache {
    const struct tr_view *rows; /* [blocks] (R, n) C: what a block keeps of a token; else absent */
    struct tr_view at;          /* (T) i32 the tokens' rows */
    struct tr_view first;       /* (B) i32 first row of each segment's sequence */
    struct tr_view len;         /* (B) i32 tokens of it, those of the call included */
    int64_t tokens;             /* rows of a sequence: no len is larger */
    bool fresh;
};

/* What the head says of each token with a target, in the type of sums. */
struct tr_scores {
    void *loss;   /* (scored) -log p of the target */
    void *target; /* (scored) the target's logit */
    void *most;   /* (scored) the largest logit: the target's when that is the model's choice */
};

/*
 * Everything a block's call may use. Errors stick: once rc is not FR_OK, the calls below do
 * nothing, so a block reads as the list of its ops. A dry run does everything but call ops and
 * gather: it measures the workspace, by the very code that uses it.
 */
struct tr_ctx {
    struct tr_backend *be;
    struct tr_queue *q;
    struct tr_shard *shard;
    struct tr_decoder *decoder;   /* NULL: weights are used as they lie in the shard */
    struct tr_exchange *exchange; /* NULL: every rank computes its own tokens */
    struct tr_carve work;         /* workspace; a block leaves used as it found it */
    enum tr_dtype compute;        /* C of ops.h: F32, BF16, F16; F64 in finite-difference checks */
    enum tr_dtype sum;            /* f32* of ops.h */
    struct tr_scratch scratch;    /* of a dry run: the most that the backend keeps for an op */
    struct tr_carve *kept;        /* of the block that runs; NULL: it keeps nothing */
    bool dry;
    struct tr_row_work *rows; /* of a rehearsal, added up; NULL: not wanted */
    bool rehearsed;           /* a dry run that gathers, from a shard that brings nothing */
    bool held;                /* what ops would compute is there */
    bool training;            /* dropout on, gradients wanted */
    bool replay;              /* saved->ids hold the routing to use */
    uint64_t seed;            /* of dropout */
    int64_t epoch;
    const struct tr_cache *cache; /* NULL: none */
    struct tr_scores *scores; /* host arrays that the head fills; NULL: none. Valid after a sync */
    double loss_scale;        /* gradient of one target: 1/N, times the scaler's scale */
    const struct tr_tokens *tokens;
    struct tr_view cosines;    /* (positions, dr/2) f32* rotary tables */
    struct tr_view sines;      /* (positions, dr/2) f32* */
    struct tr_weight *weights; /* [3E] host scratch of the MoE blocks, and pointers to them */
    const struct tr_weight **weight_at;
    struct fr_err *err;
    enum fr_rc rc;
};

/* Runs op with args unless an error stands; a dry run asks what the backend would keep for it. */
#define TR_RUN(ctx, op, args)                                                                      \
    ((ctx)->rc != FR_OK || (ctx)->held ? (void)0                                                   \
     : (ctx)->dry                      ? tr_ctx_scratch((ctx), TR_OP_##op, (args))                 \
                  : (void)((ctx)->rc = tr_##op((ctx)->be, (ctx)->q, (args), (ctx)->err)))

void tr_ctx_scratch(struct tr_ctx *ctx, enum tr_op op, const void *args);

/* Before either direction of block i. */
void tr_keep_block(struct tr_ctx *ctx, const struct tr_saved *saved, int i);

/* Between these, work is what the block keeps, if it keeps anything. again: the backward, for which
 * the forward has carved the same in the same order. */
void tr_keep(struct tr_ctx *ctx, bool again);
void tr_keep_end(struct tr_ctx *ctx);

void tr_ctx_gather(struct tr_ctx *ctx, int first, int n);
void tr_ctx_release(struct tr_ctx *ctx, int first, int n);

struct tr_block;

struct tr_block_ops {
    const char *name; /* "mla", "gqa", "mlp", "moe", "embed", "head" */
    /* y (T, H) = block(x), x = saved->x[b->index]; y is not x. The embedding has no x. The head has
     * no y: it adds to saved->loss and, when training, leaves the gradient of its normalised input
     * in saved->dF. */
    void (*forward)(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                    struct tr_view y);
    /* d (T, H): gradient of the output in, of the input out; untouched when need_dx is false, where
     * the block stops at its last adapter. NULL: the block has no backward. */
    void (*backward)(const struct tr_block *b, struct tr_ctx *ctx, struct tr_saved *saved,
                     struct tr_view d);
};

struct tr_block {
    const struct tr_block_ops *ops;
    char what[48];  /* "layer 3 moe", for messages */
    int index;      /* its place in the list */
    int64_t layer;  /* -1: none */
    int64_t cached; /* elements of a token that the block keeps in a cache; 0: none */
    int64_t routed; /* K of a MoE block, else 0: saved->ids[index] is (T, K) */
    bool has_lora;  /* an adapter inside */
    bool need_dx;   /* something below has an adapter */
};

#endif
