/*
 * The GEMM of our own kernels, for one matrix or grouped along M. It covers the cases that cuBLASLt
 * lacks: groups whose row counts only the device knows, FP8 weights, a bias of another type.
 * Internal to trainer/backend/cuda.
 */
#ifndef TR_BACKEND_CUDA_PRODUCT_H
#define TR_BACKEND_CUDA_PRODUCT_H

#include "trainer/backend/cuda/tile.h"

enum {
    PRODUCT_GROUPS = 64, /* of one launch. Its arguments stay within 4 KB; on sm_90a, with a tensor
                            map for each matrix, within 12 KB, which needs a driver of CUDA 12.1 */
    PRODUCT_TALL = 96    /* from so many rows a group on, BLOCK_M is 128 instead of 64 */
};

/* The matrix of a group: its b, or with `reduce` its c. p NULL: the group is skipped. */
struct product_group {
    const void *p;
    const float *scale; /* of FP8 blocks */
    int64_t ld, scale_ld, row0;
};

/*
 * c = alpha * op(a) * op(b) + beta * c + bias, D the length of the sum.
 * offsets absent: one group, all rows. offsets given: group g has rows
 * [offsets[g], offsets[g+1]) of a and c, and its own b; or, with `reduce`, those rows of a and b
 * (a transposed, b not), and its own c of type f32.
 */
struct product {
    const void *a, *b;
    void *c;
    const int32_t *offsets;
    const void *bias;
    int64_t lda, ldb, ldc, M, N, D; /* M, or D with reduce: a bound for all groups together */
    int64_t each;                   /* rows of c a group, about; only selects BLOCK_M */
    float alpha, beta;
    int block_rows, block_cols, groups;
    bool wide_a, wide_b, f8, f32_c, f32_bias, reduce;
    struct product_group group[PRODUCT_GROUPS];
};

/* Launches the product in q. type: the type of a, and of b unless f8. FR_UNSUPPORTED: both operands
 * transposed. */
enum fr_rc cuda_product(struct cuda *cuda, struct tr_queue *q, enum tr_dtype type, bool trans_a,
                        bool trans_b, const struct product *p, struct fr_err *err);

/* A weight as a group. */
struct product_group product_weight(const struct tr_weight *w);

/* The same on sm_90a by wgmma and TMA. It takes 16-bit types whose rows are aligned to 16 bytes, a
 * not transposed, without FP8 and `reduce`. */
bool product_sm90_takes(const struct cuda *cuda, enum tr_dtype type, bool trans_a,
                        const struct product *p);
enum fr_rc product_sm90(struct cuda *cuda, struct tr_queue *q, enum tr_dtype type, bool trans_b,
                        const struct product *p, struct fr_err *err);

/* State of the tile scheduler. Tiles of all groups have one numbering, M fastest, so that
 * concurrent blocks share the columns of b in L2. The scheduler only moves forward. Empty and
 * absent groups have no tiles. */
struct product_tile {
    int group;
    int64_t before;      /* tiles of the earlier groups */
    int64_t first, rows; /* of the group */
    int64_t m0, n0;      /* the tile's first row and column in the group */
};

/* Finds tile number `tile` for BLOCK_M = height, BLOCK_N = width. false: there are fewer tiles. */
__device__ __forceinline__ bool product_find(struct product_tile &t, const struct product &p,
                                             int height, int width, int64_t tile)
{
    int64_t across = (p.N + width - 1) / width, down = 0;

    for (; t.group < p.groups; t.group++) {
        t.first = p.offsets != NULL ? p.offsets[t.group] : 0;
        t.rows = p.offsets != NULL ? p.offsets[t.group + 1] - t.first : p.reduce ? p.D : p.M;
        down = p.group[t.group].p == NULL ? 0 : ((p.reduce ? p.M : t.rows) + height - 1) / height;
        if (tile < t.before + down * across)
            break;
        t.before += down * across;
    }
    if (t.group == p.groups)
        return false;
    t.m0 = (tile - t.before) % down * height;
    t.n0 = (tile - t.before) / down * width;
    return true;
}

/* The epilogue: the value of column col of *c for the accumulator x. */
template <class T, class C>
__device__ __forceinline__ float product_value(const struct product &p, const C *c, int64_t col,
                                               float x)
{
    x *= p.alpha;
    if (p.beta != 0)
        x += p.beta * to_f32(*c);
    if (p.bias != NULL)
        x += p.f32_bias ? static_cast<const float *>(p.bias)[col]
                        : to_f32(static_cast<const T *>(p.bias)[col]);
    return x;
}

/* Stores columns n .. n+31 of one row of c from accumulators: lane q of the four lanes that share
 * the row has columns 8j + 2q and 8j + 2q + 1 in d[4j] and d[4j + 1]. inside: c has the row. wide:
 * the row is aligned to 16 bytes. All lanes of the warp call. */
template <class T, class C>
__device__ __forceinline__ void product_put_row(C *c, const struct product &p, const float *d,
                                                int64_t n, bool inside, bool wide)
{
    float x[8] = {};

#pragma unroll
    for (int e = 0; e < 8; e++) {
        int64_t col = n + 8 * (e / 2) + 2 * (threadIdx.x % 4) + e % 2;

        if (inside && col < p.N)
            x[e] = product_value<T>(p, c + col, col, d[4 * (e / 2) + e % 2]);
    }
    tile_put_row(c, x, n, inside ? p.N : 0, wide);
}

/* A dense GEMM with the arguments of the op, by cuBLASLt or by the kernels above. */
enum fr_rc cuda_gemm(struct cuda *cuda, struct tr_queue *q, const struct tr_gemm *a,
                     struct fr_err *err);

#endif
