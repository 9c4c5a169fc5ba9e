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

/* Kinds of transferred data. */
enum tr_move {
    TR_MOVE_WEIGHTS,   /* gathered for a block, or after an update */
    TR_MOVE_EMBEDDING, /* rows of it, and of its gradient */
    TR_MOVE_TOKENS,
    TR_MOVE_GRADIENTS, /* of weights that train */
    TR_MOVE_ADAPTERS,
    TR_MOVES
};

/* Counters over the steps of this process, without evaluations and checkpoints. Sums over all
 * ranks, but for memory and seconds. */
struct tr_train_counts {
    double bytes[TR_MOVES][TR_LINK_CLASSES];
    double far_rows, near_rows; /* of tokens, see struct tr_exchange_routes */
    double tokens, targets;
    int64_t steps, micros; /* micros: micro-batches of a rank */
    int64_t tokens_max;    /* of a micro-batch */
    double seconds;        /* of rank 0 */
    size_t kept;           /* bytes of activations kept for the backward pass */
    size_t packed;         /* of packed forms of weights */
    double memory;         /* growth of the process, of the rank where that is largest */
};

struct tr_train_env {
    struct tr_backend *be;          /* borrows */
    struct tr_comm *comm;           /* borrows */
    int stop_fd;                    /* a signalfd: readable after a request to stop; -1: none */
    struct tr_train_counts *counts; /* out, on rank 0, of a run that ended well; NULL: not wanted */
};

/* FR_STOPPED after a request to stop: the resume state of the last step is written. */
enum fr_rc tr_train(const struct tr_args *a, const struct tr_train_env *env, struct fr_err *err);

#endif
