#include "tests/op/op.h"

#include "tests/op/prove.h"
#include "tests/unit/check.h"
#include "trainer/backend/check.h"
#include "trainer/backend/philox.h"

#include <math.h>
#include <stdlib.h>

enum { GUARD = 64, VIEWS_MAX = 24, PACKED_MAX = 8 };

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
    enum tr_op op;
    bool sums;
    struct bound views[VIEWS_MAX];
    int n;
    struct {
        struct tr_backend *be;
        void *p;
    } packed[PACKED_MAX]; /* owns */
    int npacked;
};

static struct {
    struct tr_backend *be[OP_BACKENDS];
    struct tr_queue *q[OP_BACKENDS];
    int made, count; /* those that exist, those that run */
    bool left[TR_OP_COUNT];
    bool announce, begun[TR_OP_COUNT];
    uint64_t every, rows[TR_OP_COUNT]; /* one of so many rows runs; those that were met */
    uint64_t state;
    struct prove *prove; /* NULL: a plain run */
} all;

enum fr_rc op_setup(struct tr_backend *const *be, int n, struct fr_err *err)
{
    enum fr_rc rc = tr_ref_create(&all.be[OP_REF], err);
    const char *every = getenv("OP_EVERY");

    all.every = every != NULL ? strtoull(every, NULL, 10) : 1;
    for (int i = 0; i < n; i++)
        all.be[OP_DEV + i] = be[i];
    all.made = all.count = OP_DEV + n;
    for (int b = 0; b < all.count && rc == FR_OK; b++)
        rc = tr_queue_create(all.be[b], 0, &all.q[b], err);
    return rc;
}

enum fr_rc op_prove(struct tr_backend *be, struct fr_err *err)
{
    struct tr_backend *list[1 + MUTATIONS] = {be};
    enum fr_rc rc = prove_create(&all.prove);

    for (int m = 0; m < MUTATIONS && rc == FR_OK; m++)
        rc = mutant_create(
            be,
            &(struct mutant){.mutation = (enum mutation)m, .op = TR_OP_COUNT, .written_only = true},
            &list[1 + m], err);
    return rc == FR_OK ? op_setup(list, 1 + MUTATIONS, err) : rc;
}

void op_leave(enum tr_op op)
{
    all.left[op] = true;
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

void op_sums(struct op_case *c)
{
    c->sums = true;
}

bool op_has_sums(const struct op_case *c)
{
    return c->sums;
}

/* Half of the distance between two neighbours, relative to them. */
static double unit(enum tr_dtype t)
{
    return t == TR_F64 ? 0x1p-53 : t == TR_F32 ? 0x1p-24 : t == TR_BF16 ? 0x1p-8 : 0x1p-11;
}

/* Roundings of long sums do not all go one way: their sum grows with the root of n. */
double op_sum_unit(int64_t n, enum tr_dtype factors)
{
    return (4 + 2 * sqrt(fabs((double)n))) * unit(TR_F32) + unit(factors);
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

static void make_positive(struct tr_view v)
{
    for (int64_t i = 0; i < tr_view_count(v); i++)
        tr_set(v, i, fabs(tr_get(v, i)));
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
    for (int b = 0; b < OP_BACKENDS; b++) {
        int owner = b == OP_MAGNITUDES ? OP_REF : b;
        void *p;

        if (b == OP_MAGNITUDES ? !c->sums : b >= all.count)
            continue;
        op_check(tr_mem_alloc(all.be[owner], TR_MEM_DEVICE, x->bytes, &p, NULL), NULL);
        tr_copy(all.be[owner], all.q[owner], p, x->before, x->bytes);
        x->base[b] = p;
        x->view[b] = v;
        x->view[b].p = x->base[b] + GUARD;
        if (b == OP_MAGNITUDES)
            make_positive(x->view[b]);
        *(struct tr_view *)((char *)first + (size_t)b * stride) = x->view[b];
    }
}

void op_prepack(struct op_case *c, int b, struct tr_weight *w)
{
    struct tr_backend *be = b < all.count ? all.be[b] : NULL;
    size_t bytes = b > OP_DEV && be != NULL ? tr_prepack_bytes(be, w->w) : 0;
    void *p = NULL;

    if (bytes == 0)
        return;
    op_check(tr_mem_alloc(be, TR_MEM_DEVICE, bytes, &p, NULL), NULL);
    op_check(tr_prepack(be, all.q[b], w->w, p), NULL);
    c->packed[c->npacked].be = be;
    c->packed[c->npacked++].p = p;
    w->packed = p;
}

void op_repack(struct op_case *c, int b, struct tr_weight *w)
{
    struct tr_backend *be = b < all.count ? all.be[b] : NULL;
    struct fr_err err = {0};
    struct tr_view copy = tr_view2(NULL, w->w.dtype, w->w.shape[0], w->w.shape[1]);

    if (b <= OP_DEV || be == NULL || !tr_repacks(be, copy))
        return;
    op_check(tr_mem_alloc(be, TR_MEM_DEVICE, tr_view_bytes(copy), &copy.p, &err), &err);
    op_check(tr_cast(be, all.q[b], &(struct tr_cast){.y = copy, .x = w->w}, &err), &err);
    op_check(tr_repack(be, all.q[b], copy, &err), &err);
    c->packed[c->npacked].be = be;
    c->packed[c->npacked++].p = copy.p;
    *w = (struct tr_weight){.w = copy, .repacked = true};
}

static void free_packed(struct op_case *c)
{
    while (c->npacked > 0) {
        c->npacked--;
        tr_mem_free(c->packed[c->npacked].be, TR_MEM_DEVICE, c->packed[c->npacked].p);
    }
}

/* How far element i may be from want. */
static double tolerance(const struct bound *x, double want, int64_t i)
{
    double loose = x->spec.loose != 0 ? x->spec.loose : 1;

    if (x->spec.sum_unit != 0) /* both results are rounded; f16 ends at 2^-24 */
        return x->spec.sum_unit * tr_get(x->view[OP_MAGNITUDES], i) +
               2 * unit(x->view[0].dtype) * fabs(want) + (x->view[0].dtype == TR_F16 ? 0x1p-24 : 0);
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

/* Elements of got that are wrong; the first few are printed. */
static int compare(const struct bound *x, struct tr_view want, struct tr_view got, bool print)
{
    struct tr_view before = got;
    int bad = 0;

    before.p = x->before + GUARD;
    for (int64_t i = 0; i < tr_view_count(want); i++) {
        double w = tr_get(want, i), g = tr_get(got, i);
        bool ok = isnan(w) ? same_element(got, before, i) : fabs(g - w) <= tolerance(x, w, i);

        if (!ok && !isnan(w) && w == g)
            ok = true; /* infinities of one sign */
        if (!ok && bad++ < 4 && print)
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

/* Views of a row under a name of its own. */
static void name_row(const struct op_case *c, const struct bound *x, int number, char row[256])
{
    char shape[96];

    tr_view_show(x->view[0], shape);
    snprintf(row, 256, "%s view %d %s", c->what, number, shape);
}

/* got[b]: what backend b left in the view's memory. */
static void check_view(const struct bound *x, char *const got[OP_BACKENDS])
{
    struct tr_view want = x->view[0], dev = x->view[0];

    if (x->spec.role == OP_IN) {
        CHECK(memcmp(got[OP_DEV], x->before, x->bytes) == 0);
        return;
    }
    want.p = got[OP_REF] + GUARD;
    dev.p = got[OP_DEV] + GUARD;
    CHECK(compare(x, want, dev, true) == 0);
    CHECK(outside_untouched(x, got[OP_DEV]));
    for (int b = OP_DEV + 1; b < all.count && all.prove == NULL; b++)
        CHECK(memcmp(got[OP_DEV], got[b], x->bytes) == 0);
}

/* Mutants of the backend under test differ from the reference by more than the tolerance. */
static void prove_view(const struct op_case *c, const struct bound *x, int number,
                       char *const got[OP_BACKENDS])
{
    struct tr_view want = x->view[0], sound = x->view[0], mutant = x->view[0];
    const char *group = tr_op_name(c->op);
    char row[256];

    if (x->spec.role == OP_IN || memcmp(got[OP_DEV], x->before, x->bytes) == 0)
        return;
    name_row(c, x, number, row);
    prove_row(all.prove, group, row);
    want.p = got[OP_REF] + GUARD;
    sound.p = got[OP_DEV] + GUARD;
    for (int m = 0; m < MUTATIONS; m++) {
        mutant.p = got[OP_DEV + 1 + m] + GUARD;
        if (mutant_differs(sound, mutant))
            prove_cell(all.prove, group, row, (enum mutation)m,
                       compare(x, want, mutant, false) > 0);
    }
}

static void end_view(const struct op_case *c, struct bound *x, int number)
{
    char *got[OP_BACKENDS], row[256];

    name_row(c, x, number, row);
    check_row(row);
    for (int b = 0; b < all.count; b++) {
        got[b] = malloc(x->bytes);
        tr_copy(all.be[b], all.q[b], got[b], x->base[b], x->bytes);
        op_check(tr_sync(all.be[b], all.q[b], NULL), NULL);
        tr_mem_free(all.be[b], TR_MEM_DEVICE, x->base[b]);
    }
    check_view(x, got);
    if (all.prove != NULL)
        prove_view(c, x, number, got);
    for (int b = 0; b < all.count; b++)
        free(got[b]);
    if (c->sums)
        tr_mem_free(all.be[OP_REF], TR_MEM_DEVICE, x->base[OP_MAGNITUDES]);
    free(x->before);
    check_row("");
}

void op_end(struct op_case *c)
{
    for (int i = 0; i < c->n; i++)
        end_view(c, &c->views[i], i);
    free_packed(c);
    free(c);
}

/* OP_EVERY=N: about one of N rows of an op runs, its first in any case. Not every Nth: types follow
 * one another in the tables. */
static bool chosen(enum tr_op op)
{
    uint64_t row = all.rows[op]++;

    return row == 0 || all.every < 2 || tr_mix64(row) % all.every == 0;
}

/* The view of the case that v is for the backend under test; -1: none, such as an absent one. */
static int find_bound(const struct op_case *c, const struct tr_view *v)
{
    for (int i = 0; i < c->n && v->p != NULL; i++)
        if (c->views[i].view[OP_DEV].p == v->p && c->views[i].bytes > 2 * GUARD)
            return i;
    return -1;
}

/* What the table of the op's checks says of each bound view. */
struct directions {
    const struct op_case *c;
    bool seen[VIEWS_MAX];
    int rule[VIEWS_MAX]; /* of all that are this memory: an output may be an input too */
};

static void see_direction(void *self, const struct tr_need *n)
{
    struct directions *d = self;
    int i = find_bound(d->c, n->view);

    if (i < 0)
        return;
    d->seen[i] = true;
    d->rule[i] |= n->rule & (OUT | ADD);
}

/* The table gives every bound view the direction that the case gives it. */
static void check_directions(const struct op_case *c, const void *args)
{
    struct directions d = {.c = c};
    struct tr_check walk = {.op = c->op, .see = see_direction, .self = &d};

    tr_check_args(&walk, args);
    for (int i = 0; i < c->n; i++) {
        const struct bound *x = &c->views[i];
        char row[256];

        name_row(c, x, i, row);
        check_row(row);
        if (d.seen[i])
            CHECK_INT(d.rule[i] != 0, x->spec.role != OP_IN);
        CHECK((d.rule[i] & ADD) == 0 || x->spec.role == OP_INOUT);
    }
    check_row("");
}

bool op_left(struct op_case *c, enum tr_op op, const void *args)
{
    c->op = op;
    check_directions(c, args);
    if (!all.left[op] && chosen(op)) {
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
        if (c->sums)
            tr_mem_free(all.be[OP_REF], TR_MEM_DEVICE, c->views[i].base[OP_MAGNITUDES]);
        free(c->views[i].before);
    }
    free_packed(c);
    free(c);
    return true;
}

int op_run(void)
{
    op_dense_cases();
    op_attention_cases();
    op_cache_cases();
    op_loss_cases();
    op_moe_cases();
    op_vec_cases();
    if (all.be[OP_DEV]->memory->is_host &&
        all.prove == NULL) /* the checks are the same for all backends */
        op_refusals();
    return op_finish();
}

int op_finish(void)
{
    if (all.prove != NULL)
        prove_print(all.prove);
    for (int b = all.made - 1; b >= 0; b--) { /* mutants before what they borrow */
        tr_queue_destroy(all.be[b], all.q[b]);
        tr_backend_destroy(all.be[b]);
    }
    return check_done();
}
