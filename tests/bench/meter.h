/*
 * A backend that hands every call to another and keeps an account of the ops: calls, FLOP, bytes
 * that must move, and time. Names and shapes are the field's: FLOP counts a multiply and an add as
 * two, bytes are those of the views that an op reads and writes once.
 */
#ifndef TESTS_BENCH_METER_H
#define TESTS_BENCH_METER_H

#include "trainer/backend/backend.h"
#include "trainer/backend/cost.h"

enum { METER_ROWS = 512 };

struct meter_row {
    enum tr_op op;
    struct tr_cost cost; /* of one call */
    int64_t calls;
    double seconds; /* of all calls, when timed */
};

struct meter {
    struct tr_backend backend; /* use this one */
    struct tr_backend_ops ops;
    struct tr_backend *inner; /* borrows */
    bool timed;               /* waits for the device before and after each op */
    struct meter_row rows[METER_ROWS];
    size_t n;
    int64_t lost; /* calls that found no row */
};

void meter_start(struct meter *m, struct tr_backend *inner);

/* Forgets what was counted. */
void meter_reset(struct meter *m, bool timed);

/* The least seconds that a machine of this matrix rate (FLOP/s) and bandwidth (bytes/s) needs for a
 * row's calls: the larger of the two for each. */
double meter_least(const struct meter_row *row, double rate, double bandwidth);

/* The share of its roof that an op should reach: attention 0.55 forward and 0.45 backward; grouped
 * products 0.65 from 512 rows an expert on; what memory bounds 0.8. 0: none is set. */
double meter_goal(const struct meter_row *row, double rate, double bandwidth);

double meter_now(void); /* seconds of a monotonic clock */

#endif
