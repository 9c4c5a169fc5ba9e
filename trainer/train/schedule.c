#include "trainer/train/schedule.h"

#include "engine/base/json.h"

#include <math.h>
#include <string.h>

static double at_least(double x, double low)
{
    return x > low ? x : low;
}

enum kwarg {
    NUM_CYCLES,
    POWER,
    LR_END,
    MIN_LR,
    MIN_LR_RATE,
    MIN_LR_RATIO,
    TIMESCALE,
    STABLE_STEPS,
    DECAY_STEPS,
    WARMUP_TYPE,
    DECAY_TYPE,
    KWARGS
};

#define OF(type) (1U << (type))

/* The keys of --lr_scheduler_kwargs and the schedules that take them. */
static const struct {
    const char *name;
    unsigned types;
} kwargs[KWARGS] = {
    [NUM_CYCLES] = {"num_cycles", OF(TR_LR_COSINE) | OF(TR_LR_COSINE_RESTARTS) |
                                      OF(TR_LR_COSINE_MIN) | OF(TR_LR_WSD)},
    [POWER] = {"power", OF(TR_LR_POLYNOMIAL)},
    [LR_END] = {"lr_end", OF(TR_LR_POLYNOMIAL)},
    [MIN_LR] = {"min_lr", OF(TR_LR_COSINE_MIN)},
    [MIN_LR_RATE] = {"min_lr_rate", OF(TR_LR_COSINE_MIN)},
    [MIN_LR_RATIO] = {"min_lr_ratio", OF(TR_LR_WSD)},
    [TIMESCALE] = {"timescale", OF(TR_LR_INVERSE_SQRT)},
    [STABLE_STEPS] = {"num_stable_steps", OF(TR_LR_WSD)},
    [DECAY_STEPS] = {"num_decay_steps", OF(TR_LR_WSD)},
    [WARMUP_TYPE] = {"warmup_type", OF(TR_LR_WSD)},
    [DECAY_TYPE] = {"decay_type", OF(TR_LR_WSD)},
};

static const char *const slopes[] = {"linear", "cosine", "1-sqrt"}; /* enum tr_lr_slope */

/* The values of the object; a word is its index in slopes. */
struct given {
    bool has[KWARGS];
    double x[KWARGS];
};

static enum fr_rc unknown_kwarg(enum tr_lr_type type, const char *key, struct fr_err *err)
{
    struct fr_buf names = {0};

    for (int i = 0; i < KWARGS; i++)
        if (kwargs[i].types & OF(type))
            fr_buf_fmt(&names, "%s%s", names.n > 0 ? ", " : "", kwargs[i].name);
    fr_fail(err, FR_USAGE, "--lr_scheduler_kwargs: unknown key '%s', this schedule has %s", key,
            names.n > 0 ? names.p : "none");
    fr_buf_finish(&names);
    return FR_USAGE;
}

static enum fr_rc read_kwarg(enum tr_lr_type type, const char *key, const json_t *v,
                             struct given *g, struct fr_err *err)
{
    int i = 0, word = 0;

    while (i < KWARGS && (strcmp(kwargs[i].name, key) != 0 || !(kwargs[i].types & OF(type))))
        i++;
    if (i == KWARGS)
        return unknown_kwarg(type, key, err);
    g->has[i] = !json_is_null(v);
    g->x[i] = json_number_value(v);
    if ((i == STABLE_STEPS || i == DECAY_STEPS) && !(g->x[i] >= 0 && g->x[i] <= 1e12))
        return fr_fail(err, FR_USAGE, "--lr_scheduler_kwargs: '%s': expected 0 to 1e12", key);
    if (json_is_null(v) || (i < WARMUP_TYPE && json_is_number(v)))
        return FR_OK;
    if (i < WARMUP_TYPE)
        return fr_fail(err, FR_USAGE, "--lr_scheduler_kwargs: '%s' is not a number", key);
    while (word < 3 && (!json_is_string(v) || strcmp(json_string_value(v), slopes[word]) != 0))
        word++;
    g->x[i] = word;
    return word < 3
               ? FR_OK
               : fr_fail(err, FR_USAGE,
                         "--lr_scheduler_kwargs: '%s': expected linear, cosine or 1-sqrt", key);
}

static enum fr_rc read_kwargs(enum tr_lr_type type, const char *text, struct given *g,
                              struct fr_err *err)
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
                rc = read_kwarg(type, key, v, g, err);
        }
    json_decref(root);
    return rc;
}

/* Rates that the reference would divide by or refuses. */
static enum fr_rc check_rates(const struct tr_schedule *s, const struct given *g,
                              struct fr_err *err)
{
    if (s->type == TR_LR_POLYNOMIAL && !(s->peak > s->end_lr))
        return fr_fail(err, FR_USAGE,
                       "--lr_scheduler_type polynomial: lr_end (%g) must be smaller than "
                       "--learning_rate (%g)",
                       s->end_lr, s->peak);
    if (s->type == TR_LR_COSINE_MIN && g->has[MIN_LR] == g->has[MIN_LR_RATE])
        return fr_fail(err, FR_USAGE,
                       "--lr_scheduler_type cosine_with_min_lr: give min_lr or min_lr_rate in "
                       "--lr_scheduler_kwargs, %s",
                       g->has[MIN_LR] ? "not both" : "there is neither");
    if (g->has[MIN_LR] && !(s->peak > 0))
        return fr_fail(err, FR_USAGE,
                       "--lr_scheduler_kwargs: min_lr is a share of --learning_rate, which is 0: "
                       "give min_lr_rate");
    if (s->type == TR_LR_INVERSE_SQRT && !(s->timescale > 0))
        return fr_fail(err, FR_USAGE, "--lr_scheduler_kwargs: timescale must be above 0");
    return FR_OK;
}

static double given_or(const struct given *g, enum kwarg key, double def)
{
    return g->has[key] ? g->x[key] : def;
}

/* Of stable and decay steps the one that is not given is what the other leaves. */
static enum fr_rc take_kwargs(struct tr_schedule *s, const struct given *g, struct fr_err *err)
{
    int64_t rest = s->total - s->warmup, fall = (int64_t)given_or(g, DECAY_STEPS, 0);

    s->cycles = given_or(g, NUM_CYCLES, s->type == TR_LR_COSINE_RESTARTS ? 1 : 0.5);
    s->power = given_or(g, POWER, 1);
    s->end_lr = given_or(g, LR_END, 1e-7);
    s->timescale = given_or(g, TIMESCALE, s->warmup > 0 ? (double)s->warmup : 10000);
    s->min_ratio = given_or(g, MIN_LR_RATE, given_or(g, MIN_LR_RATIO, 0));
    s->rise = (enum tr_lr_slope)given_or(g, WARMUP_TYPE, TR_SLOPE_LINEAR);
    s->fall = (enum tr_lr_slope)given_or(g, DECAY_TYPE, TR_SLOPE_COSINE);
    s->stable = g->has[STABLE_STEPS]  ? (int64_t)g->x[STABLE_STEPS]
                : g->has[DECAY_STEPS] ? rest - fall
                                      : rest / 3;
    s->falling = g->has[DECAY_STEPS] ? fall : rest - s->stable;
    enum fr_rc rc = check_rates(s, g, err);
    if (rc == FR_OK && g->has[MIN_LR])
        s->min_ratio = g->x[MIN_LR] / s->peak;
    return rc;
}

enum fr_rc tr_schedule_make(const struct tr_args *a, const struct tr_ds_config *ds,
                            const struct tr_derived *d, struct tr_schedule *out, struct fr_err *err)
{
    bool constant =
        a->lr_scheduler_type == TR_LR_CONSTANT || a->lr_scheduler_type == TR_LR_CONSTANT_WARMUP;
    struct given g = {{false}, {0}};
    enum fr_rc rc = FR_OK;

    *out = (struct tr_schedule){
        .type = a->lr_scheduler_type,
        .ds = ds->scheduler,
        .peak = ds->optimizer ? ds->lr : a->learning_rate,
        .total = d->total_steps,
        .warmup = d->warmup_steps,
        .ds_min_lr = ds->warmup_min_lr,
        .ds_max_lr = ds->warmup_max_lr,
        .ds_min_ratio = ds->warmup_min_ratio,
        .ds_cos_min_ratio = ds->cos_min_ratio,
        .ds_total = ds->total_num_steps,
        .ds_warmup = ds->warmup_num_steps > 2 ? ds->warmup_num_steps : 2,
        .ds_linear = ds->warmup_linear,
    };
    if (ds->scheduler != TR_DS_LR_NONE) /* it stands instead of the flags' */
        return FR_OK;
    if (a->lr_scheduler_kwargs != NULL && !constant)
        rc = read_kwargs(a->lr_scheduler_type, a->lr_scheduler_kwargs, &g, err);
    return rc == FR_OK ? take_kwargs(out, &g, err) : rc;
}

/* The part after the warm-up of the schedules that fall from 1: progress p in [0, …). */
static double decay(const struct tr_schedule *s, int64_t k, double p)
{
    double left = (double)(s->total - k) / at_least((double)(s->total - s->warmup), 1);
    double wave = 0.5 * (1 + cos(M_PI * 2 * s->cycles * p));

    switch (s->type) {
    case TR_LR_LINEAR:
        return at_least(left, 0);
    case TR_LR_COSINE:
        return at_least(wave, 0);
    case TR_LR_COSINE_MIN:
        return at_least(s->min_ratio + (1 - s->min_ratio) * wave, 0);
    case TR_LR_COSINE_RESTARTS:
        return p >= 1 ? 0 : at_least(0.5 * (1 + cos(M_PI * fmod(s->cycles * p, 1))), 0);
    case TR_LR_POLYNOMIAL:
        return k > s->total ? s->end_lr / s->peak
                            : ((s->peak - s->end_lr) * pow(1 - p, s->power) + s->end_lr) / s->peak;
    default:
        return 1;
    }
}

/* Warm-up, plateau and decay between min_ratio and 1; after them min_ratio. */
static double wsd(const struct tr_schedule *s, int64_t k)
{
    int64_t falls = s->warmup + s->stable;
    double p, f;

    if (k < s->warmup) {
        p = (double)k / at_least((double)s->warmup, 1);
        f = s->rise == TR_SLOPE_LINEAR   ? p
            : s->rise == TR_SLOPE_COSINE ? 0.5 * (1 - cos(M_PI * p))
                                         : 1 - sqrt(1 - p);
    } else {
        if (k < falls)
            return 1;
        if (k >= falls + s->falling)
            return s->min_ratio;
        p = (double)(k - falls) / at_least((double)s->falling, 1);
        f = s->fall == TR_SLOPE_LINEAR   ? 1 - p
            : s->fall == TR_SLOPE_COSINE ? 0.5 * (1 + cos(M_PI * 2 * s->cycles * p))
                                         : 1 - sqrt(p);
    }
    return at_least(s->min_ratio + (1 - s->min_ratio) * f, 0);
}

static double hf_factor(const struct tr_schedule *s, int64_t k)
{
    if (s->type == TR_LR_CONSTANT)
        return 1;
    if (s->type == TR_LR_WSD)
        return wsd(s, k);
    if (k < s->warmup)
        return (double)k / at_least((double)s->warmup, 1);
    if (s->type == TR_LR_INVERSE_SQRT)
        return 1 / sqrt(((double)k + s->timescale - (double)s->warmup) / s->timescale);
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
