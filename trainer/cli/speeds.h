/*
 * Speeds of the processors and links of a run, measured by all ranks at once, so that machines and
 * links are shared as in the run.
 */
#ifndef TR_CLI_SPEEDS_H
#define TR_CLI_SPEEDS_H

#include "trainer/plan/plan.h"
#include "trainer/train/train.h"

/* Sets the speeds of out->gpu, and of the network if out has several nodes. out has the run's nodes
 * and ranks. Collective; every rank gets the same values. */
enum fr_rc tr_speeds_measure(const struct tr_plan_job *job, const struct tr_train_env *env,
                             struct tr_cluster *out, struct fr_err *err);

#endif
