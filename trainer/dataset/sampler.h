/*
 * The order of samples, and micro-batches for the model. A micro-batch holds the B samples that the
 * reference trainer would pad together, laid end to end without padding. A row of several packed
 * examples is laid out example by example, each by itself: none sees another.
 * The order of epoch e is torch.randperm(N) seeded seed+e; batch k of it goes to rank k mod W;
 * the last incomplete batch and round are completed from the start of the same order.
 * The order of a stream is stream.h's, of all records; those without tokens are passed over. Rows
 * of packed examples are made of as many records as come together, anew in each epoch, so an epoch
 * may have more samples than another. What is left in its last round is spread evenly, the last
 * rank's samples completed from the start.
 */
#ifndef TR_DATASET_SAMPLER_H
#define TR_DATASET_SAMPLER_H

#include "engine/base/err.h"
#include "trainer/dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>

/* T tokens, B samples. Owned by the caller; tr_batch_finish frees it. */
struct tr_batch {
    int64_t tokens;  /* T */
    int64_t samples; /* B: examples, more than rows where these are packed */
    int32_t *ids;    /* (T) */
    int32_t *pos;    /* (T) restarts at 0 in each sample */
    /* (T) the label of the next token of the same sample, TR_IGNORE if none */
    int32_t *targets;
    int64_t *attn_offsets; /* (B+1) first token of each sample; the last is T */
    int64_t *index;        /* (B) which sample of the data set */
    int64_t *place;        /* (B) its place in the epoch's global order: k*B+i (keys dropout);
                              plus a multiple of 2^40 after the first example of a row */
    int64_t target_count;  /* targets that are not TR_IGNORE */
    int64_t padded_tokens; /* B * the longest, rounded up to 8: as the reference counts */
    int64_t cap_tokens, cap_samples;
};

void tr_batch_finish(struct tr_batch *b);

struct tr_sampler;

struct tr_sampler_stream {
    int64_t buffer; /* records (stream.h); 0: no stream */
    enum tr_mix_strategy mix;
    const char *mix_probs;    /* --interleave_probs; NULL: by turns */
    int64_t skip;             /* records at the beginning of each epoch that are left out */
    struct tr_pack_opts rows; /* capacity 0: a sample is a record; shards is not used */
    bool texts;               /* rows are texts laid end to end, and cut */
};

struct tr_sampler_opts {
    int64_t batch; /* B */
    int64_t rank, world;
    int64_t seed; /* data_seed if given, else seed */
    bool shuffle, drop_last;
    struct tr_sampler_stream stream; /* data was loaded with keep_dropped */
};

/* Borrows data. FR_USAGE when drop_last leaves nothing. */
enum fr_rc tr_sampler_create(const struct tr_dataset *data, const struct tr_sampler_opts *o,
                             struct tr_sampler **out, struct fr_err *err);
void tr_sampler_destroy(struct tr_sampler *s);

/* Of one rank in epoch e, at least 1; FR_USAGE when drop_last leaves none. samples (may be NULL):
 * of all ranks. */
enum fr_rc tr_sampler_micros(struct tr_sampler *s, int64_t epoch, int64_t *micros, int64_t *samples,
                             struct fr_err *err);

/* Micro-batch k (0-based, below that number) of epoch e for this rank. Any order of calls. */
enum fr_rc tr_sampler_batch(struct tr_sampler *s, int64_t epoch, int64_t k, struct tr_batch *out,
                            struct fr_err *err);

/* A batch of given ids and labels (labels may be NULL: next-token targets of the ids). */
enum fr_rc tr_batch_pack(const struct tr_sample *samples, int64_t n, struct tr_batch *out,
                         struct fr_err *err);

#endif
