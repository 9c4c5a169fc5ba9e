/*
 * The chip's own rate of products: a loop of multiply-and-add in registers, of f32 and of pairs of
 * bf16, by the vectors that the CPU backend uses here (FLOWTRAIN_MAX_ISA holds it to lesser ones),
 * on as many threads. The best of rounds.
 *
 * usage: peak
 *
 * Prints "f32 NAME TFLOPS" and "bf16 NAME TFLOPS", NAME with +bf16 or +amx where these serve; bf16
 * has the rate of f32 where it is widened.
 */
#include "trainer/backend/cpu/cells.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 1 << 19, ROUNDS = 40 };

static volatile float sink;

/* Does a fixed number of multiplications and additions; returns how many. */
typedef double loop(void);

/* SUMS independent sums of vectors of BYTES: enough to hide the latency of two or four units. They
 * begin at different values, or the compiler would compute one. */
#define F32_LOOP(name, how, BYTES, SUMS)                                                           \
    how static double name(void)                                                                   \
    {                                                                                              \
        typedef float vector __attribute__((vector_size(BYTES)));                                  \
        vector sum[SUMS] = {0}, x = {1}, y = {0.5F};                                               \
                                                                                                   \
        _Pragma("GCC unroll 16") for (int k = 0; k < (SUMS); k++) sum[k][0] = (float)k;            \
        for (int64_t i = 0; i < TURNS; i++) {                                                      \
            _Pragma("GCC unroll 16") for (int k = 0; k < (SUMS); k++) sum[k] = sum[k] * x + y;     \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int k = 0; k < (SUMS); k++) sink = sum[k][0];                \
        return 2.0 * TURNS * (SUMS) * (BYTES) / (int)sizeof(float);                                \
    }

#ifdef __aarch64__
#include <arm_neon.h>

F32_LOOP(f32_neon, , 16, 16)

__attribute__((target("arch=armv8.2-a+bf16"))) static double bf16_neon(void)
{
    enum { SUMS = 16 };
    /* not 1, which gcc 12 takes for a constant of f16 */
    bfloat16x8_t x = vreinterpretq_bf16_u16(vdupq_n_u16(0x3f81));
    float32x4_t sum[SUMS] = {0};

#pragma GCC unroll 16
    for (int k = 0; k < SUMS; k++)
        sum[k][0] = (float)k;
    for (int64_t i = 0; i < TURNS; i++) {
#pragma GCC unroll 16
        for (int k = 0; k < SUMS; k++)
            sum[k] = vbfdotq_f32(sum[k], x, x);
    }
#pragma GCC unroll 16
    for (int k = 0; k < SUMS; k++)
        sink = sum[k][0];
    return 4.0 * TURNS * SUMS * 4;
}

static loop *loop_of(bool f32)
{
    return f32 || !cpu_kernels()->pairs ? f32_neon : bf16_neon;
}
#else
#include <immintrin.h>

F32_LOOP(f32_any, , 16, 8)
F32_LOOP(f32_avx2, __attribute__((target("avx2,fma"))), 32, 12)
F32_LOOP(f32_avx512, __attribute__((target("avx512f"))), 64, 16)

__attribute__((target("avx512f,avx512bf16"))) static double bf16_avx512(void)
{
    enum { SUMS = 16 };
    __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f80);
    __m512 sum[SUMS] = {0};

#pragma GCC unroll 16
    for (int k = 0; k < SUMS; k++)
        sum[k][0] = (float)k;
    for (int64_t i = 0; i < TURNS; i++) {
#pragma GCC unroll 16
        for (int k = 0; k < SUMS; k++)
            sum[k] = _mm512_dpbf16_ps(sum[k], x, x);
    }
#pragma GCC unroll 16
    for (int k = 0; k < SUMS; k++)
        sink = sum[k][0];
    return 4.0 * TURNS * SUMS * 16;
}

__attribute__((target("amx-tile,amx-bf16"))) static double bf16_amx(void)
{
    enum { SUMS = 6, PART = TURNS / 16 };
    struct {
        uint8_t palette, start, rest[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};

    for (int k = 0; k < 8; k++) {
        tiles.bytes[k] = 64;
        tiles.rows[k] = 16;
    }
    __asm__ volatile("" ::: "memory"); /* the intrinsic does not declare that it reads them */
    _tile_loadconfig(&tiles);
    for (int64_t i = 0; i < PART; i++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    _tile_release();
    return 2.0 * PART * SUMS * 16 * 16 * 32;
}

static loop *loop_of(bool f32)
{
    const struct cpu_kernels *k = cpu_kernels();

    if (k == NULL)
        return f32_any;
    if (!f32 && k->pairs)
        return cpu_may_tile() && cpu_amx_have() ? bf16_amx : bf16_avx512;
    return k->lanes == 8 ? f32_avx2 : f32_avx512;
}
#endif

/* What follows the name of the vectors. */
static const char *more(bool f32)
{
    if (f32 || cpu_kernels() == NULL || !cpu_kernels()->pairs)
        return "";
    return cpu_may_tile() && cpu_amx_have() ? "+amx" : "+bf16";
}

static double rate(loop *run)
{
    double best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        double flop = 0, begin = omp_get_wtime(), seconds;

#pragma omp parallel reduction(+ : flop)
        flop += run();
        seconds = omp_get_wtime() - begin;
        best = flop / seconds > best ? flop / seconds : best;
    }
    return best;
}

int main(void)
{
    for (int f32 = 1; f32 >= 0; f32--)
        printf("%s %s%s %.4f\n", f32 ? "f32" : "bf16",
               cpu_kernels() != NULL ? cpu_kernels()->name : "none", more(f32),
               rate(loop_of(f32)) / 1e12);
    return EXIT_SUCCESS;
}
