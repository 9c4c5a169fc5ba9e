/* Private to trainer/model: the structs shared by its files. */
#ifndef TR_MODEL_PRIVATE_H
#define TR_MODEL_PRIVATE_H

#include "engine/base/arena.h"
#include "trainer/model/blocks.h"
#include "trainer/model/model.h"

/* Recorded orders of gathers. */
enum pass { PASS_TRAIN, PASS_LOSS, PASS_LOGITS, PASS_BOTH };

/* One micro-batch in flight. Views of full have T_max rows; cut has their first T rows. */
struct slot {
    struct tr_saved full, cut;
    struct tr_tokens tokens; /* full */
    int64_t T;               /* of the last call */
};

enum { TR_OFFLOAD_RING = 3 };

/* Offloading of block inputs to pinned host memory; zero without. */
struct offload {
    struct tr_queue *q;                      /* copies out and in */
    struct tr_event *turn;                   /* the compute queue has reached the point of a copy */
    struct tr_event *moved[TR_OFFLOAD_RING]; /* the last copy of each buffer is done */
    char *host;                              /* pinned */
};

struct tr_model {
    struct fr_arena arena; /* of the arrays below that say so */
    struct tr_model_opts o;
    struct tr_model_config config;
    struct tr_shard *shard;
    struct tr_decoder *decoder;   /* owns: of FP8 weights; NULL: none */
    struct tr_exchange *exchange; /* owns; NULL: none */
    struct tr_grads *grads;       /* owns; NULL: no weight is trained */
    bool embed_trained, head_trained;
    struct tr_owners *owners; /* arena, with exchange: of each MoE layer */
    int32_t *owner_table;     /* arena: (MoE layers, 2, E) backing store of owners */
    int64_t *expert_rows;     /* arena: (MoE layers, E) */
    struct tr_queue *q;
    struct tr_block **blocks; /* arena; owns each block */
    int nblocks, lowest;      /* lowest: first block that trains; nblocks: none */
    int embed_unit, embed_units;
    int64_t head_rows;           /* of the largest chunk of the head */
    struct tr_adapter *adapters; /* arena */
    size_t nadapters;
    int64_t elements, padded;
    int64_t moe_layers;
    struct tr_scratch scratch; /* of the backend's queue, outside the workspace */
    struct tr_view *cache;     /* arena: [nblocks], absent without one */
    struct tr_view cache_at, cache_first, cache_len, cache_last; /* (T) (B) (B) (B) i32 */
    size_t cache_bytes;
    size_t *keep; /* arena: [nblocks] bytes of kept values of a micro-batch; 0: none */
    size_t work_bytes, slot_bytes, kept_bytes, table_bytes, adapter_bytes, buffer_bytes;
    char *buffer;              /* the one allocation of all device memory above */
    struct tr_view work, grad; /* flat adapters */
    struct tr_view cosines, sines, d;
    struct slot *slots; /* arena, in_flight */
    char *work_base;
    struct tr_weight *weights; /* arena, [3E] */
    const struct tr_weight **weight_at;
    const struct tr_view **grad_at; /* arena, [E] */
    struct offload offload;
    char *host;               /* owns: staging of two micro-batches in turn */
    size_t host_bytes;        /* of both */
    struct tr_event *sent[2]; /* the copies from each half are done */
    unsigned sends;
};

/* assemble.c: units, adapters and blocks of a model. */
enum fr_rc tr_model_assemble(struct tr_model *m, const struct tr_lora_config *lora,
                             struct fr_buf *notes, struct fr_err *err);

/* adapters.c. plan checks the LoRA rules against all names and allocates the adapters. take returns
 * the adapter of a linear; *out NULL: it has none. */
enum fr_rc tr_adapters_plan(struct tr_model *m, const struct tr_lora_config *lora,
                            struct fr_buf *notes, struct fr_err *err);
enum fr_rc tr_adapters_take(struct tr_model *m, const struct tr_lora_config *lora,
                            const struct tr_model_tensor *t, const struct tr_adapter **out,
                            struct fr_err *err);
void tr_adapters_place(struct tr_model *m); /* views into work and grad */

/* layout.c: measures sizes by a dry run of every block, and cuts all views from one allocation. */
enum fr_rc tr_model_measure(struct tr_model *m, struct fr_err *err);
enum fr_rc tr_model_alloc(struct tr_model *m, struct fr_err *err);

/* offload.c. make and made: before and after the forward writes input i. need and used: before and
 * after the backward of block i reads it. No effect without offloading. */
size_t tr_offload_bytes(const struct tr_model *m); /* of the host */
enum fr_rc tr_offload_create(struct tr_model *m, struct fr_err *err);
void tr_offload_destroy(struct tr_model *m);
void tr_offload_make(struct tr_model *m, struct tr_ctx *ctx, int i);
void tr_offload_made(struct tr_model *m, struct tr_ctx *ctx, const struct tr_saved *s, int i);
void tr_offload_need(struct tr_model *m, struct tr_ctx *ctx, int i);
void tr_offload_used(struct tr_model *m, struct tr_ctx *ctx, const struct tr_saved *s, int i);

/* The type of sums: gradients of adapters among them. */
static inline enum tr_dtype tr_model_sum(const struct tr_model *m)
{
    return m->o.compute == TR_F64 ? TR_F64 : TR_F32;
}

/* Rows of the rotary tables; every position is less. */
static inline int64_t tr_model_positions(const struct tr_model *m)
{
    return m->o.tokens_max > m->o.cache_tokens ? m->o.tokens_max : m->o.cache_tokens;
}

/* experts.c: the exchange and the table of owners, with o.experts. */
enum fr_rc tr_experts_create(struct tr_model *m, struct fr_err *err);
/* Whether this rank computes routed expert e of the MoE layer under assembly. */
bool tr_experts_here(const struct tr_model *m, int64_t e);

/* model.c */
struct tr_ctx tr_model_ctx(struct tr_model *m, struct fr_err *err);

#endif
