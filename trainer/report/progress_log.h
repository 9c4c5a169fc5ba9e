/* Progress lines of long work, at most one every five seconds. */
#ifndef TR_REPORT_PROGRESS_LOG_H
#define TR_REPORT_PROGRESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct tr_progress_log {
    const char *what, *unit; /* "Evaluation", "batches"; borrows */
    int64_t of;              /* total number of units; 0: unknown */
    int64_t began_ms, said_ms;
};
struct tr_progress_log tr_progress_log_begin(const char *what, const char *unit, int64_t of);
/* Prints "Evaluation: 120 of 600 batches, 40.0s left" or "Tokenizing: 90000 records so far", if
 * five seconds have passed and the work is not finished. Returns true if it printed. */
bool tr_progress_log_at(struct tr_progress_log *p, int64_t done);
/* The same as a callback; log is a struct tr_progress_log. */
bool tr_progress_log_tell(void *log, int64_t done);

/* Remaining time by the rate so far: "40.0s"; "?" while done is 0. */
void tr_progress_log_left(double done, double of, int64_t ms, char out[24]);

#endif
