/* What is said of work that takes long: how much of it is done, every five seconds. */
#ifndef TR_REPORT_PROGRESS_LOG_H
#define TR_REPORT_PROGRESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct tr_progress_log {
    const char *what, *unit; /* "Evaluation", "batches"; borrows */
    int64_t of;              /* 0: nobody knows */
    int64_t began_ms, said_ms;
};
struct tr_progress_log tr_progress_log_begin(const char *what, const char *unit, int64_t of);
/* "Evaluation: 120 of 600 batches, 40.0s left", "Tokenizing: 90000 records so far"; true when it
 * was time to say so. Work that is all done says nothing. */
bool tr_progress_log_at(struct tr_progress_log *p, int64_t done);
/* The same, as somebody's callback. */
void tr_progress_log_tell(void *log, int64_t done);

/* By the rate so far: "40.0s", "?" before anything is done. */
void tr_progress_log_left(double done, double of, int64_t ms, char out[24]);

#endif
