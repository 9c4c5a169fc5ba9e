/* Vectors of AVX-512: a part of cells_simd.h, which includes it. */
#ifndef TR_BACKEND_CPU_CELLS_AVX512_H
#define TR_BACKEND_CPU_CELLS_AVX512_H

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

INLINE vec lower_half(vec x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 16));
}

INLINE vec upper_half(vec x)
{
    return _mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32((int)0xffff0000)));
}

INLINE vec quarters(const char *p, int64_t ld)
{
    __m512i x = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)p));

#pragma GCC unroll 3
    for (int k = 1; k < 4; k++)
        x = _mm512_mask_broadcast_i32x4(x, (__mmask16)(0xf << 4 * k),
                                        _mm_loadu_si128((const void *)(p + k * ld)));
    return _mm512_castsi512_ps(x);
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

#ifdef CPU_PAIRS
/* The first n of 2 LANES bf16, then zeros; n may be 0 or less. */
INLINE vec load_pairs(const uint16_t *p, int64_t n)
{
    __mmask32 some = n >= 32 ? 0xffffffffU : n <= 0 ? 0 : (__mmask32)((1U << n) - 1);

    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(some, p));
}

/* Pairs of the bf16 of a and of those of b. */
INLINE struct row pair_up(vec a, vec b)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    __m512i x = _mm512_castps_si512(a), y = _mm512_castps_si512(b);

    return (struct row){_mm512_castsi512_ps(_mm512_permutex2var_epi16(x, low, y)),
                        _mm512_castsi512_ps(_mm512_permutex2var_epi16(x, high, y))};
}

/* sum + the two products of each lane's pairs. */
INLINE vec add_pairs(vec sum, vec x, vec y)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
}

INLINE vec add_spread_pairs(vec sum, vec x, vec y)
{
    return add_pairs(sum, x, y);
}

/* bf16 of x, then those of y. */
INLINE vec halve_two(vec x, vec y)
{
    return (vec)_mm512_cvtne2ps_pbh(y, x);
}
#endif

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
