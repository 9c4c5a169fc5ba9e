/* Helpers of the AVX-512 kernels (cells.h). */
#ifndef TR_BACKEND_CPU_CELLS_AVX_H
#define TR_BACKEND_CPU_CELLS_AVX_H

#include "trainer/backend/cpu/cells.h"

#include <immintrin.h>

/* Kernels for f32 use no instruction of AVX-512 BF16. */
#define CELLS __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define INLINE static inline __attribute__((always_inline)) CELLS

/* A mask of the first n of 32 lanes. */
INLINE __mmask32 first(int64_t n)
{
    return n >= 32 ? 0xffffffffU : n <= 0 ? 0 : (__mmask32)((1U << n) - 1);
}

/* Converts 16 lanes of bf16 to f32. */
INLINE __m512 widen(__m256i half)
{
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
}

#endif
