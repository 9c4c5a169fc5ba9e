#include "trainer/config/ds_read.h"

#include "trainer/config/args_table.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DS_MAX_BYTES = 4 << 20 };

bool tr_ds_auto(const json_t *v)
{
    return json_is_string(v) && strcmp(json_string_value(v), "auto") == 0;
}

void tr_ds_note(const struct tr_ds_read *r, const char *fmt, ...)
{
    va_list ap;

    if (r->notes == NULL)
        return;
    fr_buf_fmt(r->notes, "%s: ", r->name);
    va_start(ap, fmt);
    fr_buf_vfmt(r->notes, fmt, ap);
    va_end(ap);
    fr_buf_text(r->notes, "\n");
}

/* A flag's value as a number, whatever its type in struct tr_args. */
static double flag_value(const struct tr_args *a, const char *flag)
{
    const struct tr_arg *arg = tr_arg_find(flag, strlen(flag));
    const char *at = (const char *)a + arg->at;

    return arg->kind == TR_ARG_INT ? (double)*(const int64_t *)(const void *)at
                                   : *(const double *)(const void *)at;
}

enum fr_rc tr_ds_match(struct tr_ds_read *r, const struct tr_fields *f, const char *key,
                       const char *flag, double *out)
{
    double want = flag_value(r->flags->args, flag);
    const json_t *v = tr_field(f, key);

    if (v == NULL)
        return FR_OK;
    if (!tr_ds_auto(v) && !json_is_number(v)) {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

        fr_buf_fmt(&r->mismatch, " - ds %s=%.60s, which is no number, vs hf %s=%g", key,
                   text != NULL ? text : "", flag, want);
        free(text);
        return FR_OK;
    }
    *out = tr_ds_auto(v) ? want : json_number_value(v);
    if (*out != want)
        fr_buf_fmt(&r->mismatch, " - ds %s=%g vs hf %s=%g", key, *out, flag, want);
    return FR_OK;
}

/* train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps. */
static enum fr_rc read_batch(struct tr_ds_read *r, const struct tr_fields *f, struct fr_err *err)
{
    const struct tr_args *a = r->flags->args;
    double micro = (double)a->per_device_train_batch_size;
    double acc = (double)a->gradient_accumulation_steps, world = (double)r->flags->world;
    const json_t *v = tr_field(f, "train_batch_size");
    double train = world * micro * acc;

    tr_ds_match(r, f, "train_micro_batch_size_per_gpu", "per_device_train_batch_size", &micro);
    tr_ds_match(r, f, "gradient_accumulation_steps", "gradient_accumulation_steps", &acc);
    if (v != NULL && !tr_ds_auto(v)) {
        if (!json_is_number(v))
            return tr_field_bad(f, "train_batch_size", "an integer or \"auto\"", err);
        double flags = train;
        train = json_number_value(v);
        if (train != flags)
            fr_buf_fmt(&r->mismatch,
                       " - ds train_batch_size=%g vs hf train_batch_size (calculated)=%g", train,
                       flags);
    }
    if (r->mismatch.n > 0)
        return FR_OK;
    if (!(micro > 0 && acc > 0 && train > 0 && train == micro * acc * world) ||
        micro != floor(micro) || acc != floor(acc))
        return fr_fail(err, FR_USAGE,
                       "%s: Check batch related parameters. train_batch_size is not equal to "
                       "micro_batch_per_gpu * gradient_acc_step * world_size %g != %g * %g * %g",
                       r->name, train, micro, acc, world);
    r->out->micro_batch = (int64_t)micro;
    r->out->accumulation = (int64_t)acc;
    r->out->train_batch_size = (int64_t)train;
    return FR_OK;
}

static enum fr_rc read_communication(struct tr_ds_read *r, const struct tr_fields *f,
                                     struct fr_err *err)
{
    static const char *const words[] = {"fp32", "bf16", "fp16"};
    const char *word = NULL;
    enum fr_rc rc = tr_field_text(f, "communication_data_type", &word, err);

    r->out->communication = TR_PRECISION_FP32;
    if (rc != FR_OK || word == NULL)
        return rc;
    for (int i = 0; i < 3; i++)
        if (strcasecmp(word, words[i]) == 0) {
            r->out->communication = (enum tr_precision)i;
            if (i != 0 && tr_ds_adapters_train(r))
                tr_ds_note(r, "communication_data_type %s: gradients of adapters travel as fp32",
                           word);
            return FR_OK;
        }
    return tr_field_bad(f, "communication_data_type", "fp32, bf16 or fp16", err);
}

/* DeepSpeed's and torch's names of f32, and of the others. */
static bool is_f32(const char *word)
{
    return strcmp(word, "fp32") == 0 || strcmp(word, "float32") == 0 ||
           strcmp(word, "float") == 0 || strcmp(word, "torch.float32") == 0;
}

static enum fr_rc read_sums(struct tr_ds_read *r, struct fr_err *err)
{
    static const char *const halves[] = {"fp16", "float16",  "half",          "torch.float16",
                                         "bf16", "bfloat16", "torch.bfloat16"};
    struct tr_fields f;
    char where[512];
    const char *word = NULL;
    bool half = false;
    enum fr_rc rc = tr_ds_block(r, "data_types", &f, where, err);

    if (rc == FR_OK && f.object != NULL && (rc = tr_ds_keys(r, &f, "data_types", err)) == FR_OK)
        rc = tr_field_text(&f, "grad_accum_dtype", &word, err);
    if (rc != FR_OK || word == NULL || is_f32(word))
        return rc;
    for (size_t i = 0; i < sizeof(halves) / sizeof(*halves); i++)
        half = half || strcmp(word, halves[i]) == 0;
    if (!half)
        return tr_field_bad(&f, "grad_accum_dtype", "fp32, bf16 or fp16", err);
    if (tr_ds_weights_train(r))
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: data_types.grad_accum_dtype %s: gradients of weights are summed in "
                       "f32: say fp32 or leave it out; communication_data_type halves their bytes "
                       "between ranks, offload_optimizer takes the sums from the GPU",
                       r->name, word);
    tr_ds_note(r, "grad_accum_dtype %s: gradients of adapters are summed in f32", word);
    return FR_OK;
}

static enum fr_rc read_top(struct tr_ds_read *r, const struct tr_fields *f, struct fr_err *err)
{
    struct tr_ds_config *c = r->out;
    struct tr_fields act;
    char where[512];
    double clip = 1; /* DeepSpeed's default where the key is absent, not --max_grad_norm */
    enum fr_rc rc;

    tr_ds_match(r, f, "gradient_clipping", "max_grad_norm", &clip);
    c->gradient_clipping = clip;
    if (tr_field(f, "gradient_clipping") == NULL && clip != r->flags->args->max_grad_norm)
        tr_ds_note(r,
                   "gradient_clipping is absent: 1.0, DeepSpeed's default, is used instead of "
                   "--max_grad_norm %g",
                   r->flags->args->max_grad_norm);
    if ((rc = tr_field_i64(f, "steps_per_print", &c->steps_per_print, err)) != FR_OK ||
        (rc = tr_ds_block(r, "activation_checkpointing", &act, where, err)) != FR_OK ||
        (act.object != NULL &&
         (rc = tr_ds_keys(r, &act, "activation_checkpointing", err)) != FR_OK))
        return rc;
    c->cpu_checkpointing = json_is_true(json_object_get(act.object, "cpu_checkpointing"));
    rc = read_communication(r, f, err);
    return rc == FR_OK ? read_sums(r, err) : rc;
}

static enum fr_rc read_all(struct tr_ds_read *r, struct fr_err *err)
{
    struct tr_fields f = {r->root, r->name};
    enum fr_rc rc;

    if (!json_is_object(r->root))
        return fr_fail(err, FR_USAGE, "%s is not a JSON object", r->name);
    if ((rc = tr_ds_keys(r, &f, "", err)) != FR_OK || (rc = read_top(r, &f, err)) != FR_OK ||
        (rc = tr_ds_zero(r, err)) != FR_OK || (rc = tr_ds_experts(r, err)) != FR_OK ||
        (rc = tr_ds_precision(r, err)) != FR_OK || (rc = tr_ds_optimizer(r, err)) != FR_OK ||
        (rc = tr_ds_scheduler(r, err)) != FR_OK || (rc = read_batch(r, &f, err)) != FR_OK)
        return rc;
    if (r->mismatch.n > 0)
        return fr_fail(err, FR_USAGE,
                       "%s: Please correct the following DeepSpeed config values that mismatch "
                       "TrainingArguments values:%s",
                       r->name, r->mismatch.p);
    return r->mismatch.bad ? fr_fail(err, FR_NOMEM, "no memory to read %s", r->name) : FR_OK;
}

enum tr_dtype tr_precision_type(enum tr_precision p)
{
    return p == TR_PRECISION_BF16 ? TR_BF16 : p == TR_PRECISION_FP16 ? TR_F16 : TR_F32;
}

void tr_ds_default(const struct tr_ds_flags *flags, struct tr_ds_config *out)
{
    const struct tr_args *a = flags->args;

    *out = (struct tr_ds_config){
        .micro_batch = a->per_device_train_batch_size,
        .accumulation = a->gradient_accumulation_steps,
        .gradient_clipping = a->max_grad_norm,
        .reduce_bucket_size = 500000000,
        .allgather_bucket_size = 500000000,
        .sub_group_size = 1000000000,
        .prefetch_bucket_size = 50000000,
        .gather_16bit_on_save = true,
        .persistence_threshold = 100000,
        .model_persistence_threshold = INT64_MAX,
        .max_live_parameters = 1000000000,
        .max_reuse_distance = 1000000000,
        .hpz_partition_size = 1,
        .precision = a->bf16   ? TR_PRECISION_BF16
                     : a->fp16 ? TR_PRECISION_FP16
                               : TR_PRECISION_FP32,
        .initial_scale_power = 16,
        .loss_scale_window = 1000,
        .hysteresis = 2,
        .min_loss_scale = 1,
        .check_grad_overflow = true,
        .lr = a->learning_rate,
        .beta1 = a->adam_beta1,
        .beta2 = a->adam_beta2,
        .eps = a->adam_epsilon,
        .weight_decay = a->weight_decay,
        .adam_w_mode = true,
        .bias_correction = true,
        .muon = a->use_muon ? TR_MUON_FLAGS : TR_MUON_NONE,
        .warmup_max_lr = a->learning_rate,
        .warmup_num_steps = 1000,
        .cos_min_ratio = 1e-4,
    };
    out->train_batch_size = out->micro_batch * out->accumulation * flags->world;
}

/* DeepSpeed's optimizer and schedulers give all parameters one rate. */
static enum fr_rc check_rates(const struct tr_ds_read *r, struct fr_err *err)
{
    const struct tr_ds_config *c = r->out;

    if (r->flags->args->loraplus_lr_ratio == TR_RATIO_ABSENT ||
        (!c->optimizer && c->scheduler == TR_DS_LR_NONE))
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "%s: %s gives A and B one rate, --loraplus_lr_ratio two: leave the block out, "
                   "the flags say the same",
                   r->name, c->optimizer ? "optimizer" : "scheduler");
}

/* Where moments have 8 bits. */
static enum fr_rc check_coded(const struct tr_ds_read *r, struct fr_err *err)
{
    const struct tr_ds_config *c = r->out;

    if (!tr_args_coded(r->flags->args))
        return FR_OK;
    if (c->optimizer)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: AdamW of the optimizer block has f32 states, --optim asks for 8-bit "
                       "ones: leave the block out, the flags say the same, or leave out --optim",
                       r->name);
    return FR_OK;
}

/* Muon, of the flag or the block. */
static enum fr_rc check_muon(const struct tr_ds_read *r, struct fr_err *err)
{
    const struct tr_ds_config *c = r->out;

    if (r->flags->args->use_muon && c->optimizer)
        return fr_fail(err, FR_USAGE,
                       "%s: the optimizer block and --use_muon both name the optimizer: leave out "
                       "one",
                       r->name);
    if (c->muon == TR_MUON_BLOCK && strcmp(r->flags->args->finetuning_type, "lora") == 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: Muon of the optimizer block trains weights: --finetuning_type full or "
                       "freeze; adapters have AdamW",
                       r->name);
    if (c->muon == TR_MUON_BLOCK && c->scheduler != TR_DS_LR_NONE && c->muon_lr != c->adam_lr)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: scheduler gives all weights one rate, Muon has %g for matrices and %g "
                       "for others: leave the block scheduler out, the flags say the same",
                       r->name, c->muon_lr, c->adam_lr);
    return FR_OK;
}

enum fr_rc tr_ds_load(const char *source, const struct tr_ds_flags *flags, struct tr_ds_config *out,
                      struct fr_buf *notes, struct fr_err *err)
{
    bool inlined = source[0] == '{';
    struct tr_ds_read r = {
        .name = inlined ? "--deepspeed" : source, .flags = flags, .out = out, .notes = notes};
    json_t *root = NULL;
    enum fr_rc rc = inlined ? fr_json_parse(fr_str_of(source), r.name, &root, err)
                            : fr_json_load_any(source, DS_MAX_BYTES, &root, err);

    tr_ds_default(flags, out);
    if (rc != FR_OK)
        return rc;
    r.root = root;
    rc = read_all(&r, err);
    if (rc == FR_OK)
        rc = check_rates(&r, err);
    if (rc == FR_OK)
        rc = check_coded(&r, err);
    if (rc == FR_OK)
        rc = check_muon(&r, err);
    fr_buf_finish(&r.mismatch);
    json_decref(root);
    return rc;
}
