#include "tests/op/op.h"

#include "tests/unit/check.h"
#include "trainer/backend/philox.h"

#include <math.h>
#include <stdlib.h>

enum { GUARD = 64, VIEWS_MAX = 24 };

const enum tr_dtype op_types[3] = {TR_F32, TR_BF16, TR_F16};

struct bound {
    struct op_spec spec;
    struct tr_view view[OP_BACKENDS]; /* device */
    char *base[OP_BACKENDS];          /* device, with guards */
    char *before;                     /* contents before the call */
    size_t bytes;                     /* of base */
};

struct op_case {
    char what[128];
    struct bound views[VIEWS_MAX];
    int n;
};

static struct {
    struct tr_backend *be[OP_BACKENDS];
    struct tr_queue *q[OP_BACKENDS];
    int made, count; /* those that exist, those that run */
    bool lacks[TR_OP_COUNT];
    bool announce, begun[TR_OP_COUNT];
    uint64_t state;
} all;

enum fr_rc op_setup(struct tr_backend *const *be, int n, const enum tr_op *lacks, int nlacks,
                    struct fr_err *err)
{
    enum fr_rc rc = tr_ref_create(&all.be[OP_REF], err);

    for (int i = 0; i < n; i++)
        all.be[OP_DEV + i] = be[i];
    all.made = all.count = OP_DEV + n;
    for (int i = 0; i < nlacks; i++) {
        all.lacks[lacks[i]] = true;
        CHECK(!tr_supports(be[0], lacks[i], TR_F32, TR_F32));
    }
    for (int b = 0; b < all.count && rc == FR_OK; b++)
        rc = tr_queue_create(all.be[b], 0, &all.q[b], err);
    return rc;
}

void op_leave(enum tr_op op)
{
    all.lacks[op] = true;
}

void op_announce(void)
{
    all.announce = true;
}

void op_use(int n)
{
    all.count = OP_DEV + n < all.made ? OP_DEV + n : all.made;
}

int op_count(void)
{
    return all.count;
}

void op_seed(uint64_t seed)
{
    all.state = seed;
}

double op_uniform(void)
{
    return (double)(tr_mix64(all.state++) >> 11) * 0x1p-52 - 1;
}

struct tr_backend *op_backend(struct op_case *c, int b)
{
    (void)c;
    return all.be[b];
}

struct tr_queue *op_queue(struct op_case *c, int b)
{
    (void)c;
    return all.q[b];
}

enum fr_rc op_begin(struct op_case **out, const char *what)
{
    struct op_case *c = calloc(1, sizeof *c);

    *out = c;
    if (c == NULL)
        return FR_NOMEM;
    snprintf(c->what, sizeof c->what, "%s", what);
    op_seed(tr_mix64((uint64_t)strlen(what) * 977 + (uint64_t)what[0]));
    return FR_OK;
}

void op_check(enum fr_rc rc, const struct fr_err *err)
{
    if (rc != FR_OK)
        printf("   error: %s\n", err->msg);
    CHECK(rc == FR_OK);
}

void op_expect(enum fr_rc rc, enum fr_rc want, const struct fr_err *err, const char *text)
{
    CHECK_INT(rc, want);
    CHECK_TEXT(rc == FR_OK ? "" : err->msg, text);
}

/* The contents that the view starts with, at p. */
static void begin_with(const struct op_spec *s, struct tr_view v)
{
    double scale = s->scale != 0 ? s->scale : 1;

    if (s->role == OP_OUT)
        return;
    for (int64_t i = 0; i < tr_view_count(v); i++) {
        int64_t whole = s->ints ? s->ints[i % s->count] : 0;

        tr_set(v, i,
               !s->ints            ? s->shift + scale * op_uniform()
               : whole == OP_NEVER ? -INFINITY
                                   : (double)whole);
    }
    if (s->broken && tr_view_count(v) > 0) {
        tr_set(v, 0, INFINITY);
        tr_set(v, tr_view_count(v) - 1, -INFINITY);
        tr_set(v, tr_view_count(v) / 2, NAN);
    }
}

void op_bind(struct op_case *c, struct tr_view *first, size_t stride, const struct op_spec *spec)
{
    struct bound *x = &c->views[c->n++];
    struct tr_view v;
    int rank = 0;
    int64_t shape[TR_RANK_MAX] = {0};

    while (rank < TR_RANK_MAX && spec->shape[rank] != 0) {
        shape[rank] = spec->shape[rank] < 0 ? 0 : spec->shape[rank];
        rank++;
    }
    v = tr_view_of(NULL, spec->dtype, rank, shape);
    if (rank > 1) { /* wide rows stay aligned to 16 bytes, others do not */
        int64_t word = tr_dtype_bytes(v.dtype) == 1 ? 16 : 8;

        v.ld += v.ld % 32 == 0 ? (spec->gap + word - 1) / word * word : spec->gap;
    }
    x->spec = *spec;
    x->bytes = (size_t)(v.ld * v.shape[0]) * tr_dtype_bytes(v.dtype) + 2 * GUARD;
    x->before = malloc(x->bytes);
    memset(x->before, 0xff, x->bytes);
    v.p = x->before + GUARD;
    begin_with(spec, v);
    for (int b = 0; b < all.count; b++) {
        void *p;

        op_check(tr_mem_alloc(all.be[b], TR_MEM_DEVICE, x->bytes, &p, NULL), NULL);
        tr_copy(all.be[b], all.q[b], p, x->before, x->bytes);
        x->base[b] = p;
        x->view[b] = v;
        x->view[b].p = x->base[b] + GUARD;
        *(struct tr_view *)((char *)first + (size_t)b * stride) = x->view[b];
    }
}

static double tolerance(const struct bound *x, double want)
{
    double loose = x->spec.loose != 0 ? x->spec.loose : 1;

    switch (x->view[0].dtype) {
    case TR_F64:
        return loose * (1e-9 + 1e-9 * fabs(want));
    case TR_F32:
        return loose * (4e-6 + 4e-6 * fabs(want));
    case TR_BF16:
        return loose * (1e-4 + 0x1p-7 * fabs(want));
    case TR_F16:
        return loose * (2e-5 + 0x1p-10 * fabs(want));
    default:
        return 0;
    }
}

/* Whether element i of the view was written, by bytes. */
static bool same_element(struct tr_view a, struct tr_view b, int64_t i)
{
    int64_t row = tr_view_count(a) / (a.shape[0] > 0 ? a.shape[0] : 1);
    size_t at = (size_t)(i / row * a.ld + i % row) * tr_dtype_bytes(a.dtype);

    return memcmp((char *)a.p + at, (char *)b.p + at, tr_dtype_bytes(a.dtype)) == 0;
}

static int compare(const struct bound *x, struct tr_view want, struct tr_view got)
{
    struct tr_view before = got;
    int bad = 0;

    before.p = x->before + GUARD;
    for (int64_t i = 0; i < tr_view_count(want); i++) {
        double w = tr_get(want, i), g = tr_get(got, i);
        bool ok = isnan(w) ? same_element(got, before, i) : fabs(g - w) <= tolerance(x, w);

        if (!ok && !isnan(w) && w == g)
            ok = true; /* infinities of one sign */
        if (!ok && bad++ < 4)
            printf("   element %lld: want %.9g, got %.9g\n", (long long)i, w, g);
    }
    return bad;
}

/* Bytes that belong to no element: guards and gaps between rows. */
static bool outside_untouched(const struct bound *x, const char *got)
{
    struct tr_view v = x->view[0];
    size_t size = tr_dtype_bytes(v.dtype), rows = (size_t)v.shape[0];
    size_t row = rows > 0 ? (size_t)tr_view_count(v) / rows * size : 0, ld = (size_t)v.ld * size;

    if (memcmp(got, x->before, GUARD) != 0)
        return false;
    for (size_t i = 0; i < rows; i++)
        if (memcmp(got + GUARD + i * ld + row, x->before + GUARD + i * ld + row, ld - row) != 0)
            return false;
    return memcmp(got + x->bytes - GUARD, x->before + x->bytes - GUARD, GUARD) == 0;
}

static void end_view(const struct op_case *c, struct bound *x, int number)
{
    char *got[OP_BACKENDS], row[256];
    char shape[96];

    tr_view_show(x->view[0], shape);
    snprintf(row, sizeof row, "%s view %d %s", c->what, number, shape);
    check_row(row);
    for (int b = 0; b < all.count; b++) {
        got[b] = malloc(x->bytes);
        tr_copy(all.be[b], all.q[b], got[b], x->base[b], x->bytes);
        op_check(tr_sync(all.be[b], all.q[b], NULL), NULL);
        tr_mem_free(all.be[b], TR_MEM_DEVICE, x->base[b]);
    }
    if (x->spec.role == OP_IN) {
        CHECK(memcmp(got[OP_DEV], x->before, x->bytes) == 0);
    } else {
        struct tr_view want = x->view[0], dev = x->view[0];

        want.p = got[OP_REF] + GUARD;
        dev.p = got[OP_DEV] + GUARD;
        CHECK(compare(x, want, dev) == 0);
        CHECK(outside_untouched(x, got[OP_DEV]));
        for (int b = OP_DEV + 1; b < all.count; b++)
            CHECK(memcmp(got[OP_DEV], got[b], x->bytes) == 0);
    }
    for (int b = 0; b < all.count; b++)
        free(got[b]);
    free(x->before);
    check_row("");
}

void op_end(struct op_case *c)
{
    for (int i = 0; i < c->n; i++)
        end_view(c, &c->views[i], i);
    free(c);
}

bool op_lacks(struct op_case *c, enum tr_op op)
{
    if (!all.lacks[op]) {
        if (all.announce && !all.begun[op]) {
            printf("op %s\n", tr_op_name(op));
            fflush(stdout);
        }
        all.begun[op] = true;
        return false;
    }
    for (int i = 0; i < c->n; i++) {
        for (int b = 0; b < all.count; b++) {
            op_check(tr_sync(all.be[b], all.q[b], NULL), NULL);
            tr_mem_free(all.be[b], TR_MEM_DEVICE, c->views[i].base[b]);
        }
        free(c->views[i].before);
    }
    free(c);
    return true;
}

int op_run(void)
{
    op_dense_cases();
    op_attention_cases();
    op_loss_cases();
    op_moe_cases();
    op_vec_cases();
    if (all.be[OP_DEV]->ops->host_memory) /* the checks are the same for all backends */
        op_refusals();
    return op_finish();
}

int op_finish(void)
{
    for (int b = 0; b < all.made; b++) {
        tr_queue_destroy(all.be[b], all.q[b]);
        tr_backend_destroy(all.be[b]);
    }
    return check_done();
}
