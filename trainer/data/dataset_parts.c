/* Data sets made of others: split, packed, cut. */
#include "trainer/data/dataset_state.h"

#include "engine/base/sys.h"
#include "trainer/data/pcg.h"

#include <math.h>

enum fr_rc tr_dataset_pick(const struct tr_dataset *from, const struct tr_picked *p,
                           struct tr_dataset **out, struct fr_err *err)
{
    int64_t n = p->n;
    struct tr_dataset *d = fr_sys.alloc(sizeof(*d));
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the data set");
    *d = (struct tr_dataset){.cached = from->cached};
    d->tokens.offsets = fr_sys.alloc(((size_t)n + 1) * sizeof(int64_t));
    if (d->tokens.offsets == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %lld samples", (long long)n);
    else
        d->tokens.offsets[0] = 0;
    for (int64_t i = 0; i < n && rc == FR_OK; i++) {
        struct tr_sample s = tr_dataset_at(from, p->order[i]);
        if ((s.n > 0 || p->empty_too) &&
            (rc = tr_ids_add(&d->tokens.ids, s.ids, (size_t)s.n, err)) == FR_OK &&
            (rc = tr_ids_add(&d->tokens.labels, s.labels, (size_t)s.n, err)) == FR_OK)
            d->tokens.offsets[++d->tokens.n] = (int64_t)d->tokens.ids.n;
    }
    if (rc == FR_OK)
        tr_dataset_measure(d);
    if (rc != FR_OK)
        tr_dataset_destroy(d);
    else
        *out = d;
    return rc;
}

enum fr_rc tr_dataset_split(struct tr_dataset **d, const struct tr_split_opts *o,
                            struct tr_dataset **eval, struct fr_err *err)
{
    double val_size = o->val_size;
    int64_t n = (*d)->tokens.n, taken, *order;
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
        ((*eval)->tokens.ids.n == 0 || train->tokens.ids.n == 0))
        rc = fr_fail(err, FR_USAGE,
                     "--val_size %g leaves no valid record %s: all that were drawn are invalid",
                     val_size, train->tokens.ids.n == 0 ? "to train on" : "for evaluation");
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
    int64_t n = (*d)->tokens.n, *lengths = fr_sys.alloc(((size_t)n + 1) * sizeof(*lengths));
    struct tr_dataset *packed = NULL;
    struct tr_packs p = {.n = 0};
    enum fr_rc rc = FR_OK;

    if (lengths == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to pack %lld samples", (long long)n);
    for (int64_t i = 0; i < n; i++)
        lengths[i] = (*d)->tokens.offsets[i + 1] - (*d)->tokens.offsets[i];
    rc = tr_pack(lengths, n, o, &p, err);
    if (rc == FR_OK && p.n == 0)
        rc = fr_fail(err, FR_USAGE, "Cannot find valid samples: all %lld records were dropped",
                     (long long)n);
    if (rc == FR_OK && (rc = tr_dataset_pick(*d, &(struct tr_picked){p.order, p.rows[p.n], false},
                                             &packed, err)) == FR_OK) {
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

/* The records [from, to), end to end, in samples of n tokens. */
static enum fr_rc chunk_batch(const struct tr_tokens *in, int64_t from, int64_t to, int64_t n,
                              struct tr_tokens *out, struct fr_err *err)
{
    int64_t at = in->offsets[from], end = at + (in->offsets[to] - at) / n * n;
    size_t tokens = (size_t)(end - at);
    enum fr_rc rc = tr_ids_add(&out->ids, in->ids.v + at, tokens, err);

    if (rc == FR_OK)
        rc = tr_ids_add(&out->labels, in->labels.v + at, tokens, err);
    for (; rc == FR_OK && at < end; at += n, out->n++)
        out->offsets[out->n + 1] = out->offsets[out->n] + n;
    return rc;
}

static enum fr_rc chunk(const struct tr_tokens *in, const struct tr_pack_opts *o,
                        struct tr_tokens *out, struct fr_err *err)
{
    int64_t shards = o->shards < 1 ? 1 : o->shards > in->n ? in->n : o->shards;
    size_t most = in->ids.n / (size_t)o->capacity + 1;
    enum fr_rc rc = FR_OK;

    if ((out->offsets = fr_sys.alloc(most * sizeof(int64_t))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu samples", most);
    out->offsets[0] = 0;
    for (int64_t s = 0, begin = 0; rc == FR_OK && s < shards; s++) {
        int64_t end = begin + in->n / shards + (s < in->n % shards ? 1 : 0);

        for (int64_t i = begin; rc == FR_OK && i < end; i += o->batch)
            rc = chunk_batch(in, i, i + o->batch < end ? i + o->batch : end, o->capacity, out, err);
        begin = end;
    }
    if (rc == FR_OK && out->n == 0)
        rc = fr_fail(err, FR_USAGE,
                     "all texts have %zu tokens together, which is not one sample of %lld: lower "
                     "--cutoff_len, or set --packing false",
                     in->ids.n, (long long)o->capacity);
    return rc;
}

enum fr_rc tr_dataset_chunk(struct tr_dataset **d, const struct tr_pack_opts *o, struct fr_err *err)
{
    struct tr_dataset *cut = fr_sys.alloc(sizeof(*cut));
    enum fr_rc rc;

    if (cut == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the data set");
    *cut = (struct tr_dataset){.cached = (*d)->cached};
    if ((rc = chunk(&(*d)->tokens, o, &cut->tokens, err)) != FR_OK) {
        tr_dataset_destroy(cut);
        return rc;
    }
    tr_dataset_measure(cut);
    tr_dataset_destroy(*d);
    *d = cut;
    return FR_OK;
}
