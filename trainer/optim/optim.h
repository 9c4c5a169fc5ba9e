/*
 * AdamW over the adapters, partitioned over the ranks: each owns one of W equal slices of the flat
 * order (model.h, tr_params) as f32 masters, m and v. Gradients are f32 on every rank during
 * accumulation; once a step they are reduce-scattered in rank order, clipped by the global norm,
 * applied, and the new working copies gathered. Of trained weights each rank has the ranges that
 * grads.h gives it, in the same way; squares of most of their sums are found during the backward.
 *
 * Where grads.h has sums in the host's memory, masters and moments of trained weights are there as
 * well. The host looks at the sums that the device did not look at, and steps over all with the
 * bits of the device's AdamW, a tile at a time, and the device fetches the weights of one tile
 * beside the step of the next. With a disk masters and moments are in its file (disk.h), and a tile
 * comes from there and goes back.
 *
 * With blocks (tr_model_opts.state_block) the moments of trained weights are codes of 8 bits, but
 * those of tensors with fewer than TR_CODED_LEAST elements and of the embedding, which stay f32. A
 * block is elements of one tensor and belongs to one rank, so states are the same bits on any
 * number of ranks.
 * Source: transformers, Trainer.create_optimizer (bitsandbytes with 8 bits).
 *
 * With tr_model_opts.muon matrices of trained weights but embedding and head are updated by Muon: m
 * is their momentum, and there is no v. Each rank steps the momentum of its ranges; W matrices at a
 * time then come whole to one rank each, which orthogonalises (newton.h), and go back over the sums
 * of gradients. Updates have the same bits for every number of ranks and stage. With the host's
 * side, momenta and masters come to the device for it, with a disk from there. Others are updated
 * by AdamW.
 * Source: Jordan et al. 2024 (see newton.h); LLaMA-Factory, third_party/muon; DeepSpeed 0.19.8,
 * runtime/zero/muon.
 *
 * Weights decay as the reference's groups have it: no norm and no bias. With LoRA+ norms do, and
 * tensors of one dimension have B's rate. With Muon all weights decay.
 * Source: transformers, Trainer.get_decay_parameter_names; LLaMA-Factory,
 * _create_loraplus_optimizer.
 */
#ifndef TR_OPTIM_OPTIM_H
#define TR_OPTIM_OPTIM_H

#include "engine/base/arena.h"
#include "trainer/model/model.h"

#include <stdbool.h>
#include <stdint.h>

/* With g the clipped gradient: m = momentum m + fresh g, u = orthogonal(fresh g + momentum m), and
 * p = p - lr wd p - lr shape u. */
struct tr_muon {
    bool gram;       /* newton.h */
    bool by_width;   /* shape is 0.2 sqrt(max(rows, cols)), else sqrt(max(1, rows/cols)) */
    bool norm_after; /* the norm, and so clipping, is of updates of matrices, not of gradients */
    bool eps_raw;    /* AdamW of the others adds eps to the root of v as it is */
    double momentum, fresh;
    double lr, adam_lr; /* of matrices and of the others, over the step's rate */
};

/* Whether Muon updates the tensor of this name and rank. */
bool tr_muon_takes(const char *name, int rank);

/* Bytes of a step with Muon: matrices on their way to who orthogonalises them, and back; of all
 * ranks, to themselves, to others of their node and to other nodes. Then the most that one rank
 * gets from others of its node, and that one node sends to others; operations of the busiest rank.
 */
struct tr_muon_moves {
    double self, node, far;
    double rank_near, node_far, rank_flops;
};
/* comm: the ranks of g, of which sizes and nodes are read. */
enum fr_rc tr_muon_moves(const struct tr_grads *g, const struct tr_comm *comm, bool gram,
                         struct tr_muon_moves *out, struct fr_err *err);

struct tr_optim {
    struct tr_model *model; /* borrows */
    struct tr_backend *be;
    struct tr_comm *comm;  /* borrows: data calls, on q */
    struct tr_comm *world; /* borrows: the control plane */
    struct tr_queue *q;    /* borrows: the model's compute queue */
    struct tr_params params;
    int64_t n;                         /* elements of a slice */
    struct tr_view master, m, v, grad; /* (n) f32 device, owns */
    struct tr_view spread;  /* (W, n) f32 device: receives an all-to-all; also for whole states */
    struct tr_grads *grads; /* borrows: of trained weights; NULL: none */
    struct tr_optim_weights {
        /* Owned: of the device, or pinned memory of the host; absent with a disk. */
        struct tr_view master;           /* (flat) f32, in the order of grads.h */
        bool are_masters;                /* all weights are f32, on the device: no master */
        struct tr_view m, v;             /* f32, of ranges without codes */
        struct tr_view m_codes, v_codes; /* u8, of the others */
        struct tr_view m_max, v_max;     /* f32, of their blocks */
    } weights;
    struct tr_optim_place {
        int64_t at, v_at;    /* where a range's m and v begin in theirs */
        bool coded, matrix;  /* matrix: it has no v */
    } * places;              /* owns: of each range */
    struct tr_muon muon;     /* the rule; set before the first step */
    struct optim_muon *room; /* owns: what Muon works in; NULL: AdamW alone */
    struct tr_optim_host {
        struct tr_backend *be;    /* borrows: NULL: all is on the device */
        struct tr_queue *q;       /* of be, owns */
        struct tr_disk *disk;     /* borrows: NULL: states are in memory */
        int64_t tile;             /* elements */
        char *tiles[2];           /* pinned, owns: weights on their way to the device, in turn */
        struct tr_event *sent[2]; /* they were copied */
    } host;
    struct tr_view found;                         /* (1) i64 non-finite gradients of the slice */
    struct tr_view sumsq;                         /* (TR_EXACT_LIMBS) i64 */
    int64_t steps;                                /* updates applied */
    double beta1, beta2, eps, weight_decay, clip; /* clip <= 0: off */
    double b_ratio; /* learning rate of B over that of A (LoRA+, Hayou et al. 2024); 0: 1 */
    struct fr_arena arena;
    struct tr_grads_range *ranges; /* tr_optim_ranges, where both weights and adapters train */
    size_t nranges;
};

/* What tr_optim_create allocates, in bytes on this rank. matrices: of the device, room for one that
 * Muon orthogonalises; scratch: of the device, workspace of its products that is taken when they
 * run; host: pinned memory of the host; disk: of the file, which is there before; again: of these,
 * what a step reads and writes twice, at least. */
struct tr_optim_bytes {
    size_t device, matrices, scratch, host, disk, again;
};
void tr_optim_bytes(const struct tr_model *model, int world, struct tr_optim_bytes *out);

#define TR_MUON_ROW "matrices of Muon" /* of matrices and scratch, in tables of memory */

struct tr_disk_shape;
/* Of the states on a disk; borrows g. */
void tr_optim_disk_shape(const struct tr_grads *g, struct tr_disk_shape *out);

/* Bytes of moments of a rank's trained weights, and of masters that are not the weights, in memory.
 */
size_t tr_optim_states(const struct tr_grads *g);

/* comm: for the optimizer's data calls alone; a group of all ranks if the model gathers weights
 * over the world. */
enum fr_rc tr_optim_create(struct tr_optim *o, struct tr_model *model, struct tr_comm *comm,
                           struct tr_backend *be, struct fr_err *err);
void tr_optim_finish(struct tr_optim *o);

/* Masters of the trained weights, which are loaded: their values, where the weights are not the
 * masters. With a disk that is done by the first step. */
enum fr_rc tr_optim_begin(struct tr_optim *o, struct fr_err *err);

/* After masters were set by tr_optim_write: weights and adapters, on every rank. */
enum fr_rc tr_optim_round(struct tr_optim *o, struct fr_err *err);

/* Whether weight decay applies to the tensor of this name in a checkpoint. */
bool tr_optim_decays(const char *name);

/* Start values: the whole flat order in f32 host memory (padded elements), the same on every rank.
 * They are rounded to the compute type once; masters start from the rounded values. */
enum fr_rc tr_optim_set(struct tr_optim *o, const float *flat, struct fr_err *err);

/* A drawn at uniform(-1/sqrt(in), 1/sqrt(in)) from (seed, module, index), B zero. */
void tr_optim_draw(const struct tr_params *p, uint64_t seed, float *flat);

enum fr_rc tr_optim_zero_grad(struct tr_optim *o, struct fr_err *err);

struct tr_optim_result {
    double grad_norm; /* global, unscaled, before clipping; NaN when a gradient is not finite */
    bool skipped;     /* gradients were not finite: nothing changed */
    char where[128];  /* then, of trained weights: the tensor that tr_grads_blame names; else "" */
};

/* Reduces, clips, updates. scale: the loss scaler's factor in the gradients. */
enum fr_rc tr_optim_step(struct tr_optim *o, double lr, double scale, struct tr_optim_result *out,
                         struct fr_err *err);

/* The last two have one value a block, and exist for coded m and v alone. */
enum tr_optim_what { TR_OPTIM_MASTER, TR_OPTIM_M, TR_OPTIM_V, TR_OPTIM_M_MAX, TR_OPTIM_V_MAX };
enum { TR_OPTIM_WHATS = TR_OPTIM_V_MAX + 1 };

/* All that this rank updates, where weights train: their ranges, as grads.h has them, then those of
 * the adapters beside them, "MODULE.lora_A.weight" and B, which lie at tr_grads_flat and behind.
 * Their `weight` is absent. */
const struct tr_grads_range *tr_optim_ranges(const struct tr_optim *o, size_t *n);

/* The type of a state of a range; TR_NONE: it has none. */
enum tr_dtype tr_optim_type(const struct tr_optim *o, size_t range, enum tr_optim_what what);
/* Elements of a value, but in a last block; the values of n elements. */
int64_t tr_optim_block(enum tr_optim_what what);
int64_t tr_optim_values(enum tr_optim_what what, int64_t n);

/* Elements [at, at+n) of a state of trained weights, in the order of tr_optim_ranges; but masters
 * within one range. Of coded states and of a block's values `at` is where a block begins, and n
 * ends with one or with the range. */
struct tr_optim_part {
    enum tr_optim_what what;
    int64_t at, n;
};
/* Copies their values to memory of any kind; waits. */
enum fr_rc tr_optim_read(struct tr_optim *o, const struct tr_optim_part *p, void *to,
                         struct fr_err *err);
/* Sets them to `from`: values of their type in memory of any kind, or masters as other floats of
 * the device; waits.
 * With a disk the first call before the first step zeroes all states: who sets one master sets
 * all. */
enum fr_rc tr_optim_write(struct tr_optim *o, const struct tr_optim_part *p, struct tr_view from,
                          struct fr_err *err);

/* Gathers one of the states whole into host memory (padded elements of f32); every rank calls it.
 */
enum fr_rc tr_optim_whole(struct tr_optim *o, enum tr_optim_what what, float *flat,
                          struct fr_err *err);
/* The root's copy of a whole state, in host memory, to every rank. */
enum fr_rc tr_optim_share(struct tr_optim *o, int root_rank, float *flat, struct fr_err *err);
/* Sets this rank's slice from a whole state; with the masters, the working copies as well. */
enum fr_rc tr_optim_load(struct tr_optim *o, enum tr_optim_what what, const float *flat,
                         struct fr_err *err);

#endif
