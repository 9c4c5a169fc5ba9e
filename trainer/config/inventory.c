#include "trainer/config/arch.h"

#include <stdio.h>
#include <string.h>

struct tr_walk {
    const struct tr_model_config *c;
    enum fr_rc (*each)(void *arg, const struct tr_model_tensor *t, struct fr_err *err);
    void *arg;
    struct fr_err *err;
    enum fr_rc rc;
    struct tr_model_tensor t; /* the tensor in work, with its layer and expert */
};

bool tr_model_is_moe(const struct tr_model_config *c, int64_t layer)
{
    return layer >= c->first_k_dense_replace && (c->dense[layer / 64] >> layer % 64 & 1) == 0;
}

int64_t tr_model_moe_count(const struct tr_model_config *c)
{
    int64_t n = 0;

    for (int64_t l = 0; l < c->num_hidden_layers; l++)
        n += tr_model_is_moe(c, l);
    return n;
}

int64_t tr_model_window(const struct tr_model_config *c, int64_t layer)
{
    return c->windowed[layer / 64] >> (layer % 64) & 1 ? c->sliding_window : 0;
}

struct tr_head_sizes tr_model_head(const struct tr_model_config *c)
{
    return tr_arch_of(c)->head(c);
}

bool tr_model_module(const struct tr_model_tensor *t, char out[TR_NAME_MAX])
{
    size_t n = strlen(t->name), suffix = strlen(".weight");

    if (n < suffix || strcmp(t->name + n - suffix, ".weight") != 0)
        return false;
    (void)snprintf(out, TR_NAME_MAX, "%.*s", (int)(n - suffix), t->name);
    return true;
}

/* The module of a MoE layer. */
static const char *moe_name(const struct tr_model_config *c)
{
    return c->block_sparse_moe ? "block_sparse_moe" : "mlp";
}

/* Reports the tensor PREFIXname; the prefix follows from layer and expert. cols 0: one dimension.
 */
static void put(struct tr_walk *w, enum tr_tensor_role role, const char *name, int64_t rows,
                int64_t cols)
{
    char prefix[80] = "";

    if (w->rc != FR_OK)
        return;
    if (w->t.layer >= 0 && w->t.expert >= 0)
        (void)snprintf(prefix, sizeof(prefix), "model.layers.%lld.%s.experts.%lld.",
                       (long long)w->t.layer, moe_name(w->c), (long long)w->t.expert);
    else if (w->t.layer >= 0)
        (void)snprintf(prefix, sizeof(prefix), "model.layers.%lld.%s", (long long)w->t.layer,
                       w->t.expert == -2 ? "mlp.shared_experts." : "");
    (void)snprintf(w->t.name, sizeof(w->t.name), "%s%.47s", prefix, name);
    w->t.role = role;
    w->t.ndim = cols == 0 ? 1 : 2;
    w->t.shape[0] = rows;
    w->t.shape[1] = cols;
    w->rc = w->each(w->arg, &w->t, w->err);
}

void tr_put_norm(struct tr_walk *w, enum tr_norm_kind kind, const char *name, int64_t n)
{
    char full[64];

    (void)snprintf(full, sizeof(full), "%s.weight", name);
    w->t.norm = kind;
    put(w, TR_ROLE_NORM, full, n, 0);
}

void tr_put_linear(struct tr_walk *w, enum tr_linear_kind kind, const char *name,
                   struct tr_linear_sizes s)
{
    char full[64];

    (void)snprintf(full, sizeof(full), "%s.weight", name);
    w->t.kind = kind;
    put(w, TR_ROLE_LINEAR, full, s.out, s.in);
    (void)snprintf(full, sizeof(full), "%s.bias", name);
    if (s.bias)
        put(w, TR_ROLE_BIAS, full, s.out, 0);
}

static void put_ffn(struct tr_walk *w, const char *prefix, int64_t width)
{
    static const char *const usual[] = {"gate_proj", "up_proj", "down_proj"};
    static const char *const numbered[] = {"w1", "w3", "w2"};
    const char *const *names = w->c->block_sparse_moe ? numbered : usual;
    int64_t H = w->c->hidden_size;
    char name[64];

    for (int i = 0; i < 3; i++) {
        bool down = TR_LIN_GATE + i == TR_LIN_DOWN;

        (void)snprintf(name, sizeof(name), "%s%s", prefix, names[i]);
        tr_put_linear(w, (enum tr_linear_kind)(TR_LIN_GATE + i), name,
                      (struct tr_linear_sizes){down ? H : width, down ? width : H, w->c->mlp_bias});
    }
}

static void put_router(struct tr_walk *w)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%s.gate.weight", moe_name(w->c));
    put(w, TR_ROLE_ROUTER, name, w->c->n_routed_experts, w->c->hidden_size);
    if (!w->c->softmax_scores)
        put(w, TR_ROLE_ROUTER_BIAS, "mlp.gate.e_score_correction_bias", w->c->n_routed_experts, 0);
}

static void put_layer(struct tr_walk *w, int64_t layer)
{
    const struct tr_model_config *c = w->c;

    w->t.layer = layer;
    tr_put_norm(w, TR_NORM_ATTENTION, "input_layernorm", c->hidden_size);
    tr_arch_of(c)->attention_tensors(w, c);
    tr_put_norm(w, TR_NORM_FFN, "post_attention_layernorm", c->hidden_size);
    if (!tr_model_is_moe(c, layer)) {
        put_ffn(w, "mlp.", c->intermediate_size);
        return;
    }
    put_router(w);
    for (w->t.expert = 0; w->t.expert < c->n_routed_experts && w->rc == FR_OK; w->t.expert++)
        put_ffn(w, "", c->moe_intermediate_size);
    w->t.expert = -2;
    if (c->n_shared_experts > 0)
        put_ffn(w, "", c->moe_intermediate_size * c->n_shared_experts);
    w->t.expert = -1;
}

enum fr_rc tr_model_tensors(const struct tr_model_config *c,
                            enum fr_rc (*each)(void *arg, const struct tr_model_tensor *t,
                                               struct fr_err *err),
                            void *arg, struct fr_err *err)
{
    struct tr_walk w = {.c = c, .each = each, .arg = arg, .err = err};

    w.t = (struct tr_model_tensor){.layer = -1, .expert = -1};
    put(&w, TR_ROLE_EMBED, "model.embed_tokens.weight", c->vocab_size, c->hidden_size);
    for (int64_t l = 0; l < c->num_hidden_layers && w.rc == FR_OK; l++)
        put_layer(&w, l);
    w.t.layer = -1;
    tr_put_norm(&w, TR_NORM_FINAL, "model.norm", c->hidden_size);
    if (!c->tie_word_embeddings)
        put(&w, TR_ROLE_HEAD, "lm_head.weight", c->vocab_size, c->hidden_size);
    return w.rc;
}

/* Sums for tr_model_count: of layer 0 (dense, if there is one) and the first MoE layer. */
struct sums {
    const struct tr_model_config *c;
    int64_t linear, norms, inner_norms, attention, ffn, expert, shared, router, bias, scales;
};

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* n numbers of a linear: of its weight or its bias. */
static void add_linear(struct sums *s, const struct tr_model_tensor *t, int64_t n)
{
    if (t->kind < TR_LIN_ATTENTION)
        s->attention += n;
    else if (t->expert == -2)
        s->shared += n;
    else if (t->expert >= 0)
        s->expert += n;
    else
        s->ffn += n;
}

static enum fr_rc add(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct sums *s = arg;
    int64_t n = t->shape[0] * (t->ndim == 2 ? t->shape[1] : 1);

    (void)err;
    switch (t->role) {
    case TR_ROLE_LINEAR:
        if (s->c->fp8)
            s->scales += div_up(t->shape[0], s->c->fp8_block_rows) *
                         div_up(t->shape[1], s->c->fp8_block_cols);
        s->linear += n;
        add_linear(s, t, n);
        break;
    case TR_ROLE_BIAS:
        add_linear(s, t, n);
        break;
    case TR_ROLE_NORM:
        s->norms += n;
        if (t->norm != TR_NORM_ATTENTION && t->norm != TR_NORM_FFN)
            s->inner_norms += n;
        break;
    case TR_ROLE_ROUTER:
        s->router += n;
        break;
    case TR_ROLE_ROUTER_BIAS:
        s->bias += n;
        break;
    case TR_ROLE_EMBED:
    case TR_ROLE_HEAD:
        break;
    }
    return FR_OK;
}

/* The sums of one layer, dense or with experts. They are 0 if the model has no experts. */
static struct sums layer_sums(const struct tr_model_config *c, bool moe)
{
    struct tr_model_config one = *c;
    struct sums s = {.c = c};
    struct tr_walk w = {.c = &one, .each = add, .arg = &s};

    if (moe && c->n_routed_experts == 0)
        return s;
    one.first_k_dense_replace = moe ? 0 : 1;
    one.dense[0] = 0;
    w.t.expert = -1;
    put_layer(&w, 0);
    return s;
}

void tr_model_count(const struct tr_model_config *c, struct tr_model_counts *out)
{
    struct sums d = layer_sums(c, false), m = layer_sums(c, true);
    int64_t moe = tr_model_moe_count(c), dense = c->num_hidden_layers - moe;
    int64_t h = c->hidden_size, mtp = c->num_nextn_predict_layers;
    int64_t active_moe;

    *out = (struct tr_model_counts){.attention_layer = d.attention};
    out->attention_norms = d.inner_norms;
    out->dense_ffn = d.ffn;
    out->expert = c->n_routed_experts > 0 ? m.expert / c->n_routed_experts : 0;
    out->shared_expert = m.shared;
    out->router = m.router;
    out->router_bias = m.bias;
    out->dense_layer = d.attention + d.norms + out->dense_ffn;
    out->moe_layer = m.attention + m.norms + m.expert + m.shared + m.router + m.bias;
    out->embedding = c->vocab_size * h;
    out->head = c->tie_word_embeddings ? 0 : out->embedding;
    out->total = out->embedding + out->head + h + dense * out->dense_layer + moe * out->moe_layer;
    out->router_biases = moe * m.bias;
    active_moe = out->moe_layer - m.expert + out->expert * c->num_experts_per_tok - m.bias;
    out->activated = out->embedding + out->head + h + dense * out->dense_layer + moe * active_moe;
    /* enorm, hnorm, shared_head.norm and eh_proj stand beside the layer */
    out->mtp_unique = mtp * (out->moe_layer + 3 * h + 2 * h * h);
    out->disk = out->total + out->mtp_unique + mtp * 2 * out->embedding;
    out->disk_scales = dense * d.scales + (moe + mtp) * m.scales;
    int64_t fp8 = c->fp8 ? dense * d.linear + (moe + mtp) * m.linear : 0;
    int64_t f32 = (moe + mtp) * m.bias + out->disk_scales;
    int64_t other = out->disk - fp8 - (moe + mtp) * m.bias;
    out->disk_bytes = fp8 + f32 * 4 + other * (c->torch_dtype == TR_TORCH_F32 ? 4 : 2);
}
