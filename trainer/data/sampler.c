#include "trainer/data/sampler.h"

#include "engine/base/sys.h"
#include "trainer/data/mt.h"
#include "trainer/data/stream.h"

#include <string.h>

/* More than an epoch has; the further examples of a row have places beyond it. */
static const int64_t PLACES = (int64_t)1 << 40;

struct tr_sampler {
    const struct tr_dataset *data;
    struct tr_sampler_opts o;
    int64_t records;        /* of the data set: of a stream, those without tokens too */
    int64_t n, micro;       /* samples; micro-batches of one rank and epoch */
    int64_t epoch;          /* whose order is held, -1 */
    int64_t *order;         /* (records), samples in its first n */
    struct tr_sample *pick; /* (batch) */
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

/* n tokens of a sample, which are one example. */
static void put_part(struct tr_batch *b, const struct tr_sample *s, int64_t from, int64_t n)
{
    const int32_t *labels = (s->labels != NULL ? s->labels : s->ids) + from;
    int64_t at = b->tokens;

    memcpy(b->ids + at, s->ids + from, (size_t)n * sizeof(int32_t));
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

static void put_sample(struct tr_batch *b, const struct tr_sample *s, int64_t index, int64_t place)
{
    for (int64_t k = 0; k < parts_of(s); k++) {
        b->index[b->samples] = index;
        b->place[b->samples] = place + k * PLACES;
        if (s->parts > 0)
            put_part(b, s, s->offsets[k] - s->offsets[0], s->offsets[k + 1] - s->offsets[k]);
        else
            put_part(b, s, 0, s->n);
    }
}

/* Room for the samples, and their padded size. */
static enum fr_rc begin(const struct tr_sample *samples, int64_t n, struct tr_batch *out,
                        struct fr_err *err)
{
    int64_t tokens = 0, longest = 0, parts = 0;
    enum fr_rc rc;

    for (int64_t i = 0; i < n; i++) {
        tokens += samples[i].n;
        parts += parts_of(&samples[i]);
        longest = samples[i].n > longest ? samples[i].n : longest;
    }
    if ((rc = reserve(out, tokens, parts, err)) != FR_OK)
        return rc;
    out->tokens = out->samples = out->target_count = 0;
    out->attn_offsets[0] = 0;
    out->padded_tokens = n * ((longest + 7) / 8 * 8);
    return FR_OK;
}

enum fr_rc tr_batch_pack(const struct tr_sample *samples, int64_t n, struct tr_batch *out,
                         struct fr_err *err)
{
    enum fr_rc rc = begin(samples, n, out, err);

    for (int64_t i = 0; rc == FR_OK && i < n; i++)
        put_sample(out, &samples[i], i, i);
    return rc;
}

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

enum fr_rc tr_sampler_create(const struct tr_dataset *data, const struct tr_sampler_opts *o,
                             struct tr_sampler **out, struct fr_err *err)
{
    struct tr_sampler *s = fr_sys.alloc(sizeof(*s));
    int64_t records = tr_dataset_size(data), n = tr_dataset_valid(data);
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the sampler");
    *s = (struct tr_sampler){.data = data, .o = *o, .records = records, .n = n, .epoch = -1};
    s->micro = o->drop_last ? n / o->batch / o->world : div_up(div_up(n, o->batch), o->world);
    s->order = fr_sys.alloc((size_t)records * sizeof(int64_t));
    s->pick = fr_sys.alloc((size_t)o->batch * sizeof(s->pick[0]));
    if (s->order == NULL || s->pick == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the order of %lld samples", (long long)records);
    else if (s->micro == 0)
        rc = fr_fail(err, FR_USAGE,
                     "%lld samples do not fill one round of %lld processes with %lld each "
                     "(--dataloader_drop_last)",
                     (long long)n, (long long)o->world, (long long)o->batch);
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
    fr_sys.free(s->order);
    fr_sys.free(s->pick);
    fr_sys.free(s);
}

int64_t tr_sampler_micro_per_epoch(const struct tr_sampler *s)
{
    return s->micro;
}

/* Samples of a micro-batch: all the same, but those of the last round of a stream. */
static int64_t batch_of(const struct tr_sampler *s, int64_t k)
{
    int64_t round = s->o.batch * s->o.world, left = s->n - k * round;

    return s->o.buffer > 0 && left < round ? div_up(left, s->o.world) : s->o.batch;
}

static void make_order(struct tr_sampler *s, int64_t epoch)
{
    int64_t n = 0;

    if (s->o.buffer > 0)
        tr_stream_order(&(struct tr_stream){s->o.buffer, s->o.seed, epoch}, s->records, s->order);
    else
        for (int64_t i = 0; i < s->records; i++)
            s->order[i] = i;
    for (int64_t i = 0; i < s->records; i++)
        if (tr_dataset_at(s->data, s->order[i]).n > 0)
            s->order[n++] = s->order[i];
    if (s->o.shuffle && s->o.buffer == 0)
        tr_randperm(s->o.seed + epoch, s->n, s->order);
}

enum fr_rc tr_sampler_batch(struct tr_sampler *s, int64_t epoch, int64_t k, struct tr_batch *out,
                            struct fr_err *err)
{
    int64_t batch = batch_of(s, k), first = k * s->o.world * s->o.batch + s->o.rank * batch;
    enum fr_rc rc;

    if (epoch != s->epoch) {
        make_order(s, epoch);
        s->epoch = epoch;
    }
    for (int64_t i = 0; i < batch; i++)
        s->pick[i] = tr_dataset_at(s->data, s->order[(first + i) % s->n]);
    if ((rc = begin(s->pick, batch, out, err)) != FR_OK)
        return rc;
    for (int64_t i = 0; i < batch; i++) {
        int64_t place = first + i;
        put_sample(out, &s->pick[i], s->order[place % s->n], place);
    }
    return FR_OK;
}
