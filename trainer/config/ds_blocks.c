#include "trainer/config/ds_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum fr_rc tr_ds_block(const struct tr_ds_read *r, const char *key, struct tr_fields *f,
                       char where[512], struct fr_err *err)
{
    struct tr_fields top = {r->root, r->name};

    *f = (struct tr_fields){tr_field(&top, key), where};
    (void)snprintf(where, 512, "%.400s: %s", r->name, key);
    if (f->object != NULL && !json_is_object(f->object))
        return tr_field_bad(&top, key, "an object", err);
    return FR_OK;
}

/* enabled of a precision block; the flag's value if the block is absent or "auto". */
static enum fr_rc enabled(struct tr_ds_read *r, const struct tr_fields *f, const char *name,
                          bool flag, bool *out, struct fr_err *err)
{
    enum fr_rc rc;

    *out = flag;
    if (f->object == NULL || tr_ds_auto(tr_field(f, "enabled")))
        return FR_OK;
    *out = false;
    if ((rc = tr_field_bool(f, "enabled", out, err)) != FR_OK)
        return rc;
    if (*out != flag && tr_field(f, "enabled") != NULL)
        fr_buf_fmt(&r->mismatch, " - ds %s.enabled=%s vs hf %s=%s", name, *out ? "true" : "false",
                   name, flag ? "true" : "false");
    return FR_OK;
}

/* A number of a validated block: "auto" keeps the default. */
static enum fr_rc number(const struct tr_fields *f, const char *key, double *out,
                         struct fr_err *err)
{
    return tr_ds_auto(tr_field(f, key)) ? FR_OK : tr_field_f64(f, key, out, err);
}

static enum fr_rc whole(const struct tr_fields *f, const char *key, int64_t *out,
                        struct fr_err *err)
{
    return tr_ds_auto(tr_field(f, key)) ? FR_OK : tr_field_i64(f, key, out, err);
}

static enum fr_rc read_fp16(struct tr_ds_read *r, const struct tr_fields *f, struct fr_err *err)
{
    struct tr_ds_config *c = r->out;
    bool skip = false;
    enum fr_rc rc;

    if ((rc = tr_ds_keys(r, f, "fp16", err)) != FR_OK ||
        (rc = number(f, "loss_scale", &c->loss_scale, err)) != FR_OK ||
        (rc = whole(f, "initial_scale_power", &c->initial_scale_power, err)) != FR_OK ||
        (rc = whole(f, "loss_scale_window", &c->loss_scale_window, err)) != FR_OK ||
        (rc = whole(f, "hysteresis", &c->hysteresis, err)) != FR_OK ||
        (rc = number(f, "min_loss_scale", &c->min_loss_scale, err)) != FR_OK ||
        (rc = tr_field_bool(f, "auto_cast", &skip, err)) != FR_OK ||
        (rc = tr_field_bool(f, "consecutive_hysteresis", &c->consecutive_hysteresis, err)) != FR_OK)
        return rc;
    if (c->loss_scale < 0)
        return tr_field_bad(f, "loss_scale", "0 (dynamic) or more", err);
    if (c->loss_scale_window <= 0)
        return tr_field_bad(f, "loss_scale_window", "above 0", err);
    if (!(c->min_loss_scale > 0) && c->loss_scale == 0)
        return tr_field_bad(f, "min_loss_scale", "above 0", err);
    return FR_OK;
}

enum fr_rc tr_ds_precision(struct tr_ds_read *r, struct fr_err *err)
{
    char where16[512], whereb[512];
    struct tr_fields fp16, bf16, top = {r->root, r->name};
    const char *bf16_name = tr_field(&top, "bf16") == NULL ? "bfloat16" : "bf16";
    const struct tr_args *a = r->flags->args;
    bool fp16_on = a->fp16, bf16_on = a->bf16;
    enum fr_rc rc;

    if ((rc = tr_ds_block(r, "fp16", &fp16, where16, err)) != FR_OK ||
        (rc = tr_ds_block(r, bf16_name, &bf16, whereb, err)) != FR_OK)
        return rc;
    if (fp16.object != NULL && (rc = read_fp16(r, &fp16, err)) != FR_OK)
        return rc;
    if (bf16.object != NULL && ((rc = tr_ds_keys(r, &bf16, "bf16", err)) != FR_OK ||
                                (rc = tr_field_bool(&bf16, "check_grad_overflow",
                                                    &r->out->check_grad_overflow, err)) != FR_OK))
        return rc;
    if ((rc = enabled(r, &fp16, "fp16", a->fp16, &fp16_on, err)) != FR_OK ||
        (rc = enabled(r, &bf16, "bf16", a->bf16, &bf16_on, err)) != FR_OK)
        return rc;
    if (fp16_on && bf16_on)
        return fr_fail(err, FR_USAGE, "%s: fp16 and bf16 are both enabled", r->name);
    r->out->precision_given = fp16.object != NULL || bf16.object != NULL;
    r->out->precision = bf16_on   ? TR_PRECISION_BF16
                        : fp16_on ? TR_PRECISION_FP16
                                  : TR_PRECISION_FP32;
    return FR_OK;
}

/* A block with a type and params; both the block and its params may be absent. */
struct typed {
    struct tr_fields block, params;
    const char *type;
    char where[512], where_params[512];
};

static enum fr_rc read_typed(const struct tr_ds_read *r, const char *name, struct typed *t,
                             struct fr_err *err)
{
    enum fr_rc rc = tr_ds_block(r, name, &t->block, t->where, err);

    if (rc != FR_OK || t->block.object == NULL)
        return rc;
    t->params = (struct tr_fields){tr_field(&t->block, "params"), t->where_params};
    (void)snprintf(t->where_params, sizeof(t->where_params), "%.480s.params", t->where);
    if ((rc = tr_ds_keys(r, &t->block, name, err)) != FR_OK ||
        (rc = tr_field_need(&t->block, "type", err)) != FR_OK ||
        (rc = tr_field_text(&t->block, "type", &t->type, err)) != FR_OK)
        return rc;
    if (t->params.object != NULL && !json_is_object(t->params.object))
        return tr_field_bad(&t->block, "params", "an object", err);
    return FR_OK;
}

static enum fr_rc read_betas(struct tr_ds_read *r, const struct tr_fields *p, struct fr_err *err)
{
    const json_t *v = tr_field(p, "betas");
    const struct tr_args *a = r->flags->args;
    struct tr_ds_config *c = r->out;

    if (tr_ds_auto(v)) {
        c->beta1 = a->adam_beta1;
        c->beta2 = a->adam_beta2;
    }
    if (v == NULL || tr_ds_auto(v))
        return FR_OK;
    if (!json_is_array(v) || json_array_size(v) != 2 || !json_is_number(json_array_get(v, 0)) ||
        !json_is_number(json_array_get(v, 1)))
        return tr_field_bad(p, "betas", "two numbers", err);
    c->beta1 = json_number_value(json_array_get(v, 0));
    c->beta2 = json_number_value(json_array_get(v, 1));
    if (c->beta1 != a->adam_beta1 || c->beta2 != a->adam_beta2)
        fr_buf_fmt(&r->mismatch,
                   " - ds optimizer.params.betas=[%g, %g] vs hf adam_beta1+adam_beta2=[%g, %g]",
                   c->beta1, c->beta2, a->adam_beta1, a->adam_beta2);
    return FR_OK;
}

/* A number of Muon's own, which no flag has; absent: as it is. */
static enum fr_rc read_own(const struct tr_fields *p, const char *key, double *out,
                           struct fr_err *err)
{
    enum fr_rc rc = tr_field_f64(p, key, out, err);

    return rc == FR_OK && !(*out >= 0) ? tr_field_bad(p, key, "a number >= 0", err) : rc;
}

/* What Muon has beside AdamW's parameters. DeepSpeed reads no other of these keys. */
static enum fr_rc read_muon(struct tr_ds_read *r, const struct tr_fields *p, struct fr_err *err)
{
    struct tr_ds_config *c = r->out;
    const char *method = "gram";
    bool heads = false, nesterov = true;
    int64_t steps = 5;
    enum fr_rc rc;

    if (c->muon != TR_MUON_BLOCK)
        return FR_OK;
    if (tr_field(p, "lr") != NULL)
        c->muon_lr = c->adam_lr = c->lr;
    if ((rc = read_own(p, "muon_lr", &c->muon_lr, err)) != FR_OK ||
        (rc = read_own(p, "adam_lr", &c->adam_lr, err)) != FR_OK ||
        (rc = read_own(p, "momentum", &c->muon_momentum, err)) != FR_OK ||
        (rc = tr_field_text(p, "ns_method", &method, err)) != FR_OK ||
        (rc = tr_field_bool(p, "per_head_muon", &heads, err)) != FR_OK ||
        (rc = tr_field_bool(p, "nesterov", &nesterov, err)) != FR_OK ||
        (rc = tr_field_i64(p, "ns_steps", &steps, err)) != FR_OK)
        return rc;
    if (method == NULL || (strcmp(method, "gram") != 0 && strcmp(method, "standard") != 0))
        return tr_field_bad(p, "ns_method", "gram or standard", err);
    if (c->muon_momentum >= 1)
        return tr_field_bad(p, "momentum", "a number below 1", err);
    if (heads)
        return fr_fail(err, FR_UNSUPPORTED, "%s: per_head_muon is not done: matrices are whole",
                       p->where);
    if (!nesterov || steps != 5)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: %s: Muon makes 5 steps with Nesterov's momentum, also in DeepSpeed, "
                       "which does not read the key",
                       p->where, nesterov ? "ns_steps" : "nesterov");
    c->muon_plain = strcmp(method, "standard") == 0;
    return FR_OK;
}

/* Defaults of the type. */
static void begin_muon(struct tr_ds_config *c)
{
    c->muon = TR_MUON_BLOCK;
    c->muon_momentum = 0.95;
    c->muon_lr = 0.02;
    c->adam_lr = 3e-4;
    c->beta1 = 0.9;
    c->beta2 = 0.95;
    c->eps = 1e-10;
    c->weight_decay = 0;
}

enum fr_rc tr_ds_optimizer(struct tr_ds_read *r, struct fr_err *err)
{
    struct tr_ds_config *c = r->out;
    struct typed t;
    const struct tr_fields *p = &t.params;
    bool skip = false;
    enum fr_rc rc = read_typed(r, "optimizer", &t, err);

    if (rc != FR_OK || t.block.object == NULL)
        return rc;
    if (strcasecmp(t.type, "muon") == 0)
        begin_muon(c);
    else if (strcasecmp(t.type, "adamw") != 0 && strcasecmp(t.type, "adam") != 0)
        return fr_fail(err, FR_UNSUPPORTED, "%s: type '%s', only AdamW, Adam and Muon are done",
                       t.where, t.type);
    c->optimizer = true;
    if (p->object == NULL)
        return FR_OK;
    if (tr_field(p, "max_grad_norm") != NULL)
        return fr_fail(err, FR_USAGE,
                       "%s: max_grad_norm does not belong here, use gradient_clipping at the top",
                       p->where);
    if ((rc = tr_ds_keys(r, p, "optimizer.params", err)) != FR_OK ||
        (rc = tr_field_bool(p, "adam_w_mode", &c->adam_w_mode, err)) != FR_OK ||
        (rc = tr_field_bool(p, "bias_correction", &c->bias_correction, err)) != FR_OK ||
        (rc = tr_field_bool(p, "amsgrad", &skip, err)) != FR_OK)
        return rc;
    if (skip)
        return fr_fail(err, FR_UNSUPPORTED, "%s: amsgrad is not done", p->where);
    if (!c->bias_correction)
        return fr_fail(err, FR_UNSUPPORTED, "%s: bias_correction is always done", p->where);
    tr_ds_match(r, p, "lr", "learning_rate", &c->lr);
    tr_ds_match(r, p, "eps", "adam_epsilon", &c->eps);
    tr_ds_match(r, p, "weight_decay", "weight_decay", &c->weight_decay);
    if (!c->adam_w_mode && c->weight_decay != 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: adam_w_mode false: weight decay is never added to the gradient",
                       p->where);
    rc = read_betas(r, p, err);
    return rc == FR_OK ? read_muon(r, p, err) : rc;
}

/* Steps of a schedule. Once the derived number is known, "auto" takes it and others must equal it.
 */
static enum fr_rc match_steps(struct tr_ds_read *r, const struct tr_fields *p, const char *key,
                              int64_t derived, int64_t *out, struct fr_err *err)
{
    bool known = r->flags->derived != NULL;
    enum fr_rc rc;

    if (tr_ds_auto(tr_field(p, key))) {
        *out = known ? derived : 0;
        return FR_OK;
    }
    if (tr_field(p, key) == NULL)
        return FR_OK;
    if ((rc = tr_field_i64(p, key, out, err)) != FR_OK)
        return rc;
    if (known && *out != derived)
        fr_buf_fmt(&r->mismatch, " - ds scheduler.params.%s=%lld vs hf %s=%lld", key,
                   (long long)*out,
                   strcmp(key, "total_num_steps") == 0 ? "num_training_steps (calculated)"
                                                       : "warmup_steps",
                   (long long)derived);
    return FR_OK;
}

static enum fr_rc read_schedule(struct tr_ds_read *r, const struct tr_fields *p, struct fr_err *err)
{
    const struct tr_derived *d = r->flags->derived;
    struct tr_ds_config *c = r->out;
    const char *type = "log";
    enum fr_rc rc;

    if ((rc = tr_ds_keys(r, p, "scheduler.params", err)) != FR_OK ||
        (rc = number(p, "warmup_min_lr", &c->warmup_min_lr, err)) != FR_OK ||
        (rc = number(p, "warmup_min_ratio", &c->warmup_min_ratio, err)) != FR_OK ||
        (rc = number(p, "cos_min_ratio", &c->cos_min_ratio, err)) != FR_OK ||
        (rc = match_steps(r, p, "warmup_num_steps", d != NULL ? d->warmup_steps : 0,
                          &c->warmup_num_steps, err)) != FR_OK ||
        (rc = match_steps(r, p, "total_num_steps", d != NULL ? d->total_steps : 0,
                          &c->total_num_steps, err)) != FR_OK ||
        (rc = tr_field_text(p, "warmup_type", &type, err)) != FR_OK)
        return rc;
    tr_ds_match(r, p, "warmup_max_lr", "learning_rate", &c->warmup_max_lr);
    c->warmup_linear = strcmp(type, "linear") == 0;
    return FR_OK;
}

const char *tr_ds_lr_name(enum tr_ds_lr lr)
{
    static const char *const names[] = {"none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};

    return names[lr];
}

enum fr_rc tr_ds_scheduler(struct tr_ds_read *r, struct fr_err *err)
{
    struct typed t;
    const struct tr_fields *p = &t.params;
    int kind = TR_DS_LR_WARMUP;
    enum fr_rc rc = read_typed(r, "scheduler", &t, err);

    if (rc != FR_OK || t.block.object == NULL)
        return rc;
    while (kind <= TR_DS_LR_WARMUP_COSINE &&
           strcmp(tr_ds_lr_name((enum tr_ds_lr)kind), t.type) != 0)
        kind++;
    if (kind > TR_DS_LR_WARMUP_COSINE)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: type '%s', only WarmupLR, WarmupDecayLR and WarmupCosineLR are done",
                       t.where, t.type);
    r->out->scheduler = (enum tr_ds_lr)kind;
    if (kind != TR_DS_LR_WARMUP && (p->object == NULL || tr_field(p, "total_num_steps") == NULL))
        return fr_fail(err, FR_USAGE, "%s: %s needs total_num_steps", p->where, t.type);
    return p->object == NULL ? FR_OK : read_schedule(r, p, err);
}
