#include "trainer/backend/cpu/cpu.h"

#include "trainer/tensor/draw.h"

#include <math.h>
#include <string.h>

enum {
    PIECE = 1 << 12, /* elements of a piece; a piece lies within a row */
    AHEAD = 1 << 10, /* elements from those that are squared to those that are prefetched */
};

/* A view as pieces of its rows. */
struct pieces {
    int64_t width, across, count;
};

static struct pieces pieces_of(const struct tr_view *v)
{
    struct pieces p = {.width = 1};

    if (v->rank == 1) { /* one row */
        p.width = v->shape[0];
        p.across = (p.width + PIECE - 1) / PIECE;
        p.count = p.across;
        return p;
    }
    for (int i = 1; i < v->rank; i++)
        p.width *= v->shape[i];
    p.across = (p.width + PIECE - 1) / PIECE;
    p.count = v->shape[0] * p.across;
    return p;
}

/* The address and length of piece i of v. */
struct piece {
    char *p;
    int64_t n;
};

static struct piece piece_of(const struct tr_view *v, const struct pieces *p, int64_t i)
{
    int64_t row = i / p->across, col = i % p->across * PIECE;
    int64_t n = p->width - col < PIECE ? p->width - col : PIECE;

    return (struct piece){cpu_at(v, row, col), n};
}

enum fr_rc tr_cpu_fill(void *self, struct tr_queue *q, const struct tr_fill *a, struct fr_err *err)
{
    struct pieces all = pieces_of(&a->y);
    struct tr_view y = a->y;

    for (int64_t i = 0; i < all.count; i++) {
        struct piece p = piece_of(&a->y, &all, i);

        y = tr_view1(p.p, a->y.dtype, p.n);
        for (int64_t j = 0; j < p.n; j++)
            tr_set(y, j, a->value);
    }
    return FR_OK;
}

enum fr_rc tr_cpu_noise(void *self, struct tr_queue *q, const struct tr_noise *a,
                        struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t n = tr_view_count(a->y), count = (n + PIECE - 1) / PIECE;
    struct tr_draw d = {a->key};

#pragma omp parallel for num_threads(cpu->threads) if (count > 4)
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i * PIECE, m = n - at < PIECE ? n - at : PIECE;
        float row[PIECE];

        for (int64_t j = 0; j < m; j++) {
            uint64_t k = (uint64_t)(a->first + at + j);

            row[j] = a->scale * (a->uniform ? 2 * tr_draw_uniform(d, k) - 1 : tr_draw_normal(d, k));
        }
        cpu_from_f32((char *)a->y.p + (size_t)at * tr_dtype_bytes(a->y.dtype), a->y.dtype, row, m);
    }
    return FR_OK;
}

enum fr_rc tr_cpu_cast(void *self, struct tr_queue *q, const struct tr_cast *a, struct fr_err *err)
{
    struct cpu *cpu = self;
    struct pieces all = pieces_of(&a->y);
    bool same = a->x.dtype == a->y.dtype;

#pragma omp parallel for num_threads(cpu->threads) if (all.count > 4)
    for (int64_t i = 0; i < all.count; i++) {
        struct piece y = piece_of(&a->y, &all, i), x = piece_of(&a->x, &all, i);
        float row[PIECE];

        if (same) {
            memmove(y.p, x.p, (size_t)y.n * tr_dtype_bytes(a->y.dtype));
            continue;
        }
        cpu_to_f32(row, x.p, a->x.dtype, x.n);
        cpu_from_f32(y.p, a->y.dtype, row, y.n);
    }
    return FR_OK;
}

enum fr_rc tr_cpu_sum(void *self, struct tr_queue *q, const struct tr_sum *a, struct fr_err *err)
{
    struct cpu *cpu = self;
    struct pieces all = pieces_of(&a->y);

#pragma omp parallel for num_threads(cpu->threads) if (all.count > 4)
    for (int64_t i = 0; i < all.count; i++) {
        struct piece y = piece_of(&a->y, &all, i);
        float sum[PIECE], row[PIECE];

        if (all.across == 1)
            cpu_bring_row(&a->y, i + 1);
        for (int k = 0; k < a->n; k++) {
            struct piece x = piece_of(&a->x[k], &all, i);

            if (all.across == 1)
                cpu_bring_row(&a->x[k], i + 1);
            cpu_to_f32(k == 0 ? sum : row, x.p, a->x[k].dtype, x.n);
            if (k == 0 && a->alpha[0] != 1)
                cpu_scale(sum, a->alpha[0], y.n);
            else if (k > 0)
                cpu_axpy(sum, a->alpha[k], row, y.n);
        }
        cpu_from_f32(y.p, a->y.dtype, sum, y.n);
    }
    return FR_OK;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* A product of two floats is exact in a double: fused or not, the bits are the same. */
CPU_KERNEL static void add_squares(const float *x, int64_t blocks, double *sums)
{
    for (int64_t b = 0; b < blocks; b++, x += TR_SUMSQ_BLOCK) {
        double lane[TR_SUMSQ_LANES] = {0};

        for (int64_t k = 0; k < TR_SUMSQ_BLOCK; k += 16)
            __builtin_prefetch((const void *)((uintptr_t)x + (size_t)(AHEAD + k) * sizeof(*x)), 0,
                               2);
        for (int64_t k = 0; k < TR_SUMSQ_BLOCK; k += TR_SUMSQ_LANES)
            for (int l = 0; l < TR_SUMSQ_LANES; l++) {
                double v = x[k + l];

                lane[l] += v * v;
            }
        for (int half = TR_SUMSQ_LANES / 2; half > 0; half /= 2)
            for (int l = 0; l < half; l++)
                lane[l] += lane[l + half];
        sums[b] = lane[0];
    }
}

static int64_t count_nonfinite(const float *x, int64_t n)
{
    int64_t found = 0;

    for (int64_t i = 0; i < n; i++)
        found += !isfinite(x[i]);
    return found;
}

/* sums: of each block of x, the last of which may be shorter. */
static void squares(const float *x, int64_t n, double sums[PIECE / TR_SUMSQ_BLOCK])
{
    int64_t blocks = n / TR_SUMSQ_BLOCK, left = n % TR_SUMSQ_BLOCK;
    float last[TR_SUMSQ_BLOCK] = {0};

    add_squares(x, blocks, sums);
    if (left == 0)
        return;
    memcpy(last, x + blocks * TR_SUMSQ_BLOCK, (size_t)left * sizeof(*last));
    add_squares(last, 1, sums + blocks);
}

/* Sums of blocks by their exponents: mantissas as whole numbers, of which FULL fit. */
enum {
    LOWEST = 1023 - 298, /* the exponent of the least square of a float */
    EXPONENTS = 298 + 262,
    FULL = 1 << (64 - TR_EXACT_DIGITS),
};

struct bins {
    uint64_t of[EXPONENTS];
    int64_t n; /* added since the last flush, at most */
};

static void flush(struct bins *bins, int64_t *limbs)
{
    for (int e = 0; e < EXPONENTS; e++)
        if (bins->of[e] > 0)
            tr_exact_add(limbs, tr_exact_scaled(bins->of[e], e + LOWEST + TR_EXACT_SHIFT));
    *bins = (struct bins){.n = 0};
}

/* Adds the squares of n values that are finite, at most a piece; returns how many are not. */
static int64_t add_piece(struct bins *bins, const float *x, int64_t n)
{
    double sums[PIECE / TR_SUMSQ_BLOCK];
    int64_t found = 0;

    squares(x, n, sums);
    for (int64_t b = 0, left = n; left > 0; b++, left -= TR_SUMSQ_BLOCK) {
        uint64_t bits = bits_of(sums[b]);
        unsigned e = (unsigned)(tr_exact_exponent(bits) - LOWEST);

        if (e < EXPONENTS)
            bins->of[e] += tr_exact_mantissa(bits);
        else if (sums[b] != 0)
            found += count_nonfinite(x + b * TR_SUMSQ_BLOCK, cpu_least(left, TR_SUMSQ_BLOCK));
    }
    bins->n += PIECE / TR_SUMSQ_BLOCK;
    return found;
}

/* Rows of whole blocks that follow each other, as one: the blocks are the same. */
static struct tr_view flat_of(struct tr_view x)
{
    bool whole = x.rank == 2 && x.shape[1] % TR_SUMSQ_BLOCK == 0 && tr_view_contiguous(x);

    return whole ? tr_view1(x.p, x.dtype, tr_view_count(x)) : x;
}

enum fr_rc tr_cpu_sumsq(void *self, struct tr_queue *q, const struct tr_sumsq *a,
                        struct fr_err *err)
{
    struct cpu *cpu = self;
    struct tr_view x = flat_of(a->x);
    struct pieces all = pieces_of(&x);
    int64_t *out = a->out.p, found = 0;

    (void)q;
    (void)err;
#pragma omp parallel num_threads(cpu->threads) reduction(+ : found) if (all.count > 4)
    {
        int64_t mine[TR_EXACT_LIMBS] = {0};
        struct bins bins = {.n = 0};

#pragma omp for
        for (int64_t i = 0; i < all.count; i++) {
            struct piece p = piece_of(&x, &all, i);
            float row[PIECE];

            if (x.dtype != TR_F32)
                cpu_to_f32(row, p.p, x.dtype, p.n);
            if (bins.n == FULL)
                flush(&bins, mine);
            found += add_piece(&bins, x.dtype == TR_F32 ? (const float *)p.p : row, p.n);
        }
        flush(&bins, mine);
#pragma omp critical(sumsq)
        for (int k = 0; k < TR_EXACT_LIMBS; k++)
            out[k] += mine[k];
    }
    tr_exact_carry(out);
    if (!tr_view_absent(a->found))
        *(int64_t *)a->found.p += found;
    return FR_OK;
}

/* NaN codes of E4M3, which has no infinity. */
static int64_t f8_not_numbers(const uint8_t *x, int64_t n)
{
    int64_t found = 0;

    for (int64_t i = 0; i < n; i++)
        found += (x[i] & 0x7f) == 0x7f;
    return found;
}

enum fr_rc tr_cpu_nonfinite(void *self, struct tr_queue *q, const struct tr_nonfinite *a,
                            struct fr_err *err)
{
    struct cpu *cpu = self;
    struct pieces all = pieces_of(&a->x);
    int64_t found = 0;

#pragma omp parallel for num_threads(cpu->threads) reduction(+ : found) if (all.count > 4)
    for (int64_t i = 0; i < all.count; i++) {
        struct piece x = piece_of(&a->x, &all, i);
        float row[PIECE];

        if (a->x.dtype == TR_F8_E4M3) {
            found += f8_not_numbers((const uint8_t *)x.p, x.n);
            continue;
        }
        cpu_to_f32(row, x.p, a->x.dtype, x.n);
        found += count_nonfinite(row, x.n);
    }
    *(int64_t *)a->found.p += found;
    return FR_OK;
}

enum fr_rc tr_cpu_reduce_ordered(void *self, struct tr_queue *q, const struct tr_reduce *a,
                                 struct fr_err *err)
{
    struct cpu *cpu = self;
    struct pieces all = pieces_of(&a->out);

#pragma omp parallel for num_threads(cpu->threads) if (all.count > 4)
    for (int64_t i = 0; i < all.count; i++) {
        struct piece out = piece_of(&a->out, &all, i);
        float sum[PIECE], row[PIECE];

        if (a->add)
            cpu_to_f32(sum, out.p, a->out.dtype, out.n);
        else
            memset(sum, 0, (size_t)out.n * sizeof *sum);
        for (int64_t w = 0; w < a->slices.shape[0]; w++) {
            cpu_load(row, &a->slices, w, i * PIECE, out.n);
            cpu_axpy(sum, 1, row, out.n);
        }
        cpu_from_f32(out.p, a->out.dtype, sum, out.n);
    }
    return FR_OK;
}
