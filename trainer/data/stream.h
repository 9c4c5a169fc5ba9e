/*
 * The order of records in a stream (--streaming): they pass through a buffer that is shuffled
 * whenever it is full, and half of it goes on. As the reference's data library has it, with one
 * loader process.
 */
#ifndef TR_DATA_STREAM_H
#define TR_DATA_STREAM_H

#include <stdint.h>

struct tr_stream {
    int64_t buffer; /* records, at least 1 */
    int64_t seed, epoch;
};

/* out[0..n) becomes the numbers of n records in the order of that epoch; n < 2^32. */
void tr_stream_order(const struct tr_stream *s, int64_t n, int64_t *out);

#endif
