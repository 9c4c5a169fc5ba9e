/* Measures sizes by a dry run of every block, and cuts all views from one allocation. */
#include "engine/base/sys.h"
#include "trainer/model/rope.h"
#include "trainer/model/private.h"

#include <string.h>

/* The address of a dry run's views, which are never read. */
static struct tr_carve nowhere(void)
{
    return (struct tr_carve){.base = (char *)(uintptr_t)4096, .limit = SIZE_MAX / 2};
}

static void lay_tokens(struct tr_model *m, struct tr_carve *c, struct tr_tokens *t)
{
    int64_t T = m->o.tokens_max;

    *t = (struct tr_tokens){
        .T = T,
        .B = m->o.samples_max,
        .longest = T,
        .scored = T,
        .index = tr_carve1(c, TR_I32, T),
        .pos = tr_carve1(c, TR_I32, T),
        .targets = tr_carve1(c, TR_I32, T),
        .token = tr_carve1(c, TR_I32, T),
        .score = tr_carve1(c, TR_I32, T),
        .offsets = tr_carve1(c, TR_I32, m->o.samples_max + 1),
        .sample = tr_carve1(c, TR_I64, T),
    };
    if (m->embed_trained)
        t->compact = tr_carve1(c, TR_I32, T);
}

/* Without gradients only two inputs live at once; with offloading TR_OFFLOAD_RING. */
static void lay_slot(struct tr_model *m, struct tr_carve *c, struct slot *s)
{
    int64_t T = m->o.tokens_max, H = m->config.hidden_size;
    int turns = !m->o.train ? 2 : tr_offload_bytes(m) > 0 ? TR_OFFLOAD_RING : m->nblocks;

    lay_tokens(m, c, &s->tokens);
    s->full.slot = s->cut.slot = (int)(s - m->slots);
    s->full.loss = tr_carve1(c, TR_F64, 1);
    for (int i = 1; i < m->nblocks; i++) {
        s->full.x[i] = i <= turns ? tr_carve2(c, m->o.compute, T, H) : s->full.x[i - turns];
        if (m->blocks[i]->routed > 0)
            s->full.ids[i] = tr_carve2(c, TR_I32, T, m->blocks[i]->routed);
    }
    if (m->o.train)
        s->full.dF = tr_carve2(c, m->o.compute, T, H);
    if (m->head_trained) {
        s->full.m = tr_carve1(c, tr_model_sum(m), T);
        s->full.l = tr_carve1(c, tr_model_sum(m), T);
    }
}

static void lay_kept(struct tr_model *m, struct tr_carve *c, struct slot *s)
{
    for (int i = 0; i < m->nblocks; i++) {
        s->full.kept[i] = (struct tr_carve){.limit = m->keep[i]};
        if (m->keep[i] > 0)
            s->full.kept[i].base = tr_carve1(c, TR_U8, (int64_t)m->keep[i]).p;
    }
}

static size_t since(const struct tr_carve *c, size_t *mark)
{
    size_t n = c->used - *mark;

    *mark = c->used;
    return n;
}

static void lay_cache(struct tr_model *m, struct tr_carve *c)
{
    int64_t rows = m->o.cache_sequences * m->o.cache_tokens, B = m->o.samples_max;

    if (rows == 0)
        return;
    for (int i = 0; i < m->nblocks; i++)
        if (m->blocks[i]->cached > 0)
            m->cache[i] = tr_carve2(c, m->o.compute, rows, m->blocks[i]->cached);
    m->cache_at = tr_carve1(c, TR_I32, m->o.tokens_max);
    m->cache_first = tr_carve1(c, TR_I32, B);
    m->cache_len = tr_carve1(c, TR_I32, B);
    m->cache_last = tr_carve1(c, TR_I32, B);
}

static void lay_out(struct tr_model *m, struct tr_carve *c)
{
    enum tr_dtype sum = tr_model_sum(m);
    int64_t pairs = tr_model_head(&m->config).rotary / 2;
    size_t mark = c->used;

    m->work = tr_carve1(c, m->o.compute, m->padded);
    if (m->o.train)
        m->grad = tr_carve1(c, sum, m->padded);
    m->adapter_bytes = since(c, &mark);
    m->cosines = tr_carve2(c, sum, tr_model_positions(m), pairs);
    m->sines = tr_carve2(c, sum, tr_model_positions(m), pairs);
    m->table_bytes = since(c, &mark);
    lay_cache(m, c);
    m->cache_bytes = since(c, &mark);
    if (m->o.train)
        m->d = tr_carve2(c, m->o.compute, m->o.tokens_max, m->config.hidden_size);
    for (int64_t i = 0; i < m->o.in_flight; i++)
        lay_slot(m, c, &m->slots[i]);
    m->slot_bytes = since(c, &mark);
    for (int64_t i = 0; i < m->o.in_flight; i++)
        lay_kept(m, c, &m->slots[i]);
    m->kept_bytes = since(c, &mark);
    m->work_base = c->base + c->used;
    m->buffer_bytes = c->used + m->work_bytes;
}

static enum fr_rc take_slots(struct tr_model *m, struct fr_err *err)
{
    size_t n = (size_t)m->nblocks;

    m->slots = fr_arena_array(&m->arena, (size_t)m->o.in_flight, sizeof(*m->slots));
    if (m->slots == NULL)
        return fr_fail(err, FR_NOMEM, "micro-batches");
    for (int64_t i = 0; i < m->o.in_flight; i++) {
        struct slot *s = &m->slots[i];
        struct tr_view *v = fr_arena_array(&m->arena, 4 * n, sizeof(*v));

        s->full.kept = fr_arena_array(&m->arena, n, sizeof(*s->full.kept));
        if (v == NULL || s->full.kept == NULL)
            return fr_fail(err, FR_NOMEM, "views of %zu blocks", n);
        s->full.x = v;
        s->full.ids = v + n;
        s->cut.x = v + 2 * n;
        s->cut.ids = v + 3 * n;
    }
    return FR_OK;
}

static void ignore_logits(void *arg, struct tr_ctx *ctx, struct tr_view logits, int64_t col0)
{
    (void)arg;
    (void)ctx;
    (void)logits;
    (void)col0;
}

/* A dry run with caches: sequences that begin, then one token of each, and its logits. */
static void dry_cached(struct tr_model *m, struct tr_ctx *ctx, const struct tr_head_emit *emit)
{
    struct slot *s = &m->slots[0];
    int64_t B = m->o.samples_max;
    struct tr_cache cache = {.rows = m->cache,
                             .at = m->cache_at,
                             .first = m->cache_first,
                             .len = m->cache_len,
                             .tokens = m->o.cache_tokens,
                             .fresh = true};
    struct tr_tokens one = s->tokens;
    struct tr_view y = s->full.x[m->nblocks - 1];

    ctx->cache = &cache;
    for (int i = 0; i < m->nblocks; i++)
        m->blocks[i]->ops->forward(m->blocks[i], ctx, &s->full, y);
    cache.fresh = false;
    cache.at = tr_view_rows(cache.at, 0, B);
    one.T = B;
    one.pos = tr_view_rows(one.pos, 0, B);
    ctx->tokens = &one;
    y = tr_view_rows(y, 0, B);
    for (int i = 1; i < m->nblocks; i++) {
        s->cut.x[i] = tr_view_rows(s->full.x[i], 0, B);
        if (m->blocks[i]->cached > 0)
            m->blocks[i]->ops->forward(m->blocks[i], ctx, &s->cut, y);
    }
    (void)tr_carve2(&ctx->work, m->o.compute, B, m->config.hidden_size);
    tr_head_logits(m->blocks[m->nblocks - 1], ctx, y, emit);
    ctx->cache = NULL;
}

static struct tr_ctx dry_ctx(struct tr_model *m, struct fr_err *err)
{
    struct tr_ctx ctx = tr_model_ctx(m, err);

    ctx.work = nowhere();
    ctx.dry = true;
    ctx.training = m->o.train;
    ctx.tokens = &m->slots[0].tokens;
    return ctx;
}

/* Returns the largest workspace of any block with T_max tokens. */
static size_t dry_run(struct tr_model *m, struct fr_err *err)
{
    struct tr_ctx ctx = dry_ctx(m, err);
    struct slot *s = &m->slots[0];
    struct tr_head_emit emit = {.out = ignore_logits};
    struct tr_scores scores = {0};
    struct tr_view x = s->full.x[m->nblocks - 1];

    ctx.scores = m->o.score ? &scores : NULL;
    for (int i = 0; i < m->nblocks; i++) {
        const struct tr_block *b = m->blocks[i];

        tr_keep_block(&ctx, &s->full, i);
        b->ops->forward(b, &ctx, &s->full, x);
        if (!m->o.train || i < m->lowest || b->ops->backward == NULL)
            continue;
        tr_keep_block(&ctx, &s->full, i);
        b->ops->backward(b, &ctx, &s->full, x);
    }
    ctx.kept = NULL;
    ctx.training = false; /* nothing is kept then */
    for (int i = 0; i < m->nblocks && (m->o.score || m->o.logits); i++)
        m->blocks[i]->ops->forward(m->blocks[i], &ctx, &s->full, x);
    if (m->o.logits)
        tr_head_logits(m->blocks[m->nblocks - 1], &ctx, x, &emit);
    if (m->o.cache_sequences > 0)
        dry_cached(m, &ctx, &emit);
    m->scratch = ctx.scratch;
    return ctx.work.peak;
}

enum fr_rc tr_model_measure(struct tr_model *m, struct fr_err *err)
{
    size_t three = 3 * (size_t)m->config.n_routed_experts;
    struct tr_carve c = nowhere();
    enum fr_rc rc = take_slots(m, err);

    if (rc != FR_OK)
        return rc;
    m->weights = fr_arena_array(&m->arena, three + 1, sizeof(*m->weights));
    m->weight_at = fr_arena_array(&m->arena, three + 1, sizeof(*m->weight_at));
    m->host_bytes = (size_t)m->o.tokens_max * (6 * sizeof(int32_t) + sizeof(int64_t)) +
                    (size_t)(m->o.samples_max + 2) * sizeof(int32_t);
    if (m->o.cache_sequences > 0)
        m->host_bytes += (size_t)(m->o.tokens_max + 3 * m->o.samples_max) * sizeof(int32_t);
    m->host_bytes = 2 * ((m->host_bytes + 255) / 256 * 256);
    m->cache = fr_arena_array(&m->arena, (size_t)m->nblocks, sizeof(*m->cache));
    m->keep = fr_arena_array(&m->arena, (size_t)m->nblocks, sizeof(*m->keep));
    if (m->cache == NULL || m->keep == NULL)
        return fr_fail(err, FR_NOMEM, "caches and sizes of %d blocks", m->nblocks);
    m->grad_at = fr_arena_array(&m->arena, three / 3 + 1, sizeof(*m->grad_at));
    if (m->weights == NULL || m->weight_at == NULL || m->grad_at == NULL)
        return fr_fail(err, FR_NOMEM, "%zu expert weights", three);
    lay_out(m, &c);
    m->work_bytes = dry_run(m, err);
    m->buffer_bytes += m->work_bytes;
    return FR_OK;
}

/* A dry run in which all blocks keep their values measures these. The head's logits, which spare
 * half as much work a byte as what other blocks keep, come last. */
void tr_model_keep(struct tr_model *m, size_t bytes)
{
    struct tr_carve *kept = m->slots[0].full.kept, c = nowhere();
    size_t left = bytes / (size_t)m->o.in_flight;
    struct fr_err err;

    if (!m->o.train)
        return;
    memset(m->keep, 0, (size_t)m->nblocks * sizeof(*m->keep));
    for (int i = m->lowest; i < m->nblocks; i++)
        kept[i] = nowhere();
    (void)dry_run(m, &err);
    for (int i = m->nblocks - 2; i >= m->lowest && kept[i].peak <= left; i--) {
        m->keep[i] = kept[i].peak;
        left -= kept[i].peak;
    }
    if (m->lowest < m->nblocks && kept[m->nblocks - 1].peak <= left)
        m->keep[m->nblocks - 1] = kept[m->nblocks - 1].peak;
    lay_out(m, &c);
    m->work_bytes = dry_run(m, &err);
    m->buffer_bytes = c.used + m->work_bytes;
}

/* Runs all blocks in the order of a training micro-batch, forward and then backward. */
static enum fr_rc rehearse_micro(struct tr_model *m, struct tr_ctx *ctx)
{
    const struct tr_saved *saved = &m->slots[0].full;
    struct tr_view x = saved->x[m->nblocks - 1];
    enum fr_rc rc = tr_shard_begin(m->shard, PASS_TRAIN, ctx->err);

    if (rc != FR_OK)
        return rc;
    for (int i = 0; i < m->nblocks; i++) {
        tr_keep_block(ctx, saved, i);
        m->blocks[i]->ops->forward(m->blocks[i], ctx, &m->slots[0].full, x);
    }
    for (int i = m->nblocks - 1; i >= m->lowest; i--) {
        tr_keep_block(ctx, saved, i);
        m->blocks[i]->ops->backward(m->blocks[i], ctx, &m->slots[0].full, x);
    }
    rc = tr_shard_end(m->shard, ctx->rc != FR_OK, ctx->err);
    return ctx->rc != FR_OK ? ctx->rc : rc;
}

enum fr_rc tr_model_rehearse(struct tr_model *m, struct tr_rehearsal *r, struct fr_err *err)
{
    struct tr_ctx ctx = dry_ctx(m, err);
    struct tr_shard_stats before, after;
    enum fr_rc rc = tr_shard_rehearse(m->shard, err);

    r->rows = (struct tr_row_work){0};
    ctx.rehearsed = true;
    for (int i = 0; i < r->n && rc == FR_OK; i++) {
        ctx.rows = i == 0 ? &r->rows : NULL;
        if (r->step > 0 && i > 0 && i % r->step == 0)
            tr_shard_forget(m->shard);
        tr_shard_stats(m->shard, &before);
        rc = rehearse_micro(m, &ctx);
        tr_shard_stats(m->shard, &after);
        r->gathered[i] = (double)(after.gathered_bytes - before.gathered_bytes);
    }
    return rc;
}

/* Makes the rotary tables on the host and copies them. */
static enum fr_rc put_tables(struct tr_model *m, struct fr_err *err)
{
    struct tr_view c = m->cosines, s = m->sines;
    size_t bytes = tr_view_bytes(c);
    char *host = fr_sys.alloc(2 * bytes + 1);
    enum fr_rc rc;

    if (host == NULL)
        return fr_fail(err, FR_NOMEM, "rotary tables of %zu bytes", bytes);
    c.p = host;
    s.p = host + bytes;
    tr_rope_tables(&m->config.rope, c, s);
    if ((rc = tr_copy(m->o.be, m->q, m->cosines.p, c.p, bytes)) == FR_OK &&
        (rc = tr_copy(m->o.be, m->q, m->sines.p, s.p, bytes)) == FR_OK)
        rc = tr_sync(m->o.be, m->q, err);
    fr_sys.free(host);
    return rc;
}

enum fr_rc tr_model_alloc(struct tr_model *m, struct fr_err *err)
{
    struct tr_carve c = {.limit = m->buffer_bytes};
    void *p = NULL;
    enum fr_rc rc;

    if ((rc = tr_mem_alloc(m->o.be, TR_MEM_DEVICE, m->buffer_bytes, &p, err)) != FR_OK)
        return fr_while(err, "activations and workspace");
    c.base = m->buffer = p;
    lay_out(m, &c);
    tr_adapters_place(m);
    if ((rc = tr_mem_alloc(m->o.be, TR_MEM_PINNED, m->host_bytes, &p, err)) != FR_OK)
        return fr_while(err, "staging");
    m->host = p;
    for (int i = 0; i < 2; i++)
        if ((rc = tr_event_create(m->o.be, &m->sent[i], err)) != FR_OK)
            return fr_while(err, "staging");
    if ((rc = tr_zero(m->o.be, m->q, m->buffer, m->buffer_bytes)) != FR_OK)
        return fr_fail(err, rc, "clearing %zu bytes", m->buffer_bytes);
    if ((rc = tr_offload_create(m, err)) != FR_OK)
        return rc;
    return put_tables(m, err);
}
