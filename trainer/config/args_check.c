#include "trainer/config/args.h"

#include "trainer/tensor/tensor.h"

#include <math.h>
#include <string.h>

/* Rules between flags, and ranges. */
static enum fr_rc check_names(const struct tr_args *a, struct fr_err *err)
{
    if (strcmp(a->stage, "sft") != 0 && !a->pretrain)
        return fr_fail(err, FR_UNSUPPORTED, "--stage %s: only sft and pt are done", a->stage);
    if (a->model_name_or_path == NULL)
        return fr_fail(err, FR_USAGE, "--model_name_or_path is missing");
    if (!a->do_train)
        return fr_fail(err, FR_USAGE, "--do_train is missing: there is nothing else to do");
    if (a->dataset == NULL)
        return fr_fail(err, FR_USAGE, "--dataset is missing");
    if (a->template_name == NULL)
        return fr_fail(err, FR_USAGE, "--template is missing (deepseek3, default, empty …)");
    if (a->output_dir == NULL)
        return fr_fail(err, FR_USAGE, "--output_dir is missing");
    if (strcmp(a->finetuning_type, "lora") != 0 && strcmp(a->finetuning_type, "full") != 0 &&
        strcmp(a->finetuning_type, "freeze") != 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "--finetuning_type %s: only lora, full and freeze are done",
                       a->finetuning_type);
    return FR_OK;
}

/* What belongs to adapters, and what training of weights does not have yet. */
static enum fr_rc check_full(const struct tr_args *a, struct fr_err *err)
{
    bool lora = strcmp(a->finetuning_type, "lora") == 0;

    if (lora && a->save_dtype != TR_SAVE_AUTO)
        return fr_fail(err, FR_USAGE,
                       "--save_dtype belongs to --finetuning_type full and freeze: adapters are "
                       "saved as f32");
    if (lora && a->max_shard_size != TR_SHARD_BYTES)
        return fr_fail(err, FR_USAGE,
                       "--max_shard_size belongs to --finetuning_type full and freeze: an adapter "
                       "is one file");
    if (a->use_muon && lora)
        return fr_fail(err, FR_UNSUPPORTED,
                       "--use_muon trains weights: --finetuning_type full or freeze; adapters have "
                       "AdamW");
    if (a->use_muon && tr_args_coded(a))
        return fr_fail(err, FR_UNSUPPORTED,
                       "--use_muon has f32 states, --optim asks for 8-bit ones: leave out one");
    if (lora)
        return FR_OK;
    if (a->adapter_name_or_path != NULL)
        return fr_fail(err, FR_USAGE, "--adapter_name_or_path belongs to --finetuning_type lora");
    if (a->additional_target != NULL)
        return fr_fail(err, FR_USAGE,
                       "--additional_target belongs to --finetuning_type lora; freeze takes "
                       "--freeze_extra_modules");
    if (a->loraplus_lr_ratio != TR_RATIO_ABSENT || a->use_rslora)
        return fr_fail(err, FR_USAGE, "--%s belongs to --finetuning_type lora",
                       a->use_rslora ? "use_rslora" : "loraplus_lr_ratio");
    return FR_OK;
}

static enum fr_rc check_pairs(const struct tr_args *a, struct fr_err *err)
{
    if (a->bf16 && a->fp16)
        return fr_fail(err, FR_USAGE, "--bf16 and --fp16 exclude each other");
    if (a->pretrain && (a->neat_packing || a->mask_history || a->train_on_prompt))
        return fr_fail(err, FR_USAGE, "--%s belongs to --stage sft: texts have no turns",
                       a->neat_packing   ? "neat_packing"
                       : a->mask_history ? "mask_history"
                                         : "train_on_prompt");
    if (a->interleave_probs != NULL && a->mix_strategy == TR_MIX_CONCAT)
        return fr_fail(err, FR_USAGE,
                       "--interleave_probs needs --mix_strategy interleave_under, interleave_over "
                       "or interleave_once");
    if (a->mask_history && a->train_on_prompt)
        return fr_fail(err, FR_USAGE, "--mask_history and --train_on_prompt exclude each other");
    return FR_OK;
}

static enum fr_rc check_stream(const struct tr_args *a, struct fr_err *err)
{
    if (!a->streaming)
        return FR_OK;
    if (a->max_steps < 1)
        return fr_fail(err, FR_USAGE, "--streaming needs --max_steps: a stream has no length");
    if (a->max_samples >= 0)
        return fr_fail(err, FR_USAGE, "--max_samples and --streaming exclude each other");
    if (a->val_size > 0 && a->val_size < 1)
        return fr_fail(err, FR_USAGE,
                       "--val_size %g: of a stream, which has no length, a number of records is "
                       "taken, not a share",
                       a->val_size);
    return FR_OK;
}

/* save_steps is a multiple of eval_steps, both counts or both shares. */
static bool saves_where_it_evaluates(const struct tr_args *a)
{
    double scale = a->eval_steps < 1 && a->save_steps < 1 ? 1e6 : 1;

    if ((a->eval_steps < 1) != (a->save_steps < 1))
        return false;
    return fmod(round(a->save_steps * scale), round(a->eval_steps * scale)) == 0;
}

/* The evaluations that decide which model is best. */
static enum fr_rc check_best(const struct tr_args *a, struct fr_err *err)
{
    bool best = a->save_strategy == TR_STRATEGY_BEST, load = a->load_best_model_at_end;

    if (best && a->metric_for_best_model == NULL)
        return fr_fail(err, FR_USAGE,
                       "--save_strategy best needs --metric_for_best_model (loss …)");
    if ((best || load || a->early_stopping_steps > 0) && a->eval_strategy == TR_STRATEGY_NO)
        return fr_fail(err, FR_USAGE, "%s needs --eval_strategy steps or epoch",
                       best   ? "--save_strategy best"
                       : load ? "--load_best_model_at_end"
                              : "--early_stopping_steps");
    if (a->early_stopping_steps > 0 && a->metric_for_best_model == NULL)
        return fr_fail(err, FR_USAGE,
                       "--early_stopping_steps needs --metric_for_best_model (loss …)");
    if (!load || best)
        return FR_OK;
    if (a->eval_strategy != a->save_strategy)
        return fr_fail(err, FR_USAGE,
                       "--load_best_model_at_end needs --eval_strategy and --save_strategy to be "
                       "the same, or --save_strategy best");
    if (a->eval_strategy == TR_STRATEGY_STEPS && !saves_where_it_evaluates(a))
        return fr_fail(err, FR_USAGE,
                       "--load_best_model_at_end needs --save_steps to be a multiple of "
                       "--eval_steps: found %g and %g",
                       a->save_steps, a->eval_steps);
    return FR_OK;
}

static enum fr_rc check_eval(const struct tr_args *a, struct fr_err *err)
{
    if (a->val_size > 0 && a->eval_dataset != NULL)
        return fr_fail(err, FR_USAGE, "--val_size and --eval_dataset exclude each other");
    if (a->val_size == 1)
        return fr_fail(err, FR_USAGE,
                       "--val_size 1: expected a share below 1, or a number of records above 1");
    if (a->do_eval && a->val_size == 0 && a->eval_dataset == NULL)
        return fr_fail(err, FR_USAGE, "%s needs --eval_dataset or --val_size",
                       a->eval_strategy != TR_STRATEGY_NO ? "--eval_strategy" : "--do_eval");
    if (a->eval_on_each_dataset && a->eval_dataset == NULL)
        return fr_fail(err, FR_USAGE, "--eval_on_each_dataset needs --eval_dataset");
    return check_best(a, err);
}

enum fr_rc tr_args_check(const struct tr_args *a, struct fr_err *err)
{
    bool given_ratio = a->warmup_ratio != TR_RATIO_ABSENT;
    bool plus = a->loraplus_lr_ratio != TR_RATIO_ABSENT;
    const struct {
        const char *name;
        double value, min, max;
    } ranges[] = {
        {"lora_rank", (double)a->lora_rank, 1, 65536},
        {"lora_alpha", a->lora_alpha, 1e-30, 1e30},
        {"lora_dropout", a->lora_dropout, 0, 0.999999},
        {"loraplus_lr_ratio", plus ? a->loraplus_lr_ratio : 1, 1e-9, 1e9},
        {"cutoff_len", (double)a->cutoff_len, a->packing ? 2 : 1, 1 << 24},
        {"per_device_train_batch_size", (double)a->per_device_train_batch_size, 1, 1 << 20},
        {"gradient_accumulation_steps", (double)a->gradient_accumulation_steps, 1, 1 << 20},
        {"num_train_epochs", a->num_train_epochs, a->max_steps > 0 ? -1e9 : 1e-9, 1e9},
        {"learning_rate", a->learning_rate, 0, 1e9},
        {"adam_beta1", a->adam_beta1, 0, 1 - 1e-12},
        {"adam_beta2", a->adam_beta2, 0, 1 - 1e-12},
        {"adam_epsilon", a->adam_epsilon, 0, 1},
        {"weight_decay", a->weight_decay, 0, 1e9},
        {"warmup_steps", a->warmup_steps, 0, 1e12},
        {"warmup_ratio", given_ratio ? a->warmup_ratio : 0, 0, 1},
        {"preprocessing_batch_size", (double)a->preprocessing_batch_size, 1, 1 << 30},
        {"preprocessing_num_workers", (double)a->preprocessing_num_workers, -1, 4096},
        {"buffer_size", (double)a->buffer_size, 1, 1e12},
        {"ddp_timeout", (double)a->ddp_timeout, 1, 1e12},
        {"resume_copies", (double)a->resume_copies, 1, 1000},
        {"trace_steps", (double)a->trace_steps, 1, 1e12},
        {"save_steps", a->save_steps, 1e-12, 1e12},
        {"eval_steps", a->eval_steps, 1e-12, 1e12},
        {"eval_delay", a->eval_delay, 0, 1e12},
        {"val_size", a->val_size, 0, 4294967295.0},
        {"per_device_eval_batch_size", (double)a->per_device_eval_batch_size, 1, 1 << 20},
        {"early_stopping_steps", a->early_stopping_steps < 0 ? 1 : (double)a->early_stopping_steps,
         1, 1e12},
        {"logging_steps", a->logging_steps, 1e-12, 1e12},
        {"seed", (double)a->seed, 0, 18446744073709551615.0},
    };
    enum fr_rc rc;

    if ((rc = check_names(a, err)) != FR_OK || (rc = check_pairs(a, err)) != FR_OK ||
        (rc = check_full(a, err)) != FR_OK || (rc = check_stream(a, err)) != FR_OK ||
        (rc = check_eval(a, err)) != FR_OK)
        return rc;
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (!(ranges[i].value >= ranges[i].min && ranges[i].value <= ranges[i].max))
            return fr_fail(err, FR_USAGE, "--%s %g: expected %g to %g", ranges[i].name,
                           ranges[i].value, ranges[i].min, ranges[i].max);
    return FR_OK;
}

/* Steps from one time to the next: of steps a count, or below 1 a share of the total; 0: never. */
static int64_t every(enum tr_strategy strategy, double steps, const struct tr_derived *d)
{
    if (strategy == TR_STRATEGY_EPOCH)
        return d->steps_per_epoch;
    if (strategy != TR_STRATEGY_STEPS)
        return 0;
    return steps >= 1 ? (int64_t)steps : (int64_t)fmax(ceil(steps * (double)d->total_steps), 1);
}

/* A ratio that is given stands for the steps, also 0, and 1 is one step: as in transformers 5.6. */
static int64_t warmup(const struct tr_args *a, int64_t total)
{
    double steps = a->warmup_ratio != TR_RATIO_ABSENT ? a->warmup_ratio : a->warmup_steps;

    return steps >= 1 ? (int64_t)steps : (int64_t)ceil(steps * (double)total);
}

enum fr_rc tr_args_derive(const struct tr_args *a, int64_t examples, int64_t world,
                          struct tr_derived *out, struct fr_err *err)
{
    int64_t b = a->per_device_train_batch_size, acc = a->gradient_accumulation_steps;
    struct tr_derived d = {.examples = examples, .world = world};

    if (examples < 1)
        return fr_fail(err, FR_USAGE, "there are no examples");
    d.micro_per_rank =
        a->dataloader_drop_last ? examples / b / world : tr_div_up(tr_div_up(examples, b), world);
    if (d.micro_per_rank < 1)
        return fr_fail(err, FR_USAGE,
                       "--dataloader_drop_last leaves nothing: %lld examples, %lld a micro-batch, "
                       "%lld processes",
                       (long long)examples, (long long)b, (long long)world);
    d.steps_per_epoch = tr_div_up(d.micro_per_rank, acc);
    d.total_steps = a->max_steps > 0
                        ? a->max_steps
                        : (int64_t)ceil(a->num_train_epochs * (double)d.steps_per_epoch);
    d.epochs = a->max_steps > 0 ? tr_div_up(a->max_steps, d.steps_per_epoch)
                                : (int64_t)ceil(a->num_train_epochs);
    d.total_batch = b * acc * world;
    d.micro_shown = d.micro_per_rank;
    if (a->streaming) {
        d.micro_shown = a->max_steps * acc;
        d.epochs = INT64_MAX;
        d.examples = a->max_steps * d.total_batch;
    }
    d.warmup_steps = warmup(a, d.total_steps);
    d.save_every = every(a->save_strategy, a->save_steps, &d);
    d.log_every = every(a->logging_strategy, a->logging_steps, &d);
    d.eval_every = every(a->eval_strategy, a->eval_steps, &d);
    *out = d;
    return FR_OK;
}
