/* What a data set is inside; for the files that make one. */
#ifndef TR_DATA_DATASET_STATE_H
#define TR_DATA_DATASET_STATE_H

#include "engine/base/file.h"
#include "trainer/data/dataset.h"
#include "trainer/data/token_cache.h"

struct tr_dataset {
    struct tr_tokens tokens; /* of examples */
    int64_t *rows;           /* owns: row i is the examples [rows[i], rows[i+1]); NULL: one a row */
    int64_t nrows, most;     /* most: examples of a row at most */
    int64_t longest, valid;
    bool cached;
    char digest[FR_SHA256_TEXT];
};

/* Fills in the digest, the longest sample, the most parts and the samples with tokens. */
void tr_dataset_measure(struct tr_dataset *d);

#endif
