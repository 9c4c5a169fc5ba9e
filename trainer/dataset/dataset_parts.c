/* Data sets made of others: split, packed, cut. All but those that are cut share the tokens. */
#include "trainer/dataset/dataset_state.h"

#include "engine/base/sys.h"
#include "trainer/dataset/pcg.h"

#include <math.h>
#include <string.h>

/* A data set over the examples of h, without an order of its own yet. */
static struct tr_dataset *create(struct tr_held *h, int64_t n, bool cached)
{
    struct tr_dataset *d = fr_sys.alloc(sizeof(*d));

    if (d != NULL) {
        *d = (struct tr_dataset){.held = h, .n = n, .cached = cached};
        h->users++;
    }
    return d;
}

enum fr_rc tr_dataset_hold(struct tr_tokens *t, const char *cache_dir, struct tr_dataset **out,
                           struct fr_err *err)
{
    struct tr_held *h = fr_sys.alloc(sizeof(*h));
    struct tr_dataset *d = NULL;

    *out = NULL;
    if (h != NULL)
        *h = (struct tr_held){.users = 0};
    if (h != NULL && (cache_dir == NULL || (h->cache_dir = fr_sys_dup(cache_dir)) != NULL))
        d = create(h, t->n, false);
    if (d == NULL) {
        fr_sys.free(h != NULL ? h->cache_dir : NULL);
        fr_sys.free(h);
        tr_tokens_finish(t);
        return fr_fail(err, FR_NOMEM, "no memory for the data set");
    }
    h->tokens = *t;
    *t = (struct tr_tokens){.n = 0};
    tr_dataset_measure(d);
    *out = d;
    return FR_OK;
}

/* The data set that was picked, without its sizes and its digest. */
static enum fr_rc pick(const struct tr_dataset *from, const struct tr_picked *p,
                       struct tr_dataset **out, struct fr_err *err)
{
    struct tr_dataset *d = create(from->held, 0, from->cached);

    *out = NULL;
    if (d != NULL) {
        d->order = fr_sys.alloc(((size_t)p->n + 1) * sizeof(int64_t));
        d->lengths = fr_sys.alloc(((size_t)p->n + 1) * sizeof(int64_t));
    }
    if (d == NULL || d->order == NULL || d->lengths == NULL) {
        tr_dataset_destroy(d);
        return fr_fail(err, FR_NOMEM, "no memory for %lld samples", (long long)p->n);
    }
    for (int64_t i = 0; i < p->n; i++) {
        int64_t k = p->order[i], length = tr_dataset_length(from, k);

        if (length == 0 && !p->empty_too)
            continue;
        d->order[d->n] = from->order != NULL ? from->order[k] : k;
        d->lengths[d->n++] = length;
    }
    *out = d;
    return FR_OK;
}

enum fr_rc tr_dataset_pick(const struct tr_dataset *from, const struct tr_picked *p,
                           struct tr_dataset **out, struct fr_err *err)
{
    enum fr_rc rc = pick(from, p, out, err);

    if (rc == FR_OK)
        tr_dataset_measure(*out);
    return rc;
}

enum fr_rc tr_dataset_split(struct tr_dataset **d, const struct tr_split_opts *o,
                            struct tr_dataset **eval, struct fr_err *err)
{
    double val_size = o->val_size;
    int64_t n = (*d)->n, taken, *order;
    struct tr_dataset *train = NULL;
    enum fr_rc rc;

    *eval = NULL;
    taken = val_size > 1 ? (int64_t)val_size : (int64_t)ceil(val_size * (double)n);
    if (taken < 1 || taken >= n)
        return fr_fail(err, FR_USAGE,
                       "--val_size %g takes %lld of %lld records: expected a share below 1, or a "
                       "number above 1, that leaves records on both sides",
                       val_size, (long long)taken, (long long)n);
    if ((order = fr_sys.alloc((size_t)n * sizeof(*order))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the order of %lld samples", (long long)n);
    tr_pcg_permutation((uint64_t)o->seed, n, order);
    if ((rc = tr_dataset_pick(*d, &(struct tr_picked){order, taken, o->keep_dropped}, eval, err)) ==
            FR_OK &&
        (rc = tr_dataset_pick(*d, &(struct tr_picked){order + taken, n - taken, o->keep_dropped},
                              &train, err)) == FR_OK &&
        ((*eval)->valid == 0 || train->valid == 0))
        rc = fr_fail(err, FR_USAGE,
                     "--val_size %g leaves no valid record %s: all that were drawn are invalid",
                     val_size, train->valid == 0 ? "to train on" : "for evaluation");
    fr_sys.free(order);
    if (rc != FR_OK) {
        tr_dataset_destroy(train);
        tr_dataset_destroy(*eval);
        *eval = NULL;
        return rc;
    }
    tr_dataset_destroy(*d);
    *d = train;
    return FR_OK;
}

enum fr_rc tr_dataset_pack(struct tr_dataset **d, const struct tr_pack_opts *o, struct fr_err *err)
{
    int64_t n = (*d)->n, *lengths = fr_sys.alloc(((size_t)n + 1) * sizeof(*lengths));
    struct tr_dataset *packed = NULL;
    struct tr_packs p = {.n = 0};
    enum fr_rc rc = FR_OK;

    if (lengths == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to pack %lld samples", (long long)n);
    for (int64_t i = 0; i < n; i++)
        lengths[i] = tr_dataset_length(*d, i);
    rc = tr_pack(lengths, n, o, &p, err);
    if (rc == FR_OK && p.n == 0)
        rc = fr_fail(err, FR_USAGE, "Cannot find valid samples: all %lld records were dropped",
                     (long long)n);
    if (rc == FR_OK &&
        (rc = pick(*d, &(struct tr_picked){p.order, p.rows[p.n], true}, &packed, err)) == FR_OK) {
        packed->rows = p.rows;
        packed->nrows = p.n;
        p.rows = NULL;
        tr_dataset_measure(packed);
        tr_dataset_destroy(*d);
        *d = packed;
    }
    fr_sys.free(lengths);
    tr_packs_finish(&p);
    return rc;
}

/* Records, and how many tokens they have. */
struct range {
    int64_t from, to;
};

static int64_t tokens_of(const struct tr_dataset *d, struct range r)
{
    int64_t sum = 0;

    for (int64_t i = r.from; i < r.to; i++)
        sum += tr_dataset_length(d, i);
    return sum;
}

/* The records, end to end, in samples of n tokens. */
static enum fr_rc chunk_batch(const struct tr_dataset *in, struct range r, int64_t n,
                              struct tr_tokens *out, struct fr_err *err)
{
    int64_t left = tokens_of(in, r) / n * n;
    enum fr_rc rc = FR_OK;

    for (int64_t k = left / n; k > 0; k--, out->n++)
        out->offsets[out->n + 1] = out->offsets[out->n] + n;
    for (int64_t i = r.from; left > 0 && rc == FR_OK; i++) {
        struct tr_sample s = tr_dataset_example(in, i);
        size_t tokens = (size_t)(s.n < left ? s.n : left);

        if ((rc = tr_ids_add(&out->ids, s.ids, tokens, err)) == FR_OK)
            rc = tr_ids_add(&out->labels, s.labels, tokens, err);
        left -= (int64_t)tokens;
    }
    return rc;
}

static enum fr_rc chunk(const struct tr_dataset *in, const struct tr_pack_opts *o,
                        struct tr_tokens *out, struct fr_err *err)
{
    int64_t shards = o->shards < 1 ? 1 : o->shards > in->n ? in->n : o->shards;
    int64_t all = tokens_of(in, (struct range){0, in->n}), most = all / o->capacity + 1;
    enum fr_rc rc = FR_OK;

    if ((out->offsets = fr_sys.alloc((size_t)most * sizeof(int64_t))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %lld samples", (long long)most);
    out->offsets[0] = 0;
    for (int64_t s = 0, begin = 0; rc == FR_OK && s < shards; s++) {
        int64_t end = begin + in->n / shards + (s < in->n % shards ? 1 : 0);

        for (int64_t i = begin; rc == FR_OK && i < end; i += o->batch)
            rc = chunk_batch(in, (struct range){i, i + o->batch < end ? i + o->batch : end},
                             o->capacity, out, err);
        begin = end;
    }
    if (rc == FR_OK && out->n == 0)
        rc = fr_fail(err, FR_USAGE,
                     "all texts have %lld tokens together, which is not one sample of %lld: lower "
                     "--cutoff_len, or set --packing false",
                     (long long)all, (long long)o->capacity);
    return rc;
}

enum fr_rc tr_dataset_chunk(struct tr_dataset **d, const struct tr_pack_opts *o, struct fr_err *err)
{
    struct tr_tokens tokens = {.n = 0};
    struct tr_dataset *cut = NULL;
    enum fr_rc rc = chunk(*d, o, &tokens, err);

    if (rc != FR_OK) {
        tr_tokens_finish(&tokens);
        return rc;
    }
    if ((rc = tr_dataset_hold(&tokens, NULL, &cut, err)) != FR_OK)
        return rc;
    cut->cached = (*d)->cached;
    tr_dataset_destroy(*d);
    *d = cut;
    return FR_OK;
}
