/*
 * The progress of a run: everything that a resume needs besides the optimizer's state. A value; it
 * owns history.
 */
#ifndef TR_REPORT_PROGRESS_H
#define TR_REPORT_PROGRESS_H

#include "trainer/optim/scaler.h"

#include <jansson.h>
#include <stdint.h>

struct tr_progress {
    int64_t step;          /* optimizer steps done, skipped ones included (global_step) */
    int64_t updates;       /* steps that changed the weights: the schedule's time */
    int64_t epoch, micro;  /* position in the data: micro-batches of this rank done in this epoch */
    double loss_since_log; /* sum of step losses since the last log line */
    int64_t steps_since_log;
    double loss_total;     /* sum of all step losses */
    int64_t empty;         /* steps before the first one that had a loss: in no sum */
    int64_t padded_tokens; /* as the reference counts them, all ranks (total_flos) */
    int64_t tokens;        /* real tokens, all ranks */
    double seconds;        /* trained before this process began */
    struct tr_scaler scaler;
    int64_t best_step;  /* of the best evaluation so far; 0: none */
    double best_metric; /* its --metric_for_best_model */
    int64_t not_better; /* evaluations since then */
    json_t *history;    /* list of log entries (trainer_state.json log_history) */
};

/* Counts a step of so many micro-batches of this rank. A loss that is not finite (a step without
 * targets has none) counts as the mean since the last log line, else as the mean of the run. Before
 * the first finite loss it is not counted. The reference's logging_nan_inf_filter does the same,
 * but takes 0 directly after a log line. */
void tr_progress_advance(struct tr_progress *p, int64_t micros, double loss);

/* The mean loss of the run (train_loss); 0 if no step had a loss. */
double tr_progress_loss(const struct tr_progress *p);

#endif
