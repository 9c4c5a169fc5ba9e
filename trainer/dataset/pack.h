/*
 * Which examples share a row: LLaMA-Factory's greedy packing. Records are cut into shards, one for
 * each of its processes, and shards into batches. Each batch is packed by itself: a row takes the
 * longest example that still fits, the last of equal ones, until none fits.
 */
#ifndef TR_DATASET_PACK_H
#define TR_DATASET_PACK_H

#include "engine/base/err.h"

#include <stdint.h>

struct tr_pack_opts {
    int64_t capacity; /* tokens of a row */
    int64_t batch;    /* records that are packed together */
    int64_t shards;   /* parts of the n records; the first n % shards have one more */
};

/* Examples that share rows: row i holds order[rows[i]..rows[i+1]). */
struct tr_packs {
    int64_t *order; /* (examples that are not dropped): indexes into lengths */
    int64_t *rows;  /* (n + 1): offsets into order at which rows begin; the last is its length */
    int64_t n;      /* rows */
};

void tr_packs_finish(struct tr_packs *p);

/* lengths[0..n): tokens of each record, at most capacity; 0: dropped, in no row. The caller
 * finishes *out. FR_NOMEM. */
enum fr_rc tr_pack(const int64_t *lengths, int64_t n, const struct tr_pack_opts *o,
                   struct tr_packs *out, struct fr_err *err);

#endif
