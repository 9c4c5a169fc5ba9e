#include "trainer/config/arch.h"

#include "trainer/tensor/tensor.h"

#include <stdio.h>
#include <string.h>

struct tr_walk {
    const struct tr_model_config *c;
    const struct tr_tensor_names *names;
    tr_each_tensor *each;
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

bool tr_module_ends(const char *module, const char *t)
{
    size_t n = strlen(module), k = strlen(t);

    return n >= k && strcmp(module + n - k, t) == 0 && (n == k || module[n - k - 1] == '.');
}

bool tr_model_module(const char *tensor, char out[TR_NAME_MAX])
{
    (void)snprintf(out, TR_NAME_MAX, "%.*s", (int)(strlen(tensor) - strlen(".weight")), tensor);
    return tr_module_ends(tensor, "weight");
}

const struct tr_tensor_names *tr_names_of(const struct tr_model_config *c)
{
    const struct tr_arch_row *arch = tr_arch_of(c);

    return c->block_sparse_moe ? arch->names_sparse : arch->names;
}

int tr_names_linear(const struct tr_tensor_names *names, const char *module)
{
    for (int i = 0; i <= TR_LIN_DOWN + TR_OF_EXPERT; i++)
        if (names->linear[i] != NULL && tr_module_ends(module, names->linear[i]))
            return i;
    return -1;
}

/* Reports a tensor, in its layer and expert. cols 0: one dimension. */
static void put(struct tr_walk *w, enum tr_tensor_role role, const char *name, int64_t rows,
                int64_t cols)
{
    const char *end = role == TR_ROLE_NORM || role == TR_ROLE_LINEAR ? ".weight"
                      : role == TR_ROLE_BIAS                         ? ".bias"
                                                                     : "";
    char prefix[80] = "";

    if (w->rc != FR_OK)
        return;
    if (w->t.expert >= 0)
        (void)snprintf(prefix, sizeof(prefix), "%s.%lld.%s.%lld.", w->names->layers,
                       (long long)w->t.layer, w->names->experts, (long long)w->t.expert);
    else if (w->t.layer >= 0)
        (void)snprintf(prefix, sizeof(prefix), "%s.%lld.", w->names->layers, (long long)w->t.layer);
    (void)snprintf(w->t.name, sizeof(w->t.name), "%s%.39s%s", prefix, name, end);
    w->t.role = role;
    w->t.ndim = cols == 0 ? 1 : 2;
    w->t.shape[0] = rows;
    w->t.shape[1] = cols;
    w->rc = w->each(w->arg, &w->t, w->err);
}

void tr_put_norm(struct tr_walk *w, enum tr_norm_kind kind, int64_t n)
{
    w->t.norm = kind;
    put(w, TR_ROLE_NORM, w->names->norm[kind], n, 0);
}

void tr_put_linear(struct tr_walk *w, enum tr_linear_kind kind, struct tr_linear_sizes s)
{
    int of = w->t.expert >= 0 ? TR_OF_EXPERT : w->t.expert == -2 ? TR_OF_SHARED : 0;
    const char *name = w->names->linear[kind + of];

    w->t.kind = kind;
    put(w, TR_ROLE_LINEAR, name, s.out, s.in);
    if (s.bias)
        put(w, TR_ROLE_BIAS, name, s.out, 0);
}

static void put_ffn(struct tr_walk *w, int64_t width)
{
    const int64_t H = w->c->hidden_size;
    const struct tr_linear_sizes up = {width, H, w->c->mlp_bias}, down = {H, width, up.bias};

    tr_put_linear(w, TR_LIN_GATE, up);
    tr_put_linear(w, TR_LIN_UP, up);
    tr_put_linear(w, TR_LIN_DOWN, down);
}

static void put_layer(struct tr_walk *w, int64_t layer)
{
    const struct tr_model_config *c = w->c;

    w->t.layer = layer;
    tr_put_norm(w, TR_NORM_ATTENTION, c->hidden_size);
    tr_arch_of(c)->attention_tensors(w, c);
    tr_put_norm(w, TR_NORM_FFN, c->hidden_size);
    if (!tr_model_is_moe(c, layer)) {
        put_ffn(w, c->intermediate_size);
        return;
    }
    put(w, TR_ROLE_ROUTER, w->names->router, c->n_routed_experts, c->hidden_size);
    if (!c->softmax_scores)
        put(w, TR_ROLE_ROUTER_BIAS, w->names->router_bias, c->n_routed_experts, 0);
    for (w->t.expert = 0; w->t.expert < c->n_routed_experts && w->rc == FR_OK; w->t.expert++)
        put_ffn(w, c->moe_intermediate_size);
    w->t.expert = -2;
    if (c->n_shared_experts > 0)
        put_ffn(w, c->moe_intermediate_size * c->n_shared_experts);
    w->t.expert = -1;
}

enum fr_rc tr_names_tensors(const struct tr_tensor_names *names, const struct tr_model_config *c,
                            tr_each_tensor *each, void *arg, struct fr_err *err)
{
    struct tr_walk w = {.c = c, .names = names, .each = each, .arg = arg, .err = err};

    w.t = (struct tr_model_tensor){.layer = -1, .expert = -1};
    put(&w, TR_ROLE_EMBED, names->embed, c->vocab_size, c->hidden_size);
    for (int64_t l = 0; l < c->num_hidden_layers && w.rc == FR_OK; l++)
        put_layer(&w, l);
    w.t.layer = -1;
    tr_put_norm(&w, TR_NORM_FINAL, c->hidden_size);
    if (!c->tie_word_embeddings)
        put(&w, TR_ROLE_HEAD, names->head, c->vocab_size, c->hidden_size);
    return w.rc;
}

enum fr_rc tr_model_tensors(const struct tr_model_config *c, tr_each_tensor *each, void *arg,
                            struct fr_err *err)
{
    return tr_names_tensors(tr_names_of(c), c, each, arg, err);
}

/* Sums for tr_model_count: of layer 0 (dense, if there is one) and the first MoE layer. */
struct sums {
    const struct tr_model_config *c;
    int64_t linear, norms, inner_norms, attention, ffn, expert, shared, router, bias, scales;
};

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
            s->scales += tr_div_up(t->shape[0], s->c->fp8_block_rows) *
                         tr_div_up(t->shape[1], s->c->fp8_block_cols);
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
    struct tr_walk w = {.c = &one, .names = tr_names_of(c), .each = add, .arg = &s};

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
