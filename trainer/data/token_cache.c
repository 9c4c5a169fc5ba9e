#include "trainer/data/token_cache.h"

#include "engine/base/sys.h"

#include <string.h>

static const size_t CACHE_MAX_BYTES = (size_t)64 << 30;

/* All numbers are little-endian, as on every machine this runs on. */
struct head {
    char magic[8];
    char key[FR_SHA256_TEXT + 7]; /* 72 bytes: digits, NUL, zeros */
    int64_t n, tokens;
    char digest[FR_SHA256_TEXT + 7];
};

static const char magic[8] = "FTTOK01";

void tr_tokens_finish(struct tr_tokens *t)
{
    fr_sys.free(t->offsets);
    tr_ids_finish(&t->ids);
    tr_ids_finish(&t->labels);
    *t = (struct tr_tokens){.n = 0};
}

/* Lengths, ids and labels as bytes. */
static void body(const struct tr_tokens *t, struct fr_buf *b)
{
    fr_buf_add(b, t->offsets, ((size_t)t->n + 1) * sizeof(int64_t));
    fr_buf_add(b, t->ids.v, t->ids.n * sizeof(int32_t));
    fr_buf_add(b, t->labels.v, t->labels.n * sizeof(int32_t));
}

enum fr_rc tr_tokens_digest(const struct tr_tokens *t, char out[FR_SHA256_TEXT], struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc = FR_OK;

    body(t, &b);
    if (b.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the digest of %lld samples", (long long)t->n);
    else
        fr_sha256(b.p, b.n, out);
    fr_buf_finish(&b);
    return rc;
}

enum fr_rc tr_token_cache_write(const char *path, const char *key, const struct tr_tokens *t,
                                struct fr_err *err)
{
    struct head h = {.n = t->n, .tokens = (int64_t)t->ids.n};
    struct fr_buf b = {0};
    enum fr_rc rc;

    memcpy(h.magic, magic, sizeof(magic));
    memcpy(h.key, key, FR_SHA256_TEXT);
    fr_buf_add(&b, &h, sizeof(h));
    body(t, &b);
    if (b.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the token cache %s", path);
    else {
        fr_sha256(b.p + sizeof(h), b.n - sizeof(h), h.digest);
        memcpy(b.p, &h, sizeof(h));
        rc = fr_file_write(path, b.p, b.n, 0644, err);
    }
    fr_buf_finish(&b);
    return rc;
}

/* The arrays out of a checked file. */
static enum fr_rc unpack(const struct head *h, const char *p, struct tr_tokens *out,
                         struct fr_err *err)
{
    size_t samples = (size_t)h->n + 1, tokens = (size_t)h->tokens;
    enum fr_rc rc;

    out->offsets = fr_sys.alloc(samples * sizeof(int64_t));
    if (out->offsets == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %lld samples", (long long)h->n);
    memcpy(out->offsets, p, samples * sizeof(int64_t));
    p += samples * sizeof(int64_t);
    out->n = h->n;
    if ((rc = tr_ids_add(&out->ids, (const int32_t *)(const void *)p, tokens, err)) != FR_OK)
        return rc;
    return tr_ids_add(&out->labels, (const int32_t *)(const void *)(p + tokens * sizeof(int32_t)),
                      tokens, err);
}

static bool whole(const struct head *h, const struct fr_buf *b, const char *key)
{
    char digest[FR_SHA256_TEXT];
    size_t ids, offsets;

    if (memcmp(h->magic, magic, sizeof(magic)) != 0 || strcmp(h->key, key) != 0 || h->n < 0 ||
        h->tokens < 0 || h->n > INT64_MAX / 16 || h->tokens > INT64_MAX / 16)
        return false;
    offsets = ((size_t)h->n + 1) * sizeof(int64_t);
    ids = (size_t)h->tokens * 2 * sizeof(int32_t);
    if (b->n != sizeof(*h) + offsets + ids)
        return false;
    fr_sha256(b->p + sizeof(*h), b->n - sizeof(*h), digest);
    return strcmp(digest, h->digest) == 0;
}

enum fr_rc tr_token_cache_read(const char *path, const char *key, struct tr_tokens *out,
                               bool *found, struct fr_err *err)
{
    struct fr_buf b = {0};
    struct stat st;
    struct head h;
    enum fr_rc rc;

    *out = (struct tr_tokens){.n = 0};
    *found = false;
    if (fr_sys.lstat(path, &st) != 0)
        return FR_OK;
    if ((rc = fr_file_read(path, CACHE_MAX_BYTES, &b, err)) == FR_OK && b.n >= sizeof(h)) {
        memcpy(&h, b.p, sizeof(h));
        h.key[FR_SHA256_TEXT - 1] = h.digest[FR_SHA256_TEXT - 1] = '\0';
        if (whole(&h, &b, key)) {
            rc = unpack(&h, b.p + sizeof(h), out, err);
            *found = rc == FR_OK;
        }
    }
    fr_buf_finish(&b);
    if (rc != FR_OK)
        tr_tokens_finish(out);
    return rc;
}
