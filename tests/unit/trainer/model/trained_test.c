/*
 * Gradients of trained weights: against central finite differences, in double precision on the
 * reference backend, over every tensor of small models; and the bits of their sums.
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
    {"grouped heads", {.kv_heads = 2, .trained = true}},
    {"norms of heads", {.kv_heads = 2, .qk_norm = true, .trained = true}},
    {"biases", {.kv_heads = 2, .bias = true, .trained = true}},
    {"head in chunks", {.kv_heads = 1, .head_rows = 6, .window = 3, .trained = true}},
    {"experts", {.trained = true}},
    {"experts, weights not normalised", {.no_norm = true, .no_q_lora = true, .trained = true}},
    {"no shared experts", {.shared = -1, .one_group = true, .bias = true, .trained = true}},
    {"beside adapters",
     {.kv_heads = 2, .trained = true, .dropout = 0.3, .lora = {"q_proj", "down_proj"}}},
};

static double loss_of(struct tr_model *m, const struct tr_micro *mb)
{
    struct fr_err err = {0};
    double sum = NAN;

    if (!CHECK_INT(tr_model_forward_backward(m, mb, &err), FR_OK))
        printf("%s\n", err.msg);
    CHECK_INT(tr_model_take_loss(m, &sum, &err), FR_OK);
    return sum * mb->loss_scale;
}

/* Every few elements of each tensor. */
static void compare(struct tr_model *m, const struct tr_micro *mb, const double *sums)
{
    const struct tr_grads_range *r;
    double eps = 1e-5;
    size_t n;

    r = tr_grads_ranges(tr_model_grads(m), &n);
    for (size_t k = 0; k < n; k++) {
        double *w = r[k].weight.p, worst = 0, norm = 0;

        for (int64_t i = 0; i < r[k].n; i += 1 + r[k].n / 6) {
            double keep = w[i], hi, lo, want, grad = sums[r[k].at + i];

            w[i] = keep + eps;
            hi = loss_of(m, mb);
            w[i] = keep - eps;
            lo = loss_of(m, mb);
            w[i] = keep;
            want = (hi - lo) / (2 * eps);
            worst = fmax(worst, fabs(want - grad) / (fabs(want) + fabs(grad) + 1e-3));
            norm += want * want;
        }
        if (!(worst < 1e-6))
            printf("%s: worst relative difference %.3g\n", r[k].name, worst);
        CHECK(worst < 1e-6);
        /* no token may choose an expert */
        CHECK(norm > 0 || strstr(r[k].name, ".experts.") != NULL);
    }
}

static void try_row(const struct row *row, struct tr_comm *comm)
{
    struct fr_err err = {0};
    struct tiny_model t = {0};
    struct tr_view sums;
    struct tr_micro mb;
    struct tr_grads *g;
    double *copy;

    check_row(row->name);
    if (!CHECK_INT(tiny_make(&t, &row->tiny, comm, TR_F64, &err), FR_OK)) {
        printf("%s\n", err.msg);
        tiny_finish(&t);
        return;
    }
    mb = tiny_micro(&t);
    (void)loss_of(t.model, &mb);
    tiny_keep_routing(&t, &mb);
    g = tr_model_grads(t.model);
    tr_grads_reset(g);
    (void)loss_of(t.model, &mb);
    sums = tr_grads_sums(g);
    copy = malloc(tr_view_bytes(sums));
    memcpy(copy, sums.p, tr_view_bytes(sums));
    compare(t.model, &mb, copy);
    free(copy);
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
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
    return check_done();
}
