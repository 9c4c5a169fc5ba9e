/*
 * Private to dataset*.c: reads records, encodes them on all threads, draws num_samples and mixes
 * data sets.
 */
#ifndef TR_DATASET_TOKENISE_H
#define TR_DATASET_TOKENISE_H

#include "trainer/dataset/dataset.h"
#include "trainer/dataset/records.h"
#include "trainer/dataset/token_cache.h"

/* Inputs of tokenisation; borrows all of them. */
struct tr_sources {
    const struct tr_dataset_opts *o;
    const struct tr_tokenizer *tok;
    struct tr_data_entry *entries;
    size_t n; /* at most TR_SETS_MAX */
    struct tr_checksum_cache *checksums;
};

/* Warnings and errors are those of tr_dataset_load. */
enum fr_rc tr_tokenise(const struct tr_sources *s, struct tr_tokens *out, struct fr_buf *warnings,
                       struct fr_err *err);

#endif
