/*
 * Assembles a decoder-only model: embedding; per layer attention (attention.h), then a dense SwiGLU
 * FFN or a mixture of experts; norm and head. One walk over the checkpoint's inventory makes the
 * weight units and the adapters. A layer's blocks are made after its last tensor.
 */
#include "engine/base/sys.h"
#include "trainer/model/attention.h"
#include "trainer/model/private.h"

#include <stdio.h>
#include <string.h>

/* Limits of a chunk of the head, see head_rows, and elements of experts decoded at once. */
enum {
    DECODED_HOST = 2 << 20,
    HEAD_CHUNK_HOST = 4 << 20,
    HEAD_CHUNK = 50000000,
    HEAD_ROWS_MAX = 8192,
    HEAD_ROWS_MIN = 512
};

/* A unit under construction. */
struct open_unit {
    struct tr_unit_spec spec;
    char what[48];
    char names[TR_UNIT_TENSORS][TR_NAME_MAX];
};

struct build {
    struct tr_model *m;
    const struct tr_lora_config *lora;
    int64_t layer;                    /* under construction; -1: none */
    int64_t expert;                   /* of the open FFN unit */
    int64_t here;                     /* routed experts of the layer on this rank */
    struct open_unit frozen, trained; /* persistent tensors of the layer */
    struct open_unit attention, ffn, end;
    struct tr_attention_parts parts;
    struct tr_moe_opts moe;
    struct tr_ffn dense;
    struct tr_head_opts head;
};

const struct tr_attention_row *tr_attention_of(const struct tr_model_config *c)
{
#define ROW(name) [TR_ATTENTION_##name] = tr_attention_##name,
    static const struct tr_attention_row *(*const rows[])(void) = {TR_ATTENTIONS(ROW)};
#undef ROW

    return rows[tr_arch_of(c)->attention]();
}

/* ---- units ---- */

static void open_unit(struct open_unit *u, enum tr_unit_kind kind)
{
    u->spec.kind = kind;
    u->spec.n = 0;
    u->spec.by_rows = 0;
    u->spec.what = u->what;
}

static enum fr_rc flush(struct build *b, struct open_unit *u, int *id, struct fr_err *err)
{
    enum fr_rc rc;

    *id = -1;
    if (u->spec.n == 0)
        return FR_OK;
    rc = tr_shard_add(b->m->shard, &u->spec, id, err);
    if (rc == FR_OK && b->m->decoder != NULL)
        rc = tr_decoder_add(b->m->decoder, *id, &u->spec, err);
    u->spec.n = 0;
    return rc;
}

static bool trains(const struct build *b, const struct tr_model_tensor *t)
{
    const struct tr_trained *r = b->m->o.trained;

    return b->m->o.train && r != NULL && tr_trained_has(r, t);
}

static int put(const struct build *b, struct open_unit *unit, const struct tr_model_tensor *t,
               enum tr_dtype dtype)
{
    size_t i = unit->spec.n++;
    struct tr_unit_tensor *u = &unit->spec.tensors[i];

    (void)snprintf(unit->names[i], TR_NAME_MAX, "%s", t->name);
    *u = (struct tr_unit_tensor){
        .name = unit->names[i], .rank = t->ndim, .dtype = dtype, .trained = trains(b, t)};
    u->shape[0] = t->shape[0];
    u->shape[1] = t->ndim == 2 ? t->shape[1] : 0;
    return (int)i;
}

/* The block scales of an FP8 weight: a tensor of the same unit. */
static int put_scale(struct build *b, struct open_unit *unit, const struct tr_model_tensor *t)
{
    const struct tr_model_config *c = &b->m->config;
    struct tr_model_tensor s = *t;

    (void)snprintf(s.name, sizeof(s.name), "%.110s_scale_inv", t->name);
    s.shape[0] = (t->shape[0] + c->fp8_block_rows - 1) / c->fp8_block_rows;
    s.shape[1] = (t->shape[1] + c->fp8_block_cols - 1) / c->fp8_block_cols;
    int i = put(b, unit, &s, TR_F32);

    unit->spec.tensors[i].positive = true;
    return i;
}

static enum fr_rc put_linear(struct build *b, struct open_unit *unit,
                             const struct tr_model_tensor *t, struct tr_linear *l,
                             struct fr_err *err)
{
    const struct tr_model_config *c = &b->m->config;

    *l = (struct tr_linear){.unit = -1, .scale = -1, .bias = -1, .trained = trains(b, t)};
    if (l->trained && t->expert >= 0 && b->m->exchange != NULL)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: experts that stay on their ranks (moe block) cannot be trained yet",
                       t->name);
    if (l->trained && c->fp8)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s is FP8 and cannot be trained: flowtrain convert --to bf16 first",
                       t->name);
    l->out = t->shape[0];
    l->in = t->shape[1];
    l->tensor = put(b, unit, t, c->fp8 ? TR_F8_E4M3 : b->m->o.compute);
    unit->spec.tensors[l->tensor].factor = true;
    if (c->fp8) {
        l->scale = put_scale(b, unit, t);
        l->block_rows = (int)c->fp8_block_rows;
        l->block_cols = (int)c->fp8_block_cols;
    }
    return tr_adapters_take(b->m, b->lora, t, &l->lora, err);
}

/* ---- blocks ---- */

static enum fr_rc add_block(struct tr_model *m, struct tr_block *block, int64_t layer)
{
    block->index = m->nblocks;
    block->layer = layer;
    if (layer >= 0)
        (void)snprintf(block->what, sizeof(block->what), "layer %lld %s", (long long)layer,
                       block->ops->name);
    m->blocks[m->nblocks++] = block;
    return FR_OK;
}

static void set_ffn_unit(struct tr_ffn *f, int unit)
{
    f->unit = unit;
    f->gate.unit = f->up.unit = f->down.unit = unit;
}

/* Ends the open FFN unit: an expert, the shared experts or the dense FFN. */
static enum fr_rc flush_ffn(struct build *b, struct fr_err *err)
{
    int id;
    enum fr_rc rc;
    bool open = b->ffn.spec.n > 0;

    if ((rc = flush(b, &b->ffn, &id, err)) != FR_OK || !open)
        return rc;
    if (b->expert >= 0 && b->here++ == 0)
        b->moe.expert0 = id;
    if (b->expert == -2) {
        set_ffn_unit(&b->moe.shared, id);
        b->moe.has_shared = true;
    } else if (b->expert == -1) {
        set_ffn_unit(&b->dense, id);
    }
    return FR_OK;
}

static enum fr_rc flush_attention(struct build *b, struct fr_err *err)
{
    return b->attention.spec.n > 0 ? flush(b, &b->attention, &b->parts.unit, err) : FR_OK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool on_host(const struct tr_model *m)
{
    return m->o.be->memory->is_host && !m->o.apart;
}

/* Experts decoded at once: half of the live elements, as the next window has the same size. On the
 * host the limit keeps them in the processor's cache until their use. */
static int64_t decoded_units(const struct tr_model *m)
{
    const struct tr_model_config *c = &m->config;
    int64_t live = m->o.limits.max_live / 2, n;

    if (on_host(m))
        live = least(live, DECODED_HOST);
    n = live / (3 * c->hidden_size * c->moe_intermediate_size);
    return n > 1 ? n : 1;
}

static enum fr_rc make_moe(struct build *b, struct tr_block **out, struct fr_err *err)
{
    const struct tr_model_config *c = &b->m->config;
    struct tr_moe_opts *o = &b->moe;
    int64_t window, beside, shared;
    enum fr_rc rc = FR_OK;

    beside = tr_shard_elements(b->m->shard, b->parts.unit);
    shared = o->has_shared ? tr_shard_elements(b->m->shard, o->shared.unit) : 0;
    window = tr_shard_window_units(b->m->shard, 3 * c->hidden_size * c->moe_intermediate_size,
                                   shared > beside ? shared : beside);
    o->norm = b->parts.norm[TR_NORM_FFN];
    o->E = c->n_routed_experts;
    o->K = c->num_experts_per_tok;
    o->n_group = c->n_group;
    o->topk_group = c->topk_group;
    o->factor = (float)c->routed_scaling_factor;
    o->norm_topk = c->norm_topk_prob;
    o->softmax = c->softmax_scores;
    o->here = b->here;
    window = b->m->exchange == NULL ? window : o->here;
    if (b->m->decoder != NULL)
        window = least(window, decoded_units(b->m));
    o->window = (int)least(window, o->here);
    o->expert.H = o->shared.H = c->hidden_size;
    o->expert.I = c->moe_intermediate_size;
    o->shared.I = c->moe_intermediate_size * c->n_shared_experts;
    if (b->m->exchange != NULL) {
        o->owners = &b->m->owners[b->m->moe_layers];
        o->rows = b->m->expert_rows + b->m->moe_layers * o->E;
    }
    o->plan0 = b->m->o.train ? b->m->moe_layers * b->m->o.in_flight : 0;
    for (int64_t e = 0; e < o->here && rc == FR_OK; e += o->window) {
        int64_t n = o->here - e < o->window ? o->here - e : o->window;

        rc = tr_shard_plan_window(b->m->shard, o->expert0 + (int)e, (int)n, err);
        if (rc == FR_OK && b->m->decoder != NULL)
            tr_decoder_plan(b->m->decoder, o->expert0 + (int)e, (int)n);
    }
    if (rc == FR_OK)
        rc = tr_moe_block(o, out, err);
    return rc;
}

static enum fr_rc make_blocks(struct build *b, struct fr_err *err)
{
    const struct tr_model_config *c = &b->m->config;
    bool moe = tr_model_is_moe(c, b->layer);
    struct tr_block *block;
    enum fr_rc rc;

    if ((rc = tr_attention_of(c)->block(&b->parts, c, b->layer, &block, err)) != FR_OK)
        return rc;
    (void)add_block(b->m, block, b->layer);
    b->dense.H = c->hidden_size;
    b->dense.I = c->intermediate_size;
    rc = moe ? make_moe(b, &block, err)
             : tr_mlp_block(&b->parts.norm[TR_NORM_FFN], &b->dense, &block, err);
    if (rc != FR_OK)
        return rc;
    b->m->moe_layers += moe;
    return add_block(b->m, block, b->layer);
}

/* Ends the layer: all its tensors are known. */
static enum fr_rc end_layer(struct build *b, struct fr_err *err)
{
    int frozen, trained;
    enum fr_rc rc;

    if (b->layer < 0)
        return FR_OK;
    if ((rc = flush_attention(b, err)) != FR_OK || (rc = flush_ffn(b, err)) != FR_OK ||
        (rc = flush(b, &b->frozen, &frozen, err)) != FR_OK ||
        (rc = flush(b, &b->trained, &trained, err)) != FR_OK)
        return rc;
    for (int i = 0; i < TR_LIN_ATTENTION; i++)
        b->parts.linear[i].unit = b->parts.unit;
    for (int i = 0; i < TR_NORM_KINDS; i++)
        b->parts.norm[i].unit = b->parts.norm[i].trained ? trained : frozen;
    b->moe.router_unit = b->moe.router_trained ? trained : frozen;
    b->moe.bias_unit = frozen;
    if ((rc = make_blocks(b, err)) != FR_OK)
        return rc;
    b->layer = -1;
    return FR_OK;
}

static void begin_layer(struct build *b, int64_t layer)
{
    b->layer = layer;
    b->expert = -1;
    b->here = 0;
    memset(&b->parts, 0, sizeof(b->parts));
    b->moe = (struct tr_moe_opts){.bias_tensor = -1};
    b->dense = (struct tr_ffn){0};
    open_unit(&b->frozen, TR_UNIT_PERSISTENT);
    open_unit(&b->trained, TR_UNIT_PERSISTENT);
    open_unit(&b->attention, TR_UNIT_SHARDED);
    open_unit(&b->ffn, TR_UNIT_SHARDED);
    (void)snprintf(b->frozen.what, sizeof(b->frozen.what), "layer %lld norms", (long long)layer);
    (void)snprintf(b->trained.what, sizeof(b->trained.what), "layer %lld norms", (long long)layer);
    (void)snprintf(b->attention.what, sizeof(b->attention.what), "layer %lld attention",
                   (long long)layer);
}

static struct tr_linear *ffn_linear(struct tr_ffn *f, enum tr_linear_kind kind)
{
    return kind == TR_LIN_GATE ? &f->gate : kind == TR_LIN_UP ? &f->up : &f->down;
}

static enum fr_rc put_ffn(struct build *b, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct tr_ffn *f = t->expert == -1   ? &b->dense
                       : t->expert == -2 ? &b->moe.shared
                                         : &b->moe.expert;
    enum fr_rc rc;

    if (t->expert >= 0 && !tr_experts_here(b->m, t->expert))
        return FR_OK;
    if (b->ffn.spec.n == 0 || b->expert != t->expert) {
        if ((rc = flush_ffn(b, err)) != FR_OK)
            return rc;
        b->expert = t->expert;
        b->ffn.spec.kind =
            t->expert >= 0 && b->m->exchange != NULL ? TR_UNIT_OWNED : TR_UNIT_SHARDED;
        (void)snprintf(b->ffn.what, sizeof(b->ffn.what),
                       t->expert >= 0 ? "layer %lld expert %lld" : "layer %lld FFN",
                       (long long)b->layer, (long long)t->expert);
    }
    return put_linear(b, &b->ffn, t, ffn_linear(f, t->kind), err);
}

/* A bias follows its weight, so their unit is open. Experts have no biases. */
static void put_bias(struct build *b, const struct tr_model_tensor *t)
{
    bool attention = t->kind < TR_LIN_ATTENTION;
    struct tr_linear *l = attention ? &b->parts.linear[t->kind] : ffn_linear(&b->dense, t->kind);

    l->bias = put(b, attention ? &b->attention : &b->ffn, t, b->m->o.compute);
    l->bias_trained = trains(b, t);
}

static enum fr_rc put_layer_tensor(struct build *b, const struct tr_model_tensor *t,
                                   struct fr_err *err)
{
    struct open_unit *persistent = trains(b, t) ? &b->trained : &b->frozen;
    enum fr_rc rc;

    if (t->layer != b->layer) {
        if ((rc = end_layer(b, err)) != FR_OK)
            return rc;
        begin_layer(b, t->layer);
    }
    switch (t->role) {
    case TR_ROLE_NORM:
        b->parts.norm[t->norm] = (struct tr_norm){.tensor = put(b, persistent, t, b->m->o.compute),
                                                  .trained = trains(b, t),
                                                  .eps = (float)b->m->config.rms_norm_eps};
        return FR_OK;
    case TR_ROLE_ROUTER:
        b->moe.gate_tensor = put(b, persistent, t, b->m->o.compute);
        b->moe.router_trained = trains(b, t);
        return FR_OK;
    case TR_ROLE_ROUTER_BIAS:
        b->moe.bias_tensor = put(b, persistent, t, b->m->o.compute == TR_F64 ? TR_F64 : TR_F32);
        return FR_OK;
    case TR_ROLE_BIAS:
        put_bias(b, t);
        return FR_OK;
    default:
        if (t->kind < TR_LIN_ATTENTION)
            return put_linear(b, &b->attention, t, &b->parts.linear[t->kind], err);
        return put_ffn(b, t, err);
    }
}

/* ---- ends ---- */

/* One unit for each chunk of the head's rows. */
static enum fr_rc put_chunks(struct build *b, struct fr_err *err)
{
    const struct tr_tensor_names *names = tr_names_of(&b->m->config);
    struct tr_head_opts *o = &b->head;
    bool tied = b->m->config.tie_word_embeddings;
    struct tr_model_tensor t = {.role = tied ? TR_ROLE_EMBED : TR_ROLE_HEAD,
                                .layer = -1,
                                .expert = -1,
                                .ndim = 2,
                                .shape = {0, o->H}};
    enum fr_rc rc = FR_OK;

    (void)snprintf(t.name, sizeof(t.name), "%s", tied ? names->embed : names->head);
    b->m->head_trained = o->trained = trains(b, &t);
    for (int64_t row = 0; row < o->V && rc == FR_OK; row += o->rows) {
        int id;

        open_unit(&b->end, TR_UNIT_SHARDED);
        (void)snprintf(b->end.what, sizeof(b->end.what), "head rows from %lld", (long long)row);
        t.shape[0] = o->V - row < o->rows ? o->V - row : o->rows;
        (void)put(b, &b->end, &t, b->m->o.compute);
        b->end.spec.tensors[0].row0 = row;
        b->end.spec.tensors[0].disk_rows = o->V;
        b->end.spec.by_rows = tied && o->trained ? o->rows : 0;
        rc = flush(b, &b->end, &id, err);
        if (o->chunks++ == 0)
            o->chunk0 = id;
    }
    return rc;
}

/*
 * Rows of a chunk of the head. A chunk's two products are 4*T*H*rows FLOP, and it moves the sums
 * (T, H) f32 up to four times. On a device, whose matrix rate is 150 to 200 FLOP a byte of its
 * bandwidth, 6,000 to 8,000 rows make that a tenth of the products' time: 6,912 of 7,168 elements,
 * no more than DeepSpeed gathers ahead by default, and a third of such a layer's attention, so that
 * no window grows. On the host the sums of some tokens stay in a cache, and chunks are small.
 */
static int64_t head_rows(const struct tr_model *m, const struct tr_head_opts *o)
{
    bool host = on_host(m);
    int64_t rows = (host ? HEAD_CHUNK_HOST : HEAD_CHUNK) / o->H / 64 * 64;

    if (!host && rows > HEAD_ROWS_MAX)
        rows = HEAD_ROWS_MAX;
    if (rows < HEAD_ROWS_MIN)
        rows = HEAD_ROWS_MIN;
    if (m->o.head_rows > 0)
        rows = m->o.head_rows;
    while (m->o.state_block > 0 && rows * o->H % m->o.state_block != 0)
        rows++;
    return rows < o->V ? rows : o->V;
}

/* A trained embedding that is the head as well is the head's chunks. */
static enum fr_rc put_embed(struct build *b, const struct tr_model_tensor *t, struct fr_err *err)
{
    const struct tr_model_config *c = &b->m->config;
    struct tr_model *m = b->m;
    struct tr_block *block;
    enum fr_rc rc;

    b->head = (struct tr_head_opts){.H = c->hidden_size, .V = c->vocab_size};
    m->head_rows = b->head.rows = head_rows(m, &b->head);
    m->embed_trained = trains(b, t);
    m->embed_units = 1;
    if (m->embed_trained && c->tie_word_embeddings) {
        if ((rc = put_chunks(b, err)) != FR_OK)
            return rc;
        m->embed_unit = b->head.chunk0;
        m->embed_units = b->head.chunks;
    } else {
        open_unit(&b->end, TR_UNIT_ROWS);
        (void)snprintf(b->end.what, sizeof(b->end.what), "embedding");
        (void)put(b, &b->end, t, m->o.compute);
        if ((rc = flush(b, &b->end, &m->embed_unit, err)) != FR_OK)
            return rc;
    }
    rc = tr_embed_block(&(struct tr_embed_opts){m->embed_unit, m->embed_units, m->embed_trained},
                        &block, err);
    return rc == FR_OK ? add_block(m, block, -1) : rc;
}

/* Called for the final norm; the head's chunks follow from the config. */
static enum fr_rc make_head(struct build *b, const struct tr_model_tensor *norm, struct fr_err *err)
{
    struct tr_head_opts *o = &b->head;
    struct tr_block *block;
    enum fr_rc rc;

    open_unit(&b->end, TR_UNIT_PERSISTENT);
    (void)snprintf(b->end.what, sizeof(b->end.what), "final norm");
    o->norm = (struct tr_norm){.tensor = put(b, &b->end, norm, b->m->o.compute),
                               .trained = trains(b, norm),
                               .eps = (float)b->m->config.rms_norm_eps};
    if ((rc = flush(b, &b->end, &o->norm.unit, err)) != FR_OK ||
        (o->chunks == 0 && (rc = put_chunks(b, err)) != FR_OK) ||
        (rc = tr_head_block(o, &block, err)) != FR_OK)
        return rc;
    return add_block(b->m, block, -1);
}

static enum fr_rc each(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct build *b = arg;
    enum fr_rc rc;

    if (t->layer >= 0) {
        if (t->role == TR_ROLE_ROUTER || (t->role == TR_ROLE_LINEAR && t->kind >= TR_LIN_ATTENTION))
            if ((rc = flush_attention(b, err)) != FR_OK)
                return rc;
        return put_layer_tensor(b, t, err);
    }
    if ((rc = end_layer(b, err)) != FR_OK)
        return rc;
    if (t->role == TR_ROLE_EMBED)
        return put_embed(b, t, err);
    return t->role == TR_ROLE_NORM ? make_head(b, t, err) : FR_OK;
}

/* Gradients are needed from the lowest block that trains upwards. */
static void mark_backward(struct tr_model *m)
{
    m->lowest = m->nblocks;
    for (int i = 0; i < m->nblocks; i++) {
        m->blocks[i]->need_dx = m->lowest < m->nblocks;
        if (m->blocks[i]->trains && m->lowest == m->nblocks)
            m->lowest = i;
    }
}

enum fr_rc tr_model_assemble(struct tr_model *m, const struct tr_lora_config *lora,
                             struct fr_buf *notes, struct fr_err *err)
{
    struct build *b = fr_sys.alloc(sizeof(*b));
    size_t n = 2 * (size_t)m->config.num_hidden_layers + 2;
    int64_t share = (int64_t)64 * m->o.comm->size;
    struct tr_grads_opts g = {.be = m->o.be,
                              .shard = m->shard,
                              .comm = m->o.reduce,
                              .sum = m->o.compute == TR_F64 ? TR_F64 : TR_F32,
                              .beside = m->o.beside,
                              .wire = m->o.wire,
                              .once = m->o.once,
                              .tokens_max = m->o.tokens_max,
                              .host = m->o.host,
                              .muon = m->o.muon};
    enum fr_rc rc;

    m->blocks = fr_arena_array(&m->arena, n, sizeof(struct tr_block *));
    if (b == NULL || m->blocks == NULL) {
        fr_sys.free(b);
        return fr_fail(err, FR_NOMEM, "%zu blocks", n);
    }
    *b = (struct build){.m = m, .lora = lora, .layer = -1};
    if ((rc = tr_adapters_plan(m, lora, notes, err)) == FR_OK)
        rc = tr_model_tensors(&m->config, each, b, err);
    m->padded = (m->padded + share - 1) / share * share;
    mark_backward(m);
    fr_sys.free(b);
    if (rc == FR_OK)
        rc = tr_grads_create(&g, &m->grads, err);
    return rc;
}
