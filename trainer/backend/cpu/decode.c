/* FP8 weights in blocks to a float type. For bf16 each block has a table of the values of its 256
 * codes: with the table in registers, 128 codes take tens of instructions. */
#include "trainer/backend/cpu/cells.h"
#include "trainer/backend/cpu/cpu.h"

#include <string.h>

enum { LANES_F32 = 16, CODES = 256, SIGN = 0x80, BLOCKS = 16, PIECE = 1 << 12 };

typedef uint32_t bits __attribute__((may_alias)); /* the bits of an f32 in memory */

/* Exponent and fraction of a code at their places in an f32 are its value times 2^-120, exactly. */
CPU_KERNEL void cpu_f8_to_f32(float *restrict dst, const uint8_t *restrict src, float scale,
                              int64_t n)
{
    bits *d = (bits *)dst;

    for (int64_t i = 0; i < n; i++)
        d[i] = (uint32_t)(src[i] & 0x7f) << 20 | (uint32_t)(src[i] & SIGN) << 24;
    for (int64_t i = 0; i < n; i++)
        dst[i] = dst[i] * 0x1p120F * scale;
}

/* Fills the table: each code times the scale, rounded once. */
static void make_table(uint16_t table[CODES], float scale)
{
    uint8_t codes[CODES];
    float values[CODES];

    for (int i = 0; i < CODES; i++)
        codes[i] = (uint8_t)i;
    cpu_f8_to_f32(values, codes, scale, CODES);
    cpu_from_f32(table, TR_BF16, values, CODES);
}

static void look_up(uint16_t *restrict y, const uint8_t *restrict codes,
                    const uint16_t table[CODES], int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = table[codes[i]];
}

#ifdef CPU_WIDE
typedef uint16_t words __attribute__((vector_size(64), aligned(2), may_alias));
typedef uint8_t bytes __attribute__((vector_size(32), aligned(1), may_alias));

/* The values of codes without a sign are four registers. A shuffle looks at the low six bits of a
 * code. */
CPU_WIDE static void look_up_wide(uint16_t *restrict y, const uint8_t *restrict codes,
                                  const uint16_t table[CODES], int64_t n)
{
    enum { LANES = 32, HALF = 0x40 };
    const words *t = (const words *)table;
    words t0 = t[0], t1 = t[1], t2 = t[2], t3 = t[3];
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        words c = __builtin_convertvector(*(const bytes *)(codes + i), words);
        words low = __builtin_shuffle(t0, t1, c), high = __builtin_shuffle(t2, t3, c);
        words upper = (words)((c & HALF) != 0);

        *(words *)(y + i) = ((upper & high) | (~upper & low)) ^ (c & SIGN) << 8;
    }
    look_up(y + i, codes + i, table, n - i);
}

static bool has_wide(void)
{
    /* each by name: gcc 11 does not know the level */
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && cpu_kernels() != NULL &&
           cpu_kernels()->lanes == LANES_F32;
}
#else
static void look_up_wide(uint16_t *y, const uint8_t *codes, const uint16_t table[CODES], int64_t n)
{
    look_up(y, codes, table, n);
}

static bool has_wide(void)
{
    return false;
}
#endif

/* Neighbouring blocks, whose rows are read together. */
struct blocks {
    const float *scales;
    struct cpu_range rows;
    int64_t col, n; /* their first column, and how many they are */
};

static void decode_blocks(const struct tr_decode *a, const struct blocks *b, bool wide)
{
    const struct tr_weight *w = &a->w;
    uint16_t tables[BLOCKS][CODES];

    for (int64_t k = 0; k < b->n; k++)
        make_table(tables[k], b->scales[k]);
    for (int64_t i = b->rows.begin; i < b->rows.end; i++) {
        uint16_t *y = (uint16_t *)a->y.p + i * a->y.ld;
        const uint8_t *codes = (const uint8_t *)w->w.p + i * w->w.ld;

        for (int64_t k = 0, j = b->col; k < b->n; k++, j += w->block_cols) {
            int64_t left = a->y.shape[1] - j, n = left < w->block_cols ? left : w->block_cols;

            if (wide)
                look_up_wide(y + j, codes + j, tables[k], n);
            else
                look_up(y + j, codes + j, tables[k], n);
        }
    }
}

/* The i-th band of blocks. */
static void decode_band(const struct tr_decode *a, int64_t i, bool wide)
{
    const struct tr_weight *w = &a->w;
    int64_t first = i * w->block_rows - w->row0 % w->block_rows, end = first + w->block_rows;
    int64_t rows = a->y.shape[0], across = (a->y.shape[1] + w->block_cols - 1) / w->block_cols;
    const float *scales = (const float *)w->scale.p + (w->row0 / w->block_rows + i) * w->scale.ld;

    for (int64_t k = 0; k < across; k += BLOCKS) {
        struct blocks b = {.scales = scales + k,
                           .rows = {first > 0 ? first : 0, end < rows ? end : rows},
                           .col = k * w->block_cols,
                           .n = across - k < BLOCKS ? across - k : BLOCKS};

        decode_blocks(a, &b, wide);
    }
}

static void decode_row(const struct tr_decode *a, int64_t i)
{
    int64_t cols = a->y.shape[1];

    for (int64_t j = 0; j < cols; j += PIECE) {
        struct cpu_range part = {j, cols - j < PIECE ? cols : j + PIECE};
        float row[PIECE];

        cpu_load_weight(row, &a->w, i, part);
        cpu_store(&a->y, i, j, row, part.end - j);
    }
}

enum fr_rc tr_cpu_decode(void *self, struct tr_queue *q, const struct tr_decode *a,
                         struct fr_err *err)
{
    struct cpu *cpu = self;
    const struct tr_weight *w = &a->w;
    int64_t rows = a->y.shape[0], cols = a->y.shape[1];
    bool tables = a->y.dtype == TR_BF16, wide = has_wide();
    int64_t n =
        tables ? (w->row0 % w->block_rows + rows + w->block_rows - 1) / w->block_rows : rows;

#pragma omp parallel for num_threads(cpu->threads) if (rows * cols > CPU_SMALL)
    for (int64_t i = 0; i < n; i++)
        if (tables)
            decode_band(a, i, wide);
        else
            decode_row(a, i);
    return FR_OK;
}
