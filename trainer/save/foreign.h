/*
 * Going on from a checkpoint of another trainer, in place of a resume state: the checkpoint-N of
 * the Hugging Face Trainer, with DeepSpeed or without. It has masters, moments and the progress of
 * a run, but no identity; what decides a run's numbers is in its arguments. So it is read at the
 * start of a training, whose arguments it is held against as far as it says them.
 */
#ifndef TR_SAVE_FOREIGN_H
#define TR_SAVE_FOREIGN_H

#include "trainer/config/model_config.h"
#include "trainer/config/trained.h"
#include "trainer/optim/optim.h"
#include "trainer/report/progress.h"

#include <limits.h>

enum tr_foreign_kind { TR_FOREIGN_NONE, TR_FOREIGN_TRAINER, TR_FOREIGN_DEEPSPEED };

struct tr_foreign {
    enum tr_foreign_kind kind;
    char dir[PATH_MAX];
};

/* Recognises a checkpoint by its files. from: --resume_from_checkpoint, NULL: not given. One that
 * names a folder is looked at; with the others it is the newest checkpoint-N in output_dir, unless
 * a node has resume states there. Every rank calls, and rank 0 looks. FR_UNSUPPORTED: it is of a
 * kind that is not read. */
enum fr_rc tr_foreign_find(const char *from, const char *output_dir, struct tr_comm *world,
                           struct tr_foreign *out, struct fr_err *err);

struct tr_foreign_run {
    const struct tr_foreign *from;
    const char *model_dir; /* --model_name_or_path, for errors */
    const struct tr_model_config *config;
    const struct tr_trained *trained;
    double peak_lr; /* NaN: not compared */
};

/* What the checkpoint says and who calls may compare. NaN: it says nothing of it. */
struct tr_foreign_said {
    char what[128]; /* "ZeRO stage 3 of 8 ranks, step 400" */
    double lr;      /* of the next update */
    double epoch;
    int64_t other_decay; /* parameters with another weight decay than here */
};

/* Masters, moments and weights of o, and p without epoch and micro. Every rank calls and reads what
 * it owns; an error is the same on all, and states may be half read then. FR_USAGE: the run is of
 * another model, or of other arguments, which are named. Others as tr_left_open_trainer. */
enum fr_rc tr_foreign_load(const struct tr_foreign_run *run, struct tr_optim *o,
                           struct tr_progress *p, struct tr_foreign_said *out, struct fr_err *err);

#endif
