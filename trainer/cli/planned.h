/*
 * The plan of a run as its flags describe it: what `flowtrain plan` prints, and what a run compares
 * its own counters with when it ends.
 */
#ifndef TR_CLI_PLANNED_H
#define TR_CLI_PLANNED_H

#include "trainer/config/ds_config.h"
#include "trainer/plan/plan.h"
#include "trainer/train/train.h"

struct tr_planned {
    struct tr_cluster cluster; /* set it and zero the rest before tr_planned_read */
    struct tr_ds_config ds;
    struct tr_model_config config;
    struct tr_lora_config lora; /* owns; empty if the model's own weights are trained */
    struct tr_trained trained;
    struct tr_plan_way way; /* the run's own layout; job.asked points here */
    struct tr_plan_job job;
    struct tr_plan plan; /* tr_plan_make fills it */
};

/* Reads the model's configuration, the adapter and the DeepSpeed file, and fills all fields of p
 * but cluster and plan. Fails with the errors of the run itself. Borrows a. Call tr_planned_finish
 * after a failure as well. */
enum fr_rc tr_planned_read(struct tr_planned *p, const struct tr_args *a, struct fr_err *err);
void tr_planned_finish(struct tr_planned *p);

/* Every rank calls it after a run. Rank 0 prints planned and actual transfers and times; the plan
 * uses speeds that are measured here. Does nothing on GPUs and for nodes with unequal numbers of
 * ranks. */
void tr_planned_compare(const struct tr_args *a, const struct tr_train_env *env);

#endif
