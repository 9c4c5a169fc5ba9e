/*
 * What the forward and the backward of attention share. Internal to trainer/backend/cuda.
 *
 * A block owns ROWS rows (queries or keys) of one segment and one head, 16 a warp, and goes over
 * tiles of the other side. Head sizes are 64/64, 128/128 or 192/128 in registers and shared memory;
 * smaller ones use the next, with their own number of products.
 */
#ifndef TR_BACKEND_CUDA_ATTENTION_H
#define TR_BACKEND_CUDA_ATTENTION_H

#include "trainer/backend/cuda/tile.h"

/* Views as kernels take them: token stride in elements. */
struct heads {
    void *p;
    int64_t ld;
    bool wide;
};

struct attention {
    struct heads Q, K, V, O, dQ, dK, dV, dO;
    float *lse, *delta; /* (nh, T) */
    int64_t lse_ld, delta_ld, T;
    const int32_t *offsets;
    int segments, nh, nkv, dq, dv;
    float scale;
    bool causal;
};

/* Head sizes of a kernel, its warps, the rows of the other side's tiles, stages of those. */
template <class T, int DQ_, int DV_> struct attention_shape {
    static constexpr int DQ = DQ_, DV = DV_, LDQ = DQ + 8, LDV = DV + 8;
    static constexpr int WARPS = sizeof(T) == 2 ? 8 : 4, ROWS = WARPS * 16, THREADS = WARPS * 32;
    static constexpr int STAGES = sizeof(T) == 2 ? 2 : 1;
};

/* The segment of a block and the block's first row in it. */
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

/* s (16, N*16) += a b^T over the columns of both tiles. */
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

/* sum (16, D) += p (16, K*16) b, columns behind `size` left out. */
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

/* Rows of a warp's sums into a view, times `by[0]` (rows 0..7) and `by[1]` (8..15). */
template <class T, int D>
__device__ __forceinline__ void attention_put(const struct heads &v, const float (&sum)[D / 8][4],
                                              const struct span &s, int64_t row, int64_t at,
                                              int size, const float (&by)[2])
{
    int lane = (int)(threadIdx.x % 32);

#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int64_t i = row + lane / 4 + e / 2 * 8;
            int d = n * 8 + lane % 4 * 2 + e % 2;

            if (i < s.len && d < size)
                static_cast<T *>(v.p)[(s.begin + i) * v.ld + at + d] =
                    from_f32<T>(sum[n][e] * by[e / 2]);
        }
}

/* The arguments as kernels take them. FR_UNSUPPORTED: a head beyond 192/128. */
enum fr_rc attention_args(struct attention *out, const struct tr_attention *a, struct fr_err *err);

/* Calls f(type, cuda_int<DQ>, cuda_int<DV>) with the kernel sizes that fit; f32 has the largest
 * alone. */
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

/* Blocks that own `rows` rows each: no segment has more than its share and one. */
static inline struct cuda_grid attention_grid(const struct attention &a, int rows, int heads,
                                              int threads)
{
    return {dim3((unsigned)(a.T / rows + a.segments), (unsigned)heads), threads, 0};
}

#endif
