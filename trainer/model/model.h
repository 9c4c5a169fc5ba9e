/*
 * A model: its blocks, frozen weights (sharded), adapters, and the buffers of a micro-batch. Made
 * in steps so that memory is known before any is taken:
 *
 *   tr_model_create   makes units, blocks and sizes from config and adapter rules. No large memory.
 *   tr_model_memory   the table of what tr_model_load will allocate on this rank.
 *   tr_model_keep     sets the bytes for values that the backward need not compute again.
 *   tr_model_prepack  sets the bytes for packed weights, a second form that products read.
 *   tr_model_load     allocates once and loads. Nothing is allocated afterwards.
 *
 * Then call tr_model_forward_backward any number of times. All ranks make the same number of calls,
 * if need be with an empty micro-batch (T = 0).
 */
#ifndef TR_MODEL_MODEL_H
#define TR_MODEL_MODEL_H

#include "engine/base/err.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/comm.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/config/trained.h"
#include "trainer/model/block.h"
#include "trainer/model/linear.h"
#include "trainer/shard/grads.h"
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
    const int32_t *expert_ranks;          /* (MoE layers, E) borrowed during create: the rank
                                             of the group that owns each expert. Of a layer a
                                             rank owns 1 … ceil(E / ranks); NULL: neighbours */
    int64_t exchange_rows;                /* tests: routed rows of a round at most; 0: default */
    const struct tr_model_config *config; /* copied */
    const struct tr_lora_config *lora;    /* borrowed during create; NULL: no adapters */
    const struct tr_trained *trained;     /* borrows: weights that train; NULL: none */
    struct tr_comm *reduce;               /* borrows: the world once more, for gradients of weights
                                             alone; NULL: no weight trains, or there is one rank */
    struct tr_comm *beside;               /* borrows: the world once more, as of tr_grads_opts */
    struct tr_grads_host host;            /* be: borrows; sums of gradients and states of weights
                                             that train are in the host's memory */
    enum tr_dtype compute;                /* F32, BF16, F16 (F64: ref backend) */
    enum tr_dtype wire;                   /* of gradients of weights, as of tr_grads_opts */
    bool once;                            /* as of tr_grads_opts */
    bool partition;                       /* ZeRO stage 3 */
    enum tr_place place;
    struct tr_shard_limits limits;
    int64_t tokens_max;      /* T_max = B * cutoff_len */
    int64_t samples_max;     /* B */
    int64_t in_flight;       /* micro-batches held at once; 0: 1 */
    int64_t cache_sequences; /* generation: sequences with a cache; 0: none */
    int64_t cache_tokens;    /* tokens of each, at most */
    bool score;              /* allows tr_model_score */
    int64_t head_rows;       /* rows of the head in one gather; 0: chosen for the backend */
    int64_t state_block;     /* elements of a trained tensor whose optimizer states are coded
                                together (coded.h); 0: states are f32 */
    bool muon;               /* matrices that train have a momentum alone, and are updated whole
                                (optim.h) */
    bool train;              /* gradients wanted; false: forward only */
    bool logits;             /* allows logits of tr_model_forward */
    bool apart;              /* sizes for a device with memory of its own, whatever be has */
    bool offload;            /* keep inputs of blocks in pinned host memory until the backward */
    uint64_t seed;           /* keys dropout */
};

/* FR_UNSUPPORTED: the backend lacks an op for the type; the message names both. FR_USAGE:
 * tokens_max times the experts of a token exceeds i32. Warnings are added to notes, which may be
 * NULL. */
enum fr_rc tr_model_create(const struct tr_model_opts *o, struct tr_model **out,
                           struct fr_buf *notes, struct fr_err *err);
void tr_model_destroy(struct tr_model *m);

/* One row of the memory table: bytes on this rank. */
struct tr_memory_row {
    const char *name; /* "base shard", "gather windows", "norms and routers", "activations", … */
    size_t bytes;
    bool host; /* in the host's memory, if the device has its own */
    bool own;  /* of the device, and allocated by a library already */
};
enum { TR_MEMORY_ROWS = 22 };

/* Fills rows in printing order and returns their number. The last row is the sum ("total"). */
size_t tr_model_memory(const struct tr_model *m, struct tr_memory_row rows[TR_MEMORY_ROWS]);

/* Call before tr_model_load. The last blocks keep their intermediate values for the backward, as
 * many blocks as fit into `bytes`; the others compute them again. Losses and gradients are the same
 * to the bit. The last call wins. */
void tr_model_keep(struct tr_model *m, size_t bytes);
size_t tr_model_kept(const struct tr_model *m); /* bytes of kept values */

/* As tr_shard_prepack; call before tr_model_load. Losses and gradients are the same to the bit. */
size_t tr_model_prepack(struct tr_model *m, size_t bytes);

/* Gathers and ops other than products of the first n training micro-batches of a run. */
struct tr_rehearsal {
    double *gathered; /* [n] bytes of whole weights */
    int n;
    int step;                /* micro-batches between two changes of trained weights; 0: none */
    struct tr_row_work rows; /* of one micro-batch with tokens_max tokens */
};

/* Call once, in place of tr_model_load. Allocates no weights and calls no communicator. Only
 * tr_model_destroy may follow. */
enum fr_rc tr_model_rehearse(struct tr_model *m, struct tr_rehearsal *r, struct fr_err *err);

/* As tr_shard_lacks. */
void tr_model_lacks(const struct tr_model *m, const struct tr_st *st, unsigned char *files);

/* Allocates all memory of the model and reads its weights from st. Every rank calls it. tell: as in
 * tr_shard_load. */
enum fr_rc tr_model_load(struct tr_model *m, const struct tr_st *st,
                         const struct tr_shard_tell *tell, struct fr_err *err);

/* As tr_model_load, with weights from memory (tests). */
enum fr_rc tr_model_fill(struct tr_model *m, const struct tr_shard_source *src, struct fr_err *err);

/* ---- adapters ---- */

/*
 * All adapters have one flat order: module by module in the order of the forward pass, A before B,
 * each tensor at a multiple of 64 elements; gaps are zero and stay zero. `padded` is a multiple of
 * 64*W. It splits into W equal slices of whole 64s; slice k is rank k's share of masters, m and v.
 */
struct tr_params {
    const struct tr_adapter *adapters;
    size_t n;
    int64_t elements;    /* number of trainable parameters, without gaps */
    int64_t padded;      /* elements of the flat buffers */
    struct tr_view work; /* (padded) compute type, read by the blocks; absent before load */
    struct tr_view grad; /* (padded) f32, += by tr_model_forward_backward; the caller zeroes it */
};
void tr_model_params(const struct tr_model *m, struct tr_params *out);

/* Trained weights: their gradients, sums and ranges; NULL: no weight trains. Owned by the model. */
struct tr_grads *tr_model_grads(const struct tr_model *m);

/* ---- one micro-batch ---- */

/* Host arrays, read before the call returns. */
struct tr_micro {
    int64_t T, B;           /* T = 0: takes part in the collectives and changes nothing */
    const int32_t *ids;     /* (T) */
    const int32_t *pos;     /* (T) from 0 in each sample; in generation from past[b] */
    const int32_t *targets; /* (T) < 0: none; NULL: no loss */
    const int64_t *offsets; /* (B+1) attention segments: first token of each, last is T */
    const int64_t *place;   /* (B) sample's place in the epoch's global order; NULL: 0.. */
    int64_t epoch;
    const int32_t *const *forced; /* [MoE layers] (T, K) experts to use; NULL: the router chooses */
    double loss_scale; /* 1/N (N: targets of the whole step, all ranks), times the loss scale */
    int slot;          /* 0 … in_flight - 1: buffers of this micro-batch */
    bool last;         /* of its step: sums of trained weights are whole behind it (grads.h) */
};

/* Forward and backward; adapters' gradients += loss_scale * d(sum of -log p). */
enum fr_rc tr_model_forward_backward(struct tr_model *m, const struct tr_micro *mb,
                                     struct fr_err *err);

/* Sets *sum to the sum of -log p over all targets since the last call, in f64. Waits for the device
 * and reports its errors. */
enum fr_rc tr_model_take_loss(struct tr_model *m, double *sum, struct fr_err *err);

/* Forward without dropout. For each token with a target, loss (T) is its -log p, and hit (T)
 * whether no logit exceeds the target's. Other tokens get 0. Host arrays. Resets the sum of
 * tr_model_take_loss. Waits for the device and reports its errors. */
struct tr_token_scores {
    double *loss;
    bool *hit;
};
enum fr_rc tr_model_score(struct tr_model *m, const struct tr_micro *mb,
                          const struct tr_token_scores *out, struct fr_err *err);

/* Forward without dropout. Calls chunk for each range of columns [col0, col0+ncols), with logits
 * (T, ncols) in f32 host memory, row-major. logits may be NULL. Adds to the loss. */
struct tr_logits {
    enum fr_rc (*chunk)(void *arg, const float *logits, int64_t col0, int64_t ncols,
                        struct fr_err *err);
    void *arg;
};
enum fr_rc tr_model_forward(struct tr_model *m, const struct tr_micro *mb,
                            const struct tr_logits *logits, struct fr_err *err);

/*
 * Generation: one forward through the caches. Segment b of mb holds the next tokens of sequence
 * sequence[b], which has past[b] cached tokens; pos continues from past[b]. Either all of past are
 * 0, or each segment is one token. logits receives those after each segment's last token. All ranks
 * make the same number of calls, if need be with T = 0. Waits for the device.
 */
struct tr_next {
    const int32_t *sequence; /* (B) below cache_sequences, each once */
    const int64_t *past;     /* (B) */
    float *logits;           /* (B, V) f32 host, out */
};
enum fr_rc tr_model_next(struct tr_model *m, const struct tr_micro *mb, const struct tr_next *d,
                         struct fr_err *err);

/* Copies the experts that the last call of the slot chose in MoE layer i, counted from 0 among MoE
 * layers: ids (T, K) i32, ascending in each row. */
enum fr_rc tr_model_routing(struct tr_model *m, int64_t i, int slot, int32_t *ids,
                            struct fr_err *err);
int64_t tr_model_moe_layers(const struct tr_model *m);

/* With an exchange: the owners of MoE layer i; and (MoE layers, E) the rows that this rank has sent
 * to each expert in training so far. */
const struct tr_owners *tr_model_owners(const struct tr_model *m, int64_t i);
const int64_t *tr_model_expert_rows(const struct tr_model *m);
int tr_model_exchange_rounds(
    const struct tr_model *m); /* most rounds of a layer's exchange so far */

/* Data that this rank has moved so far, other than gathers and adapters. */
struct tr_model_moved {
    struct tr_exchange_routes routes;   /* rows of tokens in training, with an exchange */
    size_t rows_bytes[TR_LINK_CLASSES]; /* payload of embedding rows */
};
void tr_model_moved(const struct tr_model *m, struct tr_model_moved *out);

/* The queue of the model's ops, their backend, and what they take of the queue's workspace. */
struct tr_queue *tr_model_queue(struct tr_model *m);
struct tr_backend *tr_model_backend(const struct tr_model *m);
const struct tr_scratch *tr_model_scratch(const struct tr_model *m);

#endif
