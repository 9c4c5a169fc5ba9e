/*
 * Packed forms of frozen weights on the CPU: products read them and give the same bits, the memory
 * table counts them, and weights that are gathered for use have none. Skipped where the processor's
 * products read weights as they lie.
 */
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "tests/unit/trainer/model/tiny_model.h"

enum { ALL = 1 << 30, MICRO = 2 };

struct job {
    struct tiny tiny;
    bool wrong; /* packed forms are of weights that are zero */
    double loss;
    float *grad;
    size_t elements, row, total; /* bytes of the table's row, of the table */
    int failed;
};

/* Packed forms of zeros: who reads them computes something else. */
static struct tr_backend *real;

static enum fr_rc pack_zeros(void *self, struct tr_queue *q, const struct tr_view *w, void *packed)
{
    (void)self;
    (void)q;
    memset(packed, 0, tr_prepack_bytes(real, *w));
    return FR_OK;
}

static void look_at_table(struct job *j, struct tr_model *m)
{
    struct tr_memory_row rows[TR_MEMORY_ROWS];
    size_t n = tr_model_memory(m, rows);

    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].name, "packed weights") == 0)
            j->row = rows[i].bytes;
    j->total = rows[n - 1].bytes;
}

static void body(struct rank_self *self, void *arg)
{
    struct job *j = arg;
    struct tr_backend_ops ops = *real->ops;
    struct tr_backend be = *real;
    struct tiny_model t = {0};
    struct fr_err err = {0};
    struct tr_params p;
    struct tr_micro mb;
    struct tr_comm comm = ranks_comm(self, &be);

    be.ops = &ops;
    if (j->wrong)
        ops.prepack = pack_zeros;
    if (tiny_make(&t, &j->tiny, &comm, TR_BF16, &err) != FR_OK) {
        printf("rank %d: %s\n", self->rank, err.msg);
        j->failed++;
        return;
    }
    look_at_table(j, t.model);
    mb = tiny_micro(&t);
    for (int i = 0; i < MICRO; i++)
        j->failed += tr_model_forward_backward(t.model, &mb, &err) != FR_OK;
    j->failed += tr_model_take_loss(t.model, &j->loss, &err) != FR_OK;
    tr_model_params(t.model, &p);
    j->elements = (size_t)p.padded;
    j->grad = malloc(j->elements * sizeof(float));
    memcpy(j->grad, p.grad.p, j->elements * sizeof(float));
    tiny_finish(&t);
}

static void run(int W, const struct tiny *tiny, bool wrong, struct job *j)
{
    void *args[RANKS_MAX];

    for (int k = 0; k < W; k++) {
        j[k] = (struct job){.tiny = *tiny, .wrong = wrong};
        args[k] = &j[k];
    }
    ranks_run(W, body, args);
    for (int k = 0; k < W; k++)
        CHECK_INT(j[k].failed, 0);
}

static bool same(const struct job *a, const struct job *b)
{
    return a->elements == b->elements && a->loss == b->loss &&
           memcmp(a->grad, b->grad, a->elements * sizeof(float)) == 0;
}

#define TARGETS                                                                                    \
    {                                                                                              \
        "q_a_proj", "kv_b_proj", "layers.0.mlp.down_proj", "shared_experts.up_proj"                \
    }

/* packed: some of the weights of this rank have a packed form. */
static const struct {
    const char *name;
    int W;
    bool packed;
    struct tiny tiny;
} rows[] = {
    {"whole", 1, true, {.lora = TARGETS}},
    {"whole, grouped heads", 1, true, {.kv_heads = 2, .bias = true, .lora = {"q_proj", "o_proj"}}},
    {"whole, packed forms alone", 1, true, {.wide = true, .lora = TARGETS}},
    {"stage 2", 2, true, {.lora = TARGETS}},
    {"sharded", 2, false, {.partition = true, .lora = TARGETS}},
    {"sharded, experts stay", 2, true, {.partition = true, .experts = 2, .lora = TARGETS}},
};

static void free_jobs(struct job *j, int W)
{
    for (int k = 0; k < W; k++)
        free(j[k].grad);
}

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct job plain[RANKS_MAX], packed[RANKS_MAX], zeros[RANKS_MAX];
        struct tiny tiny = rows[i].tiny;
        int W = rows[i].W;

        check_row(rows[i].name);
        run(W, &tiny, false, plain);
        tiny.prepack = ALL;
        run(W, &tiny, false, packed);
        run(W, &tiny, true, zeros);
        for (int k = 0; k < W; k++) {
            CHECK(same(&plain[k], &packed[k]));
            CHECK_INT(same(&plain[k], &zeros[k]), !rows[i].packed);
            CHECK_INT(packed[k].row > 0, rows[i].packed);
            CHECK_INT(packed[k].total - plain[k].total, packed[k].row);
            CHECK_INT(plain[k].row, 0);
        }
        free_jobs(plain, W);
        free_jobs(packed, W);
        free_jobs(zeros, W);
    }
}

/* As many units as the bytes allow. */
static void test_part(void)
{
    struct tiny tiny = {.prepack = ALL, .lora = TARGETS};
    struct job all, part;

    check_row("part");
    run(1, &tiny, false, &all);
    tiny.prepack = all.row / 2;
    run(1, &tiny, false, &part);
    CHECK(part.row > 0 && part.row <= all.row / 2);
    CHECK(same(&all, &part));
    free(all.grad);
    free(part.grad);
}

int main(void)
{
    struct fr_err err = {0};
    bool packs;

    if (!CHECK_INT(tr_cpu_create(&real, &err), FR_OK))
        return check_done();
    packs = tr_prepack_bytes(real, tr_view2(NULL, TR_BF16, 64, 64)) > 0;
    if (packs) {
        test_rows();
        test_part();
    }
    tr_backend_destroy(real);
    return packs ? check_done() : 77;
}
