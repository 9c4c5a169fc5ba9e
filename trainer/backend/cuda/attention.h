/*
 * Shared by the forward and the backward pass of attention. Internal to trainer/backend/cuda.
 *
 * A block owns ROWS rows (queries or keys) of one segment and one head, 16 rows a warp, and loops
 * over tiles of the other side. Registers and shared memory have room for head sizes of 64/64,
 * 128/128 or 192/128. A smaller head uses the next size, but only as many products as it needs.
 */
#ifndef TR_BACKEND_CUDA_ATTENTION_H
#define TR_BACKEND_CUDA_ATTENTION_H

#include "trainer/backend/cuda/tile.h"

/* A view as kernels take it, with the stride of a token in elements. */
struct heads {
    void *p;
    int64_t ld;
    bool wide;
};

/* The values of a query from which P and dS follow: lse in units of exp2, and delta. */
struct alignas(8) attention_query {
    float lse, delta;
};

struct attention {
    struct heads Q, K, V, O, dQ, dK, dV, dO;
    float *lse;                      /* (nh, T) */
    struct attention_query *queries; /* (nh, T), contiguous; backward only */
    int64_t lse_ld, T;
    const int32_t *offsets;
    int segments, nh, nkv, dq, dv;
    float scale;
    bool causal;
    int64_t window; /* 0: none */
};

/* Whether query i of a segment attends to key j. */
__device__ __forceinline__ bool attention_seen(const struct attention &a, int64_t i, int64_t j)
{
    return (!a.causal || j <= i) && (a.window == 0 || j > i - a.window);
}

/* The head sizes of a kernel, its warps, the rows of a tile of the other side, and its stages. */
template <class T, int DQ_, int DV_> struct attention_shape {
    static constexpr int DQ = DQ_, DV = DV_, LDQ = DQ + 8, LDV = DV + 8;
    static constexpr int WARPS = sizeof(T) == 2 ? 8 : 4, ROWS = WARPS * 16, THREADS = WARPS * 32;
    static constexpr int STAGES = sizeof(T) == 2 ? 2 : 1;
};

/* Finds the segment of a block and the block's first row in the segment. */
struct span {
    int64_t begin, len, first;
};

__device__ __forceinline__ bool attention_span(struct span *s, const struct attention &a, int rows)
{
    int64_t tile = (int64_t)gridDim.x - 1 - blockIdx.x; /* causal: the longest first */

    for (int b = 0; b < a.segments; b++) {
        int64_t begin = a.offsets[b], len = a.offsets[b + 1] - begin;
        int64_t tiles = (len + rows - 1) / rows;

        if (tile < tiles) {
            *s = {begin, len, tile * rows};
            return true;
        }
        tile -= tiles;
    }
    return false;
}

/* The tokens of one segment and head: a matrix (len, size). */
template <class T>
__device__ __forceinline__ tile_source<T> attention_source(const struct heads &v, int64_t begin,
                                                           int64_t len, int head, int size)
{
    return {static_cast<const T *>(v.p) + begin * v.ld + (int64_t)head * size, v.ld, len, size,
            v.wide};
}

/* s (16, N*16) += a b^T; the columns of both tiles are the K dimension. */
template <int N, class T>
__device__ __forceinline__ void attention_scores(float (&s)[2 * N][4], const T *a, const T *b,
                                                 int ld, int size)
{
#pragma unroll 2
    for (int k = 0; k < size; k += 16) {
        tile_a<T> fa;

        tile_load_a<false>(fa, a + k, ld);
#pragma unroll
        for (int n = 0; n < N; n++) {
            tile_b<T> fb;

            tile_load_b<true>(fb, b + n * 16 * ld + k, ld);
            tile_mma<T>(s[2 * n], fa, fb, 0);
            tile_mma<T>(s[2 * n + 1], fa, fb, 1);
        }
    }
}

/* sum (16, D) += p (16, K*16) b, without the columns from `size` on. */
template <int K, int D, class T>
__device__ __forceinline__ void attention_add(float (&sum)[D / 8][4], const float (&p)[2 * K][4],
                                              const T *b, int ld, int size)
{
#pragma unroll
    for (int k = 0; k < K; k++) {
        tile_a<T> fa;

        tile_take<T>(fa, p[2 * k], p[2 * k + 1]);
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            if (n * 16 < size) {
                tile_b<T> fb;

                tile_load_b<false>(fb, b + k * 16 * ld + n * 16, ld);
                tile_mma<T>(sum[2 * n], fa, fb, 0);
                tile_mma<T>(sum[2 * n + 1], fa, fb, 1);
            }
        }
    }
}

static constexpr float ATTENTION_LOG2E = 1.44269504089f;

/* The online softmax for one tile of a warp's 16 rows: turns scores into probabilities relative to
 * the new maximum. keep receives the factors that rescale the old sums. scale > 0 and m are in
 * units of exp2. */
template <int N>
__device__ __forceinline__ void attention_softmax(float (&s)[N][4], float (&m)[2], float (&l)[2],
                                                  float (&keep)[2], float scale)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float max = -INFINITY, sum = 0;

#pragma unroll
        for (int n = 0; n < N; n++)
            max = fmaxf(max, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2));
        max = fmaxf(m[h], max * scale);
        float base = max == -INFINITY ? 0 : max; /* the window may begin after the tile */
#pragma unroll
        for (int n = 0; n < N; n++) {
            s[n][2 * h] = ptx_exp2(fmaf(s[n][2 * h], scale, -base));
            s[n][2 * h + 1] = ptx_exp2(fmaf(s[n][2 * h + 1], scale, -base));
            sum += s[n][2 * h] + s[n][2 * h + 1];
        }
        keep[h] = ptx_exp2(m[h] - base);
        l[h] = l[h] * keep[h] + sum;
        m[h] = max;
    }
}

/* Sets the scores of masked pairs to -inf. The owned rows begin at `row` of the segment, the tile's
 * columns at `col`. KEYS: the rows are keys and the columns queries. */
template <bool KEYS, int N>
__device__ __forceinline__ void attention_mask(float (&s)[N][4], const struct attention &a,
                                               int64_t row, int64_t col, int64_t len)
{
    int lane = (int)(threadIdx.x % 32);
    int r0 = (int)row + lane / 4, c0 = (int)col + lane % 4 * 2, end = (int)len;

#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int r = r0 + e / 2 * 8, c = c0 + n * 8 + e % 2, i = KEYS ? c : r, j = KEYS ? r : c;

            if (i >= end || j >= end || !attention_seen(a, i, j))
                s[n][e] = -INFINITY;
        }
}

/* Whether attention_mask masks any pair of a warp's 16 rows and a tile of N columns. */
template <bool KEYS, int N>
__device__ __forceinline__ bool attention_partial(const struct attention &a, int64_t row,
                                                  int64_t col, int64_t len)
{
    int i = (int)(KEYS ? col : row),
        j = (int)(KEYS ? row : col); /* the first query, the first key */
    int i_last = i + (KEYS ? N : 16) - 1, j_last = j + (KEYS ? 16 : N) - 1;

    return i_last >= (int)len || j_last >= (int)len || (a.causal && j_last > i) ||
           (a.window > 0 && j + a.window <= i_last);
}

/* Stores lse of a warp's 16 rows. l holds a lane's part of a row's sum before the call, and the
 * factor that normalises the row after the call. */
__device__ __forceinline__ void attention_end(const struct attention &a, const struct span &s,
                                              int head, int64_t row, const float (&m)[2],
                                              float (&l)[2])
{
    int lane = (int)(threadIdx.x % 32);

#pragma unroll
    for (int h = 0; h < 2; h++) {
        int64_t i = row + lane / 4 + h * 8;

        l[h] += __shfl_xor_sync(0xffffffffu, l[h], 1);
        l[h] += __shfl_xor_sync(0xffffffffu, l[h], 2);
        if (i < s.len && lane % 4 == 0)
            a.lse[head * a.lse_ld + s.begin + i] = (m[h] + log2f(l[h])) * 0.69314718056f;
        l[h] = 1 / l[h];
    }
}

/* Stores a warp's accumulators to a view, times by[0] (rows 0..7) and by[1] (rows 8..15). All lanes
 * call. */
template <class T, int D>
__device__ __forceinline__ void attention_put(const struct heads &v, const float (&sum)[D / 8][4],
                                              const struct span &s, int64_t row, int64_t at,
                                              int size, const float (&by)[2])
{
    int lane = (int)(threadIdx.x % 32);

#pragma unroll
    for (int h = 0; h < 2; h++) {
        int64_t i = row + lane / 4 + h * 8;
        T *to = static_cast<T *>(v.p) + (s.begin + i) * v.ld + at;

#pragma unroll
        for (int n = 0; n < D / 8; n += 4) {
            float x[8];

#pragma unroll
            for (int e = 0; e < 8; e++)
                x[e] = sum[n + e / 2][2 * h + e % 2] * by[h];
            tile_put_row(to, x, n * 8, i < s.len ? size : 0, v.wide);
        }
    }
}

/* Makes the arguments of the kernels. FR_UNSUPPORTED: a head larger than 192/128. */
enum fr_rc attention_args(struct attention *out, const struct tr_attention *a, struct fr_err *err);

/* Both passes on sm_90a by wgmma and TMA. They take 16-bit types without a window; rows and heads
 * of Q, K, V (and dO, if given) are aligned to 16 bytes. */
bool attention_sm90_takes(const struct cuda *cuda, enum tr_dtype type, const struct attention &x);
enum fr_rc attention_bwd_sm90(struct tr_queue *q, const struct tr_attention *a,
                              const struct attention &x, struct fr_err *err);
enum fr_rc attention_sm90(struct tr_queue *q, const struct tr_attention *a,
                          const struct attention &x, struct fr_err *err);

/* Calls f(type, cuda_int<DQ>, cuda_int<DV>) with the smallest kernel sizes that fit. f32 has only
 * the largest. */
template <class F> enum fr_rc attention_sized(enum tr_dtype t, const struct attention &a, F f)
{
    return cuda_float(t, [&](auto type) {
        if constexpr (sizeof(type) == 2) {
            if (a.dq <= 64 && a.dv <= 64)
                return f(type, cuda_int<64>(), cuda_int<64>());
            if (a.dq <= 128)
                return f(type, cuda_int<128>(), cuda_int<128>());
        }
        return f(type, cuda_int<192>(), cuda_int<128>());
    });
}

/* Enough blocks that own `rows` rows each: a segment has at most one that is partly filled. */
static inline struct cuda_grid attention_grid(const struct attention &a, int rows, int heads,
                                              int threads)
{
    return {dim3((unsigned)(a.T / rows + a.segments), (unsigned)heads), threads, 0};
}

#endif
