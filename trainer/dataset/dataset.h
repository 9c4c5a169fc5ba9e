/*
 * Data sets by name from dataset_info.json (alpaca, sharegpt and OpenAI-messages records in JSON or
 * JSON-lines files). Records become token ids and labels once. A cache file keeps them; its key is
 * a digest of data, tokenizer, template and options. The file is checksummed and renamed into
 * place: a killed run leaves no cache, and a damaged cache is made again.
 */
#ifndef TR_DATASET_DATASET_H
#define TR_DATASET_DATASET_H

#include "engine/base/err.h"
#include "trainer/dataset/mix.h"
#include "trainer/dataset/pack.h"
#include "trainer/template/template.h"
#include "trainer/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_dataset;

/* Progress callback: called between records by the loading thread, with the number tokenised so
 * far. false: loading ends with FR_STOPPED. */
struct tr_data_tell {
    bool (*so_far)(void *arg, int64_t records); /* NULL: none */
    void *arg;
};

struct tr_dataset_opts {
    const char *dataset;     /* "a,b" */
    const char *dataset_dir; /* holds dataset_info.json */
    const struct tr_template *templ;
    struct tr_template_opts text;
    int64_t max_samples;      /* first k records of each data set; -1: all */
    enum tr_mix_strategy mix; /* of several data sets */
    const char *mix_probs;    /* --interleave_probs; NULL: by turns */
    int64_t seed;             /* for num_samples of dataset_info.json */
    bool pretrain;     /* records are texts: a sample is the first message and an eos token; all is
                          trained but tokens equal to the padding token */
    bool keep_dropped; /* dropped records become samples without tokens, for
                          tr_dataset_split, which draws among all records */
    bool stream; /* num_samples of dataset_info.json is ignored and data sets lie end to end: the
                    sampler mixes them */
    const char *cache_dir; /* NULL: no cache */
    bool overwrite_cache;
    int workers; /* threads that tokenise; 0: as many as OpenMP has. The same samples
                    in the same order with any number */
    struct tr_data_tell tell;
};

/* warnings (may be NULL) gets one line a dropped record, at most 20, and a count. FR_USAGE when no
 * record is valid; the message has the count and the first three reasons. FR_USAGE when a record
 * has a wrong type; the message names file and record. */
enum fr_rc tr_dataset_load(const struct tr_dataset_opts *o, const struct tr_tokenizer *tok,
                           struct tr_dataset **out, struct fr_buf *warnings, struct fr_err *err);
void tr_dataset_destroy(struct tr_dataset *d);

struct tr_split_opts {
    double val_size; /* a share below 1, rounded up, or a number of records above 1 */
    int64_t seed;
    bool keep_dropped; /* both sides keep samples without tokens, for tr_dataset_pack */
};

/*
 * Takes samples for evaluation out of a data set loaded with keep_dropped: *d keeps the others, in
 * the drawn order, *eval gets them. The draw is numpy's default_rng(seed).permutation of all
 * records, as the reference's data library makes it. FR_USAGE when a side would be empty.
 */
enum fr_rc tr_dataset_split(struct tr_dataset **d, const struct tr_split_opts *o,
                            struct tr_dataset **eval, struct fr_err *err);

/* Samples order[0..n) of a data set; with empty_too also those without tokens. */
struct tr_picked {
    const int64_t *order;
    int64_t n;
    bool empty_too;
};

/* A data set of these samples that shares the tokens of `from`. Its digest equals that of a copy;
 * the digest is computed once and kept in the token cache's folder. */
enum fr_rc tr_dataset_pick(const struct tr_dataset *from, const struct tr_picked *p,
                           struct tr_dataset **out, struct fr_err *err);

/* Packs the examples of a data set loaded with keep_dropped: a sample becomes a row of examples,
 * none of which sees another. Those without tokens are in no row. */
enum fr_rc tr_dataset_pack(struct tr_dataset **d, const struct tr_pack_opts *o, struct fr_err *err);

/*
 * Concatenates the texts of a data set loaded with pretrain and cuts them into samples of
 * o->capacity tokens. The rest of a batch is dropped (batches and shards as in tr_pack). FR_USAGE:
 * all texts together are shorter than one sample.
 */
enum fr_rc tr_dataset_chunk(struct tr_dataset **d, const struct tr_pack_opts *o,
                            struct fr_err *err);

/* One tokenised example, or a row of them; borrowed from the data set. */
struct tr_sample {
    const int32_t *ids;    /* n of them, 1 <= n <= cutoff_len; NULL: a row, which has parts */
    const int32_t *labels; /* n, TR_IGNORE where not trained; not shifted */
    int64_t n;             /* of all parts */
    int64_t parts;         /* examples that are packed into it; 1 without packing, 0 means 1 */
    const struct tr_dataset *row; /* of a row: its examples are samples first, … of this set */
    int64_t first;
};

/* Example k of a sample; a sample that is no row is its own example 0. */
struct tr_sample tr_sample_part(const struct tr_sample *s, int64_t k);

int64_t tr_dataset_size(const struct tr_dataset *d);
/* *lengths: the records of each source data set, in the order in which they lie (loaded with
 * keep_dropped). Returns the number of sets; 0 for a data set made from another one. */
size_t tr_dataset_sets(const struct tr_dataset *d, const int64_t **lengths);
/* The number of samples with tokens; fewer than all only with keep_dropped. */
int64_t tr_dataset_valid(const struct tr_dataset *d);
struct tr_sample tr_dataset_at(const struct tr_dataset *d, int64_t i);
/* The largest number of examples in a sample; 1 without packing. */
int64_t tr_dataset_most(const struct tr_dataset *d);
/* Tokens of the longest sample. */
int64_t tr_dataset_longest(const struct tr_dataset *d);
bool tr_dataset_cached(const struct tr_dataset *d); /* read from the cache */
/* SHA-256 over all ids and labels, 64 hexadecimal digits: what a resume compares. */
const char *tr_dataset_digest(const struct tr_dataset *d);

#endif
