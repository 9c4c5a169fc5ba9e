/*
 * The order of records in a stream (--streaming), equal to the reference's data library with one
 * loader process. Each epoch mixes the data sets anew. Records then pass through a buffer: whenever
 * it is full, it is shuffled and half of it is emitted.
 */
#ifndef TR_DATASET_STREAM_H
#define TR_DATASET_STREAM_H

#include "trainer/dataset/mix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_stream {
    int64_t buffer; /* records, at least 1 */
    int64_t seed;
    const int64_t *lengths;   /* records of each data set, laid end to end; below 2^32 together */
    size_t n;                 /* data sets, at most 64 */
    enum tr_mix_strategy mix; /* of several sets; concat: at most 10 groups of sets, in a drawn
                                 order, give a record in turn */
    const double *probs;      /* (n) --interleave_probs; NULL: sets take turns */
    bool fixed; /* every epoch has the sets in the order of the first; for runs that skip records
                   at the start of the stream */
};

/* (*out)[0..*n): the numbers of the records in the order of that epoch (from 0); the caller frees
 * *out by fr_sys.free. FR_USAGE: a set is empty, or a mixture would never end. */
enum fr_rc tr_stream_order(const struct tr_stream *s, int64_t epoch, int64_t **out, int64_t *n,
                           struct fr_err *err);

#endif
