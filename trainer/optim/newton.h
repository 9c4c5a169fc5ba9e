/*
 * The orthogonal factor of a matrix, nearly, by Newton-Schulz iterations of degree five (Muon): of
 * X = U S V^T with singular values up to 1, one makes U (a S + b S^3 + c S^5) V^T, and five of them
 * values between 0.7 and 1.2 of all that are not near 0. Products are the backend's.
 *
 * The plain form works on X in bf16. The Gram form works on the smaller square R = X X^T in f16 and
 * on the product Q of the polynomials, and multiplies X after the second and the last iteration
 * alone; square matrices take the steps of the plain form in f16. Results have the bits of the
 * whole matrix on the backend, whichever rank computes.
 * Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; the Gram
 * form with a restart: Dao et al. 2026, "Gram Newton-Schulz".
 */
#ifndef TR_OPTIM_NEWTON_H
#define TR_OPTIM_NEWTON_H

#include "trainer/backend/backend.h"

enum { TR_NEWTON_STEPS = 5, TR_NEWTON_SQUARES = 4 };

struct tr_newton {
    struct tr_backend *be;
    struct tr_queue *q;
    void *x[2];                      /* device: rows * cols values of 16 bits each */
    void *square[TR_NEWTON_SQUARES]; /* device: min(rows, cols)^2 values of 16 bits each */
    struct tr_view limbs;            /* (TR_EXACT_LIMBS) i64, device */
    bool gram;
};

/* u (rows, cols) f32, device: becomes factor times its orthogonal factor; zeros stay. Waits for q,
 * which the norm takes. */
enum fr_rc tr_newton_run(struct tr_newton *n, struct tr_view u, double factor, struct fr_err *err);

/* Raises *most to the workspace of its products, of either form. */
void tr_newton_scratch(struct tr_backend *be, const int64_t shape[2], struct tr_scratch *most);

/* Operations of one call, but for the element-wise ones. */
double tr_newton_flops(double rows, double cols, bool gram);

#endif
