#include "engine/curve/curve.h"

#include <math.h>
#include <stdlib.h>

const struct fr_curve_head fr_curve_no_head = {.step = NAN,
                                               .total = NAN,
                                               .loss = NAN,
                                               .smooth = NAN,
                                               .rate = NAN,
                                               .epoch = NAN,
                                               .elapsed_s = NAN,
                                               .eval_loss = NAN,
                                               .eval_accuracy = NAN,
                                               .bad_since = NAN,
                                               .checkpoint = NAN,
                                               .checkpoint_s = NAN};

static const double smoothing = 0.6;

static double first_of(const struct fr_curve_row *row, const char *a, const char *b)
{
    bool there;
    double v = fr_curve_row_get(row, a, &there);

    return there ? v : fr_curve_row_get(row, b, &there);
}

/* A debiased moving average: the first values count in full. */
static void smooth(struct fr_curve_head *h, double loss)
{
    double sum = isnan(h->smooth) ? 0 : h->smooth * h->weight;

    h->weight = smoothing * h->weight + (1 - smoothing);
    h->smooth = (smoothing * sum + (1 - smoothing) * loss) / h->weight;
}

static void take_loss(struct fr_curve_head *h, const struct fr_curve_row *row)
{
    bool there;
    double loss = fr_curve_row_get(row, "loss", &there);

    if (!there)
        return;
    if (isfinite(loss)) {
        h->bad_since = NAN;
        smooth(h, loss);
    } else if (isnan(h->bad_since) && isfinite(h->loss)) {
        h->bad_since = row->step;
    }
    if (isfinite(loss))
        h->loss = loss;
}

/* A row of an evaluation, which may lack the accuracy. */
static void take_evaluation(struct fr_curve_head *h, const struct fr_curve_row *row)
{
    bool there;
    double loss = fr_curve_row_get(row, "eval_loss", &there);

    if (!there)
        return;
    h->eval_loss = loss;
    h->eval_accuracy = fr_curve_row_get(row, "eval_accuracy", &there); /* else NaN */
}

static void take_time(struct fr_curve_head *h, const struct fr_curve_row *row)
{
    double now = first_of(row, "elapsed_time", "time");

    if (row->step > h->step && now >= h->elapsed_s)
        h->seconds[h->n_seconds++ % FR_CURVE_RECENT] = (now - h->elapsed_s) / (row->step - h->step);
    if (!isnan(now))
        h->elapsed_s = now;
}

void fr_curve_head_take(struct fr_curve_head *h, const struct fr_curve_row *row)
{
    double total = first_of(row, "total_steps", "max_steps");
    double rate = first_of(row, "throughput", "tokens_per_second");
    bool there;
    double epoch = fr_curve_row_get(row, "epoch", &there);
    double checkpoint = fr_curve_row_get(row, "checkpoint", &there);

    if (row->kind != FR_CURVE_ROW)
        return;
    if (row->step < h->step) { /* a new part: its clock may begin anew */
        h->elapsed_s = NAN;
        h->n_seconds = h->n_rates = 0;
    }
    take_time(h, row);
    take_loss(h, row);
    take_evaluation(h, row);
    if (isfinite(rate))
        h->rates[h->n_rates++ % FR_CURVE_RECENT] = h->rate = rate;
    if (isfinite(total))
        h->total = total;
    if (isfinite(epoch))
        h->epoch = epoch;
    if (isfinite(checkpoint) && checkpoint != h->checkpoint) {
        h->checkpoint = checkpoint;
        h->checkpoint_s = h->rows > 0 ? h->elapsed_s : NAN;
    }
    h->step = row->step;
    h->rows++;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double median(const double *v, size_t n)
{
    double sorted[FR_CURVE_RECENT];

    n = n < FR_CURVE_RECENT ? n : FR_CURVE_RECENT;
    if (n == 0)
        return NAN;
    for (size_t i = 0; i < n; i++)
        sorted[i] = v[i];
    qsort(sorted, n, sizeof(*sorted), by_value);
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double fr_curve_head_rate(const struct fr_curve_head *h)
{
    return median(h->rates, h->n_rates);
}

/* If most steps are shorter than the clock's resolution, their mean is better than their median. */
static double step_seconds(const struct fr_curve_head *h)
{
    size_t n = h->n_seconds < FR_CURVE_RECENT ? h->n_seconds : FR_CURVE_RECENT;
    double sum = 0, middle = median(h->seconds, h->n_seconds);

    for (size_t i = 0; i < n; i++)
        sum += h->seconds[i];
    return middle > 0 || n == 0 ? middle : sum / (double)n;
}

double fr_curve_head_eta_s(const struct fr_curve_head *h)
{
    double left = h->total - h->step;

    return left >= 0 ? left * step_seconds(h) : NAN;
}
