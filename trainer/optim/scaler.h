/* DeepSpeed's loss scaler for fp16 (deepspeed.ai/docs/config-json, "fp16"); scale 1 and no skipping
 * without it. */
#ifndef TR_OPTIM_SCALER_H
#define TR_OPTIM_SCALER_H

#include "engine/base/err.h"
#include "trainer/config/ds_config.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_scaler {
    bool on, dynamic;
    bool quiet; /* no log: every rank has the same scale, one rank logs */
    double scale, min_scale;
    int64_t window, hysteresis_start;
    bool consecutive;
    int64_t hysteresis, step, last_overflow; /* state, saved with the run */
};

void tr_scaler_init(struct tr_scaler *s, const struct tr_ds_config *ds, bool fp16);

/* Call it after each step; overflow: a gradient was not finite. FR_CORRUPT: the scale is at its
 * minimum. */
enum fr_rc tr_scaler_update(struct tr_scaler *s, bool overflow, struct fr_err *err);

#endif
