/*
 * Newton-Schulz in both forms beside the plain iteration in f64, of matrices that are wide, tall,
 * square and of one row; of any scale; of zeros. Roundings of 16 bits are carried through fifteen
 * products, and the polynomial multiplies what is near 0 by 3.4 a step: the root of the mean square
 * is compared, in parts of the result's.
 */
#include "tests/unit/check.h"
#include "trainer/optim/newton.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 * 176 };

struct bed {
    struct tr_backend *be;
    struct tr_queue *q;
    struct tr_newton newton;
    uint16_t x[2][MOST], square[TR_NEWTON_SQUARES][64 * 64];
    int64_t limbs[TR_EXACT_LIMBS];
    float u[MOST];
    double want[MOST];
};

/* In [-1, 1). */
static double number(uint64_t i)
{
    i *= 0x9e3779b97f4a7c15;
    i = (i ^ i >> 31) * 0x94d049bb133111eb;
    return (double)(i >> 11) * 0x1p-52 - 1;
}

/* c = alpha a b + beta c; sizes m, d, n. */
struct plain {
    int m, d, n;
    double alpha, beta;
};

static void product(const struct plain *p, const double *a, const double *b, double *c)
{
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->n; j++) {
            double sum = 0;

            for (int k = 0; k < p->d; k++)
                sum += a[i * p->d + k] * b[k * p->n + j];
            c[i * p->n + j] = p->alpha * sum + p->beta * c[i * p->n + j];
        }
}

/* x (rows, cols) in place; rows <= cols. */
static void iterate(double *x, int rows, int cols)
{
    static double t[MOST], a[64 * 64], b[64 * 64], y[MOST];
    double norm = 0;

    for (int i = 0; i < rows * cols; i++)
        norm += x[i] * x[i];
    for (int i = 0; i < rows * cols; i++)
        x[i] /= sqrt(norm) + 1e-7;
    for (int step = 0; step < 5; step++) {
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < cols; j++)
                t[j * rows + i] = x[i * cols + j];
        product(&(struct plain){rows, cols, rows, 1, 0}, x, t, a);
        memcpy(b, a, sizeof(b));
        product(&(struct plain){rows, rows, rows, 2.0315, -4.7750}, a, a, b);
        memcpy(y, x, sizeof(y));
        product(&(struct plain){rows, rows, cols, 1, 3.4445}, b, x, y);
        memcpy(x, y, sizeof(y));
    }
}

static void make_want(struct bed *b, int rows, int cols)
{
    static double x[MOST];
    bool tall = rows > cols;

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            x[tall ? j * rows + i : i * cols + j] = (double)b->u[i * cols + j];
    iterate(x, tall ? cols : rows, tall ? rows : cols);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            b->want[i * cols + j] = x[tall ? j * rows + i : i * cols + j];
}

static void run(struct bed *b, int rows, int cols, double factor)
{
    struct fr_err err = {0};

    if (!CHECK(tr_newton_run(&b->newton, tr_view2(b->u, TR_F32, rows, cols), factor, &err) ==
               FR_OK))
        printf("   %s\n", err.msg);
}

static void compare(struct bed *b, int rows, int cols, double factor)
{
    double away = 0, of = 0, allowed = b->newton.gram ? 6e-3 : 4e-2;

    for (int i = 0; i < rows * cols; i++) {
        double d = (double)b->u[i] / factor - b->want[i];

        away += d * d;
        of += b->want[i] * b->want[i];
    }
    if (!CHECK(sqrt(away) < allowed * sqrt(of)))
        printf("   away by %.3g of the root of the mean square\n", sqrt(away / of));
    CHECK(of > 0.4 * (rows < cols ? rows : cols)); /* singular values are near 1 */
}

static void try_shapes(struct bed *b)
{
    static const struct {
        const char *name;
        int rows, cols;
        double scale;
    } rows[] = {
        {"wide", 64, 176, 1},
        {"tall", 176, 64, 1},
        {"square", 64, 64, 1},
        {"odd, wide", 5, 13, 1},
        {"odd, tall", 13, 7, 1},
        {"one row", 1, 9, 1},
        {"one column", 9, 1, 1},
        {"small numbers", 11, 31, 1e-4},
        {"large numbers", 31, 11, 1e12},
    };

    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
        for (int gram = 0; gram < 2; gram++) {
            char row[64];

            (void)snprintf(row, sizeof(row), "%s, %s", rows[k].name, gram ? "gram" : "plain");
            check_row(row);
            b->newton.gram = gram;
            for (int i = 0; i < rows[k].rows * rows[k].cols; i++)
                b->u[i] = (float)(number((uint64_t)i + 1) * rows[k].scale);
            make_want(b, rows[k].rows, rows[k].cols);
            run(b, rows[k].rows, rows[k].cols, 0.75);
            compare(b, rows[k].rows, rows[k].cols, 0.75);
        }
}

static void try_zeros(struct bed *b)
{
    check_row("zeros");
    for (int gram = 0; gram < 2; gram++) {
        bool same = true;

        b->newton.gram = gram;
        memset(b->u, 0, sizeof(b->u));
        run(b, 5, 7, 1);
        for (int i = 0; i < 35; i++)
            same = same && b->u[i] == 0;
        CHECK(same);
    }
}

/* ---- the workspace of its products ---- */

/* The products that ran, and those whose workspace was asked for. */
static struct spied {
    const struct tr_backend_ops *inner;
    uint64_t ran[2], asked[2]; /* how many, and a sum of what they are */
} spied;

static void note(uint64_t sum[2], const struct tr_gemm *g)
{
    const int64_t all[] = {g->a.shape[0], g->a.shape[1], g->b.w.shape[0], g->b.w.shape[1],
                           g->c.shape[0], g->c.shape[1], g->trans_a,      g->trans_b,
                           g->a.dtype,    g->b.w.dtype,  g->c.dtype};

    sum[0]++;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        sum[1] = sum[1] * 31 + (uint64_t)all[i];
}

static enum fr_rc spy_gemm(void *self, struct tr_queue *q, const struct tr_gemm *a,
                           struct fr_err *err)
{
    note(spied.ran, a);
    return spied.inner->gemm(self, q, a, err);
}

static void spy_scratch(void *self, enum tr_op op, const void *args, struct tr_scratch *most)
{
    if (CHECK(op == TR_OP_gemm))
        note(spied.asked, args);
    spied.inner->scratch(self, op, args, most);
}

/* What is asked for is of the products that run, in both forms. */
static void try_scratch(const struct bed *plain)
{
    static const int64_t shapes[][2] = {{5, 13}, {13, 5}, {7, 7}};
    struct bed *b = malloc(sizeof(*b));
    struct tr_backend_ops ops = *plain->be->ops;
    struct tr_backend be = *plain->be;

    memcpy(b, plain, sizeof(*b));
    ops.gemm = spy_gemm;
    ops.scratch = spy_scratch;
    be.ops = &ops;
    b->newton.be = &be;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct tr_scratch most = {0};

        check_row("workspace");
        spied = (struct spied){.inner = plain->be->ops};
        for (int form = 0; form < 2; form++) {
            b->newton.gram = form == 1;
            run(b, (int)shapes[i][0], (int)shapes[i][1], 1);
        }
        tr_newton_scratch(&be, shapes[i], &most);
        CHECK(spied.ran[0] > 0 && memcmp(spied.ran, spied.asked, sizeof(spied.ran)) == 0);
        CHECK(most.product > 0);
        ops.scratch = NULL; /* a backend that takes none */
        tr_newton_scratch(&be, shapes[i], &most);
        ops.scratch = spy_scratch;
    }
    free(b);
}

int main(void)
{
    static struct bed b;
    struct fr_err err = {0};

    if (!CHECK(tr_cpu_create(&b.be, &err) == FR_OK &&
               tr_queue_create(b.be, 0, &b.q, &err) == FR_OK))
        return check_done();
    b.newton = (struct tr_newton){.be = b.be, .q = b.q, .x = {b.x[0], b.x[1]}};
    b.newton.limbs = tr_view1(b.limbs, TR_I64, TR_EXACT_LIMBS);
    for (int i = 0; i < TR_NEWTON_SQUARES; i++)
        b.newton.square[i] = b.square[i];
    try_shapes(&b);
    try_zeros(&b);
    try_scratch(&b);
    check_row("operations");
    CHECK(tr_newton_flops(4, 4, true) == 5 * 6 * 64);
    CHECK(tr_newton_flops(4, 8, false) == 5 * (4 * 4 * 4 * 8 + 2 * 64));
    CHECK(tr_newton_flops(8, 4, true) == 8 * 4 * 4 * 8 + 14 * 2 * 64);
    tr_queue_destroy(b.be, b.q);
    tr_backend_destroy(b.be);
    return check_done();
}
