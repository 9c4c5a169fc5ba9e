/*
 * gemm: c = alpha * op(a) * op(b) + beta * c + bias ("=", or "+=" with beta). cuBLASLt (lt.cu)
 * computes most calls. The kernel of product.cu computes FP8 blocks, sums without terms, and a
 * 16-bit c with a bias, since some algorithms of cuBLASLt add the bias to rounded sums. LoRA's
 * products are such calls: x A^T and dA are skinny (bandwidth of x), the update by B accumulates
 * into y with beta 1 (bandwidth of y), dA and dB are f32. Moves M*D + D*N + M*N elements (c twice
 * with beta, and once more each way for the bias of an f32 c, by bias_kernel). The limit is the
 * matrix rate; for skinny products the bandwidth.
 */
#include "trainer/backend/cuda/lt.h"
#include "trainer/backend/cuda/product.h"

template <class B>
__global__ void bias_kernel(struct rows<float> c, const B *bias, struct cuda_span s)
{
    struct chunk k;
    float x[CHUNK], b[CHUNK];

    if (!chunk_of(s, &k))
        return;
    load(x, c.at(k.row, k.col), k.n);
    load(b, bias + k.col, k.n);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] += b[i];
    store(c.at(k.row, k.col), x, k.n);
}

/* Adds the bias to an f32 c after the product. */
static enum fr_rc add_bias(struct tr_queue *q, const struct tr_gemm *a, struct fr_err *err)
{
    const struct tr_view *views[] = {&a->c};
    struct cuda_span s = cuda_span_of(false, views, 1);

    struct rows<float> c = cuda_rows<float>(a->c);

    return cuda_float(a->bias.dtype, [&](auto t) {
        return cuda_launch(q, cuda_chunks(s), err, bias_kernel<decltype(t)>, c,
                           static_cast<const decltype(t) *>(a->bias.p), s);
    });
}

static enum fr_rc own(struct cuda *cuda, struct tr_queue *q, const struct tr_gemm *a,
                      struct fr_err *err)
{
    struct product p = {};

    p.a = a->a.p;
    p.c = a->c.p;
    p.bias = a->bias.p;
    p.lda = a->a.ld;
    p.ldc = a->c.ld;
    p.M = p.each = a->c.shape[0];
    p.N = a->c.shape[1];
    p.D = a->a.shape[a->trans_a ? 0 : 1];
    p.alpha = a->alpha;
    p.beta = a->beta;
    p.block_rows = a->b.block_rows;
    p.block_cols = a->b.block_cols;
    p.groups = 1;
    p.wide_a = cuda_aligned(a->a);
    p.wide_b = cuda_aligned(a->b.w);
    p.f8 = a->b.w.dtype == TR_F8_E4M3;
    p.f32_c = a->c.dtype == TR_F32;
    p.f32_bias = a->bias.dtype == TR_F32;
    p.group[0] = product_weight(&a->b);
    return cuda_product(cuda, q, a->a.dtype, a->trans_a, a->trans_b, &p, err);
}

enum fr_rc cuda_gemm(struct cuda *cuda, struct tr_queue *q, const struct tr_gemm *a,
                     struct fr_err *err)
{
    bool bias = a->bias.p != NULL;
    enum fr_rc rc;

    if (a->c.shape[0] == 0 || a->c.shape[1] == 0)
        return FR_OK;
    if (a->b.w.dtype == TR_F8_E4M3 || a->a.shape[a->trans_a ? 0 : 1] == 0 ||
        (bias && a->c.dtype != TR_F32))
        return own(cuda, q, a, err);
    rc = lt_gemm(cuda, q, a, err);
    return rc == FR_OK && bias ? add_bias(q, a, err) : rc;
}

enum fr_rc tr_cuda_gemm(struct cuda *cuda, struct tr_queue *q, const struct tr_gemm *a,
                        struct fr_err *err)
{
    return cuda_gemm(cuda, q, a, err);
}
