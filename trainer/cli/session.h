/*
 * What eval and generate begin with: the ranks, the tokenizer with its template, the flags that
 * both have.
 */
#ifndef TR_CLI_SESSION_H
#define TR_CLI_SESSION_H

#include "trainer/cli/arg_map.h"
#include "trainer/cli/ranks.h"
#include "trainer/dataset/dataset.h"
#include "trainer/train/infer.h"

/* Flags as they are written; defaults are set by TR_SESSION_DEFAULTS. */
struct tr_session_flags {
    const char *model_dir, *adapter_dir, *template_name, *system, *dataset, *dataset_dir;
    const char *thinking, *cutoff_len, *max_samples, *batch, *device, *transport, *timeout, *output,
        *experts, *dtype;
    int bf16, fp16, help;
};

#define TR_SESSION_DEFAULTS                                                                        \
    {                                                                                              \
        .dataset_dir = "data", .thinking = "true", .cutoff_len = "2048", .batch = "8",             \
        .device = "auto", .transport = "auto", .timeout = "1800", .dtype = "auto"                  \
    }

/* Rules of an argument map: LLaMA-Factory's keys that are written otherwise here, or not done. */
#define TR_SESSION_RULES                                                                           \
    {"eval_dataset", TR_ARG_GIVES, "dataset", NULL},                                               \
        {"per_device_eval_batch_size", TR_ARG_GIVES, "batch", NULL},                               \
        {"infer_backend", TR_ARG_TOLD, "answers are this program's own", NULL},                    \
        {"use_kv_cache", TR_ARG_TOLD, "keys and values are always kept", NULL},                    \
        {"max_length", TR_ARG_TOLD, "--max_new_tokens decides", NULL},                             \
        {"num_beams", TR_ARG_BARRED, "one answer is followed, not several beams", NULL},           \
        {"repetition_penalty", TR_ARG_BARRED, "tokens are taken by the model's own scores", NULL}, \
        {"length_penalty", TR_ARG_TOLD, "it belongs to --num_beams", NULL},                        \
        {"skip_special_tokens", TR_ARG_BARRED, "answers are text without special tokens", NULL},   \
        {"export_dir", TR_ARG_TOLD, "it belongs to flowtrain merge", NULL},                        \
        {"export_size", TR_ARG_TOLD, "it belongs to flowtrain merge", NULL},                       \
        {"export_device", TR_ARG_TOLD, "it belongs to flowtrain merge", NULL},                     \
    {                                                                                              \
        "export_legacy_format", TR_ARG_TOLD, "it belongs to flowtrain merge", NULL                 \
    }

/* Rows of a command's table of flags. */
#define TR_SESSION_FLAGS(f)                                                                        \
    {"model_name_or_path", &(f).model_dir, NULL, "checkpoint folder"},                             \
        {"adapter_name_or_path", &(f).adapter_dir, NULL, "adapter folder in PEFT's format"},       \
        {"template", &(f).template_name, NULL, "chat template: deepseek3, default …"},             \
        {"default_system", &(f).system, NULL, "system text instead of the template's"},            \
        {"enable_thinking", &(f).thinking, NULL,                                                   \
         "false: an empty thought in front of answers [true]"},                                    \
        {"dataset", &(f).dataset, NULL, "names in dataset_info.json, comma between"},              \
        {"dataset_dir", &(f).dataset_dir, NULL, "folder of dataset_info.json [data]"},             \
        {"cutoff_len", &(f).cutoff_len, NULL, "tokens of an example or a prompt, at most [2048]"}, \
        {"max_samples", &(f).max_samples, NULL, "first k records of each data set"},               \
        {"batch", &(f).batch, NULL, "samples or answers at once and rank [8]"},                    \
        {"bf16", NULL, &(f).bf16, "compute in bf16 instead of f32"},                               \
        {"fp16", NULL, &(f).fp16, "compute in f16 instead of f32"},                                \
        {"infer_dtype", &(f).dtype, NULL, "auto, float32, bfloat16 or float16: as those two"},     \
        {"device", &(f).device, NULL, "auto, cpu or cuda"},                                        \
        {"transport", &(f).transport, NULL, "between GPUs: auto, nccl or host"},                   \
        {"ddp_timeout", &(f).timeout, NULL, "seconds that a collective may take [1800]"},          \
        {"output", &(f).output, NULL, "file to write"},                                            \
        {"experts", &(f).experts, NULL, "node or world: routed experts stay there, tokens move"},  \
    {                                                                                              \
        "help", NULL, &(f).help, "this text"                                                       \
    }

struct tr_session {
    struct tr_ranks ranks;
    struct tr_comm_opts comm_opts;
    struct tr_tokenizer *tokenizer; /* owns */
    const struct tr_template *templ;
    enum tr_dtype compute;
    int64_t cutoff_len, max_samples, batch;
    bool stay; /* experts stay on the ranks that owners says */
    enum tr_expert_group owners;
    bool no_thinking;
};

/* FR_USAGE names the flag. Rank 0 prints the notes of map. tr_session_close() also after a failure;
 * why is the failure that the other ranks are told, NULL: none. */
enum fr_rc tr_session_open(struct tr_session *s, const struct tr_session_flags *f,
                           const struct tr_arg_map *map, struct fr_err *err);
void tr_session_close(struct tr_session *s, const struct fr_err *why);

/* A number from min to max, of --name. */
enum fr_rc tr_session_int(const char *name, const char *text, int64_t min, int64_t max,
                          int64_t *out, struct fr_err *err);
enum fr_rc tr_session_real(const char *name, const char *text, double min, double max, double *out,
                           struct fr_err *err);

/* --dataset, tokenised by every rank; rank 0 says which records were dropped. */
enum fr_rc tr_session_data(const struct tr_session *s, const struct tr_session_flags *f,
                           struct tr_dataset **out, struct fr_err *err);

#endif
