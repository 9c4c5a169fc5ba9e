/*
 * The speeds of known GPUs, and how others are measured (trainer/plan/rate.c): on a backend that
 * computes nothing and whose clock moves by what each op is said to take: the shapes that a job
 * has, what of their times counts, memory, failures.
 */
#include "tests/unit/check.h"
#include "tests/unit/trainer/model/tiny_model.h"
#include "trainer/backend/cost.h"
#include "trainer/plan/plan.h"

#include "engine/base/sys.h"

enum { H = 12, V = 23, L = 3, MOE = 2, E = 8, K = 3, F = 6, R = 2, PARTS_MAX = 6 };
enum {
    ATTENTION = H * 6 + 6 * 2 * 8 + H * 9 + 5 * 2 * 7 + 2 * 3 * H,
    EXPERT = 3 * H * F,
    ADAPTERS = L * 2 * (H + 6) + L * 2 * (6 + H),
};

/* Seconds: of a product's operations, of a call, of a call that goes back, of bytes and draws. */
#define PER_FLOP 1e-9
#define PER_CALL 1e-4
#define PER_BACK 3e-4
#define PER_BYTE 2e-7
#define PER_DRAW 3e-6

/* ---- a table of known GPUs ---- */

static void test_gpus(void)
{
    static const struct {
        const char *name;
        double flops, memory, stream, link, swap, host;
    } known[] = {{"a100-40g", 271e12, 42.3e9, 1.45e12, 230e9, 200e9, 12.5e9},
                 {"A100-80G", 271e12, 85.9e9, 2.00e12, 230e9, 200e9, 12.5e9},
                 {"h100-80g", 794e12, 85.5e9, 3.35e12, 360e9, 224e9, 55e9},
                 {"H200-141g", 794e12, 150e9, 4.80e12, 360e9, 224e9, 55e9},
                 {"cpu", 0, 0, 10e9, 4e9, 4e9, 10e9}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct tr_gpu *g = tr_gpu_find(known[i].name);

        check_row(known[i].name);
        if (!CHECK(g != NULL))
            continue;
        CHECK(g->flops == known[i].flops && g->stream == known[i].stream);
        CHECK(g->memory == known[i].memory && g->rows == 0 && g->draws == 0); /* measured alone */
        CHECK(g->link == known[i].link && g->swap == known[i].swap && g->host == known[i].host);
        CHECK(strstr(tr_gpu_names(), g->name) != NULL);
        CHECK_INT(tr_gpu_is_cpu(g), i == 4);
    }
    CHECK(tr_gpu_find("a100") == NULL && tr_gpu_find("") == NULL);
}

/* ---- what ops must do ---- */

/* A view of the argument; nothing reads its memory. */
static struct tr_view at(enum tr_dtype t, int64_t rows, int64_t row)
{
    static double memory;

    return tr_view2(&memory, t, rows, row);
}

static struct tr_view list(enum tr_dtype t, int64_t n)
{
    return tr_view1(at(t, 1, 1).p, t, n);
}

static struct tr_view heads(int64_t n)
{
    return tr_view_of(at(TR_BF16, 1, 1).p, TR_BF16, 3, (int64_t[]){6, n, 2});
}

/* Of 6 rows of 4 bf16 (48 bytes): "+=" moves twice what "=" does, an index picks rows, a window of
 * experts takes its share, small views do not count. */
static void test_costs(void)
{
    const struct tr_view x = at(TR_BF16, 6, 4), sum = at(TR_F32, 6, 4), ids = list(TR_I32, 6);
    const struct tr_rows half = {.offsets = list(TR_I32, 5), .first = 1, .last = 3};
    const struct tr_weight w = {.w = at(TR_F8_E4M3, 5, 4), .scale = at(TR_F32, 1, 1)};
    const struct tr_weight *const weights[] = {&w, &w, NULL, &w};
    const struct tr_embed embed = {.y = x, .table = at(TR_BF16, 900, 4), .ids = ids};
    const struct tr_gemm gemm = {.c = at(TR_BF16, 6, 5), .a = x, .b = w, .trans_b = true};
    const struct tr_gemm gemm_add = {
        .c = at(TR_F32, 6, 5), .a = x, .b = w, .bias = list(TR_F32, 5), .trans_b = true, .beta = 1};
    const struct tr_swiglu swiglu = {.h = x, .g = x, .u = x, .rows = half};
    const struct tr_grouped_gemm grouped = {.c = at(TR_BF16, 6, 5),
                                            .a = x,
                                            .weights = weights,
                                            .offsets = half.offsets,
                                            .e0 = 1,
                                            .e1 = 3,
                                            .trans_b = true};
    const struct tr_reduce reduce = {.out = list(TR_F32, 4), .slices = sum, .add = true};
    const struct tr_attention attention = {.O = heads(2),
                                           .lse = at(TR_F32, 2, 6),
                                           .Q = heads(2),
                                           .K = heads(1),
                                           .V = heads(1),
                                           .offsets = half.offsets,
                                           .max_len = 3,
                                           .causal = true};
    const struct tr_put_rows put = {.y = at(TR_BF16, 70, 4), .x = x, .index = ids};
    const struct {
        const char *name;
        enum tr_op op;
        const void *args;
        struct tr_cost want;
    } rows[] = {
        {"embed_fwd", TR_OP_embed_fwd, &embed, {0, 96, {6, 4}, 0}},
        {"gemm", TR_OP_gemm, &gemm, {240, 48 + 60 + 24, {6, 4, 5}, 0}},
        {"gemm with beta", TR_OP_gemm, &gemm_add, {240, 48 + 240 + 24, {6, 4, 5}, 0}},
        {"swiglu_fwd", TR_OP_swiglu_fwd, &swiglu, {0, 72, {6, 4}, 0}},
        {"grouped_gemm", TR_OP_grouped_gemm, &grouped, {120, 54 + 24, {6, 4, 5}, 4}},
        {"reduce_ordered", TR_OP_reduce_ordered, &reduce, {0, 96 + 32, {4, 1}, 0}},
        {"attention_fwd", TR_OP_attention_fwd, &attention, {144, 192, {6, 3, 2}, 0}},
        {"put_rows", TR_OP_put_rows, &put, {0, 96, {6, 4}, 0}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_cost got = tr_cost_of(rows[i].op, rows[i].args);

        check_row(rows[i].name);
        CHECK(got.flop == rows[i].want.flop && got.bytes == rows[i].want.bytes);
        CHECK(memcmp(got.shape, rows[i].want.shape, sizeof(got.shape)) == 0);
        CHECK_INT(got.experts, rows[i].want.experts);
    }
    check_row("");
}

/* ---- a backend with a clock ---- */

static struct {
    double now;
    char *p; /* what it gave */
    size_t bytes, zeroed;
    int queues, calls[2 * PARTS_MAX], row_calls;
    int64_t shapes[2 * PARTS_MAX][4]; /* rows, in, out, back; in the order of their first calls */
    const char *weights[2 * PARTS_MAX];
    int n, fail; /* shapes so far; which op fails; -1: none */
    int64_t rows, width;
} fake;

static double now_s(void)
{
    return fake.now;
}

static enum fr_rc fails(enum tr_op op, struct fr_err *err)
{
    return fake.fail == (int)op ? fr_fail(err, FR_IO, "%s fails", tr_op_name(op)) : FR_OK;
}

static bool inside(struct tr_view v)
{
    const char *p = v.p;

    return p >= fake.p &&
           p + (size_t)tr_view_count(v) * tr_dtype_bytes(v.dtype) <= fake.p + fake.bytes;
}

static bool apart(struct tr_view a, struct tr_view b)
{
    const char *p = a.p, *q = b.p;

    return p + (size_t)tr_view_count(a) * tr_dtype_bytes(a.dtype) <= q ||
           q + (size_t)tr_view_count(b) * tr_dtype_bytes(b.dtype) <= p;
}

/* The first call of a shape is the only fast one; of the others every second takes 3 times as long.
 */
static double times(int call)
{
    return call == 0 ? 0.01 : call % 2 == 1 ? 3 : 1;
}

static enum fr_rc fake_gemm(void *self, struct tr_queue *q, const struct tr_gemm *g,
                            struct fr_err *err)
{
    int64_t shape[4] = {g->a.shape[0], g->b.w.shape[1], g->b.w.shape[0], !g->trans_b};
    double flops = 2.0 * (double)shape[0] * (double)shape[1] * (double)shape[2];
    int i = 0;

    (void)self;
    (void)q;
    while (i < fake.n && memcmp(fake.shapes[i], shape, sizeof(shape)) != 0)
        i++;
    if (!CHECK(i < 2 * PARTS_MAX))
        return FR_OK;
    fake.n = i == fake.n ? i + 1 : fake.n;
    memcpy(fake.shapes[i], shape, sizeof(shape));
    CHECK(inside(g->a) && inside(g->b.w) && inside(g->c) && g->alpha == 1 && g->beta == 0);
    CHECK(apart(g->a, g->b.w) && apart(g->a, g->c) && apart(g->b.w, g->c));
    if (fake.calls[i] != 1 && shape[1] * shape[2] < 1 << 20)
        CHECK(g->b.w.p != fake.weights[i]); /* not in a cache yet */
    fake.weights[i] = g->b.w.p;
    fake.now += (flops * PER_FLOP + (shape[3] ? PER_BACK : PER_CALL)) * times(fake.calls[i]++);
    return fails(TR_OP_gemm, err);
}

/* Rows that all ops have. */
static void see(struct tr_view v)
{
    CHECK(inside(v) && v.shape[0] == fake.rows && v.shape[1] == fake.width);
}

/* All views of an op, none of which lies on another. */
static void see_all(const struct tr_view *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        see(all[i]);
        for (size_t k = 0; k < i; k++)
            CHECK(apart(all[i], all[k]));
    }
}

static enum fr_rc fake_rmsnorm(void *self, struct tr_queue *q, const struct tr_rmsnorm_grad *a,
                               struct fr_err *err)
{
    const struct tr_view all[] = {a->dx, a->dres, a->dy, a->x};

    (void)self;
    (void)q;
    see_all(all, 4);
    CHECK(inside(a->rrms) && inside(a->gain) && apart(a->rrms, a->gain));
    for (int i = 0; i < 4; i++)
        CHECK(apart(all[i], a->rrms) && apart(all[i], a->gain));
    fake.now += tr_cost_of(TR_OP_rmsnorm_bwd, a).bytes * PER_BYTE * times(fake.row_calls);
    return fails(TR_OP_rmsnorm_bwd, err);
}

static enum fr_rc fake_swiglu(void *self, struct tr_queue *q, const struct tr_swiglu_grad *a,
                              struct fr_err *err)
{
    const struct tr_view all[] = {a->dg, a->du, a->dh, a->g, a->u};

    (void)self;
    (void)q;
    see_all(all, 5);
    fake.now += tr_cost_of(TR_OP_swiglu_bwd, a).bytes * PER_BYTE * times(fake.row_calls);
    return fails(TR_OP_swiglu_bwd, err);
}

static enum fr_rc fake_dropout(void *self, struct tr_queue *q, const struct tr_dropout *a,
                               struct fr_err *err)
{
    (void)self;
    (void)q;
    see(a->x);
    CHECK(inside(a->place) && apart(a->place, a->x) && a->p > 0);
    fake.now += (double)tr_view_count(a->x) * PER_DRAW * times(fake.row_calls++);
    return fails(TR_OP_dropout, err);
}

static enum fr_rc fake_alloc(void *self, enum tr_mem kind, size_t bytes, void **out,
                             struct fr_err *err)
{
    (void)self;
    CHECK(kind == TR_MEM_DEVICE && fake.p == NULL);
    if (fake.fail == TR_OP_fill)
        return fr_fail(err, FR_NOMEM, "%zu bytes", bytes);
    fake.bytes = bytes;
    *out = fake.p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return FR_OK;
}

static void fake_free(void *self, enum tr_mem kind, void *p)
{
    (void)self;
    CHECK(kind == TR_MEM_DEVICE && p == fake.p);
    free(fake.p);
    fake.p = NULL;
}

static enum fr_rc fake_zero(void *self, struct tr_queue *q, void *p, size_t bytes)
{
    (void)self;
    (void)q;
    CHECK(p == fake.p);
    fake.zeroed = bytes;
    return FR_OK;
}

static enum fr_rc fake_queue(void *self, size_t workspace, struct tr_queue **out,
                             struct fr_err *err)
{
    (void)self;
    (void)workspace;
    (void)err;
    *out = (struct tr_queue *)&fake;
    fake.queues++;
    return FR_OK;
}

static void fake_queue_destroy(void *self, struct tr_queue *q)
{
    (void)self;
    fake.queues -= q != NULL;
}

static enum fr_rc fake_sync(void *self, struct tr_queue *q, struct fr_err *err)
{
    (void)self;
    (void)q;
    return fails(TR_OP_COUNT, err);
}

static const struct tr_memory_ops memory_ops = {.alloc = fake_alloc, .free = fake_free};
static const struct tr_queue_ops queue_ops = {
    .create = fake_queue, .destroy = fake_queue_destroy, .zero = fake_zero, .sync = fake_sync};
static const struct tr_backend_ops ops = {.name = "fake",
                                          .computes = 1 << TR_BF16,
                                          .gemm = fake_gemm,
                                          .rmsnorm_bwd = fake_rmsnorm,
                                          .swiglu_bwd = fake_swiglu,
                                          .dropout = fake_dropout};

/* ---- measuring ---- */

static const char *const targets[] = {"q_a_proj", "o_proj"};
static struct tr_lora_config lora = {.r = R, .alpha = 3, .targets = targets, .ntargets = 2};
static struct tr_backend be = {.memory = &memory_ops, .queues = &queue_ops, .ops = &ops};

static enum fr_rc measure(const struct tr_plan_job *job, double seconds, struct tr_gpu *out,
                          struct fr_err *err)
{
    int fail = fake.fail;
    int64_t T = job->batch * job->cutoff;

    memset(&fake, 0, sizeof(fake));
    fake.fail = fail;
    fake.rows = T < 1024 ? T : 1024;
    fake.width = job->config->hidden_size;
    return tr_plan_rate(job, &(struct tr_plan_bench){&be, now_s, seconds}, out, err);
}

static bool near(double got, double want)
{
    if (fabs(got - want) <= 1e-9 * fabs(want))
        return true;
    printf("   got %.12g, want %.12g\n", got, want);
    return false;
}

struct part {
    int64_t rows, out;
    double share;
};

/* Operations a second where a product takes so many times what it takes at best. */
static double rate(const struct part *parts, double slow)
{
    double all = 0, seconds = 0;

    for (int i = 0; i < PARTS_MAX; i++) {
        double flops = 2.0 * (double)(parts[i].rows * H * parts[i].out);

        if (parts[i].share == 0)
            continue;
        all += parts[i].share;
        seconds += parts[i].share / (3 * flops) * (3 * flops * PER_FLOP + 2 * PER_CALL + PER_BACK);
    }
    return all / (seconds * slow);
}

#define BASE                                                                                       \
    {                                                                                              \
        20, ATTENTION / H, 6.0 * L *ATTENTION                                                      \
    }
#define NARROW                                                                                     \
    {                                                                                              \
        20, R, 8.0 * ADAPTERS                                                                      \
    }

static const struct row {
    const char *name;
    int64_t cutoff, vocabulary;
    int dense;     /* layers without experts */
    int experts;   /* asked ranks of a group; -1: nothing is asked */
    double target; /* share of tokens with a target */
    struct part parts[PARTS_MAX];
} rows[] = {
    {"experts",
     10,
     V,
     1,
     -1,
     0,
     {BASE,
      {20, 10, 6.0 * 3 * H * 10},
      {20, V, 4.0 * V *H},
      NARROW,
      {20, F, 6.0 * MOE *EXPERT},
      {20 * K / E + 1, F, 6.0 * MOE *K *EXPERT}}},
    {"experts that do not stay",
     10,
     V,
     1,
     0,
     0,
     {BASE,
      {20, 10, 6.0 * 3 * H * 10},
      {20, V, 4.0 * V *H},
      NARROW,
      {20, F, 6.0 * MOE *EXPERT},
      {20 * K / E + 1, F, 6.0 * MOE *K *EXPERT}}},
    {"of four ranks",
     10,
     V,
     1,
     4,
     0.25,
     {BASE,
      {20, 10, 6.0 * 3 * H * 10},
      {20, V, 1.0 * V *H},
      NARROW,
      {20, F, 6.0 * MOE *EXPERT},
      {20 * K * 4 / E + 1, F, 6.0 * MOE *K *EXPERT}}},
    {"no layer without experts",
     10,
     V,
     0,
     -1,
     0,
     {BASE,
      {20, V, 4.0 * V *H},
      NARROW,
      {20, F, 6.0 * 3 * EXPERT},
      {20 * K / E + 1, F, 6.0 * 3 * K *EXPERT}}},
    {"no experts",
     10,
     V,
     3,
     -1,
     0,
     {BASE, {20, 10, 6.0 * 3 * 3 * H * 10}, {20, V, 4.0 * V *H}, NARROW}},
    {"many rows, a wide head",
     1000,
     10000,
     3,
     -1,
     0,
     {{1024, ATTENTION / H, 6.0 * L *ATTENTION},
      {1024, 10, 6.0 * 3 * 3 * H * 10},
      {1024, 4096, 4.0 * 10000 * H},
      {1024, R, 8.0 * ADAPTERS}}},
};

static void check_shapes(const struct row *r)
{
    int n = 0;

    for (int i = 0; i < PARTS_MAX; i++)
        for (int64_t back = 0; r->parts[i].share > 0 && back < 2; back++, n++) {
            int64_t want[] = {r->parts[i].rows, H, r->parts[i].out, back};

            CHECK(memcmp(fake.shapes[n], want, sizeof(want)) == 0);
            CHECK_INT(fake.calls[n], fake.row_calls);
        }
    CHECK_INT(fake.n, n);
}

static void test_rates(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];
        struct tr_model_config c = tiny_config(&(struct tiny){.yarn = false});
        struct tr_plan_way way = {.experts = r->experts};
        struct tr_plan_job job = {.config = &c,
                                  .lora = &lora,
                                  .compute = TR_BF16,
                                  .batch = 2,
                                  .cutoff = r->cutoff,
                                  .supervised = r->target,
                                  .asked = r->experts < 0 ? NULL : &way};
        struct tr_gpu got = {0};
        struct fr_err err = {0};

        check_row(r->name);
        c.vocab_size = r->vocabulary;
        c.first_k_dense_replace = r->dense;
        CHECK_INT(measure(&job, 0, &got, &err), FR_OK);
        check_shapes(r);
        CHECK(near(got.flops, rate(r->parts, 1)));
        CHECK(near(got.rows, 1 / PER_BYTE) && near(got.draws, 1 / PER_DRAW));
        CHECK(fake.row_calls >= 3 && fake.now >= 0.25);
        CHECK(fake.zeroed == fake.bytes && fake.p == NULL && fake.queues == 0);
        /* others are at it: the mean of what both rounds took, the first one aside */
        CHECK_INT(measure(&job, 1e-6, &got, &err), FR_OK);
        CHECK_INT(fake.row_calls, 3);
        CHECK(near(got.flops, rate(r->parts, 2)));
        CHECK(near(got.rows, 0.5 / PER_BYTE) && near(got.draws, 0.5 / PER_DRAW));
        /* rounds go on until it is long enough */
        CHECK_INT(measure(&job, 3, &got, &err), FR_OK);
        CHECK(fake.now >= 3 && fake.row_calls > 3);
        CHECK(fake.now < 4);
    }
}

static void test_failures(void)
{
    static const struct {
        enum tr_op op;
        const char *message;
    } bad[] = {{TR_OP_gemm, "gemm fails"},
               {TR_OP_rmsnorm_bwd, "rmsnorm_bwd fails"},
               {TR_OP_swiglu_bwd, "swiglu_bwd fails"},
               {TR_OP_dropout, "dropout fails"},
               {TR_OP_COUNT, "? fails"}, /* tr_sync */
               {TR_OP_fill, " bytes"}};  /* memory */

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tr_model_config c = tiny_config(&(struct tiny){.yarn = false});
        struct tr_plan_job job = {
            .config = &c, .lora = &lora, .compute = TR_BF16, .batch = 2, .cutoff = 10};
        struct tr_gpu got = {.flops = 1, .rows = 1, .draws = 1};
        struct fr_err err = {0};

        check_row(bad[i].message);
        fake.fail = (int)bad[i].op;
        CHECK_INT(measure(&job, 0, &got, &err), bad[i].op == TR_OP_fill ? FR_NOMEM : FR_IO);
        CHECK(strstr(err.msg, bad[i].message) != NULL);
        CHECK(got.flops == 0 && got.rows == 0 && got.draws == 0);
        CHECK(fake.p == NULL && fake.queues == 0);
        CHECK(fake.row_calls <= 1 && fake.n <= 1);
    }
}

/* A weight that is larger than all caches has its place, once. */
static void test_large(void)
{
    struct tr_model_config c = tiny_config(&(struct tiny){.kv_heads = 2});
    struct tr_plan_job job = {
        .config = &c, .lora = &lora, .compute = TR_BF16, .batch = 2, .cutoff = 10};
    struct tr_gpu got = {0};
    struct fr_err err = {0};

    check_row("a large head");
    c.hidden_size = 16384;
    c.vocab_size = 4096;
    CHECK_INT(measure(&job, 0, &got, &err), FR_OK);
    CHECK(fake.bytes > (size_t)c.hidden_size * 4096 * 2);
}

static void *no_memory(size_t n)
{
    (void)n;
    return NULL;
}

static void test_no_memory(void)
{
    struct tr_model_config c = tiny_config(&(struct tiny){.kv_heads = 2});
    struct tr_plan_job job = {
        .config = &c, .lora = &lora, .compute = TR_BF16, .batch = 2, .cutoff = 10};
    struct tr_gpu got = {.flops = 1, .rows = 1, .draws = 1};
    struct fr_err err = {0};

    check_row("no memory for the backend");
    fr_sys.alloc = no_memory;
    CHECK_INT(tr_plan_cpu_rate(&job, 0, &got, &err), FR_NOMEM);
    fr_sys = fr_sys_real;
    CHECK(got.flops == 0 && got.rows == 0 && got.draws == 0 && err.msg[0] != '\0');
}

/* The processors themselves: something, of each kind. */
static void test_cpu(void)
{
    struct tr_model_config c = tiny_config(&(struct tiny){.kv_heads = 2});
    struct tr_lora_config o = {.r = R, .targets = targets + 1, .ntargets = 1};
    struct tr_plan_job job = {
        .config = &c, .lora = &o, .compute = TR_BF16, .batch = 2, .cutoff = 10};
    struct tr_gpu got = {0};
    struct fr_err err = {0};

    check_row("the processors");
    CHECK_INT(tr_plan_cpu_rate(&job, 1e-6, &got, &err), FR_OK);
    CHECK(got.flops > 0 && isfinite(got.flops) && got.rows > 0 && got.draws > 0);
}

int main(void)
{
    test_gpus();
    test_costs();
    test_cpu();
    fake.fail = -1;
    test_rates();
    test_failures();
    fake.fail = -1;
    test_large();
    test_no_memory();
    return check_done();
}
