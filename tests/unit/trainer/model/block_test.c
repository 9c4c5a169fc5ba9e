/*
 * Gradients of every block against central finite differences, in double precision on the reference
 * backend: whole small models, one row a variant, so that each block is met as the lowest adapted
 * one, as one in the middle, and without an adapter.
 */
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/model/tiny_model.h"

#include <math.h>
#include <string.h>

struct row {
    const char *name;
    struct tiny tiny;
};

static const struct row rows[] = {
    {"attention everywhere",
     {.lora = {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"}}},
    {"yarn", {.yarn = true, .lora = {"q_a_proj", "kv_b_proj", "o_proj"}}},
    {"one q_proj", {.no_q_lora = true, .lora = {"q_proj", "kv_a_proj_with_mqa"}}},
    {"kv_b alone is lowest",
     {.lora = {"layers.0.self_attn.kv_b_proj", "layers.2.self_attn.o_proj"}}},
    {"o_proj alone is lowest", {.lora = {"o_proj"}}},
    {"dense FFN",
     {.lora = {"layers.0.mlp.gate_proj", "layers.0.mlp.up_proj", "layers.0.mlp.down_proj"}}},
    {"dense down_proj alone", {.lora = {"layers.0.mlp.down_proj"}}},
    {"shared experts",
     {.shared = 2,
      .lora = {"shared_experts.gate_proj", "shared_experts.up_proj", "shared_experts.down_proj"}}},
    {"no shared experts", {.shared = -1, .lora = {"q_a_proj"}}},
    {"one group", {.one_group = true, .lora = {"q_b_proj"}}},
    {"weights not normalised", {.no_norm = true, .lora = {"q_b_proj", "kv_a_proj_with_mqa"}}},
    {"half-split rotary pairs", {.half_split = true, .lora = {"q_b_proj", "kv_a_proj_with_mqa"}}},
    {"biases", {.bias = true, .lora = {"q_a_proj", "kv_a_proj_with_mqa", "o_proj"}}},
    {"dropout",
     {.dropout = 0.3,
      .lora = {"q_a_proj", "kv_b_proj", "o_proj", "layers.0.mlp.up_proj",
               "shared_experts.down_proj"}}},
    {"windows of three experts",
     {.host = true, .max_live = 2 * 3 * 3 * 12 * 6, .lora = {"kv_b_proj"}}},
    {"head in chunks", {.head_rows = 6, .lora = {"kv_b_proj"}}},
    {"tied head", {.tied = true, .lora = {"kv_b_proj"}}},
    {"grouped heads",
     {.kv_heads = 2, .lora = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"}}},
    {"one key for all heads", {.kv_heads = 1, .tied = true, .lora = {"k_proj", "o_proj"}}},
    {"a key for each head", {.kv_heads = 4, .yarn = true, .lora = {"layers.1.self_attn.v_proj"}}},
    {"norms of heads",
     {.kv_heads = 2, .qk_norm = true, .dropout = 0.3, .lora = {"q_proj", "k_proj"}}},
    {"norms of heads, o_proj alone", {.kv_heads = 2, .qk_norm = true, .lora = {"o_proj"}}},
    {"a window", {.kv_heads = 2, .window = 3, .lora = {"q_proj", "k_proj", "v_proj"}}},
    {"biases of all linears",
     {.kv_heads = 2, .bias = true, .lora = {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj"}}},
};

static double loss_of(struct tr_model *m, const struct tr_micro *mb)
{
    struct fr_err err = {0};
    double sum = NAN;

    CHECK_INT(tr_model_forward_backward(m, mb, &err), FR_OK);
    CHECK_INT(tr_model_take_loss(m, &sum, &err), FR_OK);
    return sum * mb->loss_scale;
}

/* Entries i of the flat buffers that belong to a tensor: every step-th is tried. */
static void compare(struct tr_model *m, const struct tr_micro *mb, const double *grad,
                    const char *name)
{
    struct tr_params p;
    double *w, worst = 0, eps = 1e-5;
    int64_t tried = 0;

    tr_model_params(m, &p);
    w = p.work.p;
    for (size_t k = 0; k < 2 * p.n; k++) {
        const struct tr_adapter *a = &p.adapters[k / 2];
        int64_t at = k % 2 == 0 ? a->a_at : a->b_at;
        int64_t n = k % 2 == 0 ? a->r * a->in : a->r * a->out;

        for (int64_t i = at; i < at + n; i += 1 + n / 4) {
            double keep = w[i], hi, lo, want, scale;

            w[i] = keep + eps;
            hi = loss_of(m, mb);
            w[i] = keep - eps;
            lo = loss_of(m, mb);
            w[i] = keep;
            want = (hi - lo) / (2 * eps);
            scale = fabs(want) + fabs(grad[i]) + 1e-3;
            worst = fmax(worst, fabs(want - grad[i]) / scale);
            tried++;
        }
    }
    if (!(worst < 1e-6) || tried == 0)
        printf("%s: %lld entries, worst relative difference %.3g\n", name, (long long)tried, worst);
    CHECK(worst < 1e-6 && tried > 0);
}

static void try_row(const struct row *r, struct tr_comm *comm)
{
    struct fr_err err = {0};
    struct tiny_model t = {0};
    struct tr_params p;
    struct tr_micro mb;
    double *grad, norm = 0;

    check_row(r->name);
    if (tiny_make(&t, &r->tiny, comm, TR_F64, &err) != FR_OK) {
        printf("%s: %s\n", r->name, err.msg);
        CHECK(false);
        tiny_finish(&t);
        return;
    }
    mb = tiny_micro(&t);
    tr_model_params(t.model, &p);
    (void)loss_of(t.model, &mb);
    tiny_keep_routing(&t, &mb);
    memset(p.grad.p, 0, tr_view_bytes(p.grad));
    (void)loss_of(t.model, &mb);
    grad = malloc(tr_view_bytes(p.grad));
    memcpy(grad, p.grad.p, tr_view_bytes(p.grad));
    for (int64_t i = 0; i < p.padded; i++)
        norm += grad[i] * grad[i];
    CHECK(norm > 1e-12);
    compare(t.model, &mb, grad, r->name);
    free(grad);
    tiny_finish(&t);
}

/* Two micro-batches of unequal length give the gradient of one that holds both. */
static void check_accumulation(struct tr_comm *comm)
{
    static const struct tiny tiny = {.lora = {"q_a_proj", "o_proj", "shared_experts.up_proj"}};
    struct fr_err err = {0};
    struct tiny_model t = {0};
    struct tr_micro mb, one;
    struct tr_params p;
    double *whole, diff = 0, norm = 0, a, b = 0, part;

    CHECK_INT(tiny_make(&t, &tiny, comm, TR_F64, &err), FR_OK);
    mb = tiny_micro(&t);
    tr_model_params(t.model, &p);
    a = loss_of(t.model, &mb);
    whole = malloc(tr_view_bytes(p.grad));
    memcpy(whole, p.grad.p, tr_view_bytes(p.grad));
    memset(p.grad.p, 0, tr_view_bytes(p.grad));
    for (int64_t s = 0; s < mb.B; s++) {
        int64_t first = mb.offsets[s], offsets[2] = {0, mb.offsets[s + 1] - first};

        one = mb;
        one.B = 1;
        one.T = offsets[1];
        one.offsets = offsets;
        one.ids = mb.ids + first;
        one.pos = mb.pos + first;
        one.targets = mb.targets + first;
        part = loss_of(t.model, &one);
        b += part;
    }
    one = mb;
    one.T = one.B = 0;
    b += loss_of(t.model, &one);
    for (int64_t i = 0; i < p.padded; i++) {
        double g = ((double *)p.grad.p)[i];

        diff += (g - whole[i]) * (g - whole[i]);
        norm += whole[i] * whole[i];
    }
    CHECK(fabs(a - b) < 1e-12 * fabs(a));
    CHECK(sqrt(diff) < 1e-10 * sqrt(norm));
    free(whole);
    tiny_finish(&t);
}

int main(void)
{
    struct fr_err err = {0};
    struct tr_backend *be = NULL;
    struct tr_comm *comm = NULL;

    CHECK_INT(tr_ref_create(&be, &err), FR_OK);
    CHECK_INT(tr_comm_single(be, &comm, &err), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        try_row(&rows[i], comm);
    check_accumulation(comm);
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
    return check_done();
}
