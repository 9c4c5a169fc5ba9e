/* Private to dataset*.c: the inside of a data set. */
#ifndef TR_DATASET_DATASET_STATE_H
#define TR_DATASET_DATASET_STATE_H

#include "engine/base/file.h"
#include "trainer/dataset/dataset.h"
#include "trainer/dataset/token_cache.h"

/* Tokens that a data set shares with those made from it, counted by users. */
struct tr_held {
    struct tr_tokens tokens; /* of examples */
    char digest[FR_SHA256_TEXT];
    char *cache_dir; /* owns; NULL: none */
    size_t users;    /* the last one frees it */
};

struct tr_dataset {
    struct tr_held *held;
    int64_t *order;      /* owns (n): example i is number order[i] of those held; NULL: number i */
    int64_t *lengths;    /* owns (n), with order: in turn, as offsets are not */
    int64_t n;           /* examples */
    int64_t *rows;       /* owns: row i is the examples [rows[i], rows[i+1]); NULL: one a row */
    int64_t nrows, most; /* most: examples of a row at most */
    int64_t longest, valid;
    bool cached;
    char digest[FR_SHA256_TEXT];
};

/* A data set of these tokens, which it owns: also where it fails. */
enum fr_rc tr_dataset_hold(struct tr_tokens *t, const char *cache_dir, struct tr_dataset **out,
                           struct fr_err *err);

/* Fills in the digest, the longest sample, the most parts and the samples with tokens. */
void tr_dataset_measure(struct tr_dataset *d);

/* Tokens of example i. */
static inline int64_t tr_dataset_length(const struct tr_dataset *d, int64_t i)
{
    const int64_t *offsets = d->held->tokens.offsets;

    return d->lengths != NULL ? d->lengths[i] : offsets[i + 1] - offsets[i];
}

static inline struct tr_sample tr_dataset_example(const struct tr_dataset *d, int64_t i)
{
    const struct tr_tokens *t = &d->held->tokens;
    int64_t at = t->offsets[d->order != NULL ? d->order[i] : i];

    return (struct tr_sample){
        .ids = t->ids.v + at, .labels = t->labels.v + at, .n = tr_dataset_length(d, i), .parts = 1};
}

#endif
