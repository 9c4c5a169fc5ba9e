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
    TR_BENCH_RAIL = TR_BENCH_OPS /* all_to_allv between rail peers, as in the exchange of tokens
                                    between nodes: one rank of each other node gets an equal part.
                                    All nodes have equally many ranks */
};

struct tr_bench {
    struct tr_backend *be; /* borrows */
    struct tr_comm *world; /* borrows */
    struct tr_queue *q;    /* owns */
    float *all, *slices;   /* owns, device: n, n */
    size_t n;
    struct tr_event *began, *ended; /* own */
    bool rail;                      /* there are several nodes, of as many ranks each */
};

/* Allocates buffers of at least `bytes`. Set be and world before. */
enum fr_rc tr_bench_make(struct tr_bench *r, size_t bytes, struct fr_err *err);
void tr_bench_finish(struct tr_bench *r);

/* Checks an all-reduce of known numbers over all ranks. FR_CORRUPT names the rank. */
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

/* Bus bandwidth in Gbit/s. */
double tr_bench_gbps(const struct tr_timing *t);

/* *seconds becomes the largest value of all ranks. Collective. */
enum fr_rc tr_bench_slowest(struct tr_bench *r, double *seconds, struct fr_err *err);

/*
 * Times every collective from 8 bytes to `most`, growing by a factor of 8: inside a node, across
 * nodes (ranks of equal local rank) and over all ranks, where these differ. Between nodes it also
 * times the exchange of tokens ("rail", all ranks at once). Rank 0 prints one table each and adds
 * to rows {"scope": "node" | "across" | "all" | "rail", "op", "ranks", "bytes", "us",
 * "bandwidth_gbps"}. Times are those of the slowest rank.
 */
enum fr_rc tr_bench_sweep(struct tr_bench *r, size_t most, int rounds, json_t *rows,
                          struct fr_err *err);

#endif
