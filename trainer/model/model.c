#include "trainer/model/model.h"

#include "engine/base/sys.h"
#include "trainer/backend/trace.h"
#include "trainer/model/attention.h"
#include "trainer/model/rope.h"
#include "trainer/model/private.h"

#include <string.h>

static enum fr_rc check_op(const struct tr_model *m, enum tr_op op, enum tr_dtype weight,
                           struct fr_err *err)
{
    if (tr_supports(m->o.be, op, m->o.compute, weight))
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED, "backend %s has no %s for %s with %s weights",
                   m->o.be->ops->name, tr_op_name(op), tr_dtype_name(m->o.compute),
                   tr_dtype_name(weight));
}

/* Checks a list of ops, which TR_OP_COUNT ends. */
static enum fr_rc check_list(const struct tr_model *m, const enum tr_op *ops, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; ops[i] != TR_OP_COUNT && rc == FR_OK; i++)
        rc = check_op(m, ops[i], m->o.compute, err);
    return rc;
}

/* Generation multiplies one token at a time: decoding would cost more than the products. */
static bool decodes(const struct tr_model *m)
{
    return m->config.fp8 && m->o.cache_sequences == 0;
}

/* Every op takes weights in the compute type. With an FP8 checkpoint, products of linears also take
 * FP8 blocks unless the decoder decodes them first. Embedding, norms, router and head are not FP8.
 */
static enum fr_rc check_ops(const struct tr_model *m, struct fr_err *err)
{
    static const enum tr_op all[] = {TR_OP_embed_fwd,     TR_OP_rmsnorm_fwd, TR_OP_gemm,
                                     TR_OP_attention_fwd, TR_OP_swiglu_fwd,  TR_OP_xent_chunk,
                                     TR_OP_xent_finish,   TR_OP_sum,         TR_OP_COUNT};
    static const enum tr_op grads[] = {TR_OP_rmsnorm_bwd, TR_OP_attention_bwd, TR_OP_swiglu_bwd,
                                       TR_OP_dropout, TR_OP_COUNT};
    static const enum tr_op trained[] = {TR_OP_embed_bwd, TR_OP_colsum, TR_OP_xent_bwd,
                                         TR_OP_reduce_ordered, TR_OP_COUNT};
    static const enum tr_op caches[] = {TR_OP_put_rows, TR_OP_attention_cached, TR_OP_COUNT};
    static const enum tr_op experts[] = {TR_OP_router_fwd,  TR_OP_moe_plan,     TR_OP_moe_permute,
                                         TR_OP_moe_combine, TR_OP_grouped_gemm, TR_OP_COUNT};
    static const enum tr_op expert_grads[] = {TR_OP_router_bwd, TR_OP_grouped_wgrad, TR_OP_COUNT};
    const struct tr_attention_row *attention = tr_attention_of(&m->config);
    bool train = m->o.train, cached = m->o.cache_sequences > 0;
    bool moe = tr_model_moe_count(&m->config) > 0;
    const struct {
        bool wanted;
        const enum tr_op *ops;
    } lists[] = {
        {true, all},
        {train, grads},
        {train && m->o.trained != NULL, trained},
        {cached, caches},
        {true, attention->ops},
        {train, attention->grads},
        {cached, attention->caches},
        {moe, experts},
        {moe && train, expert_grads},
    };
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && rc == FR_OK; i++)
        if (lists[i].wanted)
            rc = check_list(m, lists[i].ops, err);
    if (rc == FR_OK && decodes(m))
        return check_op(m, TR_OP_decode, TR_F8_E4M3, err);
    if (rc == FR_OK && m->config.fp8)
        rc = check_op(m, TR_OP_gemm, TR_F8_E4M3, err);
    if (rc == FR_OK && m->config.fp8 && m->config.n_routed_experts > 0)
        rc = check_op(m, TR_OP_grouped_gemm, TR_F8_E4M3, err);
    return rc;
}

/* Rows of a micro-batch, one for each expert of a token, are counted in i32. */
static enum fr_rc check_rows(const struct tr_model_opts *o, struct fr_err *err)
{
    int64_t k = o->config->num_experts_per_tok > 0 ? o->config->num_experts_per_tok : 1;

    if (o->tokens_max <= INT32_MAX / k)
        return FR_OK;
    return fr_fail(err, FR_USAGE,
                   "a micro-batch may have %lld tokens with %lld experts each, which is more than "
                   "%d rows: lower --per_device_train_batch_size or --cutoff_len",
                   (long long)o->tokens_max, (long long)k, INT32_MAX);
}

/* tokens_max / samples_max is cutoff_len, the length of the longest sample. */
static enum fr_rc check_positions(const struct tr_model_opts *o, struct fr_err *err)
{
    int64_t samples = o->samples_max > 0 ? o->samples_max : 1;
    enum fr_rc rc = tr_rope_check(o->config, o->tokens_max / samples, err);

    return rc == FR_OK ? tr_rope_check(o->config, o->cache_tokens, err) : rc;
}

static enum fr_rc make_decoder(struct tr_model *m, struct fr_err *err)
{
    struct tr_decoder_opts o = {
        .be = m->o.be,
        .shard = m->shard,
        .compute = m->o.compute,
        .block_rows = (int)m->config.fp8_block_rows,
        .block_cols = (int)m->config.fp8_block_cols,
    };

    return decodes(m) ? tr_decoder_create(&o, &m->decoder, err) : FR_OK;
}

/* Whether another group of ranks has the same experts on this machine. */
static bool owned_twice(const struct tr_comm *experts)
{
    int here = 0;

    for (int k = 0; experts != NULL && k < experts->size; k++)
        here += experts->node_of == NULL || experts->node_of[k] == experts->node;
    return experts != NULL && experts->world != NULL && here < experts->world->local_size;
}

enum fr_rc tr_model_create(const struct tr_model_opts *o, struct tr_model **out,
                           struct fr_buf *notes, struct fr_err *err)
{
    struct tr_model *m = fr_sys.alloc(sizeof(*m));
    struct tr_shard_opts so = {
        .be = o->be,
        .comm = o->rest != NULL ? o->rest : o->comm,
        .partition = o->partition,
        .place = o->place,
        .limits = o->limits,
        .tokens_max = o->tokens_max,
        .owned_twice = owned_twice(o->experts),
        .block = o->state_block,
    };
    enum fr_rc rc;

    *out = NULL;
    if (m == NULL)
        return fr_fail(err, FR_NOMEM, "a model");
    memset(m, 0, sizeof(*m));
    m->o = *o;
    m->o.config = &m->config;
    m->o.lora = NULL;
    m->o.in_flight = o->in_flight > 0 ? o->in_flight : 1;
    m->config = *o->config;
    if ((rc = check_rows(o, err)) == FR_OK && (rc = check_positions(o, err)) == FR_OK &&
        (rc = check_ops(m, err)) == FR_OK && (rc = tr_shard_create(&so, &m->shard, err)) == FR_OK &&
        (rc = make_decoder(m, err)) == FR_OK && (rc = tr_experts_create(m, err)) == FR_OK &&
        (rc = tr_model_assemble(m, o->lora, notes, err)) == FR_OK)
        rc = tr_model_measure(m, err);
    if (rc == FR_OK && notes != NULL)
        tr_shard_notes(m->shard, notes);
    if (rc != FR_OK) {
        tr_model_destroy(m);
        return rc;
    }
    *out = m;
    return FR_OK;
}

void tr_model_destroy(struct tr_model *m)
{
    if (m == NULL)
        return;
    for (int i = 0; i < m->nblocks; i++)
        fr_sys.free(m->blocks[i]);
    tr_mem_free(m->o.be, TR_MEM_DEVICE, m->buffer);
    tr_mem_free(m->o.be, TR_MEM_PINNED, m->host);
    for (int i = 0; i < 2; i++)
        if (m->sent[i] != NULL)
            tr_event_destroy(m->o.be, m->sent[i]);
    tr_offload_destroy(m);
    tr_grads_destroy(m->grads);
    tr_exchange_destroy(m->exchange);
    tr_decoder_destroy(m->decoder);
    tr_shard_destroy(m->shard);
    tr_queue_destroy(m->o.be, m->q);
    fr_arena_finish(&m->arena);
    fr_sys.free(m);
}

static struct tr_memory_row row(const char *name, size_t bytes, bool host)
{
    return (struct tr_memory_row){.name = name, .bytes = bytes, .host = host};
}

size_t tr_model_memory(const struct tr_model *m, struct tr_memory_row rows[TR_MEMORY_ROWS])
{
    const struct tr_scratch *s = &m->scratch;
    struct tr_exchange_bytes x = {0};
    struct tr_grads_bytes g = {0};
    struct tr_shard_bytes b;
    size_t n = 0, sum = 0;

    tr_shard_bytes(m->shard, &b);
    if (m->exchange != NULL)
        tr_exchange_bytes(m->exchange, &x);
    if (m->grads != NULL)
        tr_grads_bytes(m->grads, &g);
    if (b.owned > 0)
        rows[n++] = row("experts", b.owned, false);
    rows[n++] = row("base shard", b.base, m->o.place == TR_PLACE_HOST);
    if (b.packed > 0)
        rows[n++] = row("packed weights", b.packed, false);
    rows[n++] = row("gather windows", b.windows, false);
    if (m->decoder != NULL)
        rows[n++] = row("decoded weights", tr_decoder_bytes(m->decoder), false);
    rows[n++] = row("norms and routers", b.persistent, false);
    rows[n++] = row("embedding rows", b.rows, false);
    if (x.device > 0)
        rows[n++] = row("exchange of tokens", x.device, false);
    rows[n++] = row("activations", m->slot_bytes, false);
    if (m->kept_bytes > 0)
        rows[n++] = row("kept activations", m->kept_bytes, false);
    rows[n++] = row("workspace", m->work_bytes, false);
    rows[n++] = row("backend scratch", s->op - s->library + s->product, false);
    if (s->library > 0)
        rows[n++] = row(s->library_name, s->library, false);
    if (m->grads != NULL) {
        rows[n++] = row("gradients", g.sums, m->o.host.be != NULL);
        rows[n++] = row("gradient windows", g.windows, false);
        if (m->o.trained->save_masters)
            g.saved = g.saved / tr_dtype_bytes(m->o.compute) * sizeof(float);
        rows[n++] = row("part to be saved", g.saved, true);
    }
    rows[n++] = row("adapters", m->adapter_bytes, false);
    if (m->cache_bytes > 0)
        rows[n++] = row("key-value cache", m->cache_bytes, false);
    rows[n++] = row("rotary tables", m->table_bytes, false);
    if (tr_offload_bytes(m) > 0)
        rows[n++] = row("waiting activations", tr_offload_bytes(m), true);
    rows[n++] = row("staging", m->host_bytes, true);
    if (x.host > 0)
        rows[n++] = row("exchange plans", x.host, true);
    for (size_t i = 0; i < n; i++)
        sum += rows[i].bytes;
    rows[n++] = row("total", sum, false);
    return n;
}

size_t tr_model_prepack(struct tr_model *m, size_t bytes)
{
    /* Caches of latents take rows of weights. */
    return tr_shard_prepack(m->shard, bytes, m->o.cache_sequences == 0);
}

size_t tr_model_kept(const struct tr_model *m)
{
    return m->kept_bytes;
}

/* Creates the queue and allocates all buffers. */
static enum fr_rc take_all(struct tr_model *m, struct fr_err *err)
{
    enum fr_rc rc = tr_queue_create(m->o.be, m->scratch.op, &m->q, err);

    if (rc != FR_OK)
        return rc;
    tr_trace_queue(m->o.be, m->q, "compute");
    if (m->exchange != NULL && (rc = tr_exchange_alloc(m->exchange, err)) != FR_OK)
        return rc;
    if (m->decoder != NULL && (rc = tr_decoder_alloc(m->decoder, err)) != FR_OK)
        return rc;
    return tr_model_alloc(m, err);
}

enum fr_rc tr_model_fill(struct tr_model *m, const struct tr_shard_source *src, struct fr_err *err)
{
    enum fr_rc rc = take_all(m, err);

    if (rc == FR_OK)
        rc = tr_shard_fill(m->shard, src, err);
    return rc == FR_OK && m->grads != NULL ? tr_grads_alloc(m->grads, m->q, err) : rc;
}

void tr_model_lacks(const struct tr_model *m, const struct tr_st *st, unsigned char *files)
{
    tr_shard_lacks(m->shard, st, files);
}

enum fr_rc tr_model_load(struct tr_model *m, const struct tr_st *st,
                         const struct tr_shard_tell *tell, struct fr_err *err)
{
    enum fr_rc rc = take_all(m, err);

    if (rc == FR_OK)
        rc = tr_shard_load(m->shard, st, tell, err);
    return rc == FR_OK && m->grads != NULL ? tr_grads_alloc(m->grads, m->q, err) : rc;
}

void tr_model_params(const struct tr_model *m, struct tr_params *out)
{
    *out = (struct tr_params){
        .adapters = m->adapters,
        .n = m->nadapters,
        .elements = m->elements,
        .padded = m->padded,
        .work = m->work,
        .grad = m->grad,
    };
}

struct tr_ctx tr_model_ctx(struct tr_model *m, struct fr_err *err)
{
    return (struct tr_ctx){
        .be = m->o.be,
        .q = m->q,
        .shard = m->shard,
        .decoder = m->decoder,
        .exchange = m->exchange,
        .grads = m->grads,
        .work = {.base = m->work_base, .limit = m->work_bytes},
        .compute = m->o.compute,
        .sum = tr_model_sum(m),
        .seed = m->o.seed,
        .cosines = m->cosines,
        .sines = m->sines,
        .weights = m->weights,
        .weight_at = m->weight_at,
        .grad_at = m->grad_at,
        .err = err,
    };
}

struct tr_queue *tr_model_queue(struct tr_model *m)
{
    return m->q;
}

struct tr_backend *tr_model_backend(const struct tr_model *m)
{
    return m->o.be;
}

const struct tr_scratch *tr_model_scratch(const struct tr_model *m)
{
    return &m->scratch;
}

struct tr_grads *tr_model_grads(const struct tr_model *m)
{
    return m->grads;
}

int64_t tr_model_moe_layers(const struct tr_model *m)
{
    return m->moe_layers;
}
