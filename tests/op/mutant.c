#include "tests/op/mutant.h"

#include "trainer/backend/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUTS_MAX = 64, TILE_ROWS = 32, TILE_COLS = 32 };

const char *mutation_name(enum mutation m)
{
    static const char *const names[MUTATIONS] = {"unwritten", "zeroed",  "shifted", "no tile",
                                                 "transp.",   "no bias", "no beta", "sum cut"};

    return names[m];
}

bool mutant_differs(struct tr_view a, struct tr_view b)
{
    double unit = a.dtype == TR_BF16 ? 0x1p-8 : a.dtype == TR_F16 ? 0x1p-11 : 0x1p-24;

    for (int64_t i = 0; i < tr_view_count(a); i++) {
        double x = tr_get(a, i), y = tr_get(b, i);

        if (x != y && !(isnan(x) && isnan(y)) && !(fabs(x - y) <= 8 * unit * fabs(x)))
            return true;
    }
    return false;
}

/* The base comes first, so that a backend is its mutant. */
struct mutated {
    struct tr_backend base;
    struct tr_backend_ops ops;
    struct tr_backend *inner;
    struct mutant what;
};

/* One call with a fault: its outputs, and what they held before. */
struct call {
    enum tr_op op;
    bool faulty, changed;
    struct tr_view out[OUTPUTS_MAX];
    bool adds[OUTPUTS_MAX];
    char *before[OUTPUTS_MAX];
    int n;
    struct tr_weight *weights; /* of a grouped product, cut short */
    const struct tr_weight **list;
};

static int64_t rows_of(struct tr_view v)
{
    return v.rank == 1 ? 1 : v.shape[0];
}

static int64_t cols_of(struct tr_view v)
{
    return v.rank == 1 ? v.shape[0] : tr_view_count(v) / (v.shape[0] > 0 ? v.shape[0] : 1);
}

static size_t extent(struct tr_view v)
{
    return (size_t)(v.rank == 1 ? v.shape[0] : v.ld * v.shape[0]) * tr_dtype_bytes(v.dtype);
}

/* The bytes of element i, counted through all rows, in a copy of the view's memory. */
static char *element(struct tr_view v, char *memory, int64_t i)
{
    int64_t cols = cols_of(v);

    return memory + (size_t)(i / cols * v.ld * (v.rank > 1) + i % cols) * tr_dtype_bytes(v.dtype);
}

bool mutant_possible(enum mutation m, enum tr_op op, const struct mutant_report *sound)
{
    switch (m) {
    case MUTATION_NO_BIAS:
        return op == TR_OP_gemm || op == TR_OP_router_fwd || op == TR_OP_rmsnorm_bwd ||
               op == TR_OP_moe_combine;
    case MUTATION_CUT:
        return op == TR_OP_gemm || op == TR_OP_grouped_gemm;
    case MUTATION_NO_BETA:
        return sound->adds[op];
    default:
        return true;
    }
}

/* An output of the call, with what it holds before. */
static void add_output(void *self, const struct tr_need *n)
{
    struct call *k = self;
    struct tr_view v = *n->view;

    if ((n->rule & (OUT | ADD)) == 0 || tr_view_absent(v) || tr_view_count(v) == 0 ||
        k->n == OUTPUTS_MAX)
        return;
    k->adds[k->n] = (n->rule & ADD) != 0;
    k->before[k->n] = malloc(extent(v));
    memcpy(k->before[k->n], v.p, extent(v));
    k->out[k->n++] = v;
}

static void see_adds(void *self, const struct tr_need *n)
{
    *(bool *)self |= (n->rule & ADD) != 0;
}

static void absent(struct call *k, struct tr_view *v)
{
    k->changed |= !tr_view_absent(*v);
    *v = (struct tr_view){0};
}

static void leave_terms_out(struct call *k, void *args)
{
    if (k->op == TR_OP_gemm)
        absent(k, &((struct tr_gemm *)args)->bias);
    else if (k->op == TR_OP_router_fwd && !((struct tr_router *)args)->replay)
        absent(k, &((struct tr_router *)args)->bias);
    else if (k->op == TR_OP_rmsnorm_bwd)
        absent(k, &((struct tr_rmsnorm_grad *)args)->dres);
    else if (k->op == TR_OP_moe_combine)
        absent(k, &((struct tr_moe_combine *)args)->add);
}

static void clear_sums(struct call *k)
{
    for (int i = 0; i < k->n; i++)
        for (int64_t j = 0; k->adds[i] && j < tr_view_count(k->out[i]); j++) {
            k->changed |= tr_get(k->out[i], j) != 0;
            tr_set(k->out[i], j, 0);
        }
}

static int64_t shorter(struct call *k, int64_t D)
{
    k->changed |= D > 0;
    return D - (D + 7) / 8;
}

/* The list of weights is copied, each with fewer columns (trans) or rows. */
static void cut_grouped(struct call *k, struct tr_grouped_gemm *g)
{
    int64_t D = shorter(k, g->a.shape[1]);

    g->a.shape[1] = D;
    k->weights = calloc((size_t)g->e1, sizeof *k->weights);
    k->list = calloc((size_t)g->e1, sizeof *k->list);
    for (int64_t e = g->e0; e < g->e1; e++) {
        if (g->weights[e] == NULL)
            continue;
        k->weights[e] = *g->weights[e];
        k->weights[e].w.shape[g->trans_b ? 1 : 0] = D;
        k->list[e] = &k->weights[e];
    }
    g->weights = k->list;
}

static void cut_sums(struct call *k, void *args)
{
    if (k->op == TR_OP_gemm) {
        struct tr_gemm *g = args;
        int64_t D = shorter(k, g->a.shape[g->trans_a ? 0 : 1]);

        g->a.shape[g->trans_a ? 0 : 1] = D;
        g->b.w.shape[g->trans_b ? 1 : 0] = D;
    } else if (k->op == TR_OP_grouped_gemm) {
        cut_grouped(k, args);
    }
}

static void before_call(const struct mutated *m, struct call *k, void *args)
{
    struct tr_check c = {.op = k->op, .see = see_adds};

    if (m->what.report != NULL) {
        m->what.report->called[k->op] = true;
        c.self = &m->what.report->adds[k->op];
        tr_check_args(&c, args);
    }
    k->faulty = m->what.mutation != MUTATIONS && (m->what.op == TR_OP_COUNT || m->what.op == k->op);
    if (!k->faulty)
        return;
    c.see = add_output;
    c.self = k;
    tr_check_args(&c, args);
    if (m->what.mutation == MUTATION_NO_BIAS)
        leave_terms_out(k, args);
    else if (m->what.mutation == MUTATION_NO_BETA)
        clear_sums(k);
    else if (m->what.mutation == MUTATION_CUT)
        cut_sums(k, args);
}

static bool written(const struct mutated *m, const struct call *k, int i, int64_t j)
{
    struct tr_view v = k->out[i];

    return !m->what.written_only ||
           memcmp(element(v, v.p, j), element(v, k->before[i], j), tr_dtype_bytes(v.dtype)) != 0;
}

/* Which element the fault stores at j; -1: its own, -2: a zero, -3: what was there before. */
static int64_t source(const struct call *k, int i, enum mutation fault, int64_t j, int64_t last)
{
    struct tr_view v = k->out[i];
    int64_t cols = cols_of(v), rows = rows_of(v), step = rows > 1 ? cols : 1;

    switch (fault) {
    case MUTATION_UNWRITTEN:
        return -3;
    case MUTATION_ZEROED:
        return -2;
    case MUTATION_SHIFTED:
        return j - step >= 0 ? j - step : -1;
    case MUTATION_TRANSPOSED:
        return j % rows * cols + j / rows;
    case MUTATION_TILE:
        if (j / cols + TILE_ROWS <= last / cols || j % cols + TILE_COLS <= last % cols)
            return -1;
        return k->adds[i] ? -3 : -2;
    default:
        return -1;
    }
}

/* Puts the fault into output i. */
static void spoil(const struct mutated *m, struct call *k, int i)
{
    struct tr_view v = k->out[i];
    size_t size = tr_dtype_bytes(v.dtype);
    char *after = malloc(extent(v)), zero[8] = {0};
    struct tr_view was = v;
    int64_t last = tr_view_count(v) - 1;

    was.p = after;
    memcpy(after, v.p, extent(v));
    while (last >= 0 && !written(m, k, i, last))
        last--;
    for (int64_t j = 0; j <= last; j++) {
        int64_t from = source(k, i, m->what.mutation, j, last);
        const char *p = from >= 0    ? element(v, after, from)
                        : from == -2 ? zero
                        : from == -3 ? element(v, k->before[i], j)
                                     : element(v, after, j);

        if (memcmp(element(v, after, j), element(v, k->before[i], j), size) == 0 &&
            m->what.written_only)
            continue;
        if (from >= 0 && m->what.written_only &&
            memcmp(p, element(v, k->before[i], from), size) == 0)
            continue;
        memcpy(element(v, v.p, j), p, size);
    }
    k->changed |= mutant_differs(was, v);
    free(after);
}

static void after_call(const struct mutated *m, struct call *k)
{
    for (int i = 0; i < k->n; i++) {
        if (m->what.mutation <= MUTATION_TRANSPOSED)
            spoil(m, k, i);
        free(k->before[i]);
    }
    free(k->weights);
    free(k->list);
    if (k->changed && m->what.report != NULL)
        m->what.report->changed[k->op] = true;
}

#define MUTATED_OP(name, args, fp8)                                                                \
    static enum fr_rc mutated_##name(void *self, struct tr_queue *q, const struct args *a,         \
                                     struct fr_err *err)                                           \
    {                                                                                              \
        struct mutated *m = self;                                                                  \
        struct args copy = *a;                                                                     \
        struct call k = {.op = TR_OP_##name};                                                      \
        enum fr_rc rc;                                                                             \
        before_call(m, &k, &copy);                                                                 \
        rc = m->inner->ops->name(m->inner->self, q, &copy, err);                                   \
        after_call(m, &k);                                                                         \
        return rc;                                                                                 \
    }
TR_OPS(MUTATED_OP)
#undef MUTATED_OP

/* The rest of the table is inner's, with inner's state. */
#define INNER(self) ((const struct mutated *)(self))->inner
#define PASS(type, name, params, ...)                                                              \
    static type mutated_##name params                                                              \
    {                                                                                              \
        return INNER(self)->ops->name(INNER(self)->self, __VA_ARGS__);                             \
    }
/* clang-format off */
PASS(void, describe, (void *self, char out[256]), out)
PASS(void, identity, (void *self, struct tr_device_id *out), out)
PASS(void, scratch, (void *self, enum tr_op op, const void *args, struct tr_scratch *most),
     op, args, most)
PASS(size_t, prepack_bytes, (void *self, const struct tr_view *w), w)
PASS(enum fr_rc, prepack,
     (void *self, struct tr_queue *q, const struct tr_view *w, void *packed), q, w, packed)
PASS(bool, repacks, (void *self, const struct tr_view *w), w)
PASS(enum fr_rc, repack,
     (void *self, struct tr_queue *q, const struct tr_view *w, struct fr_err *err), q, w, err)
/* clang-format on */

static void mutated_destroy(void *self)
{
    free(self);
}

/* What inner lacks, its mutant lacks. */
static void fill_table(struct tr_backend_ops *t, const struct tr_backend_ops *inner)
{
    *t = *inner;
#define TAKE(name) t->name = inner->name != NULL ? mutated_##name : NULL
    TAKE(describe);
    TAKE(identity);
    TAKE(scratch);
    TAKE(prepack_bytes);
    TAKE(prepack);
    TAKE(repacks);
    TAKE(repack);
    TAKE(destroy);
#define TAKE_OP(name, args, fp8) TAKE(name);
    TR_OPS(TAKE_OP)
#undef TAKE_OP
#undef TAKE
}

enum fr_rc mutant_create(struct tr_backend *inner, const struct mutant *what,
                         struct tr_backend **out, struct fr_err *err)
{
    struct mutated *m = calloc(1, sizeof *m);

    *out = NULL;
    if (m == NULL)
        return fr_fail(err, FR_NOMEM, "backend mutant");
    if (!inner->memory->is_host) {
        free(m);
        return fr_fail(err, FR_UNSUPPORTED, "a mutant of %s: its memory is not the host's",
                       inner->ops->name);
    }
    fill_table(&m->ops, inner->ops);
    m->base = (struct tr_backend){inner->memory, inner->queues, inner->device, &m->ops, m, NULL, 0};
    m->inner = inner;
    m->what = *what;
    *out = &m->base;
    return FR_OK;
}
