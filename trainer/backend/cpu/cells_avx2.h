/* Vectors of AVX2: a part of cells_simd.h, which includes it. */
#ifndef TR_BACKEND_CPU_CELLS_AVX2_H
#define TR_BACKEND_CPU_CELLS_AVX2_H

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

/* The lower and the upper bf16 of each lane's pair. */
INLINE vec lower_half(vec x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 16));
}

INLINE vec upper_half(vec x)
{
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}

/* Four words at p, and at each further ld bytes. */
INLINE vec quarters(const char *p, int64_t ld)
{
    return _mm256_loadu2_m128((const float *)(p + ld), (const float *)p);
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

#endif
