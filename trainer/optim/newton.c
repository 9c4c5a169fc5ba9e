#include "trainer/optim/newton.h"

#include <math.h>

static const float A = 3.4445f, B = -4.7750f, C = 2.0315f;
static const double LEAST = 1e-7; /* added to the norm */

enum { RESTART = 2 };

/* One call: X is x[0], its neighbour x[1] is free. Of a tall matrix squares are X^T X. */
struct call {
    struct tr_newton *n;
    struct tr_scratch *most; /* is raised by products, and nothing is computed; NULL: a call */
    struct tr_view x[2];
    struct tr_view square[TR_NEWTON_SQUARES];
    bool tall;
    enum fr_rc rc;
    struct fr_err *err;
};

/* c = alpha op(a) op(b) + beta old; old has the shape of c; beta 0: none. */
struct product {
    struct tr_view c, a, b, old;
    bool trans_a, trans_b;
    float alpha, beta;
};

static void multiply(struct call *k, const struct product *p)
{
    struct tr_gemm g = {.c = p->c,
                        .a = p->a,
                        .b = {.w = p->b},
                        .trans_a = p->trans_a,
                        .trans_b = p->trans_b,
                        .alpha = p->alpha,
                        .beta = p->beta};

    if (k->most != NULL) {
        k->n->be->ops->scratch(k->n->be->self, TR_OP_gemm, &g, k->most);
        return;
    }
    if (k->rc == FR_OK && p->beta != 0)
        k->rc = tr_copy(k->n->be, k->n->q, p->c.p, p->old.p, tr_view_bytes(p->c));
    if (k->rc == FR_OK)
        k->rc = tr_gemm(k->n->be, k->n->q, &g, k->err);
}

static void swap(struct tr_view *a, struct tr_view *b)
{
    struct tr_view was = *a;

    *a = *b;
    *b = was;
}

/* The Gram matrix of X. */
static void square_of_x(struct call *k, struct tr_view c)
{
    multiply(k, &(struct product){.c = c,
                                  .a = k->x[0],
                                  .b = k->x[0],
                                  .trans_a = k->tall,
                                  .trans_b = !k->tall,
                                  .alpha = 1});
}

/* out = beta old + m old, of squares. */
static void step_square(struct call *k, struct tr_view out, struct tr_view m, struct tr_view old)
{
    multiply(k, &(struct product){.c = out, .a = m, .b = old, .old = old, .alpha = 1, .beta = A});
}

/* out = b r + c r r. */
static void polynomial(struct call *k, struct tr_view out, struct tr_view r)
{
    multiply(k, &(struct product){.c = out, .a = r, .b = r, .old = r, .alpha = C, .beta = B});
}

/* X = beta X + m X, or of a tall matrix X m^T. */
static void multiply_x(struct call *k, struct tr_view m, float beta)
{
    struct product p = {.c = k->x[1],
                        .a = k->tall ? k->x[0] : m,
                        .b = k->tall ? m : k->x[0],
                        .old = k->x[0],
                        .trans_b = k->tall,
                        .alpha = 1,
                        .beta = beta};

    multiply(k, &p);
    swap(&k->x[0], &k->x[1]);
}

static void plain(struct call *k)
{
    for (int i = 0; i < TR_NEWTON_STEPS; i++) {
        square_of_x(k, k->square[0]);
        polynomial(k, k->square[1], k->square[0]);
        multiply_x(k, k->square[1], A);
    }
}

/* out = z + a I; t is overwritten. */
static void add_diagonal(struct call *k, struct tr_view out, struct tr_view z, struct tr_view t)
{
    int64_t n = t.shape[0];
    struct tr_fill diagonal = {.y = tr_view2(t.p, t.dtype, n, 1), .value = A};
    struct tr_sum sum = {.y = out, .x = {z, t}, .alpha = {1, 1}, .n = 2};

    diagonal.y.ld = n + 1;
    if (k->most != NULL)
        return;
    if (k->rc == FR_OK)
        k->rc = tr_zero(k->n->be, k->n->q, t.p, tr_view_bytes(t));
    if (k->rc == FR_OK)
        k->rc = tr_fill(k->n->be, k->n->q, &diagonal, k->err);
    if (k->rc == FR_OK)
        k->rc = tr_sum(k->n->be, k->n->q, &sum, k->err);
}

static void gram(struct call *k)
{
    struct tr_view r = k->square[0], z = k->square[1], q = k->square[2], t = k->square[3];
    bool fresh = true;

    square_of_x(k, r);
    for (int i = 0; i < TR_NEWTON_STEPS; i++) {
        if (i == RESTART) {
            multiply_x(k, q, 0);
            square_of_x(k, r);
            fresh = true;
        }
        polynomial(k, z, r);
        if (fresh) {
            add_diagonal(k, q, z, t);
            fresh = false;
        } else {
            step_square(k, t, z, q);
            swap(&q, &t);
        }
        if (i < TR_NEWTON_STEPS - 1 && i + 1 != RESTART) { /* r = (a + z) r (a + z) */
            step_square(k, t, z, r);
            step_square(k, r, z, t);
        }
    }
    multiply_x(k, q, 0);
}

/* The Frobenius norm of x; the host waits for it. */
static double norm_of(struct call *k, struct tr_view x)
{
    struct tr_newton *n = k->n;
    struct tr_sumsq sq = {.out = n->limbs, .x = x};
    int64_t limbs[TR_EXACT_LIMBS] = {0};

    if (k->rc == FR_OK)
        k->rc = tr_zero(n->be, n->q, n->limbs.p, sizeof(limbs));
    if (k->rc == FR_OK)
        k->rc = tr_sumsq(n->be, n->q, &sq, k->err);
    if (k->rc == FR_OK)
        k->rc = tr_copy(n->be, n->q, limbs, n->limbs.p, sizeof(limbs));
    if (k->rc == FR_OK)
        k->rc = tr_sync(n->be, n->q, k->err);
    tr_exact_carry(limbs);
    return sqrt(tr_exact_value(limbs));
}

/* y = x / (norm + least). */
static void divide(struct call *k, struct tr_view y, struct tr_view x, double norm)
{
    struct tr_sum by = {.y = y, .x = {x}, .alpha = {(float)(1 / (norm + LEAST))}, .n = 1};

    if (k->rc == FR_OK)
        k->rc = tr_sum(k->n->be, k->n->q, &by, k->err);
}

/* Views of what is worked in, of a matrix of this shape. */
static void view(struct call *k, const int64_t shape[2])
{
    struct tr_newton *n = k->n;
    enum tr_dtype type = n->gram ? TR_F16 : TR_BF16;
    int64_t least = shape[0] < shape[1] ? shape[0] : shape[1];

    k->tall = shape[0] > shape[1];
    for (int i = 0; i < 2; i++)
        k->x[i] = tr_view2(n->x[i], type, shape[0], shape[1]);
    for (int i = 0; i < TR_NEWTON_SQUARES; i++)
        k->square[i] = tr_view2(n->square[i], type, least, least);
}

static void iterate(struct call *k, const int64_t shape[2])
{
    if (k->n->gram && shape[0] != shape[1])
        gram(k);
    else
        plain(k);
}

void tr_newton_scratch(struct tr_backend *be, const int64_t shape[2], struct tr_scratch *most)
{
    for (int form = 0; form < 2 && be->ops->scratch != NULL; form++) {
        struct tr_newton n = {.be = be, .gram = form == 1};
        struct call k = {.n = &n, .most = most, .rc = FR_OK};

        view(&k, shape);
        iterate(&k, shape);
    }
}

enum fr_rc tr_newton_run(struct tr_newton *n, struct tr_view u, double factor, struct fr_err *err)
{
    struct call k = {.n = n, .rc = FR_OK, .err = err};

    view(&k, u.shape);
    if (n->gram) {
        divide(&k, k.x[0], u, norm_of(&k, u));
    } else { /* the norm is a bf16 as well, in the reference */
        struct tr_cast round = {.y = k.x[1], .x = u};

        k.rc = tr_cast(n->be, n->q, &round, err);
        divide(&k, k.x[0], k.x[1], tr_bf16_to(tr_bf16_of((float)norm_of(&k, k.x[1]))));
    }
    iterate(&k, u.shape);

    struct tr_sum widen = {.y = u, .x = {k.x[0]}, .alpha = {(float)factor}, .n = 1};

    return k.rc == FR_OK ? tr_sum(n->be, n->q, &widen, err) : k.rc;
}

double tr_newton_flops(double rows, double cols, bool gram)
{
    double n = fmin(rows, cols), square = 2 * n * n * n, whole = 2 * n * rows * cols;

    if (!gram || rows == cols)
        return TR_NEWTON_STEPS * (2 * whole + square);
    return 4 * whole + (TR_NEWTON_STEPS + 3 + 2 * 3) * square;
}
