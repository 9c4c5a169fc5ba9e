/*
 * Whole models over W = 1 to 4 ranks (threads): gradients must not depend on W, window or prefetch.
 * Where experts stay on their ranks they are sums of parts: those of one rank but for the last
 * bits.
 */
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "tests/unit/trainer/model/tiny_model.h"

#include <math.h>

struct job {
    struct tiny tiny;
    double *grad; /* (padded of W = 1) */
    double loss;
    int64_t n;
    int failed, drained;
    struct tr_memory_row rows[TR_MEMORY_ROWS];
};

static int64_t plain_elements(const struct tr_params *p)
{
    const struct tr_adapter *last = &p->adapters[p->n - 1];

    return last->b_at + last->r * last->out;
}

/* Waits for a whole queue, of this rank. */
static _Thread_local int drained;

static enum fr_rc counted_sync(void *self, struct tr_queue *q, struct fr_err *err)
{
    (void)self;
    (void)q;
    (void)err;
    drained++;
    return FR_OK;
}

static void model_body(struct rank_self *self, void *arg)
{
    struct job *j = arg;
    struct tr_backend *be = NULL, counting;
    struct tr_queue_ops counted;
    struct tr_comm comm;
    struct tiny_model t = {0};
    struct fr_err err = {0};
    struct tr_params p;
    struct tr_micro mb;

    j->failed += tr_ref_create(&be, &err) != FR_OK;
    counted = *be->queues;
    counted.sync = counted_sync;
    counting = *be;
    counting.queues = &counted;
    comm = ranks_comm(self, &counting);
    if (tiny_make(&t, &j->tiny, &comm, TR_F64, &err) != FR_OK) {
        printf("rank %d: %s\n", self->rank, err.msg);
        j->failed++;
        return;
    }
    mb = tiny_micro(&t);
    if (j->tiny.crowded)
        tiny_crowd(&t, &mb);
    if (self->rank == 1) /* an idle rank takes part */
        mb.T = mb.B = 0;
    drained = 0;
    for (int i = 0; i < 3; i++) {
        if (tr_model_forward_backward(t.model, &mb, &err) != FR_OK) {
            printf("rank %d: %s\n", self->rank, err.msg);
            j->failed++;
        }
    }
    j->failed += tr_model_forward(t.model, &mb, NULL, &err) != FR_OK;
    j->drained = drained; /* a micro-batch waits for no queue */
    j->failed += tr_model_take_loss(t.model, &j->loss, &err) != FR_OK;
    tr_model_params(t.model, &p);
    (void)tr_model_memory(t.model, j->rows);
    j->n = plain_elements(&p);
    j->grad = malloc((size_t)j->n * sizeof(double));
    memcpy(j->grad, p.grad.p, (size_t)j->n * sizeof(double));
    tiny_finish(&t);
    tr_backend_destroy(be);
}

struct model_row {
    const char *name;
    int W;
    struct tiny tiny;
};

#define TARGETS                                                                                    \
    {                                                                                              \
        "q_a_proj", "kv_b_proj", "layers.0.mlp.down_proj", "shared_experts.up_proj"                \
    }

#define GROUPED                                                                                    \
    {                                                                                              \
        "q_proj", "k_proj", "o_proj", "layers.1.mlp.gate_proj"                                     \
    }

static const struct model_row models[] = {
    {"W=1", 1, {.partition = true, .lora = TARGETS}},
    {"W=2", 2, {.partition = true, .lora = TARGETS}},
    {"W=2, prefetch", 2, {.partition = true, .prefetch = 100000, .lora = TARGETS}},
    {"W=3, small windows",
     3,
     {.partition = true, .max_live = 500, .prefetch = 400, .lora = TARGETS}},
    {"W=4, one expert a window", 4, {.partition = true, .max_live = 1, .lora = TARGETS}},
    {"W=3, stage 2", 3, {.lora = TARGETS}},
    {"W=1, weights on the host",
     1,
     {.host = true, .max_live = 400, .prefetch = 400, .lora = TARGETS}},
    {"W=3, stage 2, weights on the host", 3, {.host = true, .lora = TARGETS}},
    {"W=2, weights on the host", 2, {.partition = true, .host = true, .lora = TARGETS}},
    {"W=1, inputs on the host", 1, {.offload = true, .lora = TARGETS}},
    {"W=2, all on the host",
     2,
     {.partition = true, .host = true, .offload = true, .prefetch = 100000, .lora = TARGETS}},
    /* sums of other parts: rows of their own */
    {"W=1, head in chunks", 1, {.head_rows = 7, .lora = TARGETS}},
    {"W=2, head in chunks",
     2,
     {.partition = true, .head_rows = 7, .prefetch = 100000, .lora = TARGETS}},
    {"W=1, grouped heads", 1, {.kv_heads = 2, .qk_norm = true, .bias = true, .lora = GROUPED}},
    {"W=2, grouped heads",
     2,
     {.kv_heads = 2, .qk_norm = true, .bias = true, .partition = true, .lora = GROUPED}},
    {"W=3, grouped heads, one unit at once",
     3,
     {.kv_heads = 2,
      .qk_norm = true,
      .bias = true,
      .partition = true,
      .max_live = 1,
      .lora = GROUPED}},
};

/* Sums of row i have other parts than those of the row before it. */
static bool other_model(size_t i)
{
    const struct tiny *t = &models[i].tiny, *before = &models[i - 1].tiny;

    return t->head_rows != before->head_rows || t->kv_heads != before->kv_heads;
}

/* Experts that stay: sums of parts, so the gradients of one rank but for their last bits. */
static const struct model_row staying[] = {
    {"W=1", 1, {.partition = true, .lora = TARGETS}},
    {"one rank has all", 1, {.partition = true, .experts = 1, .lora = TARGETS}},
    {"W=2", 2, {.partition = true, .experts = 2, .lora = TARGETS}},
    {"W=2, the rest whole", 2, {.experts = 2, .lora = TARGETS}},
    {"W=2, in rounds", 2, {.partition = true, .experts = 2, .exchange_rows = 1, .lora = TARGETS}},
    {"W=2, inputs on the host", 2, {.experts = 2, .offload = true, .lora = TARGETS}},
    {"W=3, unequal parts", 3, {.partition = true, .experts = 3, .lora = TARGETS}},
    {"W=4, two groups, prefetch",
     4,
     {.partition = true, .experts = 2, .prefetch = 100000, .lora = TARGETS}},
    {"W=4, two groups in nodes",
     4,
     {.partition = true,
      .experts = 2,
      .rest_in_node = true,
      .node = {0, 0, 1, 1},
      .lora = TARGETS}},
    {"W=4 over two nodes",
     4,
     {.partition = true,
      .experts = 4,
      .rest_in_node = true,
      .node = {0, 0, 1, 1},
      .lora = TARGETS}},
    {"W=4 over unequal nodes, in rounds",
     4,
     {.partition = true,
      .experts = 4,
      .rest_in_node = true,
      .exchange_rows = 1,
      .node = {0, 0, 0, 1},
      .lora = TARGETS}},
    {"W=3, a rank a node",
     3,
     {.partition = true, .experts = 3, .rest_in_node = true, .node = {0, 1, 2}, .lora = TARGETS}},
};

/* All tokens of all ranks to the experts of the first one, or the first two. */
static const struct model_row crowded[] = {
    {"W=1, the same experts", 1, {.partition = true, .crowded = true, .lora = TARGETS}},
    {"W=2, the same experts",
     2,
     {.partition = true, .experts = 2, .crowded = true, .lora = TARGETS}},
    {"W=4 over unequal nodes, the same experts, in rounds",
     4,
     {.partition = true,
      .experts = 4,
      .rest_in_node = true,
      .exchange_rows = 1,
      .crowded = true,
      .node = {0, 0, 0, 1},
      .lora = TARGETS}},
};

static void run_models(const struct model_row *row, struct job *j)
{
    void *args[RANKS_MAX];

    check_row(row->name);
    for (int k = 0; k < row->W; k++) {
        j[k].tiny = row->tiny;
        args[k] = &j[k];
    }
    ranks_run_on(row->W, row->tiny.node, 0, model_body, args);
}

static void check_models(void)
{
    struct job one = {0};

    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        struct job j[RANKS_MAX] = {0};

        run_models(&models[i], j);
        if (i == 0 || other_model(i)) {
            free(one.grad);
            one = j[0];
        }
        for (int k = 0; k < models[i].W; k++) {
            double norm = 0;

            CHECK_INT(j[k].drained, 0);

            CHECK_INT(j[k].failed, 0);
            CHECK_INT(j[k].n, one.n);
            for (int64_t e = 0; e < j[k].n; e++)
                norm += fabs(j[k].grad[e]);
            CHECK(k == 1 ? norm == 0 && j[k].loss == 0
                         : memcmp(j[k].grad, one.grad, (size_t)one.n * sizeof(double)) == 0 &&
                               j[k].loss == one.loss && norm > 0);
            if (j[k].grad != one.grad)
                free(j[k].grad);
        }
    }
    free(one.grad);
}

/* In doubles the association of sums moves a gradient by some 2^-53 of the largest. */
static bool near(const struct job *got, const struct job *want)
{
    double far = 0, most = 0;

    for (int64_t e = 0; e < want->n; e++) {
        far = fmax(far, fabs(got->grad[e] - want->grad[e]));
        most = fmax(most, fabs(want->grad[e]));
    }
    return most > 0 && far <= 1e-13 * most && fabs(got->loss - want->loss) <= 1e-13 * want->loss;
}

/* The first row is the run of one rank that the others are compared with. */
static void check_staying(const struct model_row *rows, size_t n)
{
    struct job one[RANKS_MAX] = {0};

    run_models(&rows[0], one);
    for (size_t i = 1; i < n; i++) {
        struct job j[RANKS_MAX] = {0};

        run_models(&rows[i], j);
        for (int k = 0; k < rows[i].W; k++) {
            CHECK_INT(j[k].failed, 0);
            CHECK_INT(j[k].drained, 0);
            CHECK(k == 1 ? j[k].loss == 0 : near(&j[k], &one[0]));
            free(j[k].grad);
        }
    }
    free(one[0].grad);
}

/* ---- finite differences through experts of other ranks ---- */

enum { ENTRIES = 256 };

struct slopes {
    struct tiny tiny;
    int failed, n;
    double grad[ENTRIES], slope[ENTRIES]; /* of this rank's own loss */
};

/* The loss of this rank's micro-batch; every rank calls it. */
static double loss_of(struct tr_model *m, const struct tr_micro *mb)
{
    struct fr_err err = {0};
    double sum = NAN;

    if (tr_model_forward_backward(m, mb, &err) != FR_OK ||
        tr_model_take_loss(m, &sum, &err) != FR_OK)
        printf("%s\n", err.msg);
    return sum * mb->loss_scale;
}

/* Adapters are the same on all ranks, and so is what is moved of them. */
static void find_slopes(struct slopes *s, struct tr_model *m, const struct tr_micro *mb)
{
    const double eps = 1e-5;
    struct tr_params p;
    double *w, *g;

    tr_model_params(m, &p);
    w = p.work.p;
    g = p.grad.p;
    memset(g, 0, tr_view_bytes(p.grad));
    (void)loss_of(m, mb);
    for (size_t k = 0; k < p.n; k++) {
        const struct tr_adapter *a = &p.adapters[k];
        int64_t n = a->b_at + a->r * a->out - a->a_at;

        for (int64_t i = a->a_at; i < a->a_at + n && s->n < ENTRIES; i += 1 + n / 9)
            s->grad[s->n++] = g[i];
    }
    s->n = 0;
    for (size_t k = 0; k < p.n; k++) {
        const struct tr_adapter *a = &p.adapters[k];
        int64_t n = a->b_at + a->r * a->out - a->a_at;

        for (int64_t i = a->a_at; i < a->a_at + n && s->n < ENTRIES; i += 1 + n / 9) {
            double keep = w[i], hi;

            w[i] = keep + eps;
            hi = loss_of(m, mb);
            w[i] = keep - eps;
            s->slope[s->n++] = (hi - loss_of(m, mb)) / (2 * eps);
            w[i] = keep;
        }
    }
}

static void slopes_body(struct rank_self *self, void *arg)
{
    struct slopes *s = arg;
    struct tr_backend *be = NULL;
    struct tr_comm comm;
    struct tiny_model t = {0};
    struct fr_err err = {0};
    struct tr_micro mb;

    s->failed += tr_ref_create(&be, &err) != FR_OK;
    comm = ranks_comm(self, be);
    if (tiny_make(&t, &s->tiny, &comm, TR_F64, &err) != FR_OK) {
        printf("rank %d: %s\n", self->rank, err.msg);
        s->failed++;
        return;
    }
    for (int i = 0; i < TINY_T; i++) /* tokens of its own */
        t.ids[i] = (t.ids[i] + 5 * self->rank) % (int32_t)t.config.vocab_size;
    mb = tiny_micro(&t);
    (void)loss_of(t.model, &mb);
    tiny_keep_routing(&t, &mb);
    find_slopes(s, t.model, &mb);
    tiny_finish(&t);
    tr_backend_destroy(be);
}

static void check_slopes(void)
{
    static const struct tiny rows[] = {
        {.partition = true, .experts = 2, .lora = TARGETS},
        {.experts = 2, .exchange_rows = 1, .rest_in_node = true, .node = {0, 1}, .lora = TARGETS},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        static struct slopes s[2];
        void *args[] = {&s[0], &s[1]};
        double worst = 0;

        check_row(i == 0 ? "finite differences, X=2" : "finite differences, X=2 over two nodes");
        s[0] = s[1] = (struct slopes){.tiny = rows[i]};
        ranks_run_on(2, rows[i].node, 0, slopes_body, args);
        CHECK_INT(s[0].failed + s[1].failed, 0);
        CHECK(s[0].n > 40 && s[0].n == s[1].n);
        for (int e = 0; e < s[0].n; e++) {
            double got = s[0].grad[e] + s[1].grad[e], want = s[0].slope[e] + s[1].slope[e];

            worst = fmax(worst, fabs(got - want) / (fabs(got) + fabs(want) + 1e-3));
        }
        if (!(worst < 1e-6))
            printf("worst relative difference %.3g\n", worst);
        CHECK(worst < 1e-6);
    }
}

int main(void)
{
    check_models();
    check_staying(staying, sizeof(staying) / sizeof(*staying));
    check_staying(crowded, sizeof(crowded) / sizeof(*crowded));
    check_slopes();
    return check_done();
}
