/*
 * A model: its blocks, frozen weights (sharded), adapters, and the buffers of a micro-batch. Made
 * in steps so that memory is known before any is taken:
 *
 *   tr_model_create   reads config and adapter rules: units, blocks, sizes. No large memory.
 *   tr_model_memory   the table of what tr_model_load will allocate on this rank.
 *   tr_model_keep     how much of it may hold what the backward would compute again.
 *   tr_model_prepack  how much of it may hold a second form of weights that products read.
 *   tr_model_load     allocates once and loads. Nothing is allocated after it.
 *
 * Then tr_model_forward_backward, as often as wanted; every rank the same number of times, also
 * with an empty micro-batch (T = 0).
 */
#ifndef TR_MODEL_MODEL_H
#define TR_MODEL_MODEL_H

#include "engine/base/err.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/comm.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/model/block.h"
#include "trainer/model/linear.h"
#include "trainer/shard/owners.h"
#include "trainer/shard/shard.h"
#include "trainer/tensor/safetensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_model;

struct tr_model_opts {
    struct tr_backend *be;                /* borrows */
    struct tr_comm *comm;                 /* borrows: the world */
    struct tr_comm *rest;                 /* borrows: the group that weights are sharded over, for
                                             the shard alone; NULL: the world */
    struct tr_comm *experts;              /* borrows: the group whose ranks own the routed experts
                                             among them, for the exchange alone; NULL: experts are
                                             sharded as the rest */
    const int32_t *expert_ranks;          /* (MoE layers, E) borrowed during create: their owners,
                                             each rank of the group at least one and at most
                                             ceil(E / ranks) of a layer; NULL: neighbours */
    int64_t exchange_rows;                /* tests: routed rows of a round at most; 0: default */
    const struct tr_model_config *config; /* copied */
    const struct tr_lora_config *lora;    /* borrowed during create; NULL: no adapters */
    enum tr_dtype compute;                /* F32, BF16, F16 (F64: ref backend) */
    bool partition;                       /* ZeRO stage 3 */
    enum tr_place place;
    struct tr_shard_limits limits;
    int64_t tokens_max;      /* T_max = B * cutoff_len */
    int64_t samples_max;     /* B */
    int64_t in_flight;       /* micro-batches held at once; 0: 1 */
    int64_t cache_sequences; /* generation: sequences with a cache; 0: none */
    int64_t cache_tokens;    /* tokens of each, at most */
    bool score;              /* tr_model_score will be called */
    int64_t head_rows; /* rows of the head that are gathered at once; 0: as the backend likes */
    bool train;        /* gradients wanted; false: forward only */
    bool logits;       /* tr_model_forward will hand out logits */
    bool apart;        /* sizes are for a device with memory of its own, whatever be has */
    bool offload;      /* inputs of blocks wait in pinned host memory for their backward */
    uint64_t seed;     /* keys dropout */
};

/* FR_UNSUPPORTED names op and type when the backend lacks one; FR_USAGE when tokens_max times the
 * experts of a token cannot be counted in i32. notes (may be NULL) gets warnings. */
enum fr_rc tr_model_create(const struct tr_model_opts *o, struct tr_model **out,
                           struct fr_buf *notes, struct fr_err *err);
void tr_model_destroy(struct tr_model *m);

/* One row of the memory table: bytes on this rank. */
struct tr_memory_row {
    const char *name; /* "base shard", "gather windows", "norms and routers", "activations", … */
    size_t bytes;
    bool host; /* in the host's memory, where the device has its own */
    bool own;  /* of the device, and taken by a library already */
};
enum { TR_MEMORY_ROWS = 19 };

/* Rows in printing order; returns how many. The last one is the sum ("total"). */
size_t tr_model_memory(const struct tr_model *m, struct tr_memory_row rows[TR_MEMORY_ROWS]);

/* Before tr_model_load: what blocks compute waits for their backward, that of the last blocks
 * first, as far as so many bytes go; the others compute it again. Losses and gradients are the same
 * to the bit. The last call counts. */
void tr_model_keep(struct tr_model *m, size_t bytes);
size_t tr_model_kept(const struct tr_model *m); /* bytes of it */

/* Before tr_model_load, as tr_shard_prepack. Losses and gradients are the same to the bit. */
size_t tr_model_prepack(struct tr_model *m, size_t bytes);

/* What n training micro-batches in a row, the first of a run first, need of gathers and of ops that
 * are no products. */
struct tr_rehearsal {
    double *gathered; /* [n] bytes of whole weights */
    int n;
    struct tr_row_work rows; /* of one micro-batch with tokens_max tokens */
};

/* In place of tr_model_load, once. Takes no memory of weights and calls no communicator: nothing
 * but tr_model_destroy may follow. */
enum fr_rc tr_model_rehearse(struct tr_model *m, struct tr_rehearsal *r, struct fr_err *err);

/* As tr_shard_lacks. */
void tr_model_lacks(const struct tr_model *m, const struct tr_st *st, unsigned char *files);

enum fr_rc tr_model_load(struct tr_model *m, const struct tr_st *st,
                         const struct tr_shard_tell *tell, struct fr_err *err);

/* As tr_model_load, weights from memory (tests). */
enum fr_rc tr_model_fill(struct tr_model *m, const struct tr_shard_source *src, struct fr_err *err);

/* ---- adapters ---- */

/*
 * All adapters lie in one flat order: module by module in the order of the forward pass, A before
 * B, each tensor at a multiple of 64 elements; gaps are zero and stay zero. `padded` is a multiple
 * of 64*W, so that W equal slices of whole 64s exist: slice k is rank k's share of masters, m and
 * v.
 */
struct tr_params {
    const struct tr_adapter *adapters;
    size_t n;
    int64_t elements;    /* trainable parameters, without gaps */
    int64_t padded;      /* elements of the flat buffers */
    struct tr_view work; /* (padded) compute type: what the blocks read; absent before load */
    struct tr_view grad; /* (padded) f32, += by tr_model_forward_backward; the caller zeroes it */
};
void tr_model_params(const struct tr_model *m, struct tr_params *out);

/* ---- one micro-batch ---- */

/* Host arrays, read before the call returns. */
struct tr_micro {
    int64_t T, B;           /* T = 0 takes part in the collectives and changes nothing */
    const int32_t *ids;     /* (T) */
    const int32_t *pos;     /* (T) restarts at 0 in each sample; in generation goes on */
    const int32_t *targets; /* (T) < 0: none; NULL: no loss */
    const int64_t *offsets; /* (B+1) attention segments: first token of each, last is T */
    const int64_t *place;   /* (B) sample's place in the epoch's global order; NULL: 0.. */
    int64_t epoch;
    const int32_t *const *forced; /* [MoE layers] (T, K) experts to use; NULL: the router chooses */
    double loss_scale; /* 1/N (N: targets of the whole step, all ranks), times any scaler's */
    int slot;          /* which of in_flight; 0 */
};

/* Forward and backward; adapters' gradients += loss_scale * d(sum of -log p). */
enum fr_rc tr_model_forward_backward(struct tr_model *m, const struct tr_micro *mb,
                                     struct fr_err *err);

/* The sum of -log p over all targets since the last call, in f64, and starts again at 0. Waits for
 * the device and reports its errors. */
enum fr_rc tr_model_take_loss(struct tr_model *m, double *sum, struct fr_err *err);

/* Forward without dropout: for each token with a target -log p of it into loss (T), and into hit
 * (T) whether no logit is larger than the target's. Other tokens get 0. Host arrays. Sets the sum
 * of tr_model_take_loss to 0. Waits for the device and reports its errors. */
struct tr_token_scores {
    double *loss;
    bool *hit;
};
enum fr_rc tr_model_score(struct tr_model *m, const struct tr_micro *mb,
                          const struct tr_token_scores *out, struct fr_err *err);

/* Forward without dropout. logits are handed out in column chunks: logits (T, ncols) f32 host
 * memory, row-major, columns [col0, col0+ncols). logits may be NULL. Adds to the loss. */
struct tr_logits {
    enum fr_rc (*chunk)(void *arg, const float *logits, int64_t col0, int64_t ncols,
                        struct fr_err *err);
    void *arg;
};
enum fr_rc tr_model_forward(struct tr_model *m, const struct tr_micro *mb,
                            const struct tr_logits *logits, struct fr_err *err);

/*
 * Generation, one forward through the caches: segment b of mb is the next tokens of sequence
 * sequence[b], of which past[b] tokens are cached; pos goes on from there. Either all of past are
 * 0, or each segment is one token. Logits after each segment's last token: (B, V) f32, host. Every
 * rank makes the same number of calls, also with T = 0. Waits for the device.
 */
struct tr_next {
    const int32_t *sequence; /* (B) below cache_sequences, each once */
    const int64_t *past;     /* (B) */
    float *logits;           /* (B, V) out */
};
enum fr_rc tr_model_next(struct tr_model *m, const struct tr_micro *mb, const struct tr_next *d,
                         struct fr_err *err);

/* The experts that the last call chose in MoE layer i (0-based among MoE layers): ids (T, K) i32,
 * ascending in each row. */
enum fr_rc tr_model_routing(struct tr_model *m, int64_t i, int slot, int32_t *ids,
                            struct fr_err *err);
int64_t tr_model_moe_layers(const struct tr_model *m);

/* Where experts stay: the owners of MoE layer i, and (MoE layers, E) the rows that this rank's
 * tokens have given each expert in training so far. */
const struct tr_owners *tr_model_owners(const struct tr_model *m, int64_t i);
const int64_t *tr_model_expert_rows(const struct tr_model *m);
int tr_model_exchange_rounds(const struct tr_model *m); /* the most of a layer so far */

/* What this rank has moved so far beside gathers and adapters. */
struct tr_model_moved {
    struct tr_exchange_routes routes;   /* rows of tokens in training, where experts stay */
    size_t rows_bytes[TR_LINK_CLASSES]; /* payload of embedding rows */
};
void tr_model_moved(const struct tr_model *m, struct tr_model_moved *out);

/* The queue that the model's ops run on. */
struct tr_queue *tr_model_queue(struct tr_model *m);

#endif
