/*
 * Shared by eval and generate: ranks, tokenizer, template and common flags.
 */
#ifndef TR_CLI_SESSION_H
#define TR_CLI_SESSION_H

#include "trainer/cli/arg_map.h"
#include "trainer/cli/ranks.h"
#include "trainer/dataset/dataset.h"
#include "trainer/train/infer.h"

/* Values of the common flags; TR_SESSION_DEFAULTS has the defaults. */
struct tr_session_flags {
    const char *model_dir, *adapter_dir, *template_name, *system, *dataset, *dataset_dir, *output;
    enum { TR_DTYPE_AUTO, TR_DTYPE_F32, TR_DTYPE_BF16, TR_DTYPE_F16 } dtype;
    enum tr_device device;
    enum tr_transport transport;
    int experts; /* who owns routed experts: 0: the ranks of a node, 1: all ranks; tokens move to
                    them. -1: experts are gathered on every rank that uses them */
    int64_t cutoff_len, max_samples, batch, timeout; /* max_samples -1: all; timeout in seconds */
    int thinking;
    bool bf16, fp16;
};

#define TR_SESSION_DEFAULTS                                                                        \
    {                                                                                              \
        .dataset_dir = "data", .thinking = 1, .cutoff_len = 2048, .max_samples = -1, .batch = 8,   \
        .timeout = 1800, .experts = -1                                                             \
    }

/* Rules of an argument map: keys of LLaMA-Factory that have another name here, have no effect, or
 * are refused. */
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

/* Rows of the common flags. type: the command's struct of options; f: its member of type struct
 * tr_session_flags. */
#define TR_SESSION_FLAGS(type, f)                                                                  \
    TR_FLAG("model_name_or_path", TR_TEXT, offsetof(type, f.model_dir), "checkpoint folder"),      \
        TR_FLAG("adapter_name_or_path", TR_TEXT, offsetof(type, f.adapter_dir),                    \
                "adapter folder in PEFT's format"),                                                \
        TR_FLAG("template", TR_TEXT, offsetof(type, f.template_name),                              \
                "chat template: deepseek3, default …"),                                            \
        TR_FLAG("default_system", TR_TEXT, offsetof(type, f.system),                               \
                "system text instead of the template's"),                                          \
        TR_FLAG("enable_thinking", TR_BOOL, offsetof(type, f.thinking),                            \
                "false: an empty thought in front of answers [true]"),                             \
        TR_FLAG("dataset", TR_TEXT, offsetof(type, f.dataset),                                     \
                "names in dataset_info.json, comma between"),                                      \
        TR_FLAG("dataset_dir", TR_TEXT, offsetof(type, f.dataset_dir),                             \
                "folder of dataset_info.json [data]"),                                             \
        TR_FLAG("cutoff_len", TR_INT, offsetof(type, f.cutoff_len),                                \
                "tokens of an example or a prompt, at most [2048]", .least = 1, .most = 1 << 24),  \
        TR_FLAG("max_samples", TR_INT, offsetof(type, f.max_samples),                              \
                "first k records of each data set", .least = 1, .most = INT64_MAX),                \
        TR_FLAG("batch", TR_INT, offsetof(type, f.batch),                                          \
                "samples or answers at once and rank [8]", .least = 1, .most = 1 << 16),           \
        TR_FLAG("bf16", TR_SWITCH, offsetof(type, f.bf16), "compute in bf16 instead of f32"),      \
        TR_FLAG("fp16", TR_SWITCH, offsetof(type, f.fp16), "compute in f16 instead of f32"),       \
        TR_FLAG("infer_dtype", TR_CHOICE, offsetof(type, f.dtype),                                 \
                "auto, float32, bfloat16 or float16: as those two",                                \
                .choices = "auto float32 bfloat16 float16"),                                       \
        TR_FLAG("device", TR_CHOICE, offsetof(type, f.device), "auto, cpu or cuda", TR_DEVICES),   \
        TR_FLAG("transport", TR_CHOICE, offsetof(type, f.transport),                               \
                "between GPUs: auto, nccl or host", TR_TRANSPORTS),                                \
        TR_FLAG("ddp_timeout", TR_INT, offsetof(type, f.timeout),                                  \
                "seconds that a collective may take [1800]", .least = 1, .most = 1 << 30),         \
        TR_FLAG("output", TR_TEXT, offsetof(type, f.output), "file to write"),                     \
        TR_FLAG("experts", TR_CHOICE, offsetof(type, f.experts),                                   \
                "node or world: routed experts stay there, tokens move", .choices = "node world"), \
        TR_FLAG_HELP

struct tr_session {
    struct tr_ranks ranks;
    struct tr_comm_opts comm_opts;
    struct tr_tokenizer *tokenizer; /* owns */
    const struct tr_template *templ;
    enum tr_dtype compute;
    const struct tr_session_flags *flags; /* borrows */
    bool stay;                            /* experts stay on the ranks of owners */
    enum tr_expert_group owners;
};

/* Opens a session by the flags f, calls run with the session and the command's options, and closes
 * it. On failure the other ranks are aborted. FR_USAGE names the flag. Rank 0 prints notes
 * about translated arguments and about the tokenizer's files. */
enum fr_rc tr_session_run(struct tr_call *call, const struct tr_session_flags *f,
                          enum fr_rc (*run)(struct tr_session *s, const void *options,
                                            struct fr_err *err),
                          struct fr_err *err);

/* Options of the session's model for tr_infer_open; they borrow from s. The caller sets the fields
 * from tokens_max to logits. */
struct tr_infer_opts tr_session_model(const struct tr_session *s);

/* Loads --dataset; every rank tokenises all of it. Rank 0 prints the dropped records. The caller
 * destroys *out. */
enum fr_rc tr_session_data(const struct tr_session *s, struct tr_dataset **out, struct fr_err *err);

#endif
