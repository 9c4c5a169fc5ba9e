#include "trainer/backend/cpu/cells_size.h"

#include "trainer/backend/cpu/cells_tile.h"

#include <unistd.h>

enum {
    PACKED = 96 << 10, /* cells of a packed piece of b, which fits the L2 cache */
    PANELS = 8,        /* most panels of a tile, and of a wide one */
    PANELS_WIDE = 32,
    ROWS = 512,   /* most rows of a tile; half as many where a is packed, for the L2 cache */
    DEPTH = 768,  /* depth of an f32 block: with more, few panels exceed the L2 cache */
    TOKENS = 512, /* depth of a block if the inner dimension is tokens: a is packed as well */
    LINE = 64,    /* bytes of a cache line */
    BESIDE = 6    /* lines that a strip reads besides rows of a, and a margin */
};

bool cells_f32(const struct tr_gemm *g)
{
    return g->a.dtype == TR_F32;
}

int64_t cells_inner(const struct tr_gemm *g)
{
    return g->a.shape[g->trans_a ? 0 : 1];
}

bool cells_plain(const struct tr_gemm *g, float beta)
{
    return g->alpha == 1 && tr_view_absent(g->bias) &&
           (beta == 0 || (beta == 1 && g->c.dtype == TR_F32));
}

bool cells_packed(const struct tr_gemm *g)
{
    return !g->trans_a && (g->trans_b ? g->b.packed != NULL : g->b.repacked);
}

int64_t cells_depth(const struct tr_gemm *g)
{
    int64_t inner = cells_inner(g), blocks = (inner + DEPTH - 1) / DEPTH;

    if (g->trans_a)
        return cpu_least(TOKENS, inner);
    if (!cells_f32(g) || blocks == 1 || !cells_plain(g, g->beta))
        return inner;
    return ((inner + blocks - 1) / blocks + 15) / 16 * 16;
}

int64_t cells_apart(const struct tr_gemm *g)
{
    return g->a.ld * (int64_t)tr_dtype_bytes(g->a.dtype);
}

/* Bytes of a way of the L1 cache, and its ways. */
static void first_cache(int64_t *way, int64_t *ways)
{
    long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE), n = sysconf(_SC_LEVEL1_DCACHE_ASSOC);

    *ways = bytes > 0 && n > 0 ? n : 8; /* the least of chips with AVX-512 */
    *way = bytes > 0 && n > 0 ? bytes / n : 4096;
}

bool cpu_crowded(int64_t apart, int64_t rows)
{
    static _Thread_local int64_t way, ways;
    int64_t step = apart & -apart;

    if (ways == 0)
        first_cache(&way, &ways);
    return ways * (way / (step < LINE ? LINE : step < way ? step : way)) < rows + BESIDE;
}

bool cells_tile_wide(const struct tr_gemm *g)
{
    return cells_f32(g) && !cells_packed(g) && cells_depth(g) <= DEPTH &&
           (g->trans_a || cpu_crowded(cells_apart(g), CPU_STRIP));
}

int64_t cells_tile_rows(const struct tr_gemm *g)
{
    return g->trans_a || cells_tile_wide(g) ? ROWS / 2 : ROWS;
}

int64_t cells_tile_cols(const struct tr_gemm *g)
{
    int64_t panels = PACKED / (cpu_cells_of(cells_depth(g), cells_f32(g)) * CPU_PANEL);

    panels = cells_tile_wide(g) ? PANELS_WIDE : cpu_least(panels < 1 ? 1 : panels, PANELS);
    return CPU_PANEL * cpu_least(panels, cpu_panels_of(g->c.shape[1]));
}

int64_t cells_of_b(const struct tr_gemm *g)
{
    int64_t cols = cells_tile_wide(g) ? CPU_PANEL : cells_tile_cols(g);

    return cpu_cells_of(cells_depth(g), cells_f32(g)) * cols;
}

int64_t cells_of_a(const struct tr_gemm *g)
{
    int64_t depth = cpu_cells_of(cells_depth(g), cells_f32(g)), rows = cells_tile_rows(g);
    int64_t strips = cpu_strips_of(rows, false) * CPU_STRIP_CELLS * depth;

    if (g->trans_a)
        return cpu_most(strips, rows * cpu_spread(depth));
    if (cells_tile_wide(g))
        return rows * cpu_spread(depth);
    return cpu_crowded(cells_apart(g), CPU_STRIP_AMX) ? CPU_STRIP_AMX * cpu_spread(depth) : 0;
}

size_t cells_tile_bytes(const struct tr_gemm *g)
{
    int64_t cells = cells_of_b(g) + (CPU_STRIP_AMX + 1) * CPU_PANEL + cells_of_a(g);

    return (size_t)((cells + 15) / 16 * 16) * sizeof(uint32_t);
}
