/*
 * A file of tokenised examples: a header with the cache's key, lengths, ids, labels, and a
 * SHA-256 of these. Written beside the target, fsynced, renamed. It is mapped, not read.
 *
 * What a start proves: the header is for this key and this size of file, the lengths are in order
 * and within the file. That ids and labels are those that were written is proven by their sum,
 * where the file is not known (checksum_cache.h), and else by the file's stamp: nobody wrote to it
 * since it had that sum. A disk that loses bits on its own is not noticed then.
 */
#ifndef TR_DATASET_TOKEN_CACHE_H
#define TR_DATASET_TOKEN_CACHE_H

#include "engine/base/file.h"
#include "trainer/dataset/checksum_cache.h"
#include "trainer/tokenizer/tokenizer.h"

enum { TR_SETS_MAX = 64 };

/* n samples; sample i is ids and labels [offsets[i], offsets[i+1]). Owns its three arrays, or the
 * map that they lie in, which is read-only. */
struct tr_tokens {
    int64_t *offsets; /* (n + 1) */
    int64_t n;
    struct tr_ids ids, labels;
    int64_t sets[TR_SETS_MAX]; /* records of each data set, where dropped ones were kept */
    size_t nsets;
    void *map; /* NULL: none */
    size_t map_bytes;
    char digest[FR_SHA256_TEXT]; /* of a map: as tr_tokens_digest; else empty */
};

void tr_tokens_finish(struct tr_tokens *t);

/* SHA-256 over lengths, ids and labels. */
void tr_tokens_digest(const struct tr_tokens *t, char out[FR_SHA256_TEXT]);

struct tr_token_cache {
    const char *path, *key;
    struct tr_checksum_cache *checksums;
};

/* *found is false when there is no such file, or one that is cut, damaged or made for another
 * key. */
enum fr_rc tr_token_cache_read(const struct tr_token_cache *c, struct tr_tokens *out, bool *found,
                               struct fr_err *err);
enum fr_rc tr_token_cache_write(const struct tr_token_cache *c, const struct tr_tokens *t,
                                struct fr_err *err);

#endif
