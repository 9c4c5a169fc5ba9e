#include "trainer/model/rope.h"

#include "trainer/config/arch.h"

#include <assert.h>
#include <math.h>

enum { PAIRS_MAX = 1024 };

static double mscale(double s, double k)
{
    return s <= 1 ? 1.0 : 0.1 * k * log(s) + 1.0;
}

/* The dimension that turns n times over the original positions. */
static double correction_dim(const struct tr_rope_config *r, int64_t dr, double n)
{
    double turns = (double)r->original_max_positions / (n * 2 * M_PI);

    return (double)dr * log(turns) / (2 * log(r->theta));
}

/* Where YaRN's ramp from plain to interpolated frequencies begins and ends. */
static void correction_range(const struct tr_rope_config *r, int64_t dr, double *low, double *high)
{
    *low = correction_dim(r, dr, r->beta_fast);
    *high = correction_dim(r, dr, r->beta_slow);
    if (r->truncate) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = fmax(*low, 0);
    *high = fmin(*high, (double)dr - 1);
    if (*low == *high)
        *high += 0.001;
}

static void yarn(const struct tr_rope_config *r, int64_t dr, double *inv)
{
    double low, high;

    correction_range(r, dr, &low, &high);
    for (int64_t i = 0; i < dr / 2; i++) {
        double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);

        inv[i] = inv[i] / r->factor * ramp + inv[i] * (1 - ramp);
    }
}

/* Short waves stay, long ones are interpolated, those between blended. */
static double llama3(const struct tr_rope_config *r, double f)
{
    double turns = (double)r->original_max_positions * f / (2 * M_PI);
    double keep = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);

    keep = fmin(fmax(keep, 0), 1);
    return (1 - keep) * f / r->factor + keep * f;
}

void tr_rope_frequencies(const struct tr_rope_config *r, int64_t dr, double *inv)
{
    for (int64_t i = 0; i < dr / 2; i++) {
        inv[i] = pow(r->theta, -2.0 * (double)i / (double)dr);
        if (r->kind == TR_ROPE_LINEAR)
            inv[i] /= r->factor;
        else if (r->kind == TR_ROPE_LLAMA3)
            inv[i] = llama3(r, inv[i]);
    }
    if (r->kind == TR_ROPE_YARN)
        yarn(r, dr, inv);
}

double tr_rope_attention_factor(const struct tr_rope_config *r)
{
    if (r->kind != TR_ROPE_YARN)
        return 1;
    if (r->attention_factor != 0)
        return r->attention_factor;
    if (r->mscale != 0 && r->mscale_all_dim != 0)
        return mscale(r->factor, r->mscale) / mscale(r->factor, r->mscale_all_dim);
    return mscale(r->factor, 1);
}

double tr_rope_softmax_scale(const struct tr_model_config *c)
{
    double m = 1;

    if (tr_arch_of(c)->mscale_in_softmax && c->rope.kind == TR_ROPE_YARN &&
        c->rope.mscale_all_dim != 0)
        m = mscale(c->rope.factor, c->rope.mscale_all_dim);
    return 1 / sqrt((double)tr_model_head(c).qk) * m * m;
}

enum fr_rc tr_rope_check(const struct tr_model_config *c, int64_t tokens, struct fr_err *err)
{
    if (c->rope.kind != TR_ROPE_DYNAMIC || tokens <= c->max_position_embeddings)
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "a sequence may have %lld tokens: beyond max_position_embeddings, %lld, the "
                   "frequencies of rope type dynamic follow from the batches before, which is not "
                   "done: lower --cutoff_len, or take rope type yarn",
                   (long long)tokens, (long long)c->max_position_embeddings);
}

void tr_rope_tables(const struct tr_rope_config *r, struct tr_view cosines, struct tr_view sines)
{
    int64_t n = cosines.shape[1];
    double inv[PAIRS_MAX], a = tr_rope_attention_factor(r);
    bool wide = cosines.dtype == TR_F64;

    assert(n <= PAIRS_MAX);
    tr_rope_frequencies(r, 2 * n, inv);
    for (int64_t t = 0; t < cosines.shape[0]; t++)
        for (int64_t i = 0; i < n; i++) {
            double angle = wide ? (double)t * inv[i] : (double)((float)t * (float)inv[i]);

            tr_set(cosines, t * n + i, a * cos(angle));
            tr_set(sines, t * n + i, a * sin(angle));
        }
}
