/* One micro-batch through the blocks. */
#include "engine/base/sys.h"
#include "trainer/backend/trace.h"
#include "trainer/model/rope.h"
#include "trainer/model/private.h"

#include <string.h>

/* A micro-batch in work: device views of its T tokens. */
struct flight {
    struct tr_model *m;
    const struct tr_micro *mb;
    struct slot *slot;
    struct tr_saved *saved;
    struct tr_tokens tokens;
    struct tr_ctx ctx;
    const struct tr_next *next; /* NULL: no caches */
    struct tr_cache cache;
    struct tr_view last; /* (B) i32 the last token of each segment */
};

static enum fr_rc check_micro(const struct tr_model *m, const struct tr_micro *mb,
                              struct fr_err *err)
{
    int64_t longest = 0;

    if (m->buffer == NULL)
        return fr_fail(err, FR_BUG, "the model is not loaded");
    if (mb->T < 0 || mb->T > m->o.tokens_max || mb->B < 0 || mb->B > m->o.samples_max)
        return fr_fail(err, FR_SHAPE, "%lld tokens of %lld samples, buffers hold %lld of %lld",
                       (long long)mb->T, (long long)mb->B, (long long)m->o.tokens_max,
                       (long long)m->o.samples_max);
    if (mb->slot < 0 || mb->slot >= m->o.in_flight)
        return fr_fail(err, FR_BUG, "no slot %d", mb->slot);
    for (int64_t t = 0; t < mb->T; t++)
        if (mb->pos[t] < 0 || mb->pos[t] >= tr_model_positions(m))
            return fr_fail(err, FR_SHAPE, "position %d is not below %lld", mb->pos[t],
                           (long long)tr_model_positions(m));
    for (int64_t t = 0; t < mb->T; t++)
        longest = mb->pos[t] >= longest ? mb->pos[t] + 1 : longest;
    return tr_rope_check(&m->config, longest, err);
}

/* Host copies of the data for the device, in one half of m->host. */
struct staging {
    int64_t scored; /* tokens with a target */
    int64_t *place; /* (T) */
    int32_t *index, *pos, *targets, *token, *score, *compact, *offsets;
    int32_t *at, *first, *len, *last; /* of caches */
};

/* Assigns cache rows to the tokens: sequence s owns rows s*n .. s*n + n-1. */
static void stage_cache(const struct flight *f, struct staging *s)
{
    const struct tr_model *m = f->m;
    const struct tr_micro *mb = f->mb;
    int64_t n = m->o.cache_tokens;

    s->at = s->offsets + m->o.samples_max + 1;
    s->first = s->at + m->o.tokens_max;
    s->len = s->first + m->o.samples_max;
    s->last = s->len + m->o.samples_max;
    for (int64_t b = 0; b < mb->B; b++) {
        int64_t begin = mb->offsets[b], end = mb->offsets[b + 1];
        int64_t row = f->next->sequence[b] * n, past = f->next->past[b];

        s->first[b] = (int32_t)row;
        s->len[b] = (int32_t)(past + end - begin);
        s->last[b] = (int32_t)(end - 1);
        for (int64_t t = begin; t < end; t++)
            s->at[t] = (int32_t)(row + past + t - begin);
    }
}

static struct staging stage(const struct tr_model *m, const struct tr_micro *mb, unsigned half)
{
    int64_t T = m->o.tokens_max;
    char *at = m->host + half * (m->host_bytes / 2);
    struct staging s = {.place = (int64_t *)(void *)at};

    s.index = (int32_t *)(s.place + T);
    s.pos = s.index + T;
    s.targets = s.pos + T;
    s.token = s.targets + T;
    s.score = s.token + T;
    s.compact = s.score + T;
    s.offsets = s.compact + T;
    for (int64_t t = 0; t < mb->T; t++) {
        s.pos[t] = mb->pos[t];
        s.score[t] = -1;
        if (mb->targets == NULL || mb->targets[t] < 0)
            continue;
        s.targets[s.scored] = mb->targets[t];
        s.token[s.scored] = (int32_t)t;
        s.score[t] = (int32_t)s.scored++;
    }
    s.offsets[0] = 0;
    for (int64_t b = 0; b < mb->B; b++) {
        s.offsets[b + 1] = (int32_t)mb->offsets[b + 1];
        for (int64_t t = mb->offsets[b]; t < mb->offsets[b + 1]; t++)
            s.place[t] = mb->place != NULL ? mb->place[b] : b;
    }
    return s;
}

static void send(struct flight *f, struct tr_view to, const void *from)
{
    if (f->ctx.rc == FR_OK)
        f->ctx.rc = tr_copy(f->m->o.be, f->ctx.q, to.p, from, tr_view_bytes(to));
}

static void cut_views(struct flight *f)
{
    const struct tr_saved *full = &f->slot->full;
    int64_t T = f->mb->T;

    f->saved = &f->slot->cut;
    f->slot->T = T;
    for (int i = 1; i < f->m->nblocks; i++) {
        f->saved->x[i] = tr_view_rows(full->x[i], 0, T);
        if (full->ids[i].p != NULL)
            f->saved->ids[i] = tr_view_rows(full->ids[i], 0, T);
    }
    f->saved->kept = full->kept;
    f->saved->loss = full->loss;
    f->saved->m = full->m;
    f->saved->l = full->l;
    if (full->dF.p != NULL)
        f->saved->dF = tr_view_rows(full->dF, 0, T);
    f->tokens = f->slot->tokens;
    f->tokens.T = T;
    f->tokens.B = f->mb->B;
    f->tokens.longest = 0;
    for (int64_t b = 0; b < f->mb->B; b++) {
        int64_t n = f->mb->offsets[b + 1] - f->mb->offsets[b];

        f->tokens.longest = n > f->tokens.longest ? n : f->tokens.longest;
    }
    f->tokens.index = tr_view_rows(f->tokens.index, 0, T);
    f->tokens.pos = tr_view_rows(f->tokens.pos, 0, T);
    if (f->m->embed_trained)
        f->tokens.compact = tr_view_rows(f->tokens.compact, 0, T);
    f->tokens.score = tr_view_rows(f->tokens.score, 0, T);
    f->tokens.sample = tr_view_rows(f->tokens.sample, 0, T);
    f->tokens.offsets = tr_view_rows(f->tokens.offsets, 0, f->mb->B + 1);
    f->ctx.tokens = &f->tokens;
}

static void cut_cache(struct flight *f)
{
    const struct tr_model *m = f->m;
    int64_t T = f->mb->T, B = f->mb->B;

    f->cache = (struct tr_cache){.rows = m->cache,
                                 .at = tr_view_rows(m->cache_at, 0, T),
                                 .first = tr_view_rows(m->cache_first, 0, B),
                                 .len = tr_view_rows(m->cache_len, 0, B),
                                 .tokens = m->o.cache_tokens,
                                 .fresh = B == 0 || f->next->past[0] == 0};
    f->last = tr_view_rows(m->cache_last, 0, B);
    f->ctx.cache = &f->cache;
}

/* Fetches the embedding's rows and sends the micro-batch to the device. Staging has two halves. The
 * host waits only for the copies of the last but one micro-batch, so the device always has work. */
static void upload(struct flight *f)
{
    struct tr_model *m = f->m;
    const struct tr_micro *mb = f->mb;
    struct tr_fetch_rows rows = {
        .unit = m->embed_unit, .units = m->embed_units, .ids = mb->ids, .tokens = mb->T};
    unsigned half = m->sends++ % 2;
    struct staging s;
    int moe = 0;

    f->ctx.rc = tr_event_wait(m->o.be, NULL, m->sent[half]);
    s = stage(m, mb, half);
    rows.out_index = s.index;
    rows.compact = m->embed_trained ? s.compact : NULL;
    if (f->ctx.rc == FR_OK)
        f->ctx.rc = tr_shard_fetch_rows(m->shard, m->q, &rows, f->ctx.err);
    f->tokens.table = rows.table;
    f->tokens.scored = s.scored;
    f->tokens.targets = tr_view_rows(f->tokens.targets, 0, s.scored);
    f->tokens.token = tr_view_rows(f->tokens.token, 0, s.scored);
    send(f, f->tokens.index, s.index);
    send(f, f->tokens.pos, s.pos);
    if (m->embed_trained)
        send(f, f->tokens.compact, s.compact);
    send(f, f->tokens.targets, s.targets);
    send(f, f->tokens.token, s.token);
    send(f, f->tokens.score, s.score);
    send(f, f->tokens.offsets, s.offsets);
    send(f, f->tokens.sample, s.place);
    if (f->next != NULL) {
        stage_cache(f, &s);
        send(f, f->cache.at, s.at);
        send(f, f->cache.first, s.first);
        send(f, f->cache.len, s.len);
        send(f, f->last, s.last);
    }
    f->ctx.replay = mb->forced != NULL;
    for (int i = 1; i < m->nblocks && mb->forced != NULL; i++)
        if (f->saved->ids[i].p != NULL)
            send(f, f->saved->ids[i], mb->forced[moe++]);
    if (f->ctx.rc == FR_OK)
        f->ctx.rc = tr_event_record(m->o.be, m->q, m->sent[half]);
}

static enum fr_rc begin(struct flight *f, enum pass pass)
{
    enum fr_rc rc = check_micro(f->m, f->mb, f->ctx.err);

    if (rc != FR_OK || (rc = tr_shard_begin(f->m->shard, pass, f->ctx.err)) != FR_OK)
        return rc;
    f->slot = &f->m->slots[f->mb->slot];
    f->ctx.epoch = f->mb->epoch;
    f->ctx.loss_scale = f->mb->loss_scale;
    cut_views(f);
    if (f->next != NULL)
        cut_cache(f);
    upload(f);
    return FR_OK;
}

static enum fr_rc end(struct flight *f)
{
    enum fr_rc rc = tr_shard_end(f->m->shard, f->ctx.rc != FR_OK, f->ctx.err);

    return f->ctx.rc != FR_OK ? f->ctx.rc : rc;
}

/* Runs blocks 0 .. n-1; an error names the block. */
static void run_forward(struct flight *f, int n)
{
    for (int i = 0; i < n && f->ctx.rc == FR_OK; i++) {
        const struct tr_block *b = f->m->blocks[i];
        struct tr_view y = {0};

        if (i + 1 < f->m->nblocks)
            y = f->saved->x[i + 1];
        tr_offload_make(f->m, &f->ctx, i + 1);
        tr_keep_block(&f->ctx, f->saved, i);
        tr_trace_begin(f->ctx.be, f->ctx.q, "%s, forward", b->what);
        b->ops->forward(b, &f->ctx, f->saved, y);
        if (i == 0 && f->ctx.rc == FR_OK) /* the embedding */
            f->ctx.rc = tr_shard_rows_used(f->m->shard, f->ctx.q, f->ctx.err);
        tr_trace_end(f->ctx.be, f->ctx.q);
        if (f->ctx.training)
            tr_offload_made(f->m, &f->ctx, f->saved, i + 1);
        if (f->ctx.rc != FR_OK)
            fr_while(f->ctx.err, "%s, forward", b->what);
    }
}

static void run_backward(struct flight *f)
{
    struct tr_view d = tr_view_rows(f->m->d, 0, f->mb->T);

    for (int i = f->m->nblocks - 1; i >= f->m->lowest && f->ctx.rc == FR_OK; i--) {
        const struct tr_block *b = f->m->blocks[i];

        tr_offload_need(f->m, &f->ctx, i);
        tr_keep_block(&f->ctx, f->saved, i);
        tr_trace_begin(f->ctx.be, f->ctx.q, "%s, backward", b->what);
        b->ops->backward(b, &f->ctx, f->saved, d);
        tr_trace_end(f->ctx.be, f->ctx.q);
        tr_offload_used(f->m, &f->ctx, f->saved, i);
        if (f->ctx.rc != FR_OK)
            fr_while(f->ctx.err, "%s, backward", b->what);
    }
}

enum fr_rc tr_model_forward_backward(struct tr_model *m, const struct tr_micro *mb,
                                     struct fr_err *err)
{
    struct flight f = {.m = m, .mb = mb, .ctx = tr_model_ctx(m, err)};
    enum fr_rc rc;

    if (!m->o.train)
        return fr_fail(err, FR_BUG, "the model was made for forward only");
    f.ctx.training = true;
    if ((rc = begin(&f, PASS_TRAIN)) != FR_OK)
        return rc;
    if (m->grads != NULL && f.ctx.rc == FR_OK)
        f.ctx.rc = tr_grads_begin(m->grads, m->q, mb->last, err);
    run_forward(&f, m->nblocks);
    run_backward(&f);
    if (m->grads != NULL && f.ctx.rc == FR_OK)
        f.ctx.rc = tr_grads_end(m->grads, m->q, err);
    return end(&f);
}

/* Passes a chunk of logits to the caller in f32 host memory. */
struct emit {
    const struct tr_logits *to;
    char *raw;   /* device type */
    float *host; /* f32 */
};

static void emit_chunk(void *arg, struct tr_ctx *ctx, struct tr_view z, int64_t col0)
{
    struct emit *e = arg;
    struct tr_view raw = tr_view_of(e->raw, z.dtype, 2, z.shape);
    int64_t n = tr_view_count(z);

    if ((ctx->rc = tr_copy(ctx->be, ctx->q, raw.p, z.p, tr_view_bytes(raw))) != FR_OK ||
        (ctx->rc = tr_sync(ctx->be, ctx->q, ctx->err)) != FR_OK)
        return;
    if (z.dtype == TR_F32)
        memcpy(e->host, e->raw, (size_t)n * sizeof(float));
    else
        for (int64_t i = 0; i < n; i++)
            e->host[i] = (float)tr_get(raw, i);
    ctx->rc = e->to->chunk(e->to->arg, e->host, col0, z.shape[1], ctx->err);
}

/* Computes logits of the rows of x, the head's input. */
static void run_logits(struct flight *f, struct tr_view x, const struct tr_logits *logits)
{
    int last = f->m->nblocks - 1;
    size_t n = (size_t)x.shape[0] * (size_t)f->m->head_rows;
    struct emit e = {.to = logits};
    struct tr_head_emit out = {.out = emit_chunk, .arg = &e};

    e.raw = fr_sys.alloc(n * tr_dtype_bytes(f->ctx.sum) + 1);
    e.host = fr_sys.alloc(n * sizeof(float) + 1);
    if (e.raw == NULL || e.host == NULL)
        f->ctx.rc = fr_fail(f->ctx.err, FR_NOMEM, "%zu logits", n);
    else
        tr_head_logits(f->m->blocks[last], &f->ctx, x, &out);
    fr_sys.free(e.raw);
    fr_sys.free(e.host);
}

enum fr_rc tr_model_forward(struct tr_model *m, const struct tr_micro *mb,
                            const struct tr_logits *logits, struct fr_err *err)
{
    struct flight f = {.m = m, .mb = mb, .ctx = tr_model_ctx(m, err)};
    bool loss = mb->targets != NULL;
    enum fr_rc rc;

    if (logits != NULL && !m->o.logits)
        return fr_fail(err, FR_BUG, "the model was made without logits");
    rc = begin(&f, logits == NULL ? PASS_LOSS : loss ? PASS_BOTH : PASS_LOGITS);
    if (rc != FR_OK)
        return rc;
    run_forward(&f, loss || logits == NULL ? m->nblocks : m->nblocks - 1);
    if (logits != NULL && f.ctx.rc == FR_OK)
        run_logits(&f, f.saved->x[m->nblocks - 1], logits);
    return end(&f);
}

static enum fr_rc check_next(const struct tr_model *m, const struct tr_micro *mb,
                             const struct tr_next *d, struct fr_err *err)
{
    if (m->o.cache_sequences == 0)
        return fr_fail(err, FR_BUG, "the model was made without caches");
    for (int64_t b = 0; b < mb->B; b++) {
        int64_t n = mb->offsets[b + 1] - mb->offsets[b];

        if (d->sequence[b] < 0 || d->sequence[b] >= m->o.cache_sequences || n < 1 ||
            d->past[b] + n > m->o.cache_tokens)
            return fr_fail(err, FR_SHAPE,
                           "%lld tokens behind %lld of sequence %d: caches hold %lld of %lld "
                           "sequences",
                           (long long)n, (long long)d->past[b], d->sequence[b],
                           (long long)m->o.cache_tokens, (long long)m->o.cache_sequences);
        if ((d->past[b] == 0) != (d->past[0] == 0) || (d->past[b] > 0 && n > 1))
            return fr_fail(err, FR_BUG, "a call begins sequences or adds one token to each");
    }
    return FR_OK;
}

/* The destination of the logits of tr_model_next. */
struct gathered {
    float *logits;
    int64_t rows, V;
};

static enum fr_rc gather_chunk(void *arg, const float *chunk, int64_t col0, int64_t ncols,
                               struct fr_err *err)
{
    const struct gathered *g = arg;

    (void)err;
    for (int64_t b = 0; b < g->rows; b++)
        memcpy(g->logits + b * g->V + col0, chunk + b * ncols, (size_t)ncols * sizeof(float));
    return FR_OK;
}

enum fr_rc tr_model_next(struct tr_model *m, const struct tr_micro *mb, const struct tr_next *d,
                         struct fr_err *err)
{
    struct flight f = {.m = m, .mb = mb, .ctx = tr_model_ctx(m, err), .next = d};
    struct gathered to = {d->logits, mb->B, m->config.vocab_size};
    struct tr_logits logits = {gather_chunk, &to};
    enum fr_rc rc = check_next(m, mb, d, err);

    if (rc != FR_OK || (rc = begin(&f, PASS_LOGITS)) != FR_OK)
        return rc;
    run_forward(&f, m->nblocks - 1);
    if (f.ctx.rc == FR_OK) {
        struct tr_view x = f.saved->x[m->nblocks - 1];
        struct tr_view picked = tr_carve2(&f.ctx.work, m->o.compute, mb->B, x.shape[1]);
        struct tr_embed e = {.y = picked, .table = x, .ids = f.last};

        TR_RUN(&f.ctx, embed_fwd, &e);
        run_logits(&f, picked, &logits);
    }
    return end(&f);
}

/* Converts the head's scores to the caller's arrays. */
static void put_scores(const struct flight *f, const struct tr_scores *s,
                       const struct tr_token_scores *out)
{
    struct tr_view loss = tr_view1(s->loss, f->ctx.sum, f->tokens.scored);
    struct tr_view target = tr_view1(s->target, f->ctx.sum, f->tokens.scored);
    struct tr_view most = tr_view1(s->most, f->ctx.sum, f->tokens.scored);

    for (int64_t t = 0, i = 0; t < f->mb->T; t++) {
        bool scored = f->mb->targets[t] >= 0;

        out->loss[t] = scored ? tr_get(loss, i) : 0;
        out->hit[t] = scored && tr_get(target, i) >= tr_get(most, i);
        i += scored;
    }
}

enum fr_rc tr_model_score(struct tr_model *m, const struct tr_micro *mb,
                          const struct tr_token_scores *out, struct fr_err *err)
{
    struct flight f = {.m = m, .mb = mb, .ctx = tr_model_ctx(m, err)};
    size_t bytes = ((size_t)mb->T + 1) * sizeof(double);
    struct tr_scores s = {0};
    char *raw;
    double sum;
    enum fr_rc rc;

    if (!m->o.score || mb->targets == NULL)
        return fr_fail(err, FR_BUG, "the model was made without scores, or there are no targets");
    if ((raw = fr_sys.alloc(3 * bytes)) == NULL)
        return fr_fail(err, FR_NOMEM, "scores of %lld tokens", (long long)mb->T);
    s = (struct tr_scores){raw, raw + bytes, raw + 2 * bytes};
    f.ctx.scores = &s;
    if ((rc = begin(&f, PASS_LOSS)) == FR_OK) {
        run_forward(&f, m->nblocks);
        rc = end(&f);
    }
    if (rc == FR_OK)
        rc = tr_model_take_loss(m, &sum, err);
    if (rc == FR_OK)
        put_scores(&f, &s, out);
    else
        (void)tr_sync(m->o.be, m->q, NULL); /* copies into raw may be in flight */
    fr_sys.free(raw);
    return rc;
}

enum fr_rc tr_model_take_loss(struct tr_model *m, double *sum, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *sum = 0;
    for (int64_t i = 0; i < m->o.in_flight && rc == FR_OK; i++) {
        struct tr_view loss = m->slots[i].full.loss;
        double one = 0;

        if ((rc = tr_copy(m->o.be, m->q, &one, loss.p, sizeof(one))) == FR_OK &&
            (rc = tr_zero(m->o.be, m->q, loss.p, sizeof(one))) == FR_OK)
            rc = tr_sync(m->o.be, m->q, err);
        *sum += one;
    }
    return rc;
}

enum fr_rc tr_model_routing(struct tr_model *m, int64_t moe, int slot, int32_t *ids,
                            struct fr_err *err)
{
    const struct slot *s = &m->slots[slot];
    enum fr_rc rc;

    for (int i = 1; i < m->nblocks; i++) {
        if (m->blocks[i]->routed == 0 || moe-- > 0)
            continue;
        rc = tr_copy(m->o.be, m->q, ids, s->full.ids[i].p,
                     (size_t)(s->T * m->blocks[i]->routed) * sizeof(int32_t));
        return rc == FR_OK ? tr_sync(m->o.be, m->q, err) : rc;
    }
    return fr_fail(err, FR_NOTFOUND, "no such MoE layer");
}
