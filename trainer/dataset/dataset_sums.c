/* The sums of data sets, and what is counted of them. That of one whose tokens are another's is
 * kept in the folder of the token cache, by a sum over the other's and the order. */
#include "trainer/dataset/dataset_state.h"

#include "engine/base/json.h"
#include "engine/base/sha256.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LIST_MAX_BYTES = 1 << 24 };

/* The key by which data sets over the same tokens differ. */
static void key_of(const struct tr_dataset *d, char key[FR_SHA256_TEXT])
{
    const struct fr_str parts[] = {{d->held->digest, sizeof(d->held->digest)},
                                   {(const char *)d->order, (size_t)d->n * sizeof(int64_t)}};

    fr_sha256_parts(&(struct fr_parts){parts, 2}, key);
}

/* Bytes on their way to a sum, which many at once are cheaper for. */
struct summing {
    SHA2_CTX ctx;
    char bytes[1 << 16];
    size_t n;
};

static void flush(struct summing *s)
{
    fr_sha256_add(&s->ctx, s->bytes, s->n);
    s->n = 0;
}

static void add(struct summing *s, const void *p, size_t n)
{
    if (n > sizeof(s->bytes) - s->n)
        flush(s);
    if (n > sizeof(s->bytes)) {
        fr_sha256_add(&s->ctx, p, n);
        return;
    }
    memcpy(s->bytes + s->n, p, n);
    s->n += n;
}

/* As tr_tokens_digest of a copy. */
static void sum_up(const struct tr_dataset *d, char out[FR_SHA256_TEXT])
{
    struct summing s = {.n = 0};
    int64_t offset = 0;

    SHA256Init(&s.ctx);
    add(&s, &offset, sizeof(offset));
    for (int64_t i = 0; i < d->n; i++) {
        offset += tr_dataset_length(d, i);
        add(&s, &offset, sizeof(offset));
    }
    for (int labels = 0; labels < 2; labels++)
        for (int64_t i = 0; i < d->n; i++) {
            struct tr_sample one = tr_dataset_example(d, i);

            add(&s, labels ? one.labels : one.ids, (size_t)one.n * sizeof(int32_t));
        }
    flush(&s);
    SHA256End(&s.ctx, out);
}

/* The list of sums in a folder; one that is missing or damaged is empty. */
static json_t *load_list(const char *path)
{
    struct fr_err err;
    json_t *list = NULL;

    if (fr_json_load(path, LIST_MAX_BYTES, &list, &err) == FR_OK && json_is_object(list))
        return list;
    json_decref(list);
    return json_object();
}

static void digest_of_view(struct tr_dataset *d)
{
    const char *dir = d->held->cache_dir, *sum;
    char path[PATH_MAX], key[FR_SHA256_TEXT];
    bool kept = dir != NULL && snprintf(path, sizeof(path), "%s/sums.json", dir) < PATH_MAX;
    json_t *list;
    struct fr_err why;

    if (!kept) {
        sum_up(d, d->digest);
        return;
    }
    key_of(d, key);
    list = load_list(path);
    sum = json_string_value(json_object_get(list, key));
    if (sum != NULL && strlen(sum) == FR_SHA256_TEXT - 1)
        memcpy(d->digest, sum, FR_SHA256_TEXT);
    else {
        sum_up(d, d->digest);
        /* a list that cannot be written costs the next start its time */
        if (json_object_set_new(list, key, json_string(d->digest)) == 0)
            (void)fr_json_save(list, path, JSON_INDENT(1), 0644, &why);
    }
    json_decref(list);
}

void tr_dataset_measure(struct tr_dataset *d)
{
    struct tr_held *h = d->held;

    d->longest = d->valid = 0;
    for (int64_t i = 0; i < tr_dataset_size(d); i++) {
        int64_t from = d->rows != NULL ? d->rows[i] : i,
                to = d->rows != NULL ? d->rows[i + 1] : i + 1;
        int64_t n = 0;

        for (int64_t k = from; k < to; k++)
            n += tr_dataset_length(d, k);
        d->longest = n > d->longest ? n : d->longest;
        d->valid += n > 0;
        d->most = to - from > d->most ? to - from : d->most;
    }
    if (d->order == NULL) {
        if (h->tokens.digest[0] == '\0')
            tr_tokens_digest(&h->tokens, h->digest);
        else
            memcpy(h->digest, h->tokens.digest, sizeof(h->digest));
        memcpy(d->digest, h->digest, sizeof(d->digest));
    } else
        digest_of_view(d);
}
