#include "trainer/backend/cpu/cells_size.h"

#include "trainer/backend/cpu/cells_tile.h"

#include <unistd.h>

enum {
    LINE = 64, /* bytes of a cache line */
    BESIDE = 6 /* lines that a strip reads besides rows of a, and a margin */
};

/* What suits the caches of chips with vectors of a width. */
struct limits {
    int64_t packed;              /* cells of a packed piece of b, which fits the L2 cache */
    int64_t panels, panels_wide; /* most panels of a tile, and of a wide one */
    int64_t rows, rows_wide;     /* most rows of a tile, and where a is packed, for the L2 cache */
    int64_t depth;               /* of a block: with more, few panels exceed the L2 cache */
    int64_t tokens; /* depth of a block if the inner dimension is tokens: a is packed as well */
};

static const struct limits *limits(void)
{
    static const struct limits narrow = {48 << 10, 8, 32, 512, 128, 384, 384};
    static const struct limits broad = {96 << 10, 8, 32, 512, 256, 768, 512};

    return cpu_kernels()->lanes <= 8 ? &narrow : &broad;
}

/* The type of b: that of a, if it is not known yet. */
bool cells_f32(const struct tr_gemm *g)
{
    enum tr_dtype c = g->c.dtype;

    if (!cpu_kernels()->pairs || g->a.dtype != TR_BF16 || g->b.w.dtype != TR_BF16)
        return true;
    if (g->trans_a) /* c keeps its sums between blocks of tokens */
        return c != TR_F32;
    return cells_inner(g) % 2 != 0 || (c != TR_F32 && c != TR_BF16);
}

int64_t cells_inner(const struct tr_gemm *g)
{
    return g->a.shape[g->trans_a ? 0 : 1];
}

bool cells_plain(const struct tr_gemm *g)
{
    return g->alpha == 1 && tr_view_absent(g->bias) && g->c.dtype == TR_F32 &&
           (g->beta == 0 || g->beta == 1);
}

bool cells_packed(const struct tr_gemm *g)
{
    return !cells_f32(g) && !g->trans_a && (g->trans_b ? g->b.packed != NULL : g->b.repacked);
}

int64_t cells_depth(const struct tr_gemm *g)
{
    int64_t inner = cells_inner(g), most = g->trans_a ? limits()->tokens : limits()->depth;
    int64_t blocks = (inner + most - 1) / most;

    if (blocks <= 1 || (!g->trans_a && !cells_f32(g)))
        return inner;
    return g->trans_a && !cells_f32(g) ? most : ((inner + blocks - 1) / blocks + 15) / 16 * 16;
}

int64_t cells_apart(const struct tr_gemm *g)
{
    return g->a.ld * (int64_t)tr_dtype_bytes(g->a.dtype);
}

/* Bytes of a way of the L1 cache, and its ways. */
static void first_cache(int64_t *way, int64_t *ways)
{
    long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE), n = sysconf(_SC_LEVEL1_DCACHE_ASSOC);

    *ways = bytes > 0 && n > 0 ? n : 8; /* the least of chips with AVX2 */
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
    if (!cells_f32(g))
        return false;
    return g->trans_a ||
           (g->a.dtype == TR_F32 && cpu_crowded(cells_apart(g), cpu_strip_most(false)));
}

int64_t cells_tile_rows(const struct tr_gemm *g)
{
    return g->trans_a || cells_tile_wide(g) ? limits()->rows_wide : limits()->rows;
}

int64_t cells_tile_cols(const struct tr_gemm *g)
{
    const struct limits *l = limits();
    int64_t panel = cpu_kernels()->panel;
    int64_t panels = l->packed / (cpu_cells_of(cells_depth(g), cells_f32(g)) * panel);

    panels = cells_tile_wide(g) ? l->panels_wide : cpu_least(panels < 1 ? 1 : panels, l->panels);
    return panel * cpu_least(panels, cpu_panels_of(g->c.shape[1]));
}

int64_t cells_of_b(const struct tr_gemm *g)
{
    int64_t cols = cells_tile_wide(g) ? cpu_kernels()->panel : cells_tile_cols(g);

    return cpu_cells_of(cells_depth(g), cells_f32(g)) * cols;
}

int64_t cells_decoded(const struct tr_gemm *g)
{
    return g->b.w.dtype == TR_F8_E4M3 ? cells_of_b(g) : 0;
}

int64_t cells_of_a(const struct tr_gemm *g)
{
    bool f32 = cells_f32(g);
    int64_t depth = cpu_cells_of(cells_depth(g), f32), rows = cells_tile_rows(g);
    int64_t strips = cpu_strips_of(rows, false) * cpu_kernels()->strip_cells * depth;

    if (g->trans_a)
        return f32 ? strips : cpu_most(strips, rows * cpu_spread(depth));
    if (cells_tile_wide(g))
        return rows * cpu_spread(depth);
    return (f32 && g->a.dtype != TR_F32) || cpu_crowded(cells_apart(g), CPU_STRIP_AMX)
               ? CPU_STRIP_AMX * cpu_spread(depth)
               : 0;
}

int64_t cells_of_sums(const struct tr_gemm *g)
{
    bool kept = cells_depth(g) >= cells_inner(g) || cells_plain(g);

    return kept ? 0 : cells_tile_rows(g) * cells_tile_cols(g);
}

size_t cells_tile_bytes(const struct tr_gemm *g)
{
    int64_t cells = cells_of_b(g) + cells_decoded(g) + (CPU_STRIP_AMX + 1) * CPU_PANEL_MOST +
                    cells_of_a(g) + cells_of_sums(g);

    return (size_t)((cells + 15) / 16 * 16) * sizeof(uint32_t);
}
