/*
 * Tiles in shared memory and their products on the tensor cores by mma.sync: one body for bf16, f16
 * and f32. An f32 operand is split into three bf16 parts, x = hi + mid + lo up to 2^-24. Six of the
 * nine products of parts are accumulated, small ones first (Henry, Tang & Heinecke 2019,
 * "Leveraging the bfloat16 AI datatype"). The accuracy is that of f32, at a sixth of the bf16 rate,
 * which is above the rate of the f32 units. An infinity in an f32 operand gives NaN.
 *
 * A tile is row-major with a leading dimension of `ld` elements: a multiple of 8, and an odd
 * multiple of 16 bytes. ldmatrix then reads the eight rows of a matrix without bank conflicts.
 */
#ifndef TR_BACKEND_CUDA_TILE_H
#define TR_BACKEND_CUDA_TILE_H

#include "trainer/backend/cuda/cuda.h"

#include <string.h>

/* The operand type of the tensor cores, and the number of operands that an element splits into. */
template <class T> struct tile_type {
    typedef T part;
    static constexpr int parts = 1;
};
template <> struct tile_type<float> {
    typedef bf16 part;
    static constexpr int parts = 3;
};

/* Fragments of one product in the layout of ptx_mma: a (16, 16), and two b (16, 8) side by side. */
template <class T> struct tile_a {
    uint32_t r[tile_type<T>::parts][4];
};
template <class T> struct tile_b {
    uint32_t r[2][tile_type<T>::parts][2];
};

__device__ __forceinline__ uint32_t tile_pair(float x, float y, bf16)
{
    __nv_bfloat162 p = __floats2bfloat162_rn(x, y);
    uint32_t bits;

    memcpy(&bits, &p, sizeof bits);
    return bits;
}

__device__ __forceinline__ uint32_t tile_pair(float x, float y, f16)
{
    __half2 p = __floats2half2_rn(x, y);
    uint32_t bits;

    memcpy(&bits, &p, sizeof bits);
    return bits;
}

/* Splits two neighbouring elements into their parts. */
template <class T>
__device__ __forceinline__ void tile_split(uint32_t (&part)[tile_type<T>::parts], float x, float y)
{
    typedef typename tile_type<T>::part P;

#pragma unroll
    for (int i = 0; i < tile_type<T>::parts; i++) {
        part[i] = tile_pair(x, y, P());
        x -= round_to<P>(x);
        y -= round_to<P>(y);
    }
}

/* The fragment of a from registers in the accumulator layout of two products side by side. */
template <class T>
__device__ __forceinline__ void tile_take(tile_a<T> &a, const float (&left)[4],
                                          const float (&right)[4])
{
    const float x[8] = {left[0], left[1], left[2], left[3], right[0], right[1], right[2], right[3]};

#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t part[tile_type<T>::parts];

        tile_split<T>(part, x[2 * i], x[2 * i + 1]);
#pragma unroll
        for (int p = 0; p < tile_type<T>::parts; p++)
            a.r[p][i] = part[p];
    }
}

/* Loads the fragment of a (16, 16) from p. TRANS: p holds the transpose of a. */
template <bool TRANS, class T>
__device__ __forceinline__ void tile_load_a(tile_a<T> &a, const T *p, int ld)
{
    int l = (int)(threadIdx.x % 32), m = l / 8, r = l % 8;

    if constexpr (TRANS)
        ptx_ldmatrix_x4_trans(a.r[0], p + (m / 2 * 8 + r) * ld + m % 2 * 8);
    else
        ptx_ldmatrix_x4(a.r[0], p + (m % 2 * 8 + r) * ld + m / 2 * 8);
}

/* Loads the fragment of b (16, 16) from p. TRANS: p holds the transpose of b, whose rows run along
 * K. */
template <bool TRANS, class T>
__device__ __forceinline__ void tile_load_b(tile_b<T> &b, const T *p, int ld)
{
    int l = (int)(threadIdx.x % 32), m = l / 8, r = l % 8;
    uint32_t x[4];

    if constexpr (TRANS)
        ptx_ldmatrix_x4(x, p + (m / 2 * 8 + r) * ld + m % 2 * 8);
    else
        ptx_ldmatrix_x4_trans(x, p + (m % 2 * 8 + r) * ld + m / 2 * 8);
#pragma unroll
    for (int i = 0; i < 4; i++)
        b.r[i / 2][0][i % 2] = x[i];
}

template <bool TRANS>
__device__ __forceinline__ void tile_load_a(tile_a<float> &a, const float *p, int ld)
{
    int l = (int)(threadIdx.x % 32), g = l / 4, c = l % 4 * 2;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        int m = g + i % 2 * 8, k = c + i / 2 * 8;
        uint32_t part[3];

        if constexpr (TRANS)
            tile_split<float>(part, p[k * ld + m], p[(k + 1) * ld + m]);
        else
            tile_split<float>(part, p[m * ld + k], p[m * ld + k + 1]);
#pragma unroll
        for (int q = 0; q < 3; q++)
            a.r[q][i] = part[q];
    }
}

template <bool TRANS>
__device__ __forceinline__ void tile_load_b(tile_b<float> &b, const float *p, int ld)
{
    int l = (int)(threadIdx.x % 32), g = l / 4, c = l % 4 * 2;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        int n = g + i / 2 * 8, k = c + i % 2 * 8;
        uint32_t part[3];

        if constexpr (TRANS)
            tile_split<float>(part, p[n * ld + k], p[n * ld + k + 1]);
        else
            tile_split<float>(part, p[k * ld + n], p[(k + 1) * ld + n]);
#pragma unroll
        for (int q = 0; q < 3; q++)
            b.r[i / 2][q][i % 2] = part[q];
    }
}

/* d (16, 8) += a times half `side` of b. */
template <class T>
__device__ __forceinline__ void tile_mma(float (&d)[4], const tile_a<T> &a, const tile_b<T> &b,
                                         int side)
{
    if constexpr (tile_type<T>::parts == 1) {
        ptx_mma(d, a.r[0], b.r[side][0], T());
    } else {
#pragma unroll
        for (int sum = 2; sum >= 0; sum--)
#pragma unroll
            for (int i = 0; i <= sum; i++)
                ptx_mma(d, a.r[i], b.r[side][sum - i], bf16());
    }
}

/* A part of a matrix in global memory. Elements outside (rows, cols) read as zeros. wide: p and
 * every row are aligned to 16 bytes. */
template <class T> struct tile_source {
    const T *p;
    int64_t ld, rows, cols; /* rows, cols: <= 0 means none */
    bool wide;
};

/* Copies ROWS x COLS of s, from (row, col) on, into a tile. All THREADS threads of a group call;
 * `me` is the thread's number. Wide copies are asynchronous (ptx_copy_commit, ptx_copy_wait). */
template <int ROWS, int COLS, int THREADS, class T>
__device__ __forceinline__ void tile_fetch(T *tile, int ld, const tile_source<T> &s, int64_t row,
                                           int64_t col, int me)
{
    constexpr int N = 16 / (int)sizeof(T), ACROSS = COLS / N;

    if (s.wide) {
#pragma unroll 4
        for (int i = me; i < ROWS * ACROSS; i += THREADS) {
            int r = i / ACROSS, c = i % ACROSS * N;
            int64_t left = row + r < s.rows ? s.cols - col - c : 0;
            int n = (int)(left < 0 ? 0 : left < N ? left : N);

            ptx_copy16(tile + r * ld + c, n > 0 ? s.p + (row + r) * s.ld + col + c : s.p,
                       n * (int)sizeof(T));
        }
        return;
    }
    for (int i = me; i < ROWS * COLS; i += THREADS) {
        int r = i / COLS, c = i % COLS;
        bool in = row + r < s.rows && col + c < s.cols;

        tile[r * ld + c] = in ? s.p[(row + r) * s.ld + col + c] : from_f32<T>(0.0f);
    }
}

/* Whether reads at multiples of `step` elements of rows with leading dimension ld are aligned to 16
 * bytes. */
static inline bool tile_wide(const struct tr_view &v, int64_t step)
{
    return cuda_aligned(v) && step * (int64_t)tr_dtype_bytes(v.dtype) % 16 == 0;
}

/* w[i]; i is known only at run time, and w stays in registers. */
__device__ __forceinline__ uint32_t tile_pick(const uint32_t (&w)[4], int i)
{
    uint32_t low = i % 2 != 0 ? w[1] : w[0], high = i % 2 != 0 ? w[3] : w[2];

    return i / 2 != 0 ? high : low;
}

/* Four lanes hold 32 columns of a row: lane q has columns 8j + 2q and 8j + 2q + 1 in w[j], j =
 * 0..3. After the exchange lane q has columns 8q .. 8q+7. All lanes call. */
__device__ __forceinline__ void tile_turn(uint32_t (&w)[4])
{
    int q = (int)(threadIdx.x % 4);
    uint32_t got[4];

#pragma unroll
    for (int r = 0; r < 4; r++)
        got[r] = __shfl_xor_sync(0xffffffffu, tile_pick(w, q ^ r), r);
#pragma unroll
    for (int s = 0; s < 4; s++)
        w[s] = tile_pick(got, q ^ s);
}

template <class T> __device__ __forceinline__ uint32_t tile_bits(T x, T y)
{
    const T v[2] = {x, y};
    uint32_t bits;

    memcpy(&bits, v, sizeof bits);
    return bits;
}

/* Stores columns n .. n+31 of a row from accumulators: lane q of the four lanes that share the row
 * has columns 8j + 2q and 8j + 2q + 1 in x[2j] and x[2j+1], j = 0..3. Columns >= size are not
 * stored. wide: the row is aligned to 16 bytes. All lanes of the warp call. */
template <class T>
__device__ __forceinline__ void tile_put_row(T *row, const float (&x)[8], int64_t n, int64_t size,
                                             bool wide)
{
    int q = (int)(threadIdx.x % 4);

    if constexpr (sizeof(T) == 2)
        if (wide) {
            uint32_t w[4];

#pragma unroll
            for (int j = 0; j < 4; j++)
                w[j] = tile_bits(from_f32<T>(x[2 * j]), from_f32<T>(x[2 * j + 1]));
            tile_turn(w);
            n += 8 * q;
            if (n + 8 <= size)
                *reinterpret_cast<dev_word<uint32_t> *>(row + n) = {{w[0], w[1], w[2], w[3]}};
            else
                for (int i = 0; i < 8 && n + i < size; i++) {
                    uint16_t bits = (uint16_t)(tile_pick(w, i / 2) >> i % 2 * 16);
                    T x;

                    memcpy(&x, &bits, sizeof x);
                    row[n + i] = x;
                }
            return;
        }
#pragma unroll
    for (int e = 0; e < 8; e++) {
        int64_t col = n + 8 * (e / 2) + 2 * q + e % 2;

        if (col < size)
            row[col] = from_f32<T>(x[e]);
    }
}

#endif
