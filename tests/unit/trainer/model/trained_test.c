/*
 * Gradients of trained weights: against central finite differences, in double precision on the
 * reference backend, over every tensor of small models; and the bits of their sums.
 */
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
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
    {"tied head", {.kv_heads = 2, .tied = true, .trained = true}},
    {"tied head in chunks", {.kv_heads = 2, .tied = true, .head_rows = 6, .trained = true}},
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

/* ---- layouts ---- */

/*
 * A step of 12 micro-batches on W ranks: micro-batch a*W + r is rank r's. Sums have the same bits
 * for every W and stage, and after an update every rank's next loss has the same bits. Each rank
 * writes its ranges into arrays of whole tensors.
 */
enum { MICROS = 12, TENSORS = 256 };

struct whole {
    const char *name[TENSORS];
    double *sum[TENSORS];
    int64_t count[TENSORS], filled[TENSORS];
    int n;
    pthread_mutex_t lock;
};

struct job {
    struct tiny tiny;
    struct whole *whole;
    int failed;
    double before, after; /* losses */
};

static void put_range(struct whole *w, const struct tr_grads_range *r, const double *sums)
{
    int64_t count = r->shape[0] * (r->rank == 2 ? r->shape[1] : 1);
    int i = 0;

    pthread_mutex_lock(&w->lock);
    while (i < w->n && strcmp(w->name[i], r->name) != 0)
        i++;
    if (i == w->n) {
        w->name[w->n++] = strdup(r->name);
        w->sum[i] = calloc((size_t)count, sizeof(double));
        w->count[i] = count;
    }
    memcpy(w->sum[i] + r->first, sums + r->at, (size_t)r->n * sizeof(double));
    w->filled[i] += r->n;
    pthread_mutex_unlock(&w->lock);
}

static void free_whole(struct whole *w)
{
    for (int i = 0; i < w->n; i++) {
        free((void *)(uintptr_t)w->name[i]);
        free(w->sum[i]);
    }
    w->n = 0;
}

/* Micro-batch j: other ids, in part fewer tokens or none. */
static struct tr_micro micro_of(const struct tiny_model *t, int j, int32_t *ids)
{
    struct tr_micro mb = tiny_micro(t);

    for (int i = 0; i < TINY_T; i++)
        ids[i] = (t->ids[i] * (1 + j) + j) % 23;
    mb.ids = ids;
    if (j % 5 == 3)
        mb.T = mb.offsets[mb.B = 1];
    if (j == 7)
        mb.T = mb.B = 0;
    return mb;
}

static void step_body(struct rank_self *self, void *arg)
{
    struct job *j = arg;
    struct tr_backend *be = NULL;
    struct tr_comm comm;
    struct tiny_model t = {0};
    struct fr_err err = {0};
    const struct tr_grads_range *r;
    int32_t ids[TINY_T];
    struct tr_micro mb;
    struct tr_grads *g;
    double *sums;
    size_t n;

    j->failed += tr_ref_create(&be, &err) != FR_OK;
    comm = ranks_comm(self, be);
    if (tiny_make(&t, &j->tiny, &comm, TR_F64, &err) != FR_OK) {
        printf("rank %d: %s\n", self->rank, err.msg);
        j->failed++;
        return;
    }
    g = tr_model_grads(t.model);
    tr_grads_reset(g);
    for (int k = self->rank; k < MICROS; k += comm.size) {
        mb = micro_of(&t, k, ids);
        if (tr_model_forward_backward(t.model, &mb, &err) != FR_OK) {
            printf("rank %d: %s\n", self->rank, err.msg);
            j->failed++;
        }
    }
    j->failed += tr_model_take_loss(t.model, &j->before, &err) != FR_OK;
    sums = tr_grads_sums(g).p;
    r = tr_grads_ranges(g, &n);
    for (size_t i = 0; i < n; i++) {
        put_range(j->whole, &r[i], sums);
        for (int64_t e = 0; e < r[i].n; e++)
            ((double *)r[i].weight.p)[e] -= 0.1 * sums[r[i].at + e];
    }
    j->failed += tr_grads_updated(g, tr_model_queue(t.model), &err) != FR_OK;
    mb = tiny_micro(&t);
    j->failed += tr_model_forward_backward(t.model, &mb, &err) != FR_OK;
    j->failed += tr_model_take_loss(t.model, &j->after, &err) != FR_OK;
    tiny_finish(&t);
    tr_backend_destroy(be);
}

struct layout {
    const char *name;
    int W;
    bool partition;
    int64_t max_live;
    int64_t prefetch;
};

static const struct layout layouts[] = {
    {"W=1", 1, false, 0, 0},
    {"W=2, stage 2", 2, false, 0, 0},
    {"W=2, stage 3", 2, true, 0, 0},
    {"W=3, stage 2", 3, false, 0, 0},
    {"W=3, stage 3, one unit at once", 3, true, 1, 0},
    {"W=4, stage 3, prefetch", 4, true, 0, 100000},
    {"W=6, stage 3", 6, true, 2000, 400},
    {"W=6, stage 2", 6, false, 0, 0},
};

/* A tied embedding's sum has parts of the head and of the embedding, in another order: some last
 * bits differ. */
static bool same(const struct whole *a, int i, const struct whole *b, int k, bool tied)
{
    double far = 0, most = 0;

    if (!tied || strstr(a->name[i], "embed") == NULL)
        return memcmp(a->sum[i], b->sum[k], (size_t)a->count[i] * sizeof(double)) == 0;
    for (int64_t e = 0; e < a->count[i]; e++) {
        far = fmax(far, fabs(a->sum[i][e] - b->sum[k][e]));
        most = fmax(most, fabs(b->sum[k][e]));
    }
    return most > 0 && far <= 24 * 0x1p-52 * most;
}

static void check_bits(const struct whole *one, const struct whole *w, bool tied)
{
    CHECK_INT(w->n, one->n);
    for (int i = 0; i < w->n; i++)
        for (int k = 0; k < one->n; k++)
            if (strcmp(w->name[i], one->name[k]) == 0) {
                CHECK_INT(w->filled[i], w->count[i]);
                CHECK(same(w, i, one, k, tied));
            }
}

static void check_layouts(const struct tiny *tiny)
{
    struct whole one = {.lock = PTHREAD_MUTEX_INITIALIZER};
    double after = 0;

    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        const struct layout *l = &layouts[i];
        struct whole w = {.lock = PTHREAD_MUTEX_INITIALIZER};
        struct job j[RANKS_MAX] = {0};
        void *args[RANKS_MAX];

        check_row(l->name);
        for (int k = 0; k < l->W; k++) {
            j[k].tiny = *tiny;
            j[k].tiny.partition = l->partition;
            j[k].tiny.max_live = l->max_live;
            j[k].tiny.prefetch = l->prefetch;
            j[k].whole = i == 0 ? &one : &w;
            args[k] = &j[k];
        }
        ranks_run_on(l->W, NULL, 0, step_body, args);
        after = i == 0 ? j[0].after : after;
        for (int k = 0; k < l->W; k++) {
            CHECK_INT(j[k].failed, 0);
            CHECK(after > 0 && fabs(j[k].after - after) <= (tiny->tied ? 1e-12 * after : 0));
        }
        if (i > 0)
            check_bits(&one, &w, tiny->tied);
        free_whole(&w);
    }
    free_whole(&one);
}

/* A micro-batch without tokens adds nothing, whatever the window held; on the CPU's own kernels. */
static void check_empty(const struct tiny *tiny)
{
    struct fr_err err = {0};
    struct tr_backend *be = NULL;
    struct tr_comm *comm = NULL;
    struct tiny_model t = {0};
    struct tr_view sums;
    struct tr_micro mb;
    const struct tr_grads_range *r;
    float *before;
    size_t n;

    check_row("no tokens");
    CHECK_INT(tr_cpu_create(&be, &err), FR_OK);
    CHECK_INT(tr_comm_single(be, &comm, &err), FR_OK);
    CHECK_INT(tiny_make(&t, tiny, comm, TR_F32, &err), FR_OK);
    mb = tiny_micro(&t);
    tr_grads_reset(tr_model_grads(t.model));
    (void)loss_of(t.model, &mb);
    sums = tr_grads_sums(tr_model_grads(t.model));
    before = malloc(tr_view_bytes(sums));
    memcpy(before, sums.p, tr_view_bytes(sums));
    mb.T = mb.B = 0;
    (void)loss_of(t.model, &mb);
    r = tr_grads_ranges(tr_model_grads(t.model), &n);
    for (size_t i = 0; i < n; i++)
        if (!CHECK(memcmp(before + r[i].at, (float *)sums.p + r[i].at,
                          (size_t)r[i].n * sizeof(float)) == 0))
            printf("   %s\n", r[i].name);
    free(before);
    tiny_finish(&t);
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
}

int main(void)
{
    static const struct tiny dense = {
        .kv_heads = 2, .qk_norm = true, .bias = true, .head_rows = 7, .trained = true};
    static const struct tiny experts = {.trained = true};
    static const struct tiny tied = {.kv_heads = 2, .tied = true, .head_rows = 7, .trained = true};

    struct fr_err err = {0};
    struct tr_backend *be = NULL;
    struct tr_comm *comm = NULL;

    CHECK_INT(tr_ref_create(&be, &err), FR_OK);
    CHECK_INT(tr_comm_single(be, &comm, &err), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        try_row(&rows[i], comm);
    check_layouts(&dense);
    check_layouts(&experts);
    check_layouts(&tied);
    check_empty(&dense);
    check_empty(&experts);
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
    return check_done();
}
