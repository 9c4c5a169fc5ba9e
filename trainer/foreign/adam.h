/*
 * What state_dict() of torch's AdamW gives, and that of DeepSpeed's FusedAdam and CPUAdam, which
 * have the same keys: groups of parameters with their hyperparameters, and of each parameter, by
 * its number, two moments and the count of its steps.
 * Source: PyTorch, torch/optim/optimizer.py and adam.py; DeepSpeed, ops/adam.
 */
#ifndef TR_FOREIGN_ADAM_H
#define TR_FOREIGN_ADAM_H

#include "trainer/foreign/torch_file.h"

enum tr_adam_moment { TR_ADAM_M, TR_ADAM_V, TR_ADAM_MOMENTS };

struct tr_adam_group {
    double lr, initial_lr, beta1, beta2, eps, weight_decay; /* NaN: not said */
    int64_t steps; /* of parameters that do not count their own; FusedAdam leaves a 0 here that
                      counts nothing; -1: not said */
    const struct tr_pv *params; /* a list of numbers */
};

struct tr_adam {
    const struct tr_torch_file *f; /* borrows; all else lives in its arena */
    const struct tr_pv *state;     /* a dict; the keys are numbers */
    struct tr_adam_group *groups;
    size_t n;
};

/* FR_UNSUPPORTED: an option that AdamW here does not have. FR_CORRUPT: dict is none. */
enum fr_rc tr_adam_read(struct tr_torch_file *f, const struct tr_pv *dict, struct tr_adam *out,
                        struct fr_err *err);

/* The groups alone, of a list of them; out->state is NULL. */
enum fr_rc tr_adam_groups(struct tr_torch_file *f, const struct tr_pv *groups, struct tr_adam *out,
                          struct fr_err *err);

/* A moment of parameter number k, f32. *tensor (may be NULL): its shape. FR_UNSUPPORTED: it has
 * another type, or is of another optimizer. FR_CORRUPT: it is not there. */
enum fr_rc tr_adam_run(const struct tr_adam *a, int64_t k, enum tr_adam_moment m,
                       struct tr_run *out, const struct tr_pv **tensor, struct fr_err *err);

/* How many updates parameter number k of a group has had. */
enum fr_rc tr_adam_steps(const struct tr_adam *a, const struct tr_adam_group *g, int64_t k,
                         int64_t *out, struct fr_err *err);

/* The same of its value: a number, or a tensor of one in f. */
enum fr_rc tr_adam_count(const struct tr_torch_file *f, const struct tr_pv *v, int64_t *out,
                         struct fr_err *err);

/* The number of an int or a float; NaN: it is none, or v is NULL. */
double tr_adam_real(const struct tr_pv *v);

#endif
