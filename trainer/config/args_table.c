#include "trainer/config/args_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *const strategies[] = {"no", "steps", "epoch", NULL};
static const char *const save_strategies[] = {"no", "steps", "epoch", "best", NULL};
static const char *const devices[] = {"auto", "cpu", "cuda", NULL};
static const char *const transports[] = {"auto", "nccl", "host", NULL};
static const char *const reports[] = {"none", "tensorboard", NULL};
static const char *const lr_types[] = {
    "linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup",
    "inverse_sqrt", "cosine_with_min_lr", "warmup_stable_decay", NULL};

#define AT(field) offsetof(struct tr_args, field)
#define TEXT(name, def, help) {#name, TR_ARG_TEXT, AT(name), def, NULL, help}
#define BOOL(name, def, help) {#name, TR_ARG_BOOL, AT(name), def, NULL, help}
#define INT(name, def, help) {#name, TR_ARG_INT, AT(name), def, NULL, help}
#define FLOAT(name, def, help) {#name, TR_ARG_FLOAT, AT(name), def, NULL, help}
#define CHOICE(name, def, words, help) {#name, TR_ARG_CHOICE, AT(name), def, words, help}
#define MAYBE(name, help) {#name, TR_ARG_MAYBE, AT(name), NULL, NULL, help}
#define IGNORED(name, help) {#name, TR_ARG_IGNORED, 0, NULL, NULL, help}

const struct tr_arg tr_arg_table[] = {
    TEXT(stage, "sft", "only sft"),
    BOOL(do_train, "false", "train"),
    TEXT(model_name_or_path, NULL, "model folder: config.json, safetensors, tokenizer.json"),
    TEXT(adapter_name_or_path, NULL, "LoRA adapter to go on training"),
    TEXT(finetuning_type, "lora", "only lora"),
    TEXT(lora_target, "all", "names of linears, comma between; all: all but head, routed experts"),
    INT(lora_rank, "8", "r"),
    FLOAT(lora_alpha, NULL, "scale is alpha/r; default 2*lora_rank"),
    FLOAT(lora_dropout, "0", "dropout of the adapter's input"),
    BOOL(use_rslora, "false", "scale is alpha/sqrt(r)"),
    TEXT(dataset, NULL, "names in dataset_info.json, comma between"),
    TEXT(dataset_dir, "data", "folder of dataset_info.json"),
    {"template", TR_ARG_TEXT, AT(template_name), NULL, NULL, "chat template"},
    TEXT(default_system, NULL, "system text instead of the template's"),
    TEXT(tokenized_path, NULL, "folder of the token cache; default OUTPUT_DIR"),
    INT(cutoff_len, "2048", "token limit of an example"),
    INT(max_samples, NULL, "first k records of each data set"),
    BOOL(mask_history, "false", "train on the last turn only"),
    BOOL(train_on_prompt, "false", "train on the prompt too"),
    BOOL(packing, "false", "not done: batches hold no padding anyway"),
    BOOL(neat_packing, "false", "not done: batches hold no padding anyway"),
    BOOL(overwrite_cache, "false", "tokenise again"),
    BOOL(disable_shuffling, "false", "samples in the files' order"),
    BOOL(dataloader_drop_last, "false", "drop the incomplete last batch"),
    INT(preprocessing_num_workers, NULL, "threads that tokenise; default as many as OpenMP has"),
    INT(dataloader_num_workers, "0", "accepted; batches are made at once"),
    INT(per_device_train_batch_size, "8", "samples of a micro-batch and process"),
    INT(gradient_accumulation_steps, "1", "micro-batches of a step"),
    INT(max_steps, "-1", "steps; above 0 it wins over epochs"),
    FLOAT(num_train_epochs, "3", "passes over the data, may be fractional"),
    FLOAT(learning_rate, "5e-5", "peak"),
    FLOAT(adam_beta1, "0.9", "AdamW"),
    FLOAT(adam_beta2, "0.999", "AdamW"),
    FLOAT(adam_epsilon, "1e-8", "AdamW"),
    FLOAT(weight_decay, "0", "decoupled"),
    FLOAT(max_grad_norm, "1", "global norm to clip to; 0 or less: off"),
    CHOICE(lr_scheduler_type, "linear", lr_types, "shape of the learning rate"),
    TEXT(lr_scheduler_kwargs, NULL, "JSON object of the scheduler's own numbers"),
    FLOAT(warmup_steps, "0", "steps of warm-up; below 1 a share of all"),
    FLOAT(warmup_ratio, "0", "share of all steps, where warmup_steps is 0"),
    BOOL(bf16, "false", "compute in bf16"),
    BOOL(fp16, "false", "compute in f16 with loss scaling"),
    CHOICE(device, "auto", devices, "auto takes CUDA where it can be used"),
    TEXT(deepspeed, NULL, "DeepSpeed JSON: a path, or the text itself"),
    INT(seed, "42", "of everything drawn at random"),
    INT(data_seed, NULL, "of the samples' order; default seed"),
    BOOL(disable_gradient_checkpointing, "false", "accepted; blocks always recompute"),
    BOOL(do_eval, "false", "evaluate at the end; eval_strategy sets it too"),
    TEXT(eval_dataset, NULL, "data sets for evaluation, comma between"),
    FLOAT(val_size, "0", "share (below 1) or number of records taken from dataset for evaluation"),
    BOOL(eval_on_each_dataset, "false", "figures of their own for each of eval_dataset"),
    CHOICE(eval_strategy, "no", strategies, "when to evaluate"),
    FLOAT(eval_steps, NULL, "steps between evaluations; below 1 a share; default logging_steps"),
    FLOAT(eval_delay, "0", "steps or epochs before the first evaluation"),
    BOOL(eval_on_start, "false", "evaluate before the first step"),
    INT(per_device_eval_batch_size, "8", "samples of a batch in evaluation"),
    BOOL(compute_accuracy, "false", "eval_accuracy: share of tokens that are the first choice"),
    BOOL(load_best_model_at_end, "false", "the adapter is that of the best evaluation"),
    TEXT(metric_for_best_model, NULL, "loss, accuracy, or NAME_loss of a data set; default loss"),
    MAYBE(greater_is_better, "of the metric; default: unless it ends in loss"),
    INT(early_stopping_steps, NULL, "stop after so many evaluations that were not better"),
    TEXT(output_dir, NULL, "where adapters, checkpoints and logs go"),
    TEXT(logging_dir, NULL, "TensorBoard folder; default OUTPUT_DIR/runs/…"),
    TEXT(run_name, NULL, "accepted; kept in training_args.json alone"),
    TEXT(resume_from_checkpoint, NULL, "true, last (may start anew), or a checkpoint"),
    BOOL(overwrite_output_dir, "false", "start anew in a folder that holds a run"),
    BOOL(save_only_model, "false", "checkpoints hold the adapter alone"),
    BOOL(save_on_each_node, "false", "accepted; resume states are on every node anyway"),
    BOOL(logging_first_step, "false", "log step 1"),
    BOOL(no_resume_state, "false", "keep no resume state"),
    BOOL(disable_tqdm, "false", "no progress bar"),
    BOOL(plot_loss, "false", "accepted; no picture is drawn"),
    BOOL(ignore_data_skip, "false", "accepted; a resume goes on where the data stopped"),
    CHOICE(save_strategy, "steps", save_strategies, "when to save; best: each better evaluation"),
    CHOICE(logging_strategy, "steps", strategies, "when to log"),
    FLOAT(save_steps, "500", "steps between checkpoints; below 1 a share of all"),
    FLOAT(logging_steps, "500", "steps between log lines; below 1 a share of all"),
    INT(save_total_limit, NULL, "keep the newest k checkpoints"),
    CHOICE(report_to, "none", reports, "where else numbers go"),
    INT(ddp_timeout, "1800", "seconds that a collective may take"),
    BOOL(allow_slow_links, "false", "NCCL may go without NVLink inside a node"),
    CHOICE(transport, "auto", transports, "between GPUs; by host, ranks may share one"),
    TEXT(trace, NULL, "Chrome trace of the first steps: FILE, FILE.rank1, …"),
    INT(trace_steps, "10", "how many steps it records"),
    INT(local_rank, "-1", "set by old launchers; the environment wins"),
    IGNORED(trust_remote_code, "nothing remote is run"),
    IGNORED(flash_attn, "attention is this program's own"),
    IGNORED(optim, "the optimizer is AdamW"),
    IGNORED(save_safetensors, "files are always safetensors"),
    IGNORED(gradient_checkpointing, "blocks always recompute"),
    IGNORED(ddp_find_unused_parameters, "nothing is unused"),
    IGNORED(include_num_input_tokens_seen, "tokens are always counted"),
    IGNORED(include_tokens_per_second, "tokens are always counted"),
    IGNORED(preprocessing_batch_size, "records are tokenised one by one"),
    IGNORED(enable_thinking, "no reasoning template"),
    IGNORED(bf16_full_eval, "evaluation computes in the type of the training"),
    IGNORED(fp16_full_eval, "evaluation computes in the type of the training"),
    IGNORED(eval_accumulation_steps, "sums alone are kept, on the host"),
    IGNORED(prediction_loss_only, "logits are not kept"),
    IGNORED(remove_unused_columns, "columns are chosen by dataset_info.json"),
    IGNORED(upcast_layernorm, "norms are summed in f32"),
    IGNORED(average_tokens_across_devices, "the token mean is always global"),
    IGNORED(log_level, "lines are always the same"),
    IGNORED(use_fast_tokenizer, "the tokenizer is tokenizer.json"),
    IGNORED(cache_dir, "nothing is downloaded"),
};

const size_t tr_arg_count = sizeof(tr_arg_table) / sizeof(tr_arg_table[0]);

const struct tr_arg *tr_arg_find(const char *name, size_t n)
{
    for (size_t i = 0; i < tr_arg_count; i++) {
        const char *want = tr_arg_table[i].name;
        size_t k = 0;
        while (k < n && want[k] != '\0' && (name[k] == '-' ? '_' : name[k]) == want[k])
            k++;
        if (k == n && want[k] == '\0')
            return &tr_arg_table[i];
    }
    return NULL;
}

static bool is_none(const char *value)
{
    return strcmp(value, "null") == 0 || strcmp(value, "none") == 0 || strcmp(value, "None") == 0;
}

static enum fr_rc bad(const struct tr_arg *arg, const char *value, const char *want,
                      struct fr_err *err)
{
    return fr_fail(err, FR_USAGE, "--%s %.80s: expected %s", arg->name, value, want);
}

static enum fr_rc set_choice(void *at, const struct tr_arg *arg, const char *value,
                             struct fr_err *err)
{
    struct fr_buf words = {0};
    int i = 0;

    for (; arg->choices[i] != NULL; i++)
        if (strcmp(arg->choices[i], value) == 0) {
            memcpy(at, &i, sizeof(i));
            return FR_OK;
        }
    for (i = 0; arg->choices[i] != NULL; i++)
        fr_buf_fmt(&words, "%s%s", i > 0 ? ", " : "one of ", arg->choices[i]);
    bad(arg, value, words.bad ? "another word" : words.p, err);
    fr_buf_finish(&words);
    return FR_USAGE;
}

static enum fr_rc set_maybe(void *at, const struct tr_arg *arg, const char *value,
                            struct fr_err *err)
{
    enum tr_maybe maybe = TR_MAYBE_UNSET;
    bool yes;

    if (!is_none(value)) {
        if (fr_parse_bool(fr_str_of(value), &yes, NULL) != FR_OK)
            return bad(arg, value, "true, false or none", err);
        maybe = yes ? TR_MAYBE_TRUE : TR_MAYBE_FALSE;
    }
    memcpy(at, &maybe, sizeof(maybe));
    return FR_OK;
}

enum fr_rc tr_arg_set(struct tr_args *a, const struct tr_arg *arg, const char *value,
                      struct fr_err *err)
{
    char *at = (char *)a + arg->at;
    bool lone = value == NULL, none;

    if (arg->kind == TR_ARG_IGNORED) {
        bool other = strcmp(arg->name, "optim") == 0 && !lone && strncmp(value, "adamw", 5) != 0;
        return other ? fr_fail(err, FR_UNSUPPORTED, "--optim %.80s: only AdamW is done", value)
                     : FR_OK;
    }
    if (lone && arg->kind != TR_ARG_BOOL && arg->kind != TR_ARG_MAYBE)
        return fr_fail(err, FR_USAGE, "--%s needs a value", arg->name);
    none = !lone && arg->def == NULL && is_none(value);
    switch (arg->kind) {
    case TR_ARG_BOOL:
        if (lone)
            memcpy(at, &(bool){true}, sizeof(bool));
        else if (fr_parse_bool(fr_str_of(value), (bool *)(void *)at, NULL) != FR_OK)
            return bad(arg, value, "true or false", err);
        return FR_OK;
    case TR_ARG_INT:
        if (none)
            memcpy(at, &(int64_t){-1}, sizeof(int64_t));
        else if (fr_parse_i64(fr_str_of(value), (int64_t *)(void *)at, NULL) != FR_OK)
            return bad(arg, value, "an integer", err);
        return FR_OK;
    case TR_ARG_FLOAT:
        if (none)
            memcpy(at, &(double){0}, sizeof(double));
        else if (fr_parse_f64(fr_str_of(value), (double *)(void *)at, NULL) != FR_OK)
            return bad(arg, value, "a number", err);
        return FR_OK;
    case TR_ARG_TEXT:
        *(const char **)(void *)at = none ? NULL : fr_arena_dup(&a->arena, value);
        if (!none && *(const char **)(void *)at == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for --%s", arg->name);
        return FR_OK;
    case TR_ARG_CHOICE:
        return set_choice(at, arg, value, err);
    case TR_ARG_MAYBE:
        return set_maybe(at, arg, none ? "none" : lone ? "true" : value, err);
    case TR_ARG_IGNORED:
        break;
    }
    return FR_OK;
}
