/*
 * Evaluation of a model over a data set, in the batches of the Hugging Face Trainer on one process:
 * B consecutive samples, the last batch with what is left. Batch k is computed by rank k mod W, and
 * sums are made in the order of batches, so every number of ranks gives the same figures.
 */
#ifndef TR_TRAIN_EVALUATE_H
#define TR_TRAIN_EVALUATE_H

#include "trainer/dataset/dataset.h"
#include "trainer/model/model.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_eval_opts {
    struct tr_model *model;        /* made with score */
    struct tr_comm *comm;          /* control plane of all ranks */
    const struct tr_dataset *data; /* the same on every rank */
    int64_t batch;                 /* B */
    int64_t tokens_max;            /* of the model: a batch of more is computed in pieces */
    int64_t samples_max;           /* of it, examples: a packed sample has several */
    bool whole;                    /* the last batch counts as a whole one, as with the reference's
                                      Seq2SeqTrainer (stage sft), and of a stream, whose end the
                                      Trainer does not know before */
};

/* Batches and samples without targets are not counted; without any target all figures are NaN. */
struct tr_eval_result {
    double loss;           /* the reference's eval_loss: the mean over samples of their batch's mean
                              loss of a target */
    double accuracy;       /* the reference's eval_accuracy: the mean over samples of the share of
                              targets that are the model's first choice */
    double token_loss;     /* mean over all targets: its exponential is the perplexity */
    double token_accuracy; /* share of all targets */
    int64_t samples, batches, targets;
    int64_t unscored; /* samples without a target */
    double seconds;
};

/* Every rank calls it; rank 0 logs progress. FR_USAGE: a sample is longer than tokens_max. */
enum fr_rc tr_evaluate(const struct tr_eval_opts *o, struct tr_eval_result *out,
                       struct fr_err *err);

#endif
