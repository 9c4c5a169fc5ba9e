/* Vectors of AArch64's Advanced SIMD (NEON), with the operations that the kernels have in common
 * under their names of AVX: a part of cells_simd.h, which includes it. */
#ifndef TR_BACKEND_CPU_CELLS_NEON_H
#define TR_BACKEND_CPU_CELLS_NEON_H

#define neon_set1_ps vdupq_n_f32
#define neon_setzero_ps() vdupq_n_f32(0)
#define neon_loadu_ps vld1q_f32
#define neon_storeu_ps vst1q_f32
#define neon_add_ps vaddq_f32
#define neon_sub_ps vsubq_f32
#define neon_mul_ps vmulq_f32
#define neon_div_ps vdivq_f32
#define neon_unpacklo_ps vzip1q_f32
#define neon_unpackhi_ps vzip2q_f32

/* If one is NaN, the second operand, as by AVX; NEON's own instructions return NaN. */
INLINE vec neon_max_ps(vec x, vec y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}

INLINE vec neon_min_ps(vec x, vec y)
{
    return vbslq_f32(vcltq_f32(x, y), x, y);
}

INLINE vec neon_fmadd_ps(vec x, vec y, vec sum)
{
    return vfmaq_f32(sum, x, y);
}

INLINE vec neon_fnmadd_ps(vec x, vec y, vec sum)
{
    return vfmsq_f32(sum, x, y);
}

/* 0x44: the lower halves of x and y, 0xee: the upper halves. */
INLINE vec neon_shuffle_ps(vec x, vec y, const int which)
{
    float64x2_t a = vreinterpretq_f64_f32(x), b = vreinterpretq_f64_f32(y);

    return vreinterpretq_f32_f64(which == 0x44 ? vzip1q_f64(a, b) : vzip2q_f64(a, b));
}

INLINE vec neon_cvtph_ps(half_vec x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(x));
}

/* To nearest even, as AArch64 rounds unless it is told otherwise. */
INLINE half_vec neon_cvtps_ph(vec x, const int rounding)
{
    (void)rounding;
    return vreinterpret_u16_f16(vcvt_f16_f32(x));
}

INLINE mask within(int64_t from, int64_t n)
{
    const int32x4_t lane = {0, 1, 2, 3};
    int32x4_t end = vdupq_n_s32((int)cpu_least(cpu_most(n, 0), LANES));
    int32x4_t begin = vdupq_n_s32((int)cpu_least(cpu_most(from, 0), LANES));

    return vandq_u32(vcltq_s32(lane, end), vcgeq_s32(lane, begin));
}

INLINE bool any(mask some)
{
    return vmaxvq_u32(some) != 0;
}

INLINE vec select_lanes(mask some, vec x, vec otherwise)
{
    return vbslq_f32(some, x, otherwise);
}

INLINE vec load_part(const float *p, int64_t n)
{
    float some[LANES] = {0};

    if (n >= LANES)
        return vld1q_f32(p);
    for (int64_t i = 0; i < n; i++)
        some[i] = p[i];
    return vld1q_f32(some);
}

INLINE void store_part(float *p, int64_t n, vec x)
{
    float some[LANES];

    if (n >= LANES) {
        vst1q_f32(p, x);
        return;
    }
    vst1q_f32(some, x);
    for (int64_t i = 0; i < n; i++)
        p[i] = some[i];
}

INLINE half_vec load_halves(const uint16_t *p, int64_t n)
{
    uint16_t some[LANES] = {0};

    if (n >= LANES)
        return vld1_u16(p);
    for (int64_t i = 0; i < n; i++)
        some[i] = p[i];
    return vld1_u16(some);
}

INLINE void store_halves(uint16_t *p, int64_t n, half_vec x)
{
    uint16_t some[LANES];

    if (n >= LANES) {
        vst1_u16(p, x);
        return;
    }
    vst1_u16(some, x);
    for (int64_t i = 0; i < n; i++)
        p[i] = some[i];
}

INLINE vec widen(half_vec x)
{
    return vreinterpretq_f32_u32(vshll_n_u16(x, 16));
}

INLINE vec lower_half(vec x)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x), 16));
}

INLINE vec upper_half(vec x)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0xffff0000U)));
}

/* A vector holds the four words at p alone. */
INLINE vec quarters(const char *p, int64_t ld)
{
    (void)ld;
    return vld1q_f32((const float *)p);
}

/* A cell to be multiplied, and sum + x y of such an x: instructions take its lane, and nothing
 * reads the others, for whose values the compiler would spend two more. */
INLINE vec spread(float cell)
{
    vec x;

    __asm__("" : "=w"(x) : "0"(cell));
    return x;
}

INLINE vec add_spread(vec sum, vec x, vec y)
{
    return vfmaq_laneq_f32(sum, y, x, 0);
}

#ifdef CPU_PAIRS
/* The first n of 2 LANES bf16, then zeros; n may be 0 or less. */
INLINE vec load_pairs(const uint16_t *p, int64_t n)
{
    uint16_t some[2 * LANES] = {0};

    if (n >= 2 * LANES)
        return vreinterpretq_f32_u16(vld1q_u16(p));
    for (int64_t i = 0; i < n; i++)
        some[i] = p[i];
    return vreinterpretq_f32_u16(vld1q_u16(some));
}

/* Pairs of the bf16 of a and of those of b. */
INLINE struct row pair_up(vec a, vec b)
{
    uint16x8_t x = vreinterpretq_u16_f32(a), y = vreinterpretq_u16_f32(b);

    return (struct row){vreinterpretq_f32_u16(vzip1q_u16(x, y)),
                        vreinterpretq_f32_u16(vzip2q_u16(x, y))};
}

/* sum + the two products of each lane's pairs. */
INLINE vec add_pairs(vec sum, vec x, vec y)
{
    return vbfdotq_f32(sum, vreinterpretq_bf16_f32(x), vreinterpretq_bf16_f32(y));
}

INLINE vec add_spread_pairs(vec sum, vec x, vec y)
{
    return vbfdotq_laneq_f32(sum, vreinterpretq_bf16_f32(y), vreinterpretq_bf16_f32(x), 0);
}

/* bf16 of x, then those of y. */
INLINE vec halve_two(vec x, vec y)
{
    return vreinterpretq_f32_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(x), y));
}
#endif

/* To nearest even; NaN stays NaN. */
INLINE half_vec to_bf16(vec x)
{
#ifdef CPU_PAIRS
    return vreinterpret_u16_bf16(vcvt_bf16_f32(x));
#else
    uint32x4_t u = vreinterpretq_u32_f32(x), high = vshrq_n_u32(u, 16);
    uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
    uint32x4_t near = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(HALF_UP)));
    uint32x4_t nan = vorrq_u32(high, vdupq_n_u32(BF16_QUIET));

    return vmovn_u32(vbslq_u32(vceqq_f32(x, x), vshrq_n_u32(near, 16), nan));
#endif
}

INLINE float sum_of(vec x)
{
    return vaddvq_f32(x);
}

INLINE float max_of(vec x)
{
    return vmaxvq_f32(x);
}

INLINE vec nearest(vec x)
{
    return vrndnq_f32(x);
}

/* x 2^k where below <= at, else 0; -126 <= k <= 128. NaN counts as more. Half of 2^k, so that
 * k = 128 does not overflow. */
INLINE vec scale_above(vec x, vec k, vec at, vec below)
{
    int32x4_t half = vaddq_s32(vcvtq_s32_f32(k), vdupq_n_s32(126));
    vec two = vreinterpretq_f32_s32(vshlq_n_s32(half, 23));
    vec y = vmulq_n_f32(vmulq_f32(x, two), 2);

    return vbslq_f32(vcltq_f32(at, below), vdupq_n_f32(0), y);
}

#endif
