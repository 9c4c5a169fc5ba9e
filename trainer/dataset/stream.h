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
    enum tr_mix_strategy mix; /* of several; concat: a record of each by turns, sets in a drawn
                                 order */
    const double *probs;      /* --interleave_probs, one a set; NULL: by turns */
    bool fixed; /* sets keep the order of the first epoch, as records at its begin are left out */
};

/* (*out)[0..*n): the numbers of records in the order of that epoch; the caller frees it by
 * fr_sys.free. */
enum fr_rc tr_stream_order(const struct tr_stream *s, int64_t epoch, int64_t **out, int64_t *n,
                           struct fr_err *err);

#endif
