/*
 * --plot_loss: training_KEY.png of the history, as it is and smoothed as LLaMA-Factory does it: an
 * average whose weight grows with the number of points, 1.8 * (1 / (1 + exp(-0.05 n)) - 0.5).
 */
#ifndef TR_REPORT_PLOT_H
#define TR_REPORT_PLOT_H

#include "engine/base/err.h"

#include <jansson.h>
#include <stddef.h>

/* history: objects with "step" and figures. Draws nothing if no entry has the key. */
enum fr_rc tr_plot_history(const char *dir, const json_t *history, const char *key,
                           struct fr_err *err);

#endif
