#include "trainer/backend/cpu/cells.h"

#include <string.h>

enum {
    COPY_LONG = 2048, /* bytes from which memcpy is faster */
    FORESEEN = 4096   /* bytes of a row from which the hardware prefetcher follows */
};

typedef uint32_t bits __attribute__((may_alias)); /* the bits of an f32 in memory */

CPU_KERNEL static void bf16_to_f32(bits *restrict dst, const uint16_t *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = (uint32_t)src[i] << 16;
}

CPU_KERNEL static void f32_to_bf16(uint16_t *restrict dst, const bits *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = src[i];
        uint32_t nan = (u >> 16) | 0x40u;
        uint32_t near = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;

        uint32_t r = (u & 0x7fffffffu) > 0x7f800000u ? nan : near;

        dst[i] = (uint16_t)r;
    }
}

void cpu_copy_row(void *dst, const void *src, size_t bytes)
{
    if (bytes < COPY_LONG && cpu_kernels() != NULL)
        cpu_kernels()->copy(dst, src, (int64_t)bytes);
    else
        memcpy(dst, src, bytes);
}

void cpu_to_f32(float *dst, const void *src, enum tr_dtype t, int64_t n)
{
    const uint16_t *half = src;

    if (t == TR_F32)
        cpu_copy_row(dst, src, (size_t)n * sizeof *dst);
    else if (t == TR_BF16)
        bf16_to_f32((bits *)dst, half, n);
    else
        for (int64_t i = 0; i < n; i++)
            dst[i] = tr_f16_to(half[i]);
}

void cpu_from_f32(void *dst, enum tr_dtype t, const float *src, int64_t n)
{
    uint16_t *half = dst;

    if (t == TR_F32)
        cpu_copy_row(dst, src, (size_t)n * sizeof *src);
    else if (t == TR_BF16 && cpu_kernels() != NULL)
        cpu_kernels()->halve(half, src, n);
    else if (t == TR_BF16)
        f32_to_bf16(half, (const bits *)src, n);
    else
        for (int64_t i = 0; i < n; i++)
            half[i] = tr_f16_of(src[i]);
}

void cpu_bring_row(const struct tr_view *v, int64_t row)
{
    int64_t bytes = (int64_t)tr_dtype_bytes(v->dtype);
    const char *p;

    if (tr_view_absent(*v) || row < 0 || row >= v->shape[0])
        return;
    p = cpu_row_at(v, row);
    for (int i = 1; i < v->rank; i++)
        bytes *= v->shape[i];
    bytes = bytes < FORESEEN ? bytes : FORESEEN;
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(p + at);
}

void cpu_load(float *dst, const struct tr_view *v, int64_t row, int64_t col, int64_t n)
{
    if (n > 0)
        cpu_to_f32(dst, cpu_at(v, row, col), v->dtype, n);
}

const float *cpu_row(float *buf, const struct tr_view *v, int64_t row, int64_t n)
{
    if (v->dtype == TR_F32)
        return (const float *)v->p + row * v->ld;
    cpu_load(buf, v, row, 0, n);
    return buf;
}

void cpu_store(const struct tr_view *v, int64_t row, int64_t col, const float *src, int64_t n)
{
    if (n > 0)
        cpu_from_f32(cpu_at(v, row, col), v->dtype, src, n);
}

float *cpu_out(float *buf, const struct tr_view *v, int64_t row)
{
    return v->dtype == TR_F32 ? (float *)v->p + row * v->ld : buf;
}

CPU_KERNEL static void round_bf16(bits *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = x[i];
        uint32_t near = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;

        x[i] = (u & 0x7fffffffu) > 0x7f800000u ? u : near;
    }
}

void cpu_round(float *x, enum tr_dtype t, int64_t n)
{
    if (t == TR_BF16 && cpu_kernels() != NULL)
        cpu_kernels()->round(x, n);
    else if (t == TR_BF16)
        round_bf16((bits *)x, n);
    else if (t == TR_F16)
        for (int64_t i = 0; i < n; i++)
            x[i] = tr_f16_to(tr_f16_of(x[i]));
}

CPU_KERNEL float cpu_dot(const float *x, const float *y, int64_t n)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

CPU_KERNEL void cpu_axpy(float *y, float a, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

CPU_KERNEL void cpu_scale(float *y, float a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= a;
}

CPU_KERNEL void cpu_mul(float *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] *= x[i];
}

CPU_KERNEL float cpu_max(const float *x, int64_t n)
{
    float max = x[0];

#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

int64_t cpu_int(const struct tr_view *v, int64_t row, int64_t col)
{
    const void *p = cpu_at(v, row, col);

    return v->dtype == TR_I64 ? *(const int64_t *)p : *(const int32_t *)p;
}

struct cpu_range cpu_rows(const struct tr_rows *r, int64_t all)
{
    struct cpu_range range = {0, all};

    if (!tr_view_absent(r->offsets)) {
        range.begin = cpu_int(&r->offsets, r->first, 0);
        range.end = cpu_int(&r->offsets, r->last, 0);
    }
    return range;
}

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));

enum { MR = 4, NR = 16 };

/* MR x NR of c. b's row holds NR columns. */
CPU_KERNEL static void full_tile(const struct cpu_tile *t, int64_t i, int64_t j)
{
    v8 acc[MR][2];
    const float *b = t->b + j;

    for (int r = 0; r < MR; r++)
        for (int s = 0; s < 2; s++)
            acc[r][s] = *(const v8 *)(t->c + (i + r) * t->ldc + j + 8 * s);
    for (int64_t k = 0; k < t->k; k++) {
        v8 b0 = *(const v8 *)(b + k * t->ldb), b1 = *(const v8 *)(b + k * t->ldb + 8);

        for (int r = 0; r < MR; r++) {
            float a = t->a[(i + r) * t->lda + k];

            acc[r][0] += a * b0;
            acc[r][1] += a * b1;
        }
    }
    for (int r = 0; r < MR; r++)
        for (int s = 0; s < 2; s++)
            *(v8 *)(t->c + (i + r) * t->ldc + j + 8 * s) = acc[r][s];
}

/* Rows and columns that do not fill a tile. */
CPU_KERNEL static void edge_tile(const struct cpu_tile *t, int64_t i, int64_t m, int64_t j)
{
    for (int64_t r = i; r < i + m; r++)
        for (int64_t k = 0; k < t->k; k++) {
            float a = t->a[r * t->lda + k];
            const float *b = t->b + k * t->ldb;
            float *c = t->c + r * t->ldc;
            int64_t end = j + NR < t->n ? j + NR : t->n;

            for (int64_t s = j; s < end; s++)
                c[s] += a * b[s];
        }
}

void cpu_tile_gemm(const struct cpu_tile *t)
{
    for (int64_t j = 0; j < t->n; j += NR)
        for (int64_t i = 0; i < t->m; i += MR)
            if (i + MR <= t->m && j + NR <= t->n)
                full_tile(t, i, j);
            else
                edge_tile(t, i, t->m - i < MR ? t->m - i : MR, j);
}

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else /* gcc 11 lacks __builtin_shufflevector */
typedef int32_t i8 __attribute__((vector_size(32)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (i8){__VA_ARGS__})
#endif

/* An 8 x 8 square, by three rounds of interleaving. */
CPU_KERNEL static void turn_square(float *dst, int64_t ldd, const float *src, int64_t lds)
{
    v8 a[8], b[8];

    for (int i = 0; i < 8; i++)
        a[i] = *(const v8 *)(src + i * lds);
    for (int i = 0; i < 8; i += 2) {
        b[i] = SHUFFLE(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        b[i + 1] = SHUFFLE(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            a[i + 2 * k] = SHUFFLE(b[i + k], b[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[i + 2 * k + 1] = SHUFFLE(b[i + k], b[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        *(v8 *)(dst + i * ldd) = SHUFFLE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(v8 *)(dst + (i + 4) * ldd) = SHUFFLE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

void cpu_turn(const struct cpu_turn *t)
{
    const struct cpu_kernels *k = cpu_kernels();
    int64_t rows = t->rows / 8 * 8, cols = t->cols / 8 * 8;

    if (k != NULL && t->rows % k->lanes == 0 && t->cols % k->lanes == 0) {
        k->turn(t);
        return;
    }
    for (int64_t i = 0; i < rows; i += 8)
        for (int64_t j = 0; j < cols; j += 8)
            turn_square(t->dst + j * t->ldd + i, t->ldd, t->src + i * t->lds + j, t->lds);
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = i < rows ? cols : 0; j < t->cols; j++)
            t->dst[j * t->ldd + i] = t->src[i * t->lds + j];
}
