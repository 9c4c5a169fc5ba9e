/*
 * Vectors of one width, for the kernels of cells.h. Their sources are built once for each level:
 * CPU_LEVEL 1 is NEON, 3 is NEON with BF16, 2 is AVX2 with FMA, 4 is AVX-512, 5 is AVX-512 with
 * BF16. VEC(op) is the
 * operation that AVX calls so. Partial loads give zeros beyond n lanes, and partial stores write n;
 * n may be larger than a vector, or below 1.
 */
#ifndef TR_BACKEND_CPU_CELLS_SIMD_H
#define TR_BACKEND_CPU_CELLS_SIMD_H

#include "trainer/backend/cpu/cells.h"

#ifdef __aarch64__
#include <arm_neon.h>

#if CPU_LEVEL == 1
#define CELLS
#define KERNEL(name) cpu_neon_##name
#else
#define CELLS __attribute__((target("arch=armv8.2-a+bf16")))
#define KERNEL(name) cpu_neonbf16_##name
#define CPU_PAIRS /* cells may be pairs of bf16 */
#endif
#define VEC(op) neon_##op
enum { LANES = 4, STRIP = 12, STRIP_CELLS = 12 };
enum { F16_NEAREST = 0 };
typedef float32x4_t vec;
typedef uint32x4_t mask; /* all bits of a lane, or none */
typedef uint16x4_t half_vec;
#else
#include <immintrin.h>

/* the rounding of f16 to nearest */
enum { F16_NEAREST = _MM_FROUND_TO_NEAREST_INT };
#endif

#if CPU_LEVEL == 2
#define CELLS __attribute__((target("avx2,fma,f16c")))
#define KERNEL(name) cpu_avx2_##name
#define VEC(op) _mm256_##op
enum { LANES = 8, STRIP = 6, STRIP_CELLS = 8 };
typedef __m256 vec;
typedef __m256i mask; /* all bits of a lane, or none */
typedef __m128i half_vec;
#elif CPU_LEVEL >= 4
#define VEC(op) _mm512_##op
enum { LANES = 16, STRIP = 14, STRIP_CELLS = 16 };
typedef __m512 vec;
typedef __mmask16 mask;
typedef __m256i half_vec;
#if CPU_LEVEL == 4
#define CELLS __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define KERNEL(name) cpu_avx512_##name
#else
#define CELLS __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define KERNEL(name) cpu_avx512bf16_##name
#define CPU_PAIRS
#endif
#endif

#define INLINE static inline __attribute__((always_inline)) CELLS

enum { PANEL = 2 * LANES };

/* A row of a panel; low: the first vector. */
struct row {
    vec low, high;
};

#define CELLS_PROTOTYPE(type, name, ...) type KERNEL(name)(__VA_ARGS__);
CPU_KERNELS(CELLS_PROTOTYPE)
#undef CELLS_PROTOTYPE

/* What a rounding to bf16 adds to the bits of an f32, before the lower half is dropped, beside the
 * last bit that stays; the bit of a quiet NaN. */
enum { HALF_UP = 0x7fff, BF16_QUIET = 0x40 };

#ifdef __aarch64__
#include "trainer/backend/cpu/cells_neon.h"
#else
#if CPU_LEVEL == 2
#include "trainer/backend/cpu/cells_avx2.h"
#else
#include "trainer/backend/cpu/cells_avx512.h"
#endif

/* A cell to be multiplied, and sum + x y of such an x. */
INLINE vec spread(float cell)
{
    return VEC(set1_ps)(cell);
}

INLINE vec add_spread(vec sum, vec x, vec y)
{
    return VEC(fmadd_ps)(x, y, sum);
}
#endif

/* n values of f32, bf16 or f16 from element `at` on. */
INLINE vec load(const void *y, int64_t at, int64_t n, const enum tr_dtype type)
{
    half_vec x;

    if (type == TR_F32)
        return load_part((const float *)y + at, n);
    x = load_halves((const uint16_t *)y + at, n);
    return type == TR_BF16 ? widen(x) : VEC(cvtph_ps)(x);
}

INLINE void store(void *y, int64_t at, int64_t n, vec x, const enum tr_dtype type)
{
    if (type == TR_F32)
        store_part((float *)y + at, n, x);
    else
        store_halves((uint16_t *)y + at, n,
                     type == TR_BF16 ? to_bf16(x) : VEC(cvtps_ph)(x, F16_NEAREST));
}

#endif
