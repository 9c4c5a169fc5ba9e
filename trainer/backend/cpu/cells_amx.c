/*
 * Strips of bf16 by AMX: the chip's tiles hold 16 rows of 64 bytes. A strip has up to two tiles of
 * rows of a and two of columns of b, whose products it sums in four; a panel's cells lie as a tile
 * wants them. A product of tiles adds 32 of k at once, groups of them in ascending order.
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBF16PS.
 */
#define CPU_LEVEL 5
#include "trainer/backend/cpu/cells_simd.h"

#include <assert.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX                                                                                        \
    __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

/* A compiler barrier: the intrinsics do not declare their reads and writes of memory. */
#define MEMORY() __asm__ volatile("" ::: "memory")

enum {
    ROWS = 16,    /* rows of a tile, at most */
    CELLS_K = 16, /* cells of k that one product of tiles adds */
    LINE = 64,    /* bytes of a tile's row */
    CELL = sizeof(uint32_t),
    A = 4, /* tiles 4 and 5; sums: 0 .. 3, by rows, then columns */
    B = 6  /* and 7 */
};

bool cpu_amx_have(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* of arch_prctl(2) */

    return cpu_may_tile() && __builtin_cpu_supports("amx-tile") &&
           __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* The rows of a strip and cells of k of this thread's tile configuration; 0: none. */
static _Thread_local struct {
    int64_t m, cells;
} shaped;

AMX static void shape(int64_t m, int64_t cells)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } c __attribute__((aligned(64))) = {.palette = 1};
    uint8_t upper = (uint8_t)cpu_least(m, ROWS), lower = (uint8_t)(m > ROWS ? m - ROWS : ROWS);

    for (int i = 0; i < 8; i++) {
        c.bytes[i] = i == A || i == A + 1 ? (uint16_t)(cells * CELL) : LINE;
        c.rows[i] = i >= B ? (uint8_t)cells : i == 0 || i == 1 || i == A ? upper : lower;
    }
    MEMORY();
    _tile_loadconfig(&c);
    shaped.m = m;
    shaped.cells = cells;
}

AMX void cpu_amx_release(void)
{
    if (shaped.m != 0)
        _tile_release();
    shaped.m = 0;
}

/* The last cells of k, followed by zeros. */
struct tail {
    uint32_t a[2 * ROWS][CELLS_K], b[CELLS_K][PANEL];
} __attribute__((aligned(64)));

AMX static void take_tail(const struct cpu_strip *s, int64_t at, struct tail *t)
{
    __mmask16 some = within(0, s->cells - at);

    for (int64_t i = 0; i < s->m; i++)
        _mm512_store_si512(t->a[i],
                           _mm512_maskz_loadu_epi32(some, s->a + i * s->a_row + at * CELL));
    for (int64_t k = 0; k < CELLS_K; k++)
        for (int64_t j = 0; j < PANEL; j += 16)
            _mm512_store_si512(&t->b[k][j], at + k < s->cells
                                                ? _mm512_loadu_si512(s->b + (at + k) * PANEL + j)
                                                : _mm512_setzero_si512());
}

/* Whether tiles can load and store the sums in c directly. */
static bool whole(const struct cpu_strip *s)
{
    return s->half == NULL && s->n % 16 == 0 &&
           (s->held == NULL || (s->held == s->c && s->ld_held == s->ldc));
}

/* Both halves of a strip's rows and columns; high, wide: the second half exists. */
#define EACH_SUM(DO)                                                                               \
    do {                                                                                           \
        DO(0, 0, 0);                                                                               \
        if (wide)                                                                                  \
            DO(1, 0, 1);                                                                           \
        if (high)                                                                                  \
            DO(2, 1, 0);                                                                           \
        if (high && wide)                                                                          \
            DO(3, 1, 1);                                                                           \
    } while (0)

#define AT(i, j) (c + (i)*ROWS * ldc + (j)*16)
#define ZERO(t, i, j) _tile_zero(t)
#define LOAD(t, i, j) _tile_loadd(t, AT(i, j), ldc *CELL)
#define STORE(t, i, j) _tile_stored(t, AT(i, j), ldc *CELL)

struct step {
    const char *a;
    int64_t a_row;
    const uint32_t *b;
};

AMX static inline __attribute__((always_inline)) void add_step(const struct step *x,
                                                               const bool high, const bool wide)
{
    _tile_loadd(6, x->b, PANEL * CELL);
    _tile_loadd(4, x->a, x->a_row);
    _tile_dpbf16ps(0, 4, 6);
    if (wide) {
        _tile_loadd(7, x->b + 16, PANEL * CELL);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (high) {
        _tile_loadd(5, x->a + ROWS * x->a_row, x->a_row);
        _tile_dpbf16ps(2, 5, 6);
    }
    if (high && wide)
        _tile_dpbf16ps(3, 5, 7);
}

AMX static inline __attribute__((always_inline)) void
strip(const struct cpu_strip *s, float *c, int64_t ldc, const bool high, const bool wide)
{
    int64_t groups = s->cells < CELLS_K ? 1 : s->cells / CELLS_K, lines = 0;
    struct step x = {s->a, s->a_row, s->b};
    struct tail t;

    if (s->ahead != NULL)
        lines = (s->lines + groups - 1) / groups;
    if (s->held != NULL)
        EACH_SUM(LOAD);
    else
        EACH_SUM(ZERO);
    for (int64_t k = 0; k < groups; k++) {
        add_step(&x, high, wide);
        x.a += LINE;
        x.b += CELLS_K * PANEL;
        if (lines > 0)
            cpu_bring(s->ahead, lines);
    }
    if (s->cells > groups * CELLS_K) {
        take_tail(s, groups * CELLS_K, &t);
        MEMORY();
        add_step(&(struct step){(const char *)t.a, LINE, t.b[0]}, high, wide);
    }
    EACH_SUM(STORE);
    MEMORY();
}

AMX static void run(const struct cpu_strip *s, float *c, int64_t ldc)
{
    bool wide = s->n > 16;

    MEMORY();
    if (s->m > ROWS)
        wide ? strip(s, c, ldc, true, true) : strip(s, c, ldc, true, false);
    else
        wide ? strip(s, c, ldc, false, true) : strip(s, c, ldc, false, false);
}

/* Stores 32 columns of sums, rounded; held: combined with the old c. */
AMX static inline __attribute__((always_inline)) void
store_rounded(const struct cpu_strip *s, float (*sums)[PANEL], const bool held)
{
    const __m512 alpha = _mm512_set1_ps(s->alpha), beta = _mm512_set1_ps(s->beta);
    uint16_t *c = s->half;
    int64_t m = s->m, ldc = s->ldc;
    bool scales = s->scales;

    for (int64_t i = 0; i < m; i++, c += ldc) {
        __m512 low = _mm512_load_ps(sums[i]), high = _mm512_load_ps(sums[i] + 16);

        if (scales) {
            low = _mm512_mul_ps(low, alpha);
            high = _mm512_mul_ps(high, alpha);
        }
        if (held) {
            low = _mm512_fmadd_ps(widen(_mm256_loadu_si256((const void *)c)), beta, low);
            high = _mm512_fmadd_ps(widen(_mm256_loadu_si256((const void *)(c + 16))), beta, high);
        }
        _mm512_storeu_si512(c, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

AMX void cpu_amx_strip(const struct cpu_strip *s)
{
    float sums[2 * ROWS][PANEL] __attribute__((aligned(64)));
    int64_t cells = cpu_least(s->cells, CELLS_K);
    bool halves = s->half != NULL;

    assert(s->a_cell == CELL && s->b_row == 0 && !s->f32);
    if (s->m != shaped.m || cells != shaped.cells)
        shape(s->m, cells);
    if (whole(s) && !s->scales) {
        run(s, s->c, s->ldc);
        return;
    }
    if (s->held != NULL)
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < PANEL; j += 16) {
                const float *held = s->held + i * s->ld_held + j;

                _mm512_store_ps(&sums[i][j], load_part(held, s->n - j));
            }
    run(s, sums[0], PANEL);
    if (halves && s->n == PANEL) {
        s->scales && s->beta != 0 ? store_rounded(s, sums, true) : store_rounded(s, sums, false);
        return;
    }
    cpu_kernels()->put(&(struct cpu_put){.y = halves ? (void *)s->half : s->c,
                                         .x = sums[0],
                                         .m = s->m,
                                         .n = s->n,
                                         .ldy = s->ldc,
                                         .ldx = PANEL,
                                         .alpha = s->scales ? s->alpha : 1,
                                         .beta = s->scales ? s->beta : 0,
                                         .type = halves ? TR_BF16 : TR_F32});
}
