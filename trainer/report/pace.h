/* What is said of work that takes long: how much of it is done, every five seconds. */
#ifndef TR_REPORT_PACE_H
#define TR_REPORT_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct tr_pace {
    const char *what, *unit; /* "Evaluation", "batches"; borrows */
    int64_t of;              /* 0: nobody knows */
    int64_t began_ms, said_ms;
};
struct tr_pace tr_pace_begin(const char *what, const char *unit, int64_t of);
/* "Evaluation: 120 of 600 batches, 40.0s left", "Tokenizing: 90000 records so far"; true when it
 * was time to say so. Work that is all done says nothing. */
bool tr_pace_at(struct tr_pace *p, int64_t done);
/* The same, as somebody's callback. */
void tr_pace_tell(void *pace, int64_t done);

/* By the rate so far: "40.0s", "?" before anything is done. */
void tr_pace_left(double done, double of, int64_t ms, char out[24]);

#endif
