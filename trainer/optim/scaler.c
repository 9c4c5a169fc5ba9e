#include "trainer/optim/scaler.h"

#include "engine/base/log.h"

#include <math.h>

void tr_scaler_init(struct tr_scaler *s, const struct tr_ds_config *ds, bool fp16)
{
    *s = (struct tr_scaler){.scale = 1, .last_overflow = -1};
    if (!fp16)
        return;
    s->on = true;
    s->dynamic = ds->loss_scale <= 0;
    s->scale = s->dynamic ? ldexp(1, (int)ds->initial_scale_power) : ds->loss_scale;
    s->min_scale = ds->min_loss_scale;
    s->window = ds->loss_scale_window;
    s->hysteresis_start = s->hysteresis = ds->hysteresis;
    s->consecutive = ds->consecutive_hysteresis;
}

static enum fr_rc shrink(struct tr_scaler *s, struct fr_err *err)
{
    if (s->hysteresis_start != 1 && s->hysteresis != 1) {
        s->hysteresis--;
        if (!s->quiet)
            fr_log(FR_LOG_WARN, "scaler",
                   "OVERFLOW! Skipping step. Attempted loss scale: %g, hysteresis is now %lld",
                   s->scale, (long long)s->hysteresis);
        return FR_OK;
    }
    if (s->scale <= s->min_scale)
        return fr_fail(err, FR_CORRUPT,
                       "Current loss scale already at minimum - cannot decrease "
                       "scale anymore. Exiting run.");
    double next = s->scale / 2 > s->min_scale ? s->scale / 2 : s->min_scale;
    if (!s->quiet)
        fr_log(FR_LOG_WARN, "scaler",
               "OVERFLOW! Skipping step. Attempted loss scale: %g, reducing to %g", s->scale, next);
    s->scale = next;
    return FR_OK;
}

enum fr_rc tr_scaler_update(struct tr_scaler *s, bool overflow, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (!s->on || !s->dynamic)
        return FR_OK;
    if (overflow) {
        rc = shrink(s, err);
        s->last_overflow = s->step;
    } else {
        int64_t calm = s->step - s->last_overflow - 1;
        if (s->consecutive)
            s->hysteresis = s->hysteresis_start;
        if (calm > 0 && calm % s->window == 0) {
            s->hysteresis = s->hysteresis_start;
            s->scale *= 2;
        }
    }
    s->step++;
    return rc;
}
