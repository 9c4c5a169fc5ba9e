/*
 * Grouped GEMMs of experts, one group an expert: grouped_gemm c = alpha * a * op(w_e) + beta * c
 * over the rows of expert e, grouped_wgrad dw_e = alpha * dy_e^T x_e + beta * dw_e ("=" with beta
 * 0). The arguments of a launch hold the weights' pointers, PRODUCT_GROUPS experts a launch; the
 * device reads the row counts. The kernels are in product_sm90.cu and product.cu.
 *
 * grouped_gemm moves N*D elements of each expert once, R*D of a and R*N of c (c twice with beta);
 * L2 serves a again for each column of tiles. At 64 rows an expert the limit is the bandwidth of
 * the weights, at 512 rows and more the matrix rate. grouped_wgrad moves R*N + R*D elements, and
 * N*D f32 an expert, twice with beta.
 */
#include "trainer/backend/cuda/product.h"

static const int32_t *offsets_at(const struct tr_view &v, int64_t e)
{
    return static_cast<const int32_t *>(v.p) + e;
}

static int groups_of(int64_t e, int64_t e1)
{
    const int64_t most = PRODUCT_GROUPS;

    return (int)(e1 - e < most ? e1 - e : most);
}

enum fr_rc tr_cuda_grouped_gemm(struct cuda *cuda, struct tr_queue *q,
                                const struct tr_grouped_gemm *a, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int64_t e = a->e0; e < a->e1 && rc == FR_OK; e += PRODUCT_GROUPS) {
        struct product p = {};

        p.a = a->a.p;
        p.c = a->c.p;
        p.offsets = offsets_at(a->offsets, e);
        p.lda = a->a.ld;
        p.ldc = a->c.ld;
        p.M = a->c.shape[0];
        p.N = a->c.shape[1];
        p.D = a->a.shape[1];
        p.each = p.M / (a->offsets.shape[0] - 1);
        p.alpha = a->alpha;
        p.beta = a->beta;
        p.groups = groups_of(e, a->e1);
        p.wide_a = cuda_aligned(a->a);
        p.wide_b = true;
        p.f32_c = a->c.dtype == TR_F32;
        for (int g = 0; g < p.groups; g++) {
            const struct tr_weight *w = a->weights[e + g];

            if (w == NULL)
                continue;
            p.group[g] = product_weight(w);
            p.wide_b = p.wide_b && cuda_aligned(w->w);
            p.f8 = w->w.dtype == TR_F8_E4M3;
            p.block_rows = w->block_rows;
            p.block_cols = w->block_cols;
        }
        rc = cuda_product(cuda, q, a->a.dtype, false, a->trans_b, &p, err);
    }
    return rc;
}

enum fr_rc tr_cuda_grouped_wgrad(struct cuda *cuda, struct tr_queue *q,
                                 const struct tr_grouped_wgrad *a, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int64_t e = a->e0; e < a->e1 && rc == FR_OK; e += PRODUCT_GROUPS) {
        struct product p = {};

        p.a = a->dy.p;
        p.b = a->x.p;
        p.offsets = offsets_at(a->offsets, e);
        p.lda = a->dy.ld;
        p.ldb = a->x.ld;
        p.M = p.each = a->dy.shape[1];
        p.N = a->x.shape[1];
        p.D = a->x.shape[0];
        p.alpha = a->alpha;
        p.beta = a->beta;
        p.groups = groups_of(e, a->e1);
        p.wide_a = cuda_aligned(a->dy);
        p.wide_b = cuda_aligned(a->x);
        p.f32_c = p.reduce = true;
        for (int g = 0; g < p.groups; g++)
            if (a->dw[e + g] != NULL) {
                p.group[g].p = a->dw[e + g]->p;
                p.group[g].ld = a->dw[e + g]->ld;
            }
        rc = cuda_product(cuda, q, a->x.dtype, true, false, &p, err);
    }
    return rc;
}
