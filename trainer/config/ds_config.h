/*
 * A DeepSpeed JSON configuration, read and validated as DeepSpeed does. Every known key is in a
 * table (ds_keys.c, ds_zero.c): it works, has no effect, or is refused. Unknown keys of a block are
 * errors. An unknown key at the top is an error if it resembles a known key; if not, it is ignored
 * with a note. "auto" takes the value of the trainer's flag; other values must equal the flag.
 * Source: deepspeed.ai/docs/config-json and transformers' DeepSpeed integration page.
 */
#ifndef TR_CONFIG_DS_CONFIG_H
#define TR_CONFIG_DS_CONFIG_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/config/args.h"
#include "trainer/tensor/tensor.h"

#include <stdbool.h>
#include <stdint.h>

enum tr_offload { TR_OFFLOAD_NONE, TR_OFFLOAD_CPU, TR_OFFLOAD_NVME };
enum tr_precision { TR_PRECISION_FP32, TR_PRECISION_BF16, TR_PRECISION_FP16 };
enum tr_dtype tr_precision_type(enum tr_precision p);

enum tr_ds_lr { TR_DS_LR_NONE, TR_DS_LR_WARMUP, TR_DS_LR_WARMUP_DECAY, TR_DS_LR_WARMUP_COSINE };

/* The ranks that share the routed experts; ANY: expert_ranks of them. */
enum tr_expert_group { TR_EXPERTS_ANY, TR_EXPERTS_NODE, TR_EXPERTS_WORLD };

enum { TR_DS_PATH = 512 };

/* The resolved configuration. Sizes that limit parameters are counts of elements. */
struct tr_ds_config {
    int64_t train_batch_size, micro_batch,
        accumulation;                /* the first is the product of the others and the world */
    double gradient_clipping;        /* <= 0: off */
    int64_t steps_per_print;         /* 0: never */
    enum tr_precision communication; /* wire type of gradients of weights; absent: f32, whatever
                                        the precision */

    int stage;          /* 0..3 */
    bool overlap_comm;  /* absent: at stage 3 */
    bool overlap_asked; /* the file has it as true */
    bool round_robin_gradients;
    int64_t reduce_bucket_size, allgather_bucket_size, sub_group_size;
    int64_t prefetch_bucket_size;  /* stage3_prefetch_bucket_size */
    bool prefetch_auto;            /* the file says "auto": at least the largest gather */
    int64_t persistence_threshold; /* stage3_param_persistence_threshold, elements of one tensor */
    int64_t model_persistence_threshold;
    int64_t max_live_parameters, max_reuse_distance;
    bool gather_16bit_on_save; /* false: stage 3 saves no model of trained weights; absent: true */
    int64_t hpz_partition_size;
    bool quantized_weights, quantized_gradients,
        quantized_nontrainable; /* weights and gradients are sent exactly */

    enum tr_offload offload_param, offload_optimizer;
    char offload_param_path[TR_DS_PATH], offload_optimizer_path[TR_DS_PATH];
    bool offload_param_pin, offload_optimizer_pin;
    int64_t offload_tiles;          /* buffer_count of offload_optimizer; 0: absent */
    int64_t aio_threads, aio_block; /* thread_count, block_size; 0: absent */
    bool offload_waits;             /* pipeline_read or pipeline_write is false */
    bool offload_asks;              /* one of these, or fast_init, is true */
    bool cpu_checkpointing;

    bool experts_stay;    /* ranks own routed experts and tokens move: a block is enabled
                             and names the ranks */
    int64_t expert_ranks; /* ranks of a group; 0: expert_group decides */
    enum tr_expert_group expert_group;
    char expert_placement[TR_DS_PATH]; /* file of counts or owners; "": experts in order */

    enum tr_precision precision;
    bool precision_given; /* false: follow the flags */
    double loss_scale;    /* fp16; 0: dynamic */
    int64_t initial_scale_power, loss_scale_window, hysteresis;
    bool consecutive_hysteresis;
    double min_loss_scale;
    bool check_grad_overflow; /* bf16: a step with inf or nan is skipped */

    bool optimizer; /* the JSON's parameters replace the flags' */
    enum tr_muon_of {
        TR_MUON_NONE,
        TR_MUON_FLAGS, /* --use_muon, as LLaMA-Factory has it */
        TR_MUON_BLOCK  /* of the JSON, as DeepSpeed has it */
    } muon;
    bool muon_plain;         /* ns_method "standard", else "gram" */
    double muon_momentum;    /* of TR_MUON_BLOCK, as all here */
    double muon_lr, adam_lr; /* of matrices, of the others */
    double lr, beta1, beta2, eps, weight_decay;
    bool adam_w_mode, bias_correction;

    enum tr_ds_lr scheduler;
    double warmup_min_lr, warmup_max_lr; /* of WarmupLR and WarmupDecayLR */
    int64_t warmup_num_steps, total_num_steps;
    bool warmup_linear;                     /* else logarithmic */
    double warmup_min_ratio, cos_min_ratio; /* of WarmupCosineLR */
};

/* The values that "auto" stands for. */
struct tr_ds_flags {
    const struct tr_args *args;
    const struct tr_derived *derived; /* NULL: step counts stay unresolved and unchecked */
    int64_t world;
    int64_t hidden_size;
    bool weights; /* weights train, beside adapters or without */
};

/*
 * source is a path, or JSON text if its first character is '{'. Resolves "auto" and checks the
 * batch arithmetic and every flag that must agree. Each setting that is accepted without effect
 * (lossy ZeRO++ flags, monitors …) adds a line to notes, which may be NULL. FR_USAGE: DeepSpeed or
 * transformers refuse the file too. FR_UNSUPPORTED: only this program refuses it.
 */
enum fr_rc tr_ds_load(const char *source, const struct tr_ds_flags *flags, struct tr_ds_config *out,
                      struct fr_buf *notes, struct fr_err *err);

/* Appends the part of docs/arguments.md about DeepSpeed's keys. */
void tr_ds_markdown(struct fr_buf *out);

/* DeepSpeed's name of a schedule; "none" for TR_DS_LR_NONE. */
const char *tr_ds_lr_name(enum tr_ds_lr lr);

/* Sets the configuration of a run without --deepspeed: stage 0, values of the flags. */
void tr_ds_default(const struct tr_ds_flags *flags, struct tr_ds_config *out);

#endif
