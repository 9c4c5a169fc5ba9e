/*
 * The trainer's arguments: one static table of flags (the names and defaults of the Hugging Face
 * Trainer and LLaMA-Factory), read from the command line or from a YAML or JSON file followed by
 * key=value overrides, checked against each other; and the numbers derived from them.
 * Source: transformers TrainingArguments and LLaMA-Factory's documentation of its arguments.
 */
#ifndef TR_CONFIG_ARGS_H
#define TR_CONFIG_ARGS_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum tr_strategy { TR_STRATEGY_NO, TR_STRATEGY_STEPS, TR_STRATEGY_EPOCH, TR_STRATEGY_BEST };
enum tr_maybe { TR_MAYBE_UNSET, TR_MAYBE_FALSE, TR_MAYBE_TRUE };
enum tr_mix_strategy {                /* how several data sets become one */
                       TR_MIX_CONCAT, /* one after the other */
                       TR_MIX_UNDER,  /* in turn or at random, until one of them is exhausted */
                       TR_MIX_OVER,   /* until all are; an exhausted set starts again */
                       TR_MIX_ONCE    /* until all are; an exhausted set is skipped */
};
enum tr_recompute { TR_RECOMPUTE_AUTO, TR_RECOMPUTE_ALL, TR_RECOMPUTE_NONE };
#define TR_SHARD_BYTES INT64_C(5000000000) /* max_shard_size where nothing is said: 5GB */

/* Names of AdamW: those with f32 states, those of other few-bit states, f32 here, and those whose
 * moments have 8 bits where weights train. */
enum tr_adamw_name { TR_ADAMW_F32, TR_ADAMW_FEW = 8, TR_ADAMW_CODED = 10 };

enum tr_save_dtype { TR_SAVE_AUTO, TR_SAVE_FLOAT32 }; /* the type of the run, or f32 */
enum tr_device { TR_DEVICE_AUTO, TR_DEVICE_CPU, TR_DEVICE_CUDA };
enum tr_transport { TR_TRANSPORT_AUTO, TR_TRANSPORT_NCCL, TR_TRANSPORT_HOST };
enum tr_report { TR_REPORT_NONE, TR_REPORT_TENSORBOARD, TR_REPORT_ALL };
enum tr_lr_type {
    TR_LR_LINEAR,
    TR_LR_COSINE,
    TR_LR_COSINE_RESTARTS,
    TR_LR_POLYNOMIAL,
    TR_LR_CONSTANT,
    TR_LR_CONSTANT_WARMUP,
    TR_LR_INVERSE_SQRT,
    TR_LR_COSINE_MIN,
    TR_LR_WSD
};

#define TR_RATIO_ABSENT (-1e300)

/* Text fields are NULL when not given; they live in arena. */
struct tr_args {
    struct fr_arena arena;

    /* model and adapter */
    const char *stage; /* "sft", "pt" */
    bool pretrain;     /* stage pt: filled in */
    bool do_train;
    const char *model_name_or_path, *adapter_name_or_path;
    const char *finetuning_type; /* "lora", "full", "freeze" */
    int64_t freeze_trainable_layers;
    const char *freeze_trainable_modules; /* comma list, or "all" */
    const char *freeze_extra_modules;     /* comma list; NULL: none */
    const char *additional_target;        /* lora: comma list, see lora_saves.h; NULL: none */
    bool resize_vocab;                    /* rows for all tokens of the tokenizer */
    const char *lora_target;              /* comma list of name suffixes, or "all" */
    int64_t lora_rank;
    double lora_alpha; /* 0: 2*lora_rank, filled in by tr_args_read */
    double lora_dropout;
    bool use_rslora;
    double loraplus_lr_ratio; /* learning rate of B over that of A; TR_RATIO_ABSENT: one rate */

    /* data */
    const char *dataset, *dataset_dir, *template_name, *default_system, *tokenized_path;
    int64_t cutoff_len, max_samples; /* tokens; -1: all */
    bool mask_history, train_on_prompt, overwrite_cache, disable_shuffling;
    enum tr_mix_strategy mix_strategy;
    const char *interleave_probs, *tool_format;
    bool split_special_tokens;
    bool enable_thinking, preserve_thinking;
    enum tr_maybe packing_given;
    bool packing;          /* also with neat_packing, and by default of stage pt: filled in */
    int64_t sample_tokens; /* cutoff_len, minus one with packing given: filled in */
    bool neat_packing;
    bool dataloader_drop_last;
    int64_t preprocessing_num_workers, preprocessing_batch_size;
    bool streaming;
    int64_t buffer_size; /* records */

    /* steps */
    int64_t per_device_train_batch_size, gradient_accumulation_steps, max_steps;
    double num_train_epochs;
    double learning_rate, adam_beta1, adam_beta2, adam_epsilon, weight_decay, max_grad_norm;
    enum tr_lr_type lr_scheduler_type;
    const char *lr_scheduler_kwargs; /* JSON object */
    double warmup_steps;             /* below 1 a share of all */
    double warmup_ratio;             /* instead of warmup_steps; TR_RATIO_ABSENT: not given */
    bool bf16, fp16;
    enum tr_device device;
    enum tr_recompute recompute;
    bool use_cpu, no_cuda;   /* device is TR_DEVICE_CPU then: filled in */
    const char *deepspeed;   /* path, or the JSON itself */
    int64_t seed, data_seed; /* data_seed -1: seed */

    /* evaluation */
    bool do_eval; /* also set if eval_strategy is not "no": filled in by tr_args_read */
    const char *eval_dataset;
    double val_size; /* below 1 a share of the records, above 1 a number of them; 0: none */
    bool eval_on_each_dataset, eval_on_start;
    enum tr_strategy eval_strategy;
    double eval_steps; /* 0: logging_steps, filled in; below 1: ratio of the total */
    double eval_delay; /* steps, or epochs with eval_strategy epoch, before the first evaluation */
    int64_t per_device_eval_batch_size;
    bool compute_accuracy, load_best_model_at_end;
    const char *metric_for_best_model; /* default "loss" with load_best_model_at_end: filled in */
    enum tr_maybe greater_is_better;   /* unset: unless the metric ends in "loss"; filled in */
    int64_t early_stopping_steps;      /* evaluations without a better metric; -1: off */

    /* output */
    const char *output_dir, *logging_dir, *resume_from_checkpoint, *resume_run;
    bool use_muon;
    enum tr_adamw_name optim;      /* see enum tr_adamw_name: groups of names */
    enum tr_save_dtype save_dtype; /* of trained weights */
    int64_t max_shard_size;        /* bytes of a file of weights, at most */
    bool overwrite_output_dir, save_only_model, logging_first_step, plot_loss;
    bool no_resume_state, disable_tqdm;
    enum tr_strategy save_strategy, logging_strategy;
    double save_steps, logging_steps; /* < 1: ratio of the total */
    int64_t save_total_limit;         /* 0 and below: all */
    int64_t resume_copies;            /* nodes that have each part of a resume state */
    enum tr_report report_to;
    int64_t ddp_timeout; /* seconds */
    bool allow_slow_links;
    enum tr_transport transport;
    const char *trace; /* file of a Chrome trace */
    int64_t trace_steps;
};

/* Sets all arguments to their defaults. */
void tr_args_init(struct tr_args *a);
void tr_args_finish(struct tr_args *a);

/*
 * argv[0..argc) are the words after `train`: flags, or a .yaml, .yml or .json file and key=value
 * words. Names may use dashes or underscores; the last of a repeated flag wins. FR_USAGE: an
 * unknown name, with a suggestion, or a value of the wrong type. FR_UNSUPPORTED, with the reason: a
 * refused argument that is not at its default. An argument without effect that is not at its
 * default adds a line to notes (may be NULL). tr_args_check runs last. On success the caller calls
 * tr_args_finish; after an error that is done.
 */
enum fr_rc tr_args_read(struct tr_args *a, int argc, const char *const *argv, struct fr_buf *notes,
                        struct fr_err *err);
/* Whether moments of the optimizer are codes of 8 bits: a name that says so, where weights train.
 */
bool tr_args_coded(const struct tr_args *a);
/* Checks ranges and combinations of arguments. FR_USAGE or FR_UNSUPPORTED names the flags. */
enum fr_rc tr_args_check(const struct tr_args *a, struct fr_err *err);

/* Appends the help: one line per argument with name, default and meaning. */
void tr_args_help(struct fr_buf *out);
/* Appends docs/arguments.md: all arguments, and all keys of a DeepSpeed file. */
void tr_args_markdown(struct fr_buf *out);

/* Appends all flags and their values as one JSON object with sorted keys. The text is
 * training_args.json, and the digest of a configuration covers it. */
enum fr_rc tr_args_json(const struct tr_args *a, struct fr_buf *out, struct fr_err *err);

/* Counts derived from N examples and W processes; B and A as in the flags. */
struct tr_derived {
    int64_t examples, world;
    int64_t micro_per_rank;  /* micro-batches a rank and epoch: ceil(ceil(N/B)/W) */
    int64_t micro_shown;     /* micro-batches of an epoch in logs; of a stream those of all steps */
    int64_t steps_per_epoch; /* max(ceil(micro/A), 1) */
    int64_t total_steps;     /* max_steps, else ceil(epochs * steps_per_epoch) */
    int64_t epochs;          /* as printed */
    int64_t total_batch;     /* B*A*W */
    int64_t warmup_steps;
    int64_t save_every, log_every, eval_every; /* steps; 0: never. save_every 0 with "best" too */
};

/* FR_USAGE: dataloader_drop_last leaves no micro-batch, or there are no examples. */
enum fr_rc tr_args_derive(const struct tr_args *a, int64_t examples, int64_t world,
                          struct tr_derived *out, struct fr_err *err);

#endif
