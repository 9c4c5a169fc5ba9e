#include "trainer/dataset/sampler.h"

#include "trainer/tensor/tensor.h"
#include "engine/base/sys.h"
#include "trainer/dataset/mt.h"
#include "trainer/dataset/stream.h"

#include <string.h>

/* More than an epoch has; the further examples of a row have places beyond it. */
static const int64_t PLACES = (int64_t)1 << 40;

/* Where a sample that is cut out of texts begins: a record of the order, and a token of it. */
struct cut {
    int64_t record, token;
};

/* The samples of an epoch. */
struct epoch {
    int64_t number;   /* -1: none is held */
    int64_t n, micro; /* samples; micro-batches of one rank */
    int64_t *order;   /* own: records */
    int64_t *rows;    /* own (n + 1): sample i is order[rows[i]..rows[i + 1]); NULL: order[i] */
    struct cut *cuts; /* own (n): it is so many tokens from there on; NULL: it is whole */
};

struct tr_sampler {
    const struct tr_dataset *data;
    struct tr_sampler_opts o;
    double probs[TR_MIX_SETS];
    struct epoch now;
    struct tr_ids ids, labels; /* own: a sample that was cut */
};

void tr_batch_finish(struct tr_batch *b)
{
    if (b == NULL)
        return;
    fr_sys.free(b->ids);
    fr_sys.free(b->pos);
    fr_sys.free(b->targets);
    fr_sys.free(b->attn_offsets);
    fr_sys.free(b->index);
    fr_sys.free(b->place);
    *b = (struct tr_batch){.tokens = 0};
}

/* Room for t tokens and n samples; what was there is lost. */
static enum fr_rc reserve(struct tr_batch *b, int64_t t, int64_t n, struct fr_err *err)
{
    if (t <= b->cap_tokens && n <= b->cap_samples)
        return FR_OK;
    tr_batch_finish(b);
    size_t tokens = (size_t)t + 1, samples = (size_t)n + 1;
    b->ids = fr_sys.alloc(tokens * sizeof(int32_t));
    b->pos = fr_sys.alloc(tokens * sizeof(int32_t));
    b->targets = fr_sys.alloc(tokens * sizeof(int32_t));
    b->attn_offsets = fr_sys.alloc(samples * sizeof(int64_t));
    b->index = fr_sys.alloc(samples * sizeof(int64_t));
    b->place = fr_sys.alloc(samples * sizeof(int64_t));
    if (b->ids == NULL || b->pos == NULL || b->targets == NULL || b->attn_offsets == NULL ||
        b->index == NULL || b->place == NULL) {
        tr_batch_finish(b);
        return fr_fail(err, FR_NOMEM, "no memory for a micro-batch of %lld tokens", (long long)t);
    }
    b->cap_tokens = t;
    b->cap_samples = n;
    return FR_OK;
}

static void put_example(struct tr_batch *b, const struct tr_sample *s)
{
    const int32_t *labels = s->labels != NULL ? s->labels : s->ids;
    int64_t at = b->tokens, n = s->n;

    memcpy(b->ids + at, s->ids, (size_t)n * sizeof(int32_t));
    for (int64_t i = 0; i < n; i++) {
        b->pos[at + i] = (int32_t)i;
        b->targets[at + i] = i + 1 < n ? labels[i + 1] : TR_IGNORE;
        b->target_count += b->targets[at + i] != TR_IGNORE;
    }
    b->tokens += n;
    b->attn_offsets[++b->samples] = b->tokens;
}

static int64_t parts_of(const struct tr_sample *s)
{
    return s->parts > 0 ? s->parts : 1;
}

/* How many examples that were. */
static int64_t put_sample(struct tr_batch *b, const struct tr_sample *s, int64_t index,
                          int64_t place)
{
    for (int64_t k = 0; k < parts_of(s); k++) {
        struct tr_sample one = tr_sample_part(s, k);

        b->index[b->samples] = index;
        b->place[b->samples] = place + k * PLACES;
        put_example(b, &one);
    }
    return parts_of(s);
}

/* Of the samples of a batch. */
struct sizes {
    int64_t samples, tokens, parts, longest;
};

static void add_size(struct sizes *z, int64_t tokens, int64_t parts)
{
    z->samples++;
    z->tokens += tokens;
    z->parts += parts;
    z->longest = tokens > z->longest ? tokens : z->longest;
}

/* Room for the samples, and their padded size. */
static enum fr_rc begin(const struct sizes *z, struct tr_batch *out, struct fr_err *err)
{
    enum fr_rc rc = reserve(out, z->tokens, z->parts, err);

    if (rc != FR_OK)
        return rc;
    out->tokens = out->samples = out->target_count = 0;
    out->attn_offsets[0] = 0;
    out->padded_tokens = z->samples * ((z->longest + 7) / 8 * 8);
    return FR_OK;
}

enum fr_rc tr_batch_pack(const struct tr_sample *samples, int64_t n, struct tr_batch *out,
                         struct fr_err *err)
{
    struct sizes z = {0};
    enum fr_rc rc;

    for (int64_t i = 0; i < n; i++)
        add_size(&z, samples[i].n, parts_of(&samples[i]));
    rc = begin(&z, out, err);
    for (int64_t i = 0; rc == FR_OK && i < n; i++)
        put_sample(out, &samples[i], i, i);
    return rc;
}

static int64_t length_of(const struct tr_sampler *s, int64_t record)
{
    return tr_dataset_at(s->data, record).n;
}

/* ---- epochs ---- */

static void epoch_finish(struct epoch *e)
{
    fr_sys.free(e->order);
    fr_sys.free(e->rows);
    fr_sys.free(e->cuts);
    *e = (struct epoch){.number = -1};
}

/* Leaves the records that have tokens, a sample each. */
static void keep_valid(const struct tr_sampler *s, struct epoch *e, int64_t records)
{
    e->n = 0;
    for (int64_t i = 0; i < records; i++)
        if (length_of(s, e->order[i]) > 0)
            e->order[e->n++] = e->order[i];
}

static enum fr_rc order_of_all(const struct tr_sampler *s, struct epoch *e, struct fr_err *err)
{
    int64_t records = tr_dataset_size(s->data);

    if ((e->order = fr_sys.alloc(((size_t)records + 1) * sizeof(int64_t))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the order of %lld samples",
                       (long long)records);
    for (int64_t i = 0; i < records; i++)
        e->order[i] = i;
    keep_valid(s, e, records);
    if (s->o.shuffle)
        tr_randperm(s->o.seed + e->number, e->n, e->order);
    return FR_OK;
}

/* Packs the records into rows, stream.rows.batch records at a time. */
static enum fr_rc pack_rows(const struct tr_sampler *s, struct epoch *e, int64_t records,
                            struct fr_err *err)
{
    struct tr_pack_opts o = {s->o.stream.rows.capacity, s->o.stream.rows.batch, 1};
    int64_t *lengths = fr_sys.alloc(((size_t)records + 1) * sizeof(*lengths));
    struct tr_packs packs = {.n = 0};
    enum fr_rc rc;

    if (lengths == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to pack %lld samples", (long long)records);
    for (int64_t i = 0; i < records; i++)
        lengths[i] = length_of(s, e->order[i]);
    if ((rc = tr_pack(lengths, records, &o, &packs, err)) == FR_OK) {
        for (int64_t k = 0; k < packs.rows[packs.n]; k++)
            packs.order[k] = e->order[packs.order[k]];
        fr_sys.free(e->order);
        e->order = packs.order;
        e->rows = packs.rows;
        e->n = packs.n;
    }
    fr_sys.free(lengths);
    return rc;
}

/* Cuts samples of capacity tokens out of stream.rows.batch texts at a time; the rest of each batch
 * is dropped. */
static enum fr_rc cut_texts(const struct tr_sampler *s, struct epoch *e, int64_t records,
                            struct fr_err *err)
{
    int64_t capacity = s->o.stream.rows.capacity, batch = s->o.stream.rows.batch, tokens = 0;

    for (int64_t i = 0; i < records; i++)
        tokens += length_of(s, e->order[i]);
    e->cuts = fr_sys.alloc(((size_t)(tokens / capacity) + 1) * sizeof(*e->cuts));
    if (e->cuts == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %lld samples", (long long)(tokens / capacity));
    e->n = 0;
    for (int64_t i = 0; i < records; i += batch) {
        int64_t end = i + batch < records ? i + batch : records, left = 0, at = 0, k = i;

        for (int64_t j = i; j < end; j++)
            left += length_of(s, e->order[j]);
        for (; left >= capacity; left -= capacity) {
            while (at >= length_of(s, e->order[k]))
                at -= length_of(s, e->order[k++]);
            e->cuts[e->n++] = (struct cut){k, at};
            at += capacity;
        }
    }
    return FR_OK;
}

static enum fr_rc order_of_stream(const struct tr_sampler *s, struct epoch *e, struct fr_err *err)
{
    const struct tr_sampler_stream *o = &s->o.stream;
    struct tr_stream stream = {.buffer = o->buffer,
                               .seed = s->o.seed,
                               .mix = o->mix,
                               .fixed = o->skip > 0,
                               .probs = o->mix_probs != NULL ? s->probs : NULL};
    int64_t records = 0;
    enum fr_rc rc;

    stream.n = tr_dataset_sets(s->data, &stream.lengths);
    rc = tr_stream_order(&stream, e->number, &e->order, &records, err);
    if (rc != FR_OK)
        return rc;
    records = records > o->skip ? records - o->skip : 0;
    memmove(e->order, e->order + o->skip, (size_t)records * sizeof(int64_t));
    if (o->rows.capacity == 0)
        keep_valid(s, e, records);
    else
        rc = o->texts ? cut_texts(s, e, records, err) : pack_rows(s, e, records, err);
    return rc;
}

static enum fr_rc hold(struct tr_sampler *s, int64_t number, struct fr_err *err)
{
    const struct tr_sampler_opts *o = &s->o;
    struct epoch *e = &s->now;
    enum fr_rc rc;

    if (number == e->number)
        return FR_OK;
    epoch_finish(e);
    e->number = number;
    rc = o->stream.buffer > 0 ? order_of_stream(s, e, err) : order_of_all(s, e, err);
    e->micro =
        o->drop_last ? e->n / o->batch / o->world : tr_div_up(tr_div_up(e->n, o->batch), o->world);
    if (rc == FR_OK && e->micro == 0)
        rc = fr_fail(err, FR_USAGE,
                     "%lld samples do not fill one round of %lld processes with %lld each%s",
                     (long long)e->n, (long long)o->world, (long long)o->batch,
                     o->drop_last ? " (--dataloader_drop_last)" : "");
    if (rc != FR_OK)
        epoch_finish(e);
    return rc;
}

enum fr_rc tr_sampler_create(const struct tr_dataset *data, const struct tr_sampler_opts *o,
                             struct tr_sampler **out, struct fr_err *err)
{
    struct tr_sampler *s = fr_sys.alloc(sizeof(*s));
    const int64_t *lengths;
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the sampler");
    *s = (struct tr_sampler){.data = data, .o = *o, .now = {.number = -1}};
    if (o->stream.buffer > 0 && o->stream.mix_probs != NULL)
        rc = tr_mix_probs(o->stream.mix_probs, tr_dataset_sets(data, &lengths), s->probs, err);
    if (rc == FR_OK)
        rc = hold(s, 0, err);
    if (rc != FR_OK) {
        tr_sampler_destroy(s);
        return rc;
    }
    *out = s;
    return FR_OK;
}

void tr_sampler_destroy(struct tr_sampler *s)
{
    if (s == NULL)
        return;
    epoch_finish(&s->now);
    tr_ids_finish(&s->ids);
    tr_ids_finish(&s->labels);
    fr_sys.free(s);
}

enum fr_rc tr_sampler_micros(struct tr_sampler *s, int64_t epoch, int64_t *micros, int64_t *samples,
                             struct fr_err *err)
{
    enum fr_rc rc = hold(s, epoch, err);

    *micros = s->now.micro;
    if (samples != NULL)
        *samples = s->now.n;
    return rc;
}

/* ---- batches ---- */

/* Samples of a micro-batch: all the same, but those of the last round of a stream. */
static int64_t batch_of(const struct tr_sampler *s, int64_t k)
{
    int64_t round = s->o.batch * s->o.world, left = s->now.n - k * round;

    return s->o.stream.buffer > 0 && left < round ? tr_div_up(left, s->o.world) : s->o.batch;
}

/* The records of sample i. */
static void records_of(const struct epoch *e, int64_t i, int64_t *from, int64_t *to)
{
    *from = e->rows != NULL ? e->rows[i] : i;
    *to = e->rows != NULL ? e->rows[i + 1] : i + 1;
}

static void measure(const struct tr_sampler *s, int64_t i, struct sizes *z)
{
    const struct epoch *e = &s->now;
    int64_t from, to, tokens = 0, parts = 0;

    if (e->cuts != NULL) {
        add_size(z, s->o.stream.rows.capacity, 1);
        return;
    }
    records_of(e, i, &from, &to);
    for (int64_t k = from; k < to; k++) {
        struct tr_sample one = tr_dataset_at(s->data, e->order[k]);

        tokens += one.n;
        parts += parts_of(&one);
    }
    add_size(z, tokens, parts);
}

/* A sample that is cut out of texts. */
static enum fr_rc put_cut(struct tr_sampler *s, int64_t i, int64_t place, struct tr_batch *b,
                          struct fr_err *err)
{
    const struct epoch *e = &s->now;
    int64_t left = s->o.stream.rows.capacity, k = e->cuts[i].record, at = e->cuts[i].token;
    enum fr_rc rc = FR_OK;

    s->ids.n = s->labels.n = 0;
    for (; left > 0 && rc == FR_OK; k++, at = 0) {
        struct tr_sample text = tr_dataset_at(s->data, e->order[k]);
        int64_t n = text.n - at < left ? text.n - at : left;

        rc = tr_ids_add(&s->ids, text.ids + at, (size_t)n, err);
        if (rc == FR_OK)
            rc = tr_ids_add(&s->labels, text.labels + at, (size_t)n, err);
        left -= n;
    }
    if (rc == FR_OK)
        put_sample(b,
                   &(struct tr_sample){
                       .ids = s->ids.v, .labels = s->labels.v, .n = s->o.stream.rows.capacity},
                   e->order[e->cuts[i].record], place);
    return rc;
}

static enum fr_rc put(struct tr_sampler *s, int64_t place, struct tr_batch *b, struct fr_err *err)
{
    const struct epoch *e = &s->now;
    int64_t i = place % e->n, from, to, parts = 0;

    if (e->cuts != NULL)
        return put_cut(s, i, place, b, err);
    records_of(e, i, &from, &to);
    for (int64_t k = from; k < to; k++) {
        struct tr_sample one = tr_dataset_at(s->data, e->order[k]);

        parts += put_sample(b, &one, e->order[k], place + parts * PLACES);
    }
    return FR_OK;
}

enum fr_rc tr_sampler_batch(struct tr_sampler *s, int64_t epoch, int64_t k, struct tr_batch *out,
                            struct fr_err *err)
{
    enum fr_rc rc = hold(s, epoch, err);
    struct sizes z = {0};
    int64_t batch, first;

    if (rc != FR_OK)
        return rc;
    batch = batch_of(s, k);
    first = k * s->o.world * s->o.batch + s->o.rank * batch;
    for (int64_t i = 0; i < batch; i++)
        measure(s, (first + i) % s->now.n, &z);
    rc = begin(&z, out, err);
    for (int64_t i = 0; rc == FR_OK && i < batch; i++)
        rc = put(s, first + i, out, err);
    return rc;
}
