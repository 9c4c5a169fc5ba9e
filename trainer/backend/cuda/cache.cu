/*
 * A key-value cache: put_rows and attention_cached.
 *
 * put_rows ("="): y[index[t]] = x[t]; a block owns a row, 2 T n elements. attention_cached ("="):
 * O_i = sum_j softmax_j(scale Q_i.K_j) V_j over the cached keys up to the token's position. A block
 * owns one q head of one token and takes KEYS keys at a time. A warp computes the score of a key;
 * the online softmax keeps the maximum and the sum (Dao et al. 2022, algorithm 1); a thread
 * accumulates a channel of the value. Moves len (dq + dv) elements a head and token, from the
 * device's caches where heads share a key. The limit is the bandwidth. The order of the sums is
 * fixed.
 */
#include "trainer/backend/cuda/cuda.h"

enum { KEYS = 64, THREADS = 128, WARPS = THREADS / 32 };

template <class T>
__global__ void put_rows_kernel(struct rows<T> y, struct rows<const T> x, const int32_t *index,
                                int64_t n)
{
    int64_t t = blockIdx.x, at = index[t];

    if (at < 0)
        return;
    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < n; j += blockDim.x * CHUNK) {
        float v[CHUNK];

        load(v, x.at(t, j), n - j);
        store(y.at(at, j), v, n - j);
    }
}

enum fr_rc tr_cuda_put_rows(struct cuda *cuda, struct tr_queue *q, const struct tr_put_rows *a,
                            struct fr_err *err)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1];

    (void)cuda;
    return cuda_float(a->x.dtype, [&](auto t) {
        using X = decltype(t);

        return cuda_launch(q, cuda_row_grid(T, n, 0), err, put_rows_kernel<X>, cuda_rows<X>(a->y),
                           cuda_rows<const X>(a->x), static_cast<const int32_t *>(a->index.p), n);
    });
}

struct cached {
    const int32_t *offsets, *first, *len;
    int64_t B, group, dq, dv; /* group: q heads of a kv head */
    int64_t window;           /* 0: none */
    float scale;
};

/* The first cached row of token t's sequence, and how many keys it attends to; 0: the token is in
 * no segment. */
__device__ __forceinline__ int64_t keys_of(const struct cached &a, int64_t t, int64_t *first)
{
    for (int64_t b = 0; b < a.B; b++)
        if (t >= a.offsets[b] && t < a.offsets[b + 1]) {
            int64_t keys = a.len[b] - (a.offsets[b + 1] - t) + 1;
            int64_t skip = a.window > 0 && keys > a.window ? keys - a.window : 0;

            *first = a.first[b] + skip;
            return keys - skip;
        }
    return 0;
}

/* Returns the score of one key to all lanes of the warp. */
template <class T> __device__ __forceinline__ float score(const float *q, const T *k, int64_t n)
{
    float sum = 0;

    for (int64_t i = threadIdx.x % 32; i < n; i += 32)
        sum += q[i] * to_f32(k[i]);
    return warp_sum(sum);
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    attention_cached_kernel(struct rows<T> O, struct rows<const T> Q, struct rows<const T> K,
                            struct rows<const T> V, struct cached a)
{
    DEV_DYNAMIC(float, room); /* dq of the query, dv of the sum */
    DEV_SHARED(float, s, [KEYS]);
    DEV_SHARED(float, part, [32]);
    int64_t t = blockIdx.x, h = blockIdx.y, g = h / a.group, first = 0;
    int64_t keys = keys_of(a, t, &first);
    float *q = room, *o = room + a.dq, max = -INFINITY, total = 0;

    if (keys <= 0)
        return;
    for (int64_t i = threadIdx.x; i < a.dq; i += THREADS)
        q[i] = a.scale * to_f32(*Q.at(t, h * a.dq + i));
    for (int64_t i = threadIdx.x; i < a.dv; i += THREADS)
        o[i] = 0;
    __syncthreads();
    for (int64_t j0 = 0; j0 < keys; j0 += KEYS) {
        int n = keys - j0 < KEYS ? (int)(keys - j0) : (int)KEYS;
        float most = max, keep, sum = 0;

        for (int j = (int)(threadIdx.x / 32); j < n; j += WARPS) {
            float x = score(q, K.at(first + j0 + j, g * a.dq), a.dq);

            if (threadIdx.x % 32 == 0)
                s[j] = x;
        }
        __syncthreads();
        for (int j = 0; j < n; j++)
            most = fmaxf(most, s[j]);
        __syncthreads(); /* all have read the scores */
        keep = expf(max - most);
        for (int j = (int)threadIdx.x; j < n; j += THREADS) {
            s[j] = expf(s[j] - most);
            sum += s[j];
        }
        total = total * keep + block_sum(sum, part); /* its barrier shows s to all */
        for (int64_t d = threadIdx.x; d < a.dv; d += THREADS) {
            float x = o[d] * keep;

            for (int j = 0; j < n; j++)
                x += s[j] * to_f32(*V.at(first + j0 + j, g * a.dv + d));
            o[d] = x;
        }
        max = most;
        __syncthreads();
    }
    for (int64_t d = threadIdx.x; d < a.dv; d += THREADS)
        *O.at(t, h * a.dv + d) = from_f32<T>(o[d] / total);
}

enum fr_rc tr_cuda_attention_cached(struct cuda *cuda, struct tr_queue *q,
                                    const struct tr_attention_cached *a, struct fr_err *err)
{
    int64_t T = a->Q.shape[0], nh = a->Q.shape[1];
    struct cached c = {static_cast<const int32_t *>(a->offsets.p),
                       static_cast<const int32_t *>(a->first.p),
                       static_cast<const int32_t *>(a->len.p),
                       a->first.shape[0],
                       nh / a->K.shape[1],
                       a->Q.shape[2],
                       a->V.shape[2],
                       a->window,
                       a->scale};
    struct cuda_grid g = {dim3((unsigned)T, (unsigned)nh), THREADS,
                          (size_t)(c.dq + c.dv) * sizeof(float)};

    (void)cuda;
    return cuda_float(a->Q.dtype, [&](auto t) {
        using X = decltype(t);

        return cuda_launch(q, g, err, attention_cached_kernel<X>, cuda_rows<X>(a->O),
                           cuda_rows<const X>(a->Q), cuda_rows<const X>(a->K),
                           cuda_rows<const X>(a->V), c);
    });
}
