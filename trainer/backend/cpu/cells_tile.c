#include "trainer/backend/cpu/cells_tile.h"

#include <assert.h>
#include <unistd.h>

enum {
    PACKED = 96 << 10, /* cells of a packed piece of b, which fits the L2 cache */
    PANELS = 8,        /* most panels of a tile */
    ROWS = 512,        /* most rows of a tile */
    DEPTH = 768,       /* depth of an f32 block: with more, few panels exceed the L2 cache */
    TOKENS = 512,      /* depth of a block if the inner dimension is tokens: a is packed as well */
    CACHE = 1 << 20,   /* bytes of the L2 cache, and its ways */
    WAYS = 8,
    LINE = 64,  /* bytes of a cache line */
    BESIDE = 6, /* lines that a strip reads besides rows of a, and a margin */
    CELL = sizeof(uint32_t)
};

static bool is_f32(const struct tr_gemm *g)
{
    return g->a.dtype == TR_F32;
}

static int64_t inner_of(const struct tr_gemm *g)
{
    return g->a.shape[g->trans_a ? 0 : 1];
}

/* Whether sums are stored without beta, alpha and bias. */
static bool plain(const struct tr_gemm *g, float beta)
{
    return g->alpha == 1 && tr_view_absent(g->bias) &&
           (beta == 0 || (beta == 1 && g->c.dtype == TR_F32));
}

/* Depth of a block. c keeps f32 sums between blocks, so the depth changes no bits if c is stored
 * without scaling. */
static int64_t depth_of(const struct tr_gemm *g)
{
    int64_t inner = inner_of(g), blocks = (inner + DEPTH - 1) / DEPTH;

    if (g->trans_a)
        return cpu_least(TOKENS, inner);
    if (!is_f32(g) || blocks == 1 || !plain(g, g->beta))
        return inner;
    return ((inner + blocks - 1) / blocks + 15) / 16 * 16;
}

int64_t cells_tile_rows(const struct tr_gemm *g)
{
    return g->trans_a ? ROWS / 2 : ROWS;
}

int64_t cells_tile_cols(const struct tr_gemm *g)
{
    int64_t panels = PACKED / (cpu_cells_of(depth_of(g), is_f32(g)) * CPU_PANEL);

    panels = cpu_least(panels < 1 ? 1 : panels, PANELS);
    return CPU_PANEL * cpu_least(panels, cpu_panels_of(g->c.shape[1]));
}

/* Row stride of a in bytes. */
static int64_t apart(const struct tr_gemm *g)
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

/* Scratch of a thread: packed pieces of b and transposed a, or copied rows of a; sums of a strip; a
 * piece of the bias. */
struct lane {
    uint32_t *b, *a;
    float *sums, *bias;
};

size_t cells_tile_bytes(const struct tr_gemm *g)
{
    int64_t depth = cpu_cells_of(depth_of(g), is_f32(g));
    int64_t cells = depth * cells_tile_cols(g);

    if (g->trans_a)
        cells += cpu_spread(depth) * cells_tile_rows(g);
    else if (cpu_crowded(apart(g), CPU_STRIP_AMX)) /* for any strip */
        cells += CPU_STRIP_AMX * cpu_spread(depth);
    return (size_t)((cells + (CPU_STRIP_AMX + 1) * CPU_PANEL + 15) / 16 * 16) * sizeof(uint32_t);
}

static struct lane lane_of(const struct tr_gemm *g, void *work)
{
    int64_t depth = cpu_cells_of(depth_of(g), is_f32(g));
    struct lane l;

    l.b = work;
    l.sums = (float *)(l.b + depth * cells_tile_cols(g));
    l.bias = l.sums + CPU_STRIP_AMX * CPU_PANEL;
    l.a = (uint32_t *)(l.bias + CPU_PANEL);
    return l;
}

/* A tile with the state of its current block. */
struct tile {
    const struct tr_gemm *g;
    bool amx;
    struct cpu_range rows, cols, inner;
    struct lane l;
    const uint32_t *b;       /* panels, or rows, of b for the tile's columns */
    int64_t b_row, b_col;    /* row stride of b in cells (0: panels), and column stride */
    struct cpu_ahead *ahead; /* the part of b that the next tile reads, prefetched meanwhile */
    int64_t blocks;          /* of the inner dimension */
};

/* The packed panels of b from the tile's first column on. */
static const uint32_t *packed_at(const struct tr_gemm *g, int64_t col)
{
    const uint32_t *panels = g->trans_b ? g->b.packed : g->b.w.p;

    return panels + col * cpu_cells_of(inner_of(g), is_f32(g));
}

static bool is_packed(const struct tr_gemm *g)
{
    return !g->trans_a && (g->trans_b ? g->b.packed != NULL : g->b.repacked);
}

static void pack_b(const struct tile *t)
{
    const struct tr_gemm *g = t->g;
    const struct tr_view *w = &g->b.w;
    struct cpu_pack b = {.dst = t->l.b,
                         .k = cpu_length(t->inner),
                         .n = cpu_length(t->cols),
                         .ld = w->ld,
                         .f32 = is_f32(g)};

    if (g->trans_b) {
        b.src = cpu_at(w, t->cols.begin, t->inner.begin);
        cpu_pack_turned(&b);
    } else {
        b.src = cpu_at(w, t->inner.begin, t->cols.begin);
        cpu_pack_rows(&b);
    }
}

/* Whether strips read b in place: its columns fill vectors, and the rows of a panel fit the L2
 * cache. Rows at a distance of many lines fall into few sets. */
static bool in_place(const struct tr_gemm *g, int64_t cols, int64_t rows)
{
    int64_t bytes = g->b.w.ld * CELL, step = bytes & -bytes;
    int64_t sets = step > 64 ? CACHE / WAYS / step : CACHE / WAYS / 64;

    return is_f32(g) && !g->trans_b && cols % (CPU_PANEL / 2) == 0 && rows <= (WAYS - 2) * sets;
}

static void place_b(struct tile *t)
{
    const struct tr_gemm *g = t->g;
    int64_t k = cpu_length(t->inner);

    assert(is_packed(g) || !g->b.repacked);
    t->b_row = 0;
    t->b_col = cpu_cells_of(k, is_f32(g));
    if (is_packed(g)) {
        t->b = packed_at(g, t->cols.begin);
    } else if (in_place(g, cpu_length(t->cols), k)) {
        t->b = (const uint32_t *)cpu_at(&g->b.w, t->inner.begin, t->cols.begin);
        t->b_row = g->b.w.ld;
        t->b_col = 1;
    } else {
        t->b = t->l.b;
        pack_b(t);
    }
}

/* Row stride, in cells, of a packed for AMX. */
static int64_t row_of_a(const struct tile *t)
{
    return cpu_spread(cpu_cells_of(cpu_length(t->inner), false));
}

static void pack(struct tile *t)
{
    const struct tr_gemm *g = t->g;
    struct cpu_pack a = {.dst = t->l.a,
                         .src = cpu_at(&g->a, t->inner.begin, t->rows.begin),
                         .k = cpu_length(t->inner),
                         .n = cpu_length(t->rows),
                         .ld = g->a.ld,
                         .f32 = is_f32(g)};

    place_b(t);
    if (g->trans_a && t->amx)
        cpu_pack_across(&a, row_of_a(t));
    else if (g->trans_a)
        cpu_pack_cells(&a);
}

/* Sums of rows [r.begin, r.end) of the tile with the panel at column j of it, into c. */
static void put(const struct tile *t, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    bool again = t->inner.begin > 0, biased = !again && !tr_view_absent(g->bias);
    struct tr_view bias = g->bias;
    int64_t n = cpu_least(CPU_PANEL, cpu_length(t->cols) - j);

    if (biased)
        cpu_load(t->l.bias, &bias, 0, t->cols.begin + j, n);
    cpu_put(&(struct cpu_put){.y = cpu_at(&g->c, t->rows.begin + r.begin, t->cols.begin + j),
                              .x = t->l.sums,
                              .bias = biased ? t->l.bias : NULL,
                              .m = cpu_length(r),
                              .n = n,
                              .ldy = g->c.ld,
                              .ldx = CPU_PANEL,
                              .alpha = g->alpha,
                              .beta = again ? 1 : g->beta,
                              .f32 = g->c.dtype == TR_F32});
}

/* Prefetches rows of c. */
static void bring_sums(const struct tile *t, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    const char *y = cpu_at(&g->c, t->rows.begin + r.begin, t->cols.begin + j);
    int64_t size = (int64_t)tr_dtype_bytes(g->c.dtype), row = g->c.ld * size;

    for (int64_t i = r.begin; i < r.end; i++, y += row)
        for (int64_t k = 0; k < CPU_PANEL * size; k += 64)
            __builtin_prefetch(y + k, 1, 3);
}

/* Sets the strip's rows of a. */
static void rows_at(const struct tile *t, struct cpu_range r, struct cpu_strip *s)
{
    const struct tr_gemm *g = t->g;

    s->m = cpu_length(r);
    s->a_cell = CELL;
    if (!g->trans_a) {
        cpu_strip_take(s, cpu_at(&g->a, t->rows.begin + r.begin, t->inner.begin), apart(g), t->l.a);
        return;
    }
    if (t->amx) {
        s->a = (const char *)(t->l.a + r.begin * row_of_a(t));
        s->a_row = row_of_a(t) * CELL;
        return;
    }
    s->a = (const char *)(t->l.a + r.begin);
    s->a_row = CELL;
    s->a_cell = cpu_length(t->rows) * CELL;
}

/* Computes rows r times the panel at column j. multiply has set s; the rest is set here, in place:
 * a copy would wait for recent stores. */
static void one_strip(const struct tile *t, struct cpu_strip *s, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    char *c = cpu_at(&g->c, t->rows.begin + r.begin, t->cols.begin + j);

    s->b = t->b + j * t->b_col;
    s->n = cpu_least(CPU_PANEL, cpu_length(t->cols) - j);
    if (!tr_view_absent(g->bias)) {
        s->c = t->l.sums;
        s->ldc = CPU_PANEL;
        cpu_strip(s);
        put(t, r, j);
        return;
    }
    s->ldc = g->c.ld;
    s->beta = t->inner.begin > 0 ? 1 : g->beta;
    s->scales = !plain(g, s->beta);
    s->add = !s->scales && s->beta == 1;
    if (g->c.dtype == TR_F32)
        s->c = (float *)c;
    else
        s->half = (uint16_t *)c;
    cpu_strip(s);
}

static void multiply(const struct tile *t)
{
    struct cpu_strip s = {.f32 = is_f32(t->g),
                          .amx = t->amx,
                          .cells = cpu_cells_of(cpu_length(t->inner), is_f32(t->g)),
                          .b_row = t->b_row,
                          .alpha = t->g->alpha,
                          .ahead = t->ahead};
    int64_t m = cpu_length(t->rows), n = cpu_length(t->cols), strips = cpu_strips_of(m, t->amx);
    bool adds = t->g->beta != 0 || t->inner.begin > 0;
    int64_t turns = strips * cpu_panels_of(n) * t->blocks;

    s.lines = t->ahead->rows * ((t->ahead->bytes + 63) / 64) / turns + 1;
    for (int64_t i = 0; i < strips; i++) {
        struct cpu_range r = cpu_strip_rows(m, i, t->amx);

        rows_at(t, r, &s);
        for (int64_t j = 0; j < n; j += CPU_PANEL) {
            if (adds && i == 0)
                bring_sums(t, r, j);
            if (adds && i + 1 < strips)
                bring_sums(t, cpu_strip_rows(m, i + 1, t->amx), j);
            one_strip(t, &s, r, j);
        }
    }
}

struct cpu_ahead cells_tile_ahead(const struct cells_tile *t)
{
    const struct tr_gemm *g = t->g;
    int64_t size = (int64_t)tr_dtype_bytes(g->b.w.dtype);

    if (is_packed(g)) /* sequentially */
        return (struct cpu_ahead){.p = (const char *)packed_at(g, t->cols.begin),
                                  .rows = 1,
                                  .bytes = cpu_panels_of(cpu_length(t->cols)) * CPU_PANEL *
                                           cpu_cells_of(inner_of(g), is_f32(g)) * CELL};
    if (g->trans_b)
        return (struct cpu_ahead){.p = cpu_at(&g->b.w, t->cols.begin, 0),
                                  .rows = cpu_length(t->cols),
                                  .bytes = depth_of(g) * size,
                                  .ld = g->b.w.ld * size};
    return (struct cpu_ahead){.p = cpu_at(&g->b.w, 0, t->cols.begin),
                              .rows = depth_of(g),
                              .bytes = cpu_length(t->cols) * size,
                              .ld = g->b.w.ld * size};
}

void cells_tile_run(const struct cells_tile *whole, void *work, struct cpu_ahead *ahead)
{
    const struct tr_gemm *g = whole->g;
    int64_t depth = depth_of(g), D = inner_of(g);
    struct tile t = {.g = g,
                     .amx = whole->amx && !is_f32(g),
                     .rows = whole->rows,
                     .cols = whole->cols,
                     .l = lane_of(g, work),
                     .ahead = ahead,
                     .blocks = (D + depth - 1) / depth};

    for (int64_t k = 0; k < D; k += depth) {
        t.inner = (struct cpu_range){k, cpu_least(k + depth, D)};
        pack(&t);
        multiply(&t);
    }
    cpu_amx_release();
}
