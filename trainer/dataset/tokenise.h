/*
 * Records of data sets as tokens: read, encoded on all threads, drawn and mixed. For the files that
 * make a data set.
 */
#ifndef TR_DATASET_TOKENISE_H
#define TR_DATASET_TOKENISE_H

#include "trainer/dataset/dataset.h"
#include "trainer/dataset/records.h"
#include "trainer/dataset/token_cache.h"

/* Where the samples come from. */
struct tr_sources {
    const struct tr_dataset_opts *o;
    const struct tr_tokenizer *tok;
    struct tr_data_entry *entries;
    size_t n; /* at most TR_SETS_MAX */
    struct tr_checksum_cache *checksums;
};

/* Warnings and errors as those of tr_dataset_load. */
enum fr_rc tr_tokenise(const struct tr_sources *s, struct tr_tokens *out, struct fr_buf *warnings,
                       struct fr_err *err);

#endif
