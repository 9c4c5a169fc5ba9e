/*
 * What another trainer left of a training that is not over: of each parameter its f32 master and
 * the two moments of AdamW, how many updates there were, and the groups of the optimizer.
 * The Hugging Face Trainer leaves a checkpoint-N with model.safetensors and optimizer.pt, where
 * parameters have numbers: those of the group that decays first, in each group in the order of
 * named_parameters(). DeepSpeed's parameters have names.
 * Source: transformers, Trainer.create_optimizer and get_decay_parameter_names.
 */
#ifndef TR_FOREIGN_LEFT_H
#define TR_FOREIGN_LEFT_H

#include "trainer/foreign/deepspeed.h"

#include <stdbool.h>

enum tr_left_state { TR_LEFT_MASTER, TR_LEFT_M, TR_LEFT_V, TR_LEFT_STATES };

/* A parameter that trains here. */
struct tr_left_want {
    const char *name;
    int ndim;
    int64_t shape[2];
    bool decays;
};

struct tr_left_param {
    const char *name; /* the caller's */
    struct tr_runs states[TR_LEFT_STATES];
    const struct tr_st_tensor *master; /* in place of the run of masters: of opts.st */
    const struct tr_adam_group *group;
};

struct tr_left_opts {
    const char *dir;                  /* checkpoint-N, or what tr_ds_open takes */
    const struct tr_left_want *wants; /* all that train, in the order of named_parameters() */
    size_t n;
    const struct tr_st *st; /* of the Trainer: its weights, by the names of wants */
};

struct tr_left {
    struct tr_left_opts o;
    const char *what;             /* "ZeRO stage 3 of 8 ranks, step 400" */
    int64_t step;                 /* of DeepSpeed: global_steps; -1: not said */
    int64_t updates;              /* of AdamW */
    struct tr_left_param *params; /* (o.n), in the order of wants */
    struct tr_left_param **named; /* (o.n), by name */
    const struct tr_adam_group *groups;
    size_t n_groups;
    struct tr_ds *ds;           /* owns */
    struct tr_torch_file optim; /* owns */
    const char *optim_path;     /* for errors */
    struct tr_runs_file reading;
    struct fr_arena arena;
};

/* Both take a zeroed *out, which tr_left_close finishes also after an error; opts are borrowed.
 * FR_USAGE, FR_SHAPE: it is of another model, or of what trains otherwise. FR_UNSUPPORTED: of
 * another optimizer, or of other types. FR_NOTFOUND, FR_CORRUPT name the file. */
enum fr_rc tr_left_open_trainer(const struct tr_left_opts *o, struct tr_left *out,
                                struct fr_err *err);
enum fr_rc tr_left_open_deepspeed(const struct tr_left_opts *o, struct tr_left *out,
                                  struct fr_err *err);
void tr_left_close(struct tr_left *l);

/* NULL: no such one trains. */
struct tr_left_param *tr_left_find(const struct tr_left *l, const char *name);

/* Elements [range[0], range[0] + range[1]) of a state. */
enum fr_rc tr_left_read(struct tr_left *l, const struct tr_left_param *p, enum tr_left_state state,
                        const int64_t range[2], float *dst, struct fr_err *err);

/* What scheduler.pt of a checkpoint-N says: how many steps the schedule has done. FR_NOTFOUND:
 * there is no such file. */
enum fr_rc tr_left_schedule(const char *dir, int64_t *steps, struct fr_err *err);

#endif
