#include "trainer/dataset/token_cache.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* All numbers are little-endian, as on every machine this runs on. */
struct head {
    char magic[8];
    char key[FR_SHA256_TEXT + 7]; /* 72 bytes: digits, NUL, zeros */
    int64_t n, tokens, nsets, sets[TR_SETS_MAX];
    char digest[FR_SHA256_TEXT + 7];
};

static const char magic[8] = "FTTOK02";

void tr_tokens_finish(struct tr_tokens *t)
{
    if (t->map != NULL)
        (void)munmap(t->map, t->map_bytes);
    else {
        fr_sys.free(t->offsets);
        tr_ids_finish(&t->ids);
        tr_ids_finish(&t->labels);
    }
    *t = (struct tr_tokens){.n = 0};
}

enum { HEAD, OFFSETS, IDS, LABELS, PARTS };

/* The parts of the file; the digest covers those after the header. */
static void parts_of(const struct tr_tokens *t, const struct head *h, struct fr_str out[PARTS])
{
    out[HEAD] = (struct fr_str){(const char *)h, sizeof(*h)};
    out[OFFSETS] = (struct fr_str){(const char *)t->offsets, ((size_t)t->n + 1) * sizeof(int64_t)};
    out[IDS] = (struct fr_str){(const char *)t->ids.v, t->ids.n * sizeof(int32_t)};
    out[LABELS] = (struct fr_str){(const char *)t->labels.v, t->labels.n * sizeof(int32_t)};
}

void tr_tokens_digest(const struct tr_tokens *t, char out[FR_SHA256_TEXT])
{
    struct fr_str parts[PARTS];

    parts_of(t, NULL, parts);
    fr_sha256_parts(&(struct fr_parts){parts + OFFSETS, PARTS - OFFSETS}, out);
}

enum fr_rc tr_token_cache_write(const struct tr_token_cache *c, const struct tr_tokens *t,
                                struct fr_err *err)
{
    struct head h = {.n = t->n, .tokens = (int64_t)t->ids.n, .nsets = (int64_t)t->nsets};
    struct fr_str parts[PARTS];
    enum fr_rc rc;

    memcpy(h.magic, magic, sizeof(magic));
    memcpy(h.key, c->key, FR_SHA256_TEXT);
    memcpy(h.sets, t->sets, sizeof(h.sets));
    tr_tokens_digest(t, h.digest);
    parts_of(t, &h, parts);
    rc = fr_file_write_parts(c->path, &(struct fr_parts){parts, PARTS}, 0644, err);
    if (rc == FR_OK)
        tr_checksum_cache_put(c->checksums, c->path, h.digest);
    return rc;
}

/* The whole file, in out->map. */
static enum fr_rc map_file(const char *path, struct tr_tokens *out, struct fr_err *err)
{
    struct stat st;
    void *p = MAP_FAILED;
    int fd = fr_sys.open(path, O_RDONLY | O_NONBLOCK, 0);

    if (fd >= 0 && fr_sys.fstat(fd, &st) == 0 && st.st_size > 0)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    else if (fd >= 0)
        errno = EINVAL;
    if (p == MAP_FAILED)
        (void)fr_fail_errno(err, errno, "cannot map %s", path);
    if (fd >= 0)
        fr_sys.close(fd);
    if (p == MAP_FAILED)
        return FR_IO;
    out->map = p;
    out->map_bytes = (size_t)st.st_size;
    return FR_OK;
}

/* Whether the file's size matches its header, and the key matches. */
static bool fits(const struct head *h, size_t bytes, const char *key)
{
    size_t ids, offsets;

    if (memcmp(h->magic, magic, sizeof(magic)) != 0 || strcmp(h->key, key) != 0 || h->n < 0 ||
        h->tokens < 0 || h->n > INT64_MAX / 16 || h->tokens > INT64_MAX / 16 || h->nsets < 0 ||
        h->nsets > TR_SETS_MAX)
        return false;
    offsets = ((size_t)h->n + 1) * sizeof(int64_t);
    ids = (size_t)h->tokens * 2 * sizeof(int32_t);
    return bytes == sizeof(*h) + offsets + ids;
}

/* The arrays inside a map whose header fits. */
static void point(struct tr_tokens *t, const struct head *h)
{
    size_t tokens = (size_t)h->tokens;

    t->n = h->n;
    t->offsets = (int64_t *)(void *)((char *)t->map + sizeof(*h));
    t->ids = (struct tr_ids){(int32_t *)(void *)(t->offsets + h->n + 1), tokens, tokens};
    t->labels = (struct tr_ids){t->ids.v + tokens, tokens, tokens};
    t->nsets = (size_t)h->nsets;
    memcpy(t->sets, h->sets, sizeof(t->sets));
    memcpy(t->digest, h->digest, FR_SHA256_TEXT);
}

static bool sound(const struct tr_tokens *t)
{
    int64_t left = t->n;

    for (size_t i = 0; i < t->nsets; i++) {
        if (t->sets[i] < 0 || t->sets[i] > left)
            return false;
        left -= t->sets[i];
    }
    for (int64_t i = 0; i < t->n; i++)
        if (t->offsets[i] > t->offsets[i + 1])
            return false;
    return t->offsets[0] == 0 && t->offsets[t->n] == (int64_t)t->ids.n;
}

/* The sum is that of the header; a file that is known to have it is not read. */
static bool has_sum(const struct tr_token_cache *c, const struct tr_tokens *t)
{
    char digest[FR_SHA256_TEXT];

    if (tr_checksum_cache_have(c->checksums, c->path, t->digest))
        return true;
    fr_sha256(t->offsets, t->map_bytes - sizeof(struct head), digest);
    if (strcmp(digest, t->digest) != 0)
        return false;
    tr_checksum_cache_put(c->checksums, c->path, digest);
    return true;
}

enum fr_rc tr_token_cache_read(const struct tr_token_cache *c, struct tr_tokens *out, bool *found,
                               struct fr_err *err)
{
    struct stat st;
    struct head h;
    enum fr_rc rc;

    *out = (struct tr_tokens){.n = 0};
    *found = false;
    if (fr_sys.lstat(c->path, &st) != 0 || (size_t)st.st_size < sizeof(h))
        return FR_OK;
    if ((rc = map_file(c->path, out, err)) != FR_OK)
        return rc;
    if (out->map_bytes >= sizeof(h)) {
        memcpy(&h, out->map, sizeof(h));
        h.key[FR_SHA256_TEXT - 1] = h.digest[FR_SHA256_TEXT - 1] = '\0';
        if (fits(&h, out->map_bytes, c->key)) {
            point(out, &h);
            *found = has_sum(c, out) && sound(out);
        }
    }
    if (!*found)
        tr_tokens_finish(out);
    return FR_OK;
}
