/*
 * Ops of the optimizer: adamw, the norm and the scan of gradients, the ordered reduction.
 *
 * adamw ("+="): g' = g * scale, m = b1 m + (1-b1) g', v = b2 v + (1-b2) g'^2, p = p (1 - lr wd) -
 * lr (m c1) / (sqrt(v c2) + eps), c1 = 1/(1-b1^step), c2 = 1/(1-b2^step), in f32. What is fused is
 * written as such, so that the host can compute the same bits (vec.h). A thread owns a chunk of
 * the four arrays; 28 bytes an element and the copy move. With coded moments a warp owns a block of
 * TR_CODED_BLOCK elements: it decodes, updates, finds the largest magnitudes, and codes again; 16
 * bytes an element and the copy move. sumsq (+=): out += sum of x*x, exactly, and found += what is
 * not finite; a thread owns a block of 64 elements of a row and sums its lanes (vec.h). nonfinite
 * (+=): found += the number of x whose exponent bits, in f32, are all set; a block owns CHUNKS
 * chunks a thread. Digits and the count are integers, which atomics may add. Both read x once.
 * reduce_ordered ("=", or += with add): out = sum of slices[w], w ascending. A thread owns a chunk
 * of out; (W + 1) n elements move. The limit of all is the bandwidth.
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

__device__ __forceinline__ void step_of(const struct step &k, float &p, float &m, float &v, float g)
{
    g *= k.scale;
    m = fmaf(k.a1, g, k.b1 * m);
    v = fmaf(k.b2, v, k.a2 * g * g);
    p = fmaf(p, k.decay, -(k.lr * (m * k.c1) / (sqrtf(v * k.c2) + k.eps)));
}

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
    for (int i = 0; i < CHUNK; i++)
        step_of(k, p[i], m[i], v[i], g[i]);
    store(x.p + j, p, n - j);
    store(x.m + j, m, n - j);
    store(x.v + j, v, n - j);
    if (copy != NULL)
        store(copy + j, p, n - j);
}

/* Moments as codes, and the largest magnitude of each block. */
struct coded {
    uint8_t *m, *v;
    float *m_max, *v_max;
};

struct maps {
    struct tr_codes m, v;
};

/* The values of a chunk of codes; those behind its n are 0. */
__device__ __forceinline__ void decode(float (&x)[CHUNK], const struct tr_codes &map,
                                       const uint8_t *codes, float most, int64_t n)
{
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] = i < n ? tr_codes_value(&map, codes[i]) * most : 0;
}

/* The nearest value's code of each number, relative to the largest magnitude of the block. */
__device__ __forceinline__ void encode(uint8_t *codes, const struct tr_codes &map,
                                       const float (&x)[CHUNK], float most, int64_t n)
{
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        float near = most > 0 ? fabsf(x[i]) / most : 0;
        int low = 0, high = map.count - 1;

        while (low < high) {
            int mid = (low + high) / 2;

            if (near > tr_codes_middle(&map, mid))
                low = mid + 1;
            else
                high = mid;
        }
        if (i < n)
            codes[i] = (uint8_t)tr_codes_code(&map, low, x[i] < 0);
    }
}

template <class T>
__global__ void adamw_coded_kernel(struct moments x, struct coded y, struct maps maps, T *copy,
                                   struct step k, int64_t n)
{
    DEV_SHARED(struct maps, map, [1]);
    int64_t block = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int64_t j = block * TR_CODED_BLOCK + threadIdx.x % 32 * CHUNK, left = n - j;
    float p[CHUNK], m[CHUNK], v[CHUNK], g[CHUNK], m_max = 0, v_max = 0;

    if (threadIdx.x < 256) {
        map->m.value[threadIdx.x] = maps.m.value[threadIdx.x];
        map->v.value[threadIdx.x] = maps.v.value[threadIdx.x];
    }
    if (threadIdx.x == 0) {
        map->m.count = maps.m.count;
        map->m.zero = maps.m.zero;
        map->v.count = maps.v.count;
        map->v.zero = maps.v.zero;
    }
    __syncthreads();
    if (block * TR_CODED_BLOCK >= n || (k.skip != NULL && *k.skip != 0))
        return;
    if (k.gscale != NULL)
        k.scale *= *k.gscale;
    load(p, x.p + j, left);
    load(g, x.g + j, left);
    decode(m, map->m, y.m + j, y.m_max[block], left);
    decode(v, map->v, y.v + j, y.v_max[block], left);
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        step_of(k, p[i], m[i], v[i], g[i]);
        m_max = fmaxf(m_max, fabsf(m[i]));
        v_max = fmaxf(v_max, v[i]);
    }
    m_max = warp_max(m_max);
    v_max = warp_max(v_max);
    store(x.p + j, p, left);
    encode(y.m + j, map->m, m, m_max, left);
    encode(y.v + j, map->v, v, v_max, left);
    if (threadIdx.x % 32 == 0) {
        y.m_max[block] = m_max;
        y.v_max[block] = v_max;
    }
    if (copy != NULL)
        store(copy + j, p, left);
}

static struct step step_from(const struct tr_adamw *a)
{
    return {a->scale,
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
}

static enum fr_rc adamw_coded(struct tr_queue *q, const struct tr_adamw *a, struct moments x,
                              struct fr_err *err)
{
    int64_t n = a->p.shape[0], lanes = (n + TR_CODED_BLOCK - 1) / TR_CODED_BLOCK * 32;
    struct cuda_grid g = {dim3(cuda_blocks(lanes, CUDA_THREADS)), CUDA_THREADS, 0};
    struct coded y = {static_cast<uint8_t *>(a->m.p), static_cast<uint8_t *>(a->v.p),
                      static_cast<float *>(a->m_max.p), static_cast<float *>(a->v_max.p)};
    struct maps maps;

    static_assert(CUDA_THREADS >= 256, "a thread copies a value of each map");
    tr_codes_make(&maps.m, 1);
    tr_codes_make(&maps.v, 0);
    return cuda_float(a->copy.p != NULL ? a->copy.dtype : TR_F32, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, g, err, adamw_coded_kernel<T>, x, y, maps,
                           static_cast<T *>(a->copy.p), step_from(a), n);
    });
}

enum fr_rc tr_cuda_adamw(struct cuda *cuda, struct tr_queue *q, const struct tr_adamw *a,
                         struct fr_err *err)
{
    const struct tr_view *views[] = {&a->p, &a->m, &a->v, &a->g, &a->copy};
    struct cuda_span s = cuda_span_of(true, views, 5);
    bool coded = a->m.dtype == TR_U8;
    struct moments x = {static_cast<float *>(a->p.p), coded ? NULL : static_cast<float *>(a->m.p),
                        coded ? NULL : static_cast<float *>(a->v.p),
                        static_cast<const float *>(a->g.p)};

    (void)cuda;
    if (coded)
        return adamw_coded(q, a, x, err);
    return cuda_float(a->copy.p != NULL ? a->copy.dtype : TR_F32, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, adamw_kernel<T>, x, static_cast<T *>(a->copy.p),
                           step_from(a), s.width);
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

static __device__ bool is_nonfinite(float v)
{
    return (__float_as_uint(v) & 0x7f800000u) == 0x7f800000u;
}

/* A thread owns a block of TR_SUMSQ_BLOCK elements of a row; a block of threads adds its digits in
 * shared memory, then to out. found: NULL, or counts what is not finite. */
template <class X>
__global__ void squares_kernel(unsigned long long *out, unsigned long long *found,
                               struct rows<const X> x, struct cuda_span s)
{
    DEV_SHARED(unsigned long long, digits, [TR_EXACT_LIMBS]);
    int64_t across = (s.width + TR_SUMSQ_BLOCK - 1) / TR_SUMSQ_BLOCK;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = i / across;
    int64_t first = (i - row * across) * TR_SUMSQ_BLOCK;
    double sum[TR_SUMSQ_LANES] = {};
    int bad = 0;

    static_assert((int)TR_SUMSQ_LANES == (int)CHUNK, "a chunk has an element of each lane");
    if (threadIdx.x < TR_EXACT_LIMBS)
        digits[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t col = first; row < s.count && col < first + TR_SUMSQ_BLOCK && col < s.width;
         col += CHUNK) {
        float v[CHUNK];

        load(v, x.at(row, col), s.width - col);
#pragma unroll
        for (int k = 0; k < CHUNK; k++)
            if (col + k < s.width) {
                sum[k] += (double)v[k] * (double)v[k];
                bad += is_nonfinite(v[k]);
            }
    }
#pragma unroll
    for (int half = TR_SUMSQ_LANES / 2; half > 0; half /= 2)
#pragma unroll
        for (int k = 0; k < half; k++)
            sum[k] += sum[k + half];
    if (bad > 0 && found != NULL)
        atomicAdd(found, (unsigned long long)bad);
    if (sum[0] > 0 && bad == 0) {
        uint64_t bits;
        struct tr_exact e;

        memcpy(&bits, &sum[0], sizeof bits);
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
            bad += is_nonfinite(v[i]);
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
                           static_cast<unsigned long long *>(a->out.p),
                           static_cast<unsigned long long *>(a->found.p), cuda_rows<const X>(a->x),
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
