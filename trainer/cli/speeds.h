/*
 * How fast the processors and links of a run are, measured by all of its ranks at once: what shares
 * a machine or a link in the run shares it here.
 */
#ifndef TR_CLI_SPEEDS_H
#define TR_CLI_SPEEDS_H

#include "trainer/plan/plan.h"
#include "trainer/train/train.h"

/* Sets the speeds of out->gpu, and of the network where out has more than one node. Every rank
 * calls it, and gets the same; out has the run's nodes and ranks. */
enum fr_rc tr_speeds_measure(const struct tr_plan_job *job, const struct tr_train_env *env,
                             struct tr_cluster *out, struct fr_err *err);

#endif
