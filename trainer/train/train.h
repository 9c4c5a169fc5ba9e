/*
 * Supervised fine-tuning with LoRA: set-up of all parts from the flags, then the loop of steps with
 * logs, checkpoints and resume states, then the final adapter.
 *
 * A step: the micro-batches of every rank; the number of targets summed over all of them; forward
 * and backward of each with loss scale 1/N, so that gradients are those of the exact token mean;
 * one reduction; clip; AdamW; one gather of the working copies.
 */
#ifndef TR_TRAIN_TRAIN_H
#define TR_TRAIN_TRAIN_H

#include "trainer/comm/comm.h"
#include "trainer/config/args.h"

struct tr_train_env {
    struct tr_backend *be; /* borrows */
    struct tr_comm *comm;  /* borrows */
    int stop_fd;           /* a signalfd: readable after a request to stop; -1: none */
};

/* FR_STOPPED after a request to stop: the resume state of the last step is written. */
enum fr_rc tr_train(const struct tr_args *a, const struct tr_train_env *env, struct fr_err *err);

#endif
