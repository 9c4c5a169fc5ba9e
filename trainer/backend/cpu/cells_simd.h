/*
 * Vectors of one width, for the kernels of cells.h. Their sources are built once for each level:
 * CPU_LEVEL 2 is AVX2 with FMA, 4 is AVX-512, 5 is AVX-512 with BF16. Partial loads give zeros
 * beyond n lanes, and partial stores write n; n may be larger than a vector, or below 1.
 */
#ifndef TR_BACKEND_CPU_CELLS_SIMD_H
#define TR_BACKEND_CPU_CELLS_SIMD_H

#include "trainer/backend/cpu/cells.h"

#include <immintrin.h>

#if CPU_LEVEL == 2
#define CELLS __attribute__((target("avx2,fma,f16c")))
#define KERNEL(name) cpu_avx2_##name
#define VEC(op) _mm256_##op
enum { LANES = 8, STRIP = 6, STRIP_CELLS = 8 };
typedef __m256 vec;
typedef __m256i mask; /* all bits of a lane, or none */
typedef __m128i half_vec;
#else
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
#define CPU_PAIRS /* cells may be pairs of bf16 */
#endif
#endif

#define INLINE static inline __attribute__((always_inline)) CELLS

enum { PANEL = 2 * LANES };

#define CELLS_PROTOTYPE(type, name, ...) type KERNEL(name)(__VA_ARGS__);
CPU_KERNELS(CELLS_PROTOTYPE)
#undef CELLS_PROTOTYPE

/* What a rounding to bf16 adds to the bits of an f32, before the lower half is dropped, beside the
 * last bit that stays; the bit of a quiet NaN; the rounding of f16 to nearest. */
enum { HALF_UP = 0x7fff, BF16_QUIET = 0x40, F16_NEAREST = _MM_FROUND_TO_NEAREST_INT };

#if CPU_LEVEL == 2

/* The lanes i with from <= i < n. */
INLINE mask within(int64_t from, int64_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i end = _mm256_set1_epi32((int)cpu_least(cpu_most(n, 0), LANES));
    __m256i begin = _mm256_set1_epi32((int)cpu_least(cpu_most(from, 0), LANES));

    return _mm256_andnot_si256(_mm256_cmpgt_epi32(begin, lane), _mm256_cmpgt_epi32(end, lane));
}

INLINE bool any(mask some)
{
    return !_mm256_testz_si256(some, some);
}

INLINE vec select_lanes(mask some, vec x, vec otherwise)
{
    return _mm256_blendv_ps(otherwise, x, _mm256_castsi256_ps(some));
}

INLINE vec load_part(const float *p, int64_t n)
{
    return n >= LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, within(0, n));
}

INLINE void store_part(float *p, int64_t n, vec x)
{
    if (n >= LANES)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, within(0, n), x);
}

INLINE half_vec load_halves(const uint16_t *p, int64_t n)
{
    uint16_t some[LANES] = {0};

    if (n >= LANES)
        return _mm_loadu_si128((const void *)p);
    for (int64_t i = 0; i < n; i++)
        some[i] = p[i];
    return _mm_loadu_si128((const void *)some);
}

INLINE void store_halves(uint16_t *p, int64_t n, half_vec x)
{
    uint16_t some[LANES];

    if (n >= LANES) {
        _mm_storeu_si128((void *)p, x);
        return;
    }
    _mm_storeu_si128((void *)some, x);
    for (int64_t i = 0; i < n; i++)
        p[i] = some[i];
}

INLINE vec widen(half_vec x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

/* To nearest even; NaN stays NaN. */
INLINE half_vec to_bf16(vec x)
{
    __m256i u = _mm256_castps_si256(x), high = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i near = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(HALF_UP)));
    __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(BF16_QUIET));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i r = _mm256_blendv_epi8(_mm256_srli_epi32(near, 16), nan, is_nan);

    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
    return _mm256_castsi256_si128(r);
}

INLINE float sum_of(vec x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));

    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE float max_of(vec x)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));

    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

INLINE vec nearest(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x 2^k where below <= at, else 0; -126 <= k <= 128. NaN counts as more. Half of 2^k, so that
 * k = 128 does not overflow. */
INLINE vec scale_above(vec x, vec k, vec at, vec below)
{
    __m256i half = _mm256_add_epi32(_mm256_cvtps_epi32(k), _mm256_set1_epi32(126));
    vec two = _mm256_castsi256_ps(_mm256_slli_epi32(half, 23));
    vec y = _mm256_mul_ps(_mm256_mul_ps(x, two), _mm256_set1_ps(2));

    return _mm256_and_ps(_mm256_cmp_ps(at, below, _CMP_NLT_UQ), y);
}

#else

INLINE mask within(int64_t from, int64_t n)
{
    uint32_t end = n >= LANES ? 0xffffU : n <= 0 ? 0 : (1U << n) - 1;
    uint32_t begin = from >= LANES ? 0xffffU : from <= 0 ? 0 : (1U << from) - 1;

    return (mask)(end & ~begin);
}

INLINE bool any(mask some)
{
    return some != 0;
}

INLINE vec select_lanes(mask some, vec x, vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, some, x);
}

INLINE vec load_part(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps(within(0, n), p);
}

INLINE void store_part(float *p, int64_t n, vec x)
{
    _mm512_mask_storeu_ps(p, within(0, n), x);
}

INLINE half_vec load_halves(const uint16_t *p, int64_t n)
{
    return _mm256_maskz_loadu_epi16(within(0, n), p);
}

INLINE void store_halves(uint16_t *p, int64_t n, half_vec x)
{
    _mm256_mask_storeu_epi16(p, within(0, n), x);
}

INLINE vec widen(half_vec x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/* To nearest even; NaN stays NaN. The instruction of BF16 takes subnormal numbers as 0. */
INLINE half_vec to_bf16(vec x)
{
#ifdef CPU_PAIRS
    return (half_vec)_mm512_cvtneps_pbh(x);
#else
    __m512i u = _mm512_castps_si512(x), high = _mm512_srli_epi32(u, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i near = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(HALF_UP)));

    near = _mm512_srli_epi32(near, 16);
    near = _mm512_mask_or_epi32(near, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), high,
                                _mm512_set1_epi32(BF16_QUIET));
    return _mm512_cvtepi32_epi16(near);
#endif
}

INLINE float sum_of(vec x)
{
    return _mm512_reduce_add_ps(x);
}

INLINE float max_of(vec x)
{
    return _mm512_reduce_max_ps(x);
}

INLINE vec nearest(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x 2^k where below <= at, else 0. NaN counts as more. */
INLINE vec scale_above(vec x, vec k, vec at, vec below)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(at, below, _CMP_NLT_UQ), x, k);
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
