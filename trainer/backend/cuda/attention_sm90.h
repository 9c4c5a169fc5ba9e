/*
 * Shared by the forward and the backward pass of attention on sm_90a. Internal to
 * trainer/backend/cuda.
 *
 * A block has two math warpgroups, which own 64 rows each, and a TMA warpgroup, whose first thread
 * is the producer. A tile (ROWS, D) of one head is D/64 boxes of ROWS lines of 128 bytes with the
 * 128-byte swizzle. Columns after the head's size read as zeros; rows after a segment's end belong
 * to the next segment.
 */
#ifndef TR_BACKEND_CUDA_ATTENTION_SM90_H
#define TR_BACKEND_CUDA_ATTENTION_SM90_H

#include "trainer/backend/cuda/attention.h"

enum {
    SM90_OWNED = 128, /* rows that a block owns */
    SM90_LINE = 128,  /* bytes of 64 columns */
    SM90_GROUP = 128, /* threads of a warpgroup */
    SM90_THREADS = 3 * SM90_GROUP,
    SM90_WARPS = 2 * SM90_GROUP / 32 /* of the math warpgroups */
};

/* Bytes of a tile. */
template <int ROWS, int D> constexpr int sm90_bytes = ROWS *D * 2;

/* Loads a tile (ROWS, D) of one head, from `token` on. The caller has armed bar for sm90_bytes
 * (arrive.expect_tx). */
template <int ROWS, int D>
__device__ __forceinline__ void sm90_load(unsigned char *to, const CUtensorMap *map, int head,
                                          int64_t token, uint64_t *bar)
{
#pragma unroll
    for (int i = 0; i < D / 64; i++)
        ptx_bulk_load3(to + i * ROWS * SM90_LINE, map, i * 64, head, (int)token, bar);
}

/* Pins the registers of a product (ptx_wgmma_pin): accumulators, and p as the left operand. */
template <int N> __device__ __forceinline__ void sm90_pin(float (&x)[N][4])
{
    ptx_wgmma_pin(reinterpret_cast<float(&)[N * 4]>(x));
}

template <class T, int N> __device__ __forceinline__ void sm90_pin(tile_a<T> (&a)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        ptx_wgmma_pin(a[i].r[0]);
}

/* The warpgroup of a thread, in a form that the compiler knows to be uniform in the warp. */
__device__ __forceinline__ int sm90_group(void)
{
    return __shfl_sync(0xffffffffu, (int)(threadIdx.x / SM90_GROUP), 0);
}

/* Descriptors of a tile: with K along its rows (scores), or down its rows (P V). */
__device__ __forceinline__ uint64_t sm90_rows(const unsigned char *tile)
{
    return ptx_matrix(tile, 16, 8 * SM90_LINE);
}

template <int ROWS> __device__ __forceinline__ uint64_t sm90_columns(const unsigned char *tile)
{
    return ptx_matrix(tile, ROWS * SM90_LINE, 8 * SM90_LINE);
}

/* Issues p (64, N) = a (64, D) b^T: a of a tile of SM90_OWNED rows, b a tile of N rows, both by
 * sm90_rows. */
template <class T, int N, int D>
__device__ __forceinline__ void sm90_scores(float (&p)[N / 8][4], uint64_t a, uint64_t b)
{
    float(&d)[N / 2] = reinterpret_cast<float(&)[N / 2]>(p);

#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        int box = i / 4 * SM90_LINE, at = i % 4 * 32;

        ptx_wgmma<0, 0>(d, ptx_matrix_at(a, box * SM90_OWNED + at), ptx_matrix_at(b, box * N + at),
                        i > 0, T());
    }
}

/* Issues sum (64, D) += p (64, K) b: b a tile of K rows, by sm90_columns. a holds p as the left
 * operand; the caller keeps it until the wait. */
template <class T, int K, int D>
__device__ __forceinline__ void sm90_add(float (&sum)[D / 8][4], tile_a<T> (&a)[K / 16], uint64_t b)
{
    float(&d)[D / 2] = reinterpret_cast<float(&)[D / 2]>(sum);

#pragma unroll
    for (int i = 0; i < K / 16; i++)
        ptx_wgmma_a<1>(d, a[i].r[0], ptx_matrix_at(b, i * 16 * SM90_LINE), true, T());
}

/* Converts p (64, K), accumulators in f32, to a, the left operand of sm90_add. */
template <class T, int K>
__device__ __forceinline__ void sm90_take(tile_a<T> (&a)[K / 16], const float (&p)[K / 8][4])
{
#pragma unroll
    for (int i = 0; i < K / 16; i++)
        tile_take<T>(a[i], p[2 * i], p[2 * i + 1]);
}

/* The pipeline state of a producer or consumer. */
template <int STAGES> struct sm90_turn {
    int stage;
    uint32_t parity; /* of the "full" barrier; "empty" has the opposite */

    __device__ __forceinline__ explicit sm90_turn(int64_t step)
        : stage((int)(step % STAGES)), parity((uint32_t)(step / STAGES % 2))
    {
    }
};

/* Makes the tensor map of a view of heads, with boxes of `rows` tokens. */
static inline enum fr_rc sm90_map(CUtensorMap *map, const struct tr_view *v, int rows,
                                  struct fr_err *err)
{
    const uint32_t box[3] = {64, 1, (uint32_t)rows};

    return cuda_map(map, v, box, err);
}

#endif
