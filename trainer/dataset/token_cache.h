/*
 * A file of tokenised examples: a header with the cache's key, lengths, ids, labels, and a SHA-256
 * of these. Written beside the target, fsynced, renamed. It is mapped, not read.
 *
 * A read checks that the header matches the key and the file's size, and that the lengths are
 * ascending and within the file. Ids and labels are checked by their SHA-256, unless
 * checksum_cache.h knows that the file did not change. In that case silent bit errors of the disk
 * stay unnoticed.
 */
#ifndef TR_DATASET_TOKEN_CACHE_H
#define TR_DATASET_TOKEN_CACHE_H

#include "engine/base/file.h"
#include "trainer/dataset/checksum_cache.h"
#include "trainer/tokenizer/tokenizer.h"

enum { TR_SETS_MAX = 64 };

/* n samples; sample i is ids and labels [offsets[i], offsets[i+1]). Owns its three arrays, or the
 * read-only map that contains them. */
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

/* *found is false when the file is missing, cut, damaged, or made for another key. */
enum fr_rc tr_token_cache_read(const struct tr_token_cache *c, struct tr_tokens *out, bool *found,
                               struct fr_err *err);
enum fr_rc tr_token_cache_write(const struct tr_token_cache *c, const struct tr_tokens *t,
                                struct fr_err *err);

#endif
