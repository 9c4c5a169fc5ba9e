/*
 * Learning rates. The Hugging Face schedules (transformers "Optimization" manual) give the rate of
 * update k from the number of updates already applied; DeepSpeed's (deepspeed.ai/docs/config-json,
 * "scheduler") are set after each update and know the state before the first.
 */
#ifndef TR_TRAIN_SCHEDULE_H
#define TR_TRAIN_SCHEDULE_H

#include "engine/base/err.h"
#include "trainer/config/args.h"
#include "trainer/config/ds_config.h"

#include <stdint.h>

enum tr_lr_slope { TR_SLOPE_LINEAR, TR_SLOPE_COSINE, TR_SLOPE_SQRT };

struct tr_schedule {
    enum tr_lr_type type;
    enum tr_ds_lr ds; /* not TR_DS_LR_NONE: it replaces type */
    double peak;      /* learning rate at factor 1 */
    int64_t total, warmup;
    double cycles, power, end_lr, timescale;
    double min_ratio;            /* lowest share of the peak */
    int64_t stable, falling;     /* steps of warmup_stable_decay after the warm-up */
    enum tr_lr_slope rise, fall; /* of warmup_stable_decay */
    double ds_min_lr, ds_max_lr, ds_min_ratio, ds_cos_min_ratio;
    int64_t ds_total, ds_warmup;
    bool ds_linear;
};

/* FR_USAGE names a bad key of --lr_scheduler_kwargs, or rates that the schedule cannot divide by.
 * warmup_stable_decay without step counts: a third of what the warm-up leaves is stable. */
enum fr_rc tr_schedule_make(const struct tr_args *a, const struct tr_ds_config *ds,
                            const struct tr_derived *d, struct tr_schedule *out,
                            struct fr_err *err);

/* The learning rate of update k, k = updates applied before it. */
double tr_schedule_lr(const struct tr_schedule *s, int64_t k);

/* What is logged for update k: the rate used, or with a DeepSpeed schedule the one set after it. */
double tr_schedule_logged(const struct tr_schedule *s, int64_t k);

#endif
