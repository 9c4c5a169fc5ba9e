/*
 * The logs of a run: console lines, trainer_log.jsonl, trainer_state.json, train_results.json and
 * TensorBoard, in the forms of the Hugging Face Trainer and LLaMA-Factory. Rank 0 writes them. All
 * ranks keep the same history, so that a run can be resumed from any node's state.
 */
#ifndef TR_REPORT_METRICS_H
#define TR_REPORT_METRICS_H

#include "trainer/config/args.h"
#include "trainer/config/model_config.h"
#include "trainer/report/progress.h"
#include "trainer/report/tensorboard.h"

#include <stdbool.h>

struct tr_metrics {
    const struct tr_args *args;       /* borrows */
    const struct tr_derived *derived; /* borrows */
    struct tr_events events;
    int64_t start_ms; /* of this process's training, monotonic */
    int64_t last_log_ms;
    int64_t last_tokens; /* tokens at the last log */
    int64_t start_step;
    int64_t
        checkpoint; /* step of the newest checkpoint, or of the state that was resumed; 0: none */
    double flops_per_token;
    bool quiet, resumed, bar, log_broken;
};

struct tr_metrics_opts {
    const struct tr_args *args;
    const struct tr_derived *derived;
    double flops_per_token; /* of forward and backward; padding counts as tokens */
    bool resumed;           /* the log file is appended to */
    bool quiet;             /* not rank 0: nothing is printed or written */
};

enum fr_rc tr_metrics_start(struct tr_metrics *m, const struct tr_metrics_opts *o,
                            const struct tr_progress *p, struct fr_err *err);
void tr_metrics_finish(struct tr_metrics *m);

/* The banner before the first step. For a resumed run it says at which step training goes on. */
void tr_metrics_banner(const struct tr_metrics *m, const struct tr_progress *p, int64_t trainable);

/* Log event of training: mean loss since the last one, gradient norm, learning rate. Resets the
 * sums in p and adds to history. */
enum fr_rc tr_metrics_log(struct tr_metrics *m, struct tr_progress *p, double grad_norm, double lr,
                          struct fr_err *err);

/* Log event of an evaluation: prints figures, in their order, and adds them to history. */
enum fr_rc tr_metrics_evaluated(struct tr_metrics *m, struct tr_progress *p, const json_t *figures,
                                struct fr_err *err);

/* Whether training has reached its last step, or --early_stopping_steps ends it. */
bool tr_metrics_over(const struct tr_metrics *m, const struct tr_progress *p);

/* Rank 0: a table on the terminal, SPLIT_results.json, and the same values in all_results.json. */
enum fr_rc tr_metrics_results(struct tr_metrics *m, const char *split, const json_t *results,
                              struct fr_err *err);

/* Redraws the progress bar when stderr is a terminal. */
void tr_metrics_bar(const struct tr_metrics *m, const struct tr_progress *p);

/* The closing dictionary, table and result files. Rates are of this process's steps, total_flos and
 * train_loss of the whole run. */
enum fr_rc tr_metrics_end(struct tr_metrics *m, struct tr_progress *p, struct fr_err *err);

/* trainer_state.json into dir. */
enum fr_rc tr_metrics_save_state(const struct tr_metrics *m, const struct tr_progress *p,
                                 const char *dir, struct fr_err *err);

/* Floating-point operations for one token, counted as by transformers' floating_point_ops: 6 for
 * each parameter, adapters included, the embedding excluded. The head's count for each token,
 * though it computes those with a target alone. */
double tr_metrics_token_flops(const struct tr_model_counts *c, int64_t adapters);

/* Epochs done, as a real number. */
double tr_metrics_epoch(const struct tr_derived *d, const struct tr_progress *p);

/* "[INFO|train] TIME >> text" on stderr, as the reference's libraries log. */
void tr_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
