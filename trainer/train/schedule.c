#include "trainer/train/schedule.h"

#include "engine/base/json.h"

#include <math.h>
#include <string.h>

static double at_least(double x, double low)
{
    return x > low ? x : low;
}

/* One number of --lr_scheduler_kwargs. */
static enum fr_rc read_kwarg(struct tr_schedule *s, const char *key, const json_t *v,
                             struct fr_err *err)
{
    const struct {
        const char *name;
        double *out;
    } known[] = {{"num_cycles", &s->cycles},
                 {"power", &s->power},
                 {"lr_end", &s->end_lr},
                 {"min_lr_rate", &s->min_ratio},
                 {"min_lr_ratio", &s->min_ratio}};
    double x = json_number_value(v);

    if (!json_is_number(v))
        return fr_fail(err, FR_USAGE, "--lr_scheduler_kwargs: '%s' is not a number", key);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(key, known[i].name) == 0) {
            *known[i].out = x;
            return FR_OK;
        }
    if (strcmp(key, "min_lr") == 0)
        s->min_ratio = x / s->peak;
    else if (strcmp(key, "num_stable_steps") == 0)
        s->stable = (int64_t)x;
    else if (strcmp(key, "num_decay_steps") == 0)
        s->total = s->warmup + s->stable + (int64_t)x;
    else
        return fr_fail(
            err, FR_USAGE,
            "--lr_scheduler_kwargs: unknown key '%s', expected num_cycles, power, lr_end, "
            "min_lr, min_lr_rate, num_stable_steps or num_decay_steps",
            key);
    return FR_OK;
}

static enum fr_rc read_kwargs(struct tr_schedule *s, const char *text, struct fr_err *err)
{
    json_t *root, *v;
    const char *key;
    enum fr_rc rc = fr_json_parse(fr_str_of(text), "--lr_scheduler_kwargs", &root, err);

    if (rc == FR_OK && !json_is_object(root))
        rc = fr_fail(err, FR_USAGE, "--lr_scheduler_kwargs is not a JSON object");
    if (rc == FR_OK)
        json_object_foreach(root, key, v)
        {
            if (rc == FR_OK)
                rc = read_kwarg(s, key, v, err);
        }
    json_decref(root);
    return rc;
}

enum fr_rc tr_schedule_make(const struct tr_args *a, const struct tr_ds_config *ds,
                            const struct tr_derived *d, struct tr_schedule *out, struct fr_err *err)
{
    *out = (struct tr_schedule){
        .type = a->lr_scheduler_type,
        .ds = ds->scheduler,
        .peak = ds->optimizer ? ds->lr : a->learning_rate,
        .total = d->total_steps,
        .warmup = d->warmup_steps,
        .stable = (d->total_steps - d->warmup_steps) / 3,
        .cycles = a->lr_scheduler_type == TR_LR_COSINE_RESTARTS ? 1 : 0.5,
        .power = 1,
        .end_lr = 1e-7,
        .ds_min_lr = ds->warmup_min_lr,
        .ds_max_lr = ds->warmup_max_lr,
        .ds_min_ratio = ds->warmup_min_ratio,
        .ds_cos_min_ratio = ds->cos_min_ratio,
        .ds_total = ds->total_num_steps,
        .ds_warmup = ds->warmup_num_steps > 2 ? ds->warmup_num_steps : 2,
        .ds_linear = ds->warmup_linear,
    };
    return a->lr_scheduler_kwargs != NULL ? read_kwargs(out, a->lr_scheduler_kwargs, err) : FR_OK;
}

/* The part behind the warm-up of the schedules that fall from 1: progress p in [0, …). */
static double decay(const struct tr_schedule *s, int64_t k, double p)
{
    double left = (double)(s->total - k) / at_least((double)(s->total - s->warmup), 1);
    double cosine = at_least(0.5 * (1 + cos(M_PI * 2 * s->cycles * p)), 0);

    switch (s->type) {
    case TR_LR_LINEAR:
        return at_least(left, 0);
    case TR_LR_COSINE:
        return cosine;
    case TR_LR_COSINE_MIN:
        return s->min_ratio + (1 - s->min_ratio) * cosine;
    case TR_LR_COSINE_RESTARTS:
        return p >= 1 ? 0 : at_least(0.5 * (1 + cos(M_PI * fmod(s->cycles * p, 1))), 0);
    case TR_LR_POLYNOMIAL:
        return k > s->total ? s->end_lr / s->peak
                            : ((s->peak - s->end_lr) * pow(1 - p, s->power) + s->end_lr) / s->peak;
    default:
        return 1;
    }
}

static double wsd(const struct tr_schedule *s, int64_t k)
{
    int64_t falls = s->warmup + s->stable;
    double d = at_least((double)(s->total - falls), 1);

    if (k < falls)
        return 1;
    if (k >= s->total)
        return s->min_ratio;
    return s->min_ratio + (1 - s->min_ratio) * 0.5 * (1 + cos(M_PI * (double)(k - falls) / d));
}

static double hf_factor(const struct tr_schedule *s, int64_t k)
{
    if (s->type == TR_LR_CONSTANT)
        return 1;
    if (k < s->warmup)
        return (double)k / at_least((double)s->warmup, 1);
    if (s->type == TR_LR_INVERSE_SQRT) {
        double t = s->warmup > 0 ? (double)s->warmup : 10000;
        return 1 / sqrt(((double)k + t - (double)s->warmup) / t);
    }
    if (s->type == TR_LR_WSD)
        return wsd(s, k);
    return decay(s, k, (double)(k - s->warmup) / at_least((double)(s->total - s->warmup), 1));
}

/* DeepSpeed's rate after k + 1 scheduler steps; k = -1 before the first update. */
static double ds_lr(const struct tr_schedule *s, int64_t k)
{
    double v = (double)s->ds_warmup, x = (double)k;
    double g = s->ds_linear ? x / v : k >= 0 ? log(x + 1) / log(v) : 0;

    if (s->ds == TR_DS_LR_WARMUP_COSINE) {
        if (k < 0)
            return 0;
        if (k < s->ds_warmup)
            return s->peak * (s->ds_min_ratio + (1 - s->ds_min_ratio) * g);
        double p = (x - v + 1) / at_least((double)s->ds_total - v, 1);
        return s->peak * (s->ds_cos_min_ratio +
                          (1 - s->ds_cos_min_ratio) * (1 + cos(M_PI * (p < 1 ? p : 1))) / 2);
    }
    if (k < 0)
        return s->ds_min_lr;
    if (k >= s->ds_warmup)
        g = s->ds == TR_DS_LR_WARMUP
                ? 1
                : at_least(((double)s->ds_total - x) / at_least((double)s->ds_total - v, 1), 0);
    return s->ds_min_lr + (s->ds_max_lr - s->ds_min_lr) * g;
}

double tr_schedule_lr(const struct tr_schedule *s, int64_t k)
{
    return s->ds != TR_DS_LR_NONE ? ds_lr(s, k - 1) : s->peak * hf_factor(s, k);
}

double tr_schedule_logged(const struct tr_schedule *s, int64_t k)
{
    return s->ds != TR_DS_LR_NONE ? ds_lr(s, k) : s->peak * hf_factor(s, k);
}
