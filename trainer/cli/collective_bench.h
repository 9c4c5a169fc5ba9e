/*
 * Collectives of flowtrain probe, checked and timed. A collective over n numbers: all-reduce sums n
 * numbers of each rank in rank order, all-gather joins the ranks' parts to n numbers, all-to-all
 * sends n numbers in equal slices. Bus bandwidth is NCCL's definition: bytes / seconds *
 * (ranks - 1) / ranks, twice that for an all-reduce.
 */
#ifndef TR_CLI_COLLECTIVE_BENCH_H
#define TR_CLI_COLLECTIVE_BENCH_H

#include "engine/base/json.h"
#include "trainer/comm/comm.h"

enum tr_bench_op {
    TR_BENCH_ALL_REDUCE,
    TR_BENCH_ALL_GATHER,
    TR_BENCH_ALL_TO_ALL,
    TR_BENCH_OPS,
    TR_BENCH_RAIL = TR_BENCH_OPS /* an all_to_allv between rail peers, which the exchange of tokens
                                  makes between nodes: a rank of each other node gets an equal part.
                                  All nodes have as many ranks */
};

struct tr_bench {
    struct tr_backend *be; /* borrows */
    struct tr_comm *world; /* borrows */
    struct tr_queue *q;    /* owns */
    float *all, *slices;   /* owns, device: n, n */
    size_t n;
    struct tr_event *began, *ended; /* own; of a device with a clock */
    bool rail;                      /* there are several nodes, of as many ranks each */
};

/* Buffers of at least `bytes`. */
enum fr_rc tr_bench_make(struct tr_bench *r, size_t bytes, struct fr_err *err);
void tr_bench_finish(struct tr_bench *r);

/* An all-reduce of known numbers over all ranks; FR_CORRUPT names the rank. */
enum fr_rc tr_bench_check(struct tr_bench *r, struct fr_err *err);

/* Bytes are rounded so that each rank of comm has whole numbers. */
struct tr_timing {
    struct tr_comm *comm; /* the world or a group of it; all groups run at once */
    enum tr_bench_op op;
    size_t bytes;   /* in: about; out: exactly */
    int rounds;     /* the best one counts */
    double seconds; /* out: of this rank */
};
enum fr_rc tr_bench_time(struct tr_bench *r, struct tr_timing *t, struct fr_err *err);

/* Bits a second, in 10^9. */
double tr_bench_gbps(const struct tr_timing *t);

/* The slowest rank's seconds, on every rank. */
enum fr_rc tr_bench_slowest(struct tr_bench *r, double *seconds, struct fr_err *err);

/*
 * Every collective from 8 bytes to `most` in steps of 8, inside a node, across (ranks of one place
 * in their nodes) and over all ranks, as far as these differ; between nodes the exchange of tokens
 * as well ("rail", of all ranks at once). On rank 0 prints a table each and adds to rows {"scope":
 * "node" | "across" | "all" | "rail", "op", "ranks", "bytes", "us", "bandwidth_gbps"}; times are
 * the slowest rank's.
 */
enum fr_rc tr_bench_sweep(struct tr_bench *r, size_t most, int rounds, json_t *rows,
                          struct fr_err *err);

#endif
