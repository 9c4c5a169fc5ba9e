/* Shared by metrics.c, results.c and evaluation: parts of log entries and log files. */
#ifndef TR_REPORT_LOG_H
#define TR_REPORT_LOG_H

#include "trainer/report/metrics.h"

/* "1:02:03" or "1 day, 0:00:01", as Python's timedelta prints whole seconds. */
void tr_log_seconds(double seconds, char out[48]);

/* o[key] = v, or null where v is not finite. */
void tr_log_number(json_t *o, const char *key, double v);

/* Floating-point operations so far, counted as the reference does: forward and backward of each
 * token, padding included. */
double tr_log_flos(const struct tr_metrics *m, const struct tr_progress *p);

/* A line of trainer_log.jsonl. */
void tr_log_row(struct tr_metrics *m, const struct tr_progress *p, const json_t *entry,
                double tokens_s);

/* The numbers of an entry as TensorBoard scalars: eval_NAME below eval, all others below train. */
void tr_log_events(struct tr_metrics *m, const json_t *entry, int64_t step);

#endif
