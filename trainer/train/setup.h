/* The parts of one training run, made from its flags. */
#ifndef TR_TRAIN_SETUP_H
#define TR_TRAIN_SETUP_H

#include "trainer/config/ds_config.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/model/model.h"
#include "trainer/train/metrics.h"
#include "trainer/train/optim.h"
#include "trainer/train/resume.h"
#include "trainer/train/schedule.h"
#include "trainer/train/train.h"

struct tr_run {
    const struct tr_args *args;
    struct tr_train_env env;
    struct tr_model_config config;
    struct tr_lora_config lora;
    struct tr_derived derived;
    struct tr_ds_config ds;
    struct tr_tokenizer *tokenizer; /* owns */
    struct tr_dataset *data;        /* owns */
    struct tr_sampler *sampler;     /* owns */
    struct tr_st *st;               /* owns: the checkpoint's headers and descriptors */
    struct tr_model *model;         /* owns */
    struct tr_comm *steps;          /* owns: all ranks once more, for the optimizer's calls */
    struct tr_optim optim;
    struct tr_schedule schedule;
    struct tr_progress progress;
    struct tr_metrics metrics;      /* rank 0 */
    struct tr_resume resume;
    struct tr_batch *batches;       /* owns: gradient_accumulation_steps */
    float *flat;                    /* owns: host copies of optimizer state */
    char model_digest[65];
    int64_t rss_before;             /* peak bytes of this process before weights were loaded */
    size_t planned_bytes;           /* the table's sum */
    bool resumed;
};

enum fr_rc tr_run_setup(struct tr_run *r, const struct tr_args *a, const struct tr_train_env *env,
                        struct fr_err *err);
void tr_run_finish(struct tr_run *r);

/* Peak resident bytes of this process so far (VmHWM). */
int64_t tr_peak_rss(void);

#endif
