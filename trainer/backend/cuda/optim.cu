/*
 * Ops of the optimizer: adamw, the norm and the scan of gradients, the ordered reduction.
 *
 * adamw ("+="): g' = g * scale, m = b1 m + (1-b1) g', v = b2 v + (1-b2) g'^2, p = p (1 - lr wd) -
 * lr (m c1) / (sqrt(v c2) + eps), c1 = 1/(1-b1^step), c2 = 1/(1-b2^step), in f32. What is fused is
 * written as such, so that the host can compute the same bits (vec.h). A thread owns a chunk of
 * the four arrays; 28 bytes an element and the copy move. sumsq (+=): out += sum of x*x, exactly;
 * a thread owns 64 elements of a row. nonfinite (+=): found += the number of x whose exponent
 * bits, in f32, are all set; a block owns CHUNKS chunks a thread. Digits and the count are
 * integers, which atomics may add. Both read x once. reduce_ordered ("=", or += with add): out =
 * sum of slices[w], w ascending. A thread owns a chunk of out; (W + 1) n elements move. The limit
 * of all is the bandwidth.
 * Source: Loshchilov & Hutter 2019, algorithm 2.
 */
#include "trainer/backend/cuda/cuda.h"

#include <math.h>
#include <string.h>

enum { CHUNKS = 8 }; /* chunks of a thread in a scan */

/* The constants of one step; a: 1 - b, of doubles; c: 1 / (1 - b^step). */
struct step {
    float scale, b1, b2, a1, a2, c1, c2, decay, lr, eps;
    const float *gscale; /* NULL: 1 */
    const int64_t *skip; /* NULL: 0 */
};

struct moments {
    float *p, *m, *v;
    const float *g;
};

template <class T> __global__ void adamw_kernel(struct moments x, T *copy, struct step k, int64_t n)
{
    int64_t j = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CHUNK;
    float p[CHUNK], m[CHUNK], v[CHUNK], g[CHUNK];

    if (j >= n || (k.skip != NULL && *k.skip != 0))
        return;
    if (k.gscale != NULL)
        k.scale *= *k.gscale;
    load(p, x.p + j, n - j);
    load(m, x.m + j, n - j);
    load(v, x.v + j, n - j);
    load(g, x.g + j, n - j);
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        g[i] *= k.scale;
        m[i] = fmaf(k.a1, g[i], k.b1 * m[i]);
        v[i] = fmaf(k.b2, v[i], k.a2 * g[i] * g[i]);
        p[i] = fmaf(p[i], k.decay, -(k.lr * (m[i] * k.c1) / (sqrtf(v[i] * k.c2) + k.eps)));
    }
    store(x.p + j, p, n - j);
    store(x.m + j, m, n - j);
    store(x.v + j, v, n - j);
    if (copy != NULL)
        store(copy + j, p, n - j);
}

enum fr_rc tr_cuda_adamw(struct cuda *cuda, struct tr_queue *q, const struct tr_adamw *a,
                         struct fr_err *err)
{
    const struct tr_view *views[] = {&a->p, &a->m, &a->v, &a->g, &a->copy};
    struct cuda_span s = cuda_span_of(true, views, 5);
    struct moments x = {static_cast<float *>(a->p.p), static_cast<float *>(a->m.p),
                        static_cast<float *>(a->v.p), static_cast<const float *>(a->g.p)};
    struct step k = {a->scale,
                     (float)a->b1,
                     (float)a->b2,
                     (float)(1 - a->b1),
                     (float)(1 - a->b2),
                     (float)(1 / (1 - pow(a->b1, (double)a->step))),
                     (float)(1 / (1 - pow(a->b2, (double)a->step))),
                     (float)(1 - (double)a->lr * (double)a->wd),
                     a->lr,
                     (float)a->eps,
                     static_cast<const float *>(a->gscale.p),
                     static_cast<const int64_t *>(a->skip.p)};

    (void)cuda;
    return cuda_float(a->copy.p != NULL ? a->copy.dtype : TR_F32, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, adamw_kernel<T>, x, static_cast<T *>(a->copy.p),
                           k, s.width);
    });
}

__device__ __forceinline__ void load(float (&v)[CHUNK], const uint8_t *f8, int64_t n)
{
    load_f8(v, f8, n);
}

/* Calls f with each chunk of x that this block owns. */
template <class X, class F>
__device__ __forceinline__ void each_chunk(struct rows<const X> x, const struct cuda_span &s, F f)
{
    int64_t across = (s.width + CHUNK - 1) / CHUNK,
            i = (int64_t)blockIdx.x * CHUNKS * blockDim.x + threadIdx.x;
    float v[CHUNK];

#pragma unroll 4
    for (int c = 0; c < CHUNKS; c++, i += blockDim.x) {
        if (i >= across * s.count)
            break;
        int64_t row = s.count == 1 ? 0 : i / across, col = (i - row * across) * CHUNK;

        load(v, x.at(row, col), s.width - col);
        f(v);
    }
}

/* A thread owns a block of TR_SUMSQ_BLOCK elements of a row; a block of threads adds its digits in
 * shared memory, then to out. */
template <class X>
__global__ void squares_kernel(unsigned long long *out, struct rows<const X> x, struct cuda_span s)
{
    DEV_SHARED(unsigned long long, digits, [TR_EXACT_LIMBS]);
    int64_t across = (s.width + TR_SUMSQ_BLOCK - 1) / TR_SUMSQ_BLOCK;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = i / across;
    int64_t first = (i - row * across) * TR_SUMSQ_BLOCK;
    double sum = 0;

    if (threadIdx.x < TR_EXACT_LIMBS)
        digits[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t col = first; row < s.count && col < first + TR_SUMSQ_BLOCK && col < s.width;
         col += CHUNK) {
        float v[CHUNK];

        load(v, x.at(row, col), s.width - col);
#pragma unroll
        for (int k = 0; k < CHUNK; k++)
            if (col + k < s.width)
                sum += (double)v[k] * (double)v[k];
    }
    if (sum > 0 && isfinite(sum)) {
        uint64_t bits;
        struct tr_exact e;

        memcpy(&bits, &sum, sizeof bits);
        e = tr_exact_of(bits);
        for (int k = 0; k < 3; k++)
            atomicAdd(&digits[e.limb + k], (unsigned long long)e.part[k]);
    }
    __syncthreads();
    if (threadIdx.x < TR_EXACT_LIMBS && digits[threadIdx.x] > 0)
        atomicAdd(&out[threadIdx.x], digits[threadIdx.x]);
}

__global__ void carry_kernel(int64_t *limbs)
{
    if (threadIdx.x == 0)
        tr_exact_carry(limbs);
}

template <class X>
__global__ void nonfinite_kernel(unsigned long long *found, struct rows<const X> x,
                                 struct cuda_span s)
{
    DEV_SHARED(int, part, [32]);
    int bad = 0;

    each_chunk<X>(x, s, [&](const float(&v)[CHUNK]) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            bad += (__float_as_uint(v[i]) & 0x7f800000u) == 0x7f800000u;
    });
    bad = block_sum(bad, part);
    if (threadIdx.x == 0 && bad > 0)
        atomicAdd(found, (unsigned long long)bad);
}

static struct cuda_grid scan_grid(const struct cuda_span &s)
{
    return {dim3(cuda_blocks(s.count * ((s.width + CHUNK - 1) / CHUNK), CHUNKS * CUDA_THREADS)),
            CUDA_THREADS, 0};
}

enum fr_rc tr_cuda_sumsq(struct cuda *cuda, struct tr_queue *q, const struct tr_sumsq *a,
                         struct fr_err *err)
{
    const struct tr_view *views[] = {&a->x};
    struct cuda_span s = cuda_span_of(false, views, 1);
    int64_t across = (s.width + TR_SUMSQ_BLOCK - 1) / TR_SUMSQ_BLOCK;
    struct cuda_grid g = {dim3(cuda_blocks(s.count * across, CUDA_THREADS)), CUDA_THREADS, 0};
    enum fr_rc rc = cuda_float(a->x.dtype, [&](auto t) {
        using X = decltype(t);

        return cuda_launch(q, g, err, squares_kernel<X>,
                           static_cast<unsigned long long *>(a->out.p), cuda_rows<const X>(a->x),
                           s);
    });

    (void)cuda;
    return rc == FR_OK ? cuda_launch(q, {dim3(1), 32, 0}, err, carry_kernel,
                                     static_cast<int64_t *>(a->out.p))
                       : rc;
}

enum fr_rc tr_cuda_nonfinite(struct cuda *cuda, struct tr_queue *q, const struct tr_nonfinite *a,
                             struct fr_err *err)
{
    const struct tr_view *views[] = {&a->x};
    struct cuda_span s = cuda_span_of(true, views, 1);

    auto scan = [&](auto t) {
        using X = decltype(t);

        return cuda_launch(q, scan_grid(s), err, nonfinite_kernel<X>,
                           static_cast<unsigned long long *>(a->found.p), cuda_rows<const X>(a->x),
                           s);
    };

    (void)cuda;
    return a->x.dtype == TR_F8_E4M3 ? scan(uint8_t()) : cuda_float(a->x.dtype, scan);
}

template <class T>
__global__ void reduce_kernel(T *out, struct any slices, int64_t W, int64_t n, bool add)
{
    int64_t j = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CHUNK;
    float sum[CHUNK], x[CHUNK];

    if (j >= n)
        return;
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        sum[i] = 0;
    if (add)
        load(sum, out + j, n - j);
    for (int64_t w = 0; w < W; w++) {
        load_any(x, slices, w, j, n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum[i] += x[i];
    }
    store(out + j, sum, n - j);
}

enum fr_rc tr_cuda_reduce_ordered(struct cuda *cuda, struct tr_queue *q, const struct tr_reduce *a,
                                  struct fr_err *err)
{
    const struct tr_view *views[] = {&a->out};
    struct cuda_span s = cuda_span_of(true, views, 1);

    (void)cuda;
    return cuda_float(a->out.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, reduce_kernel<T>, static_cast<T *>(a->out.p),
                           cuda_any(a->slices), a->slices.shape[0], s.width, a->add);
    });
}
