#include "trainer/backend/cpu/cells_tile.h"

#include "trainer/backend/cpu/cells_size.h"

#include <assert.h>

enum {
    CACHE = 1 << 20, /* bytes of the L2 cache, and its ways */
    WAYS = 8,
    LINE = 64, /* bytes of a cache line */
    CELL = sizeof(uint32_t)
};

/* Scratch of a thread: packed pieces of b, and the same decoded; sums of a strip; a piece of the
 * bias; transposed a, or copied rows of a; sums of the tile between blocks, or NULL: c keeps them.
 */
struct lane {
    uint32_t *b, *a;
    float *decoded, *strip, *bias, *sums;
};

static struct lane lane_of(const struct tr_gemm *g, void *work)
{
    struct lane l;

    l.b = work;
    l.decoded = (float *)(l.b + cells_of_b(g));
    l.strip = l.decoded + cells_decoded(g);
    l.bias = l.strip + CPU_STRIP_AMX * CPU_PANEL_MOST;
    l.a = (uint32_t *)(l.bias + CPU_PANEL_MOST);
    l.sums = cells_of_sums(g) > 0 ? (float *)(l.a + cells_of_a(g)) : NULL;
    return l;
}

/* A tile with the state of its current block. */
struct tile {
    const struct tr_gemm *g;
    bool amx;
    bool wide;
    int64_t panel, ld_sums; /* columns of a panel; of a row of l.sums */
    struct cpu_range rows, cols, inner;
    struct lane l;
    const uint32_t *b;    /* panels, or rows, of b for the tile's columns from b_begin on */
    int64_t b_row, b_col; /* row stride of b in cells (0: panels), and column stride */
    int64_t b_begin;
    struct cpu_ahead *ahead; /* the part of b that the next tile reads, prefetched meanwhile */
    int64_t blocks;          /* of the inner dimension */
};

/* The packed panels of b from the tile's first column on. */
static const uint32_t *packed_at(const struct tr_gemm *g, int64_t col)
{
    const uint32_t *panels = g->trans_b ? g->b.packed : g->b.w.p;

    return panels + col * cpu_cells_of(cells_inner(g), cells_f32(g));
}

/* Rows x cols of b as it is stored, in f32. */
static void decode(const struct tile *t, struct cpu_range rows, struct cpu_range cols)
{
    for (int64_t i = rows.begin; i < rows.end; i++)
        cpu_load_weight(t->l.decoded + (i - rows.begin) * cpu_length(cols), &t->g->b, i, cols);
}

/* Packs the tile's columns from j on; n of them. */
static void pack_b(const struct tile *t, int64_t j, int64_t n)
{
    const struct tr_gemm *g = t->g;
    const struct tr_view *w = &g->b.w;
    int64_t first = t->cols.begin + j;
    struct cpu_range cols = {first, first + n};
    struct cpu_range rows = g->trans_b ? cols : t->inner, across = g->trans_b ? t->inner : cols;
    struct cpu_pack b = {.dst = t->l.b,
                         .src = cpu_at(w, rows.begin, across.begin),
                         .k = cpu_length(t->inner),
                         .n = n,
                         .ld = w->ld,
                         .type = w->dtype,
                         .f32 = cells_f32(g)};

    if (w->dtype == TR_F8_E4M3) {
        decode(t, rows, across);
        b.src = t->l.decoded;
        b.ld = cpu_length(across);
        b.type = TR_F32;
    }
    if (g->trans_b)
        cpu_kernels()->pack_turned(&b);
    else
        cpu_kernels()->pack_rows(&b);
}

/* Whether strips read b in place: its columns fill vectors, and the rows of a panel fit the L2
 * cache. Rows at a distance of many lines fall into few sets. A narrow panel is packed if more than
 * two strips read it. */
static bool in_place(const struct tr_gemm *g, int64_t cols, int64_t rows)
{
    const struct cpu_kernels *k = cpu_kernels();
    int64_t bytes = g->b.w.ld * CELL, step = bytes & -bytes;
    int64_t sets = step > 64 ? CACHE / WAYS / step : CACHE / WAYS / 64;

    if (k->lanes <= 8 && g->c.shape[0] > 2 * k->strip_rows)
        return false;
    return cells_f32(g) && g->b.w.dtype == TR_F32 && !g->trans_b && cols % k->lanes == 0 &&
           rows <= (WAYS - 2) * sets;
}

/* Sets b for the tile's columns from j on; n of them. */
static void place_b(struct tile *t, int64_t j, int64_t n)
{
    const struct tr_gemm *g = t->g;
    int64_t k = cpu_length(t->inner);

    assert(cells_packed(g) || !g->b.repacked);
    t->b_begin = j;
    t->b_row = 0;
    t->b_col = cpu_cells_of(k, cells_f32(g));
    if (cells_packed(g)) {
        t->b = packed_at(g, t->cols.begin + j);
    } else if (in_place(g, n, k)) {
        t->b = (const uint32_t *)cpu_at(&g->b.w, t->inner.begin, t->cols.begin + j);
        t->b_row = g->b.w.ld;
        t->b_col = 1;
    } else {
        t->b = t->l.b;
        pack_b(t, j, n);
    }
}

/* Row stride, in cells, of a packed for AMX. */
static int64_t row_of_a(const struct tile *t)
{
    return cpu_spread(cpu_cells_of(cpu_length(t->inner), false));
}

static void copy_rows(const struct tile *t)
{
    const struct tr_gemm *g = t->g;
    int64_t k = cpu_length(t->inner);

    for (int64_t i = 0; i < cpu_length(t->rows); i++)
        memcpy(t->l.a + i * cpu_spread(k), cpu_at(&g->a, t->rows.begin + i, t->inner.begin),
               (size_t)(k * CELL));
}

static void pack(struct tile *t)
{
    const struct tr_gemm *g = t->g;
    struct cpu_pack a = {.dst = t->l.a,
                         .src = cpu_at(&g->a, t->inner.begin, t->rows.begin),
                         .k = cpu_length(t->inner),
                         .n = cpu_length(t->rows),
                         .ld = g->a.ld,
                         .type = g->a.dtype,
                         .f32 = cells_f32(g)};

    if (!t->wide)
        place_b(t, 0, cpu_length(t->cols));
    if (g->trans_a && t->amx)
        cpu_pack_across(&a, row_of_a(t));
    else if (g->trans_a)
        cpu_kernels()->pack_strips(&a);
    else if (t->wide)
        copy_rows(t);
}

/* The finished sums of rows [r.begin, r.end) of the tile with the panel at column j, into c. */
static void put(const struct tile *t, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    bool biased = !tr_view_absent(g->bias);
    struct tr_view bias = g->bias;
    int64_t n = cpu_least(t->panel, cpu_length(t->cols) - j);

    if (biased)
        cpu_load(t->l.bias, &bias, 0, t->cols.begin + j, n);
    cpu_kernels()->put(
        &(struct cpu_put){.y = cpu_at(&g->c, t->rows.begin + r.begin, t->cols.begin + j),
                          .x = t->l.strip,
                          .bias = biased ? t->l.bias : NULL,
                          .m = cpu_length(r),
                          .n = n,
                          .ldy = g->c.ld,
                          .ldx = CPU_PANEL_MOST,
                          .alpha = g->alpha,
                          .beta = g->beta,
                          .type = g->c.dtype});
}

/* Prefetches rows of c. */
static void bring_sums(const struct tile *t, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    const char *y = cpu_at(&g->c, t->rows.begin + r.begin, t->cols.begin + j);
    int64_t size = (int64_t)tr_dtype_bytes(g->c.dtype), row = g->c.ld * size;

    for (int64_t i = r.begin; i < r.end; i++, y += row)
        for (int64_t k = 0; k < t->panel * size; k += 64)
            __builtin_prefetch(y + k, 1, 3);
}

/* Sets the rows of a of strip i. */
static void rows_at(const struct tile *t, int64_t i, struct cpu_strip *s)
{
    const struct tr_gemm *g = t->g;
    struct cpu_range r = cpu_strip_rows(cpu_length(t->rows), i, t->amx);

    s->m = cpu_length(r);
    s->a_cell = CELL;
    if (t->wide && !g->trans_a) {
        s->a_row = cpu_spread(s->cells) * CELL;
        s->a = (const char *)t->l.a + r.begin * s->a_row;
        return;
    }
    if (!g->trans_a) {
        cpu_strip_take(s, cpu_at(&g->a, t->rows.begin + r.begin, t->inner.begin), cells_apart(g),
                       g->a.dtype, t->l.a);
        return;
    }
    if (t->amx) {
        s->a = (const char *)(t->l.a + r.begin * row_of_a(t));
        s->a_row = row_of_a(t) * CELL;
        return;
    }
    s->a_cell = cpu_kernels()->strip_cells * CELL;
    s->a = (const char *)t->l.a + i * s->cells * s->a_cell;
    s->a_row = CELL;
}

/* Where finished sums of c go: directly, or by put. */
static void to_c(const struct tile *t, struct cpu_strip *s, char *c)
{
    const struct tr_gemm *g = t->g;

    s->ldc = g->c.ld;
    s->scales = !cells_plain(g) && (g->alpha != 1 || g->beta != 0);
    if (g->c.dtype == TR_BF16)
        s->half = (uint16_t *)c;
    else
        s->c = (float *)c;
}

/* Computes rows r times the panel at column j. multiply has set s; the rest is set here, in place:
 * a copy would wait for recent stores. */
static void one_strip(const struct tile *t, struct cpu_strip *s, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    bool begins = t->inner.begin == 0, ends = t->inner.end == cells_inner(g);
    bool puts = ends && (!tr_view_absent(g->bias) || g->c.dtype == TR_F16);
    char *c = cpu_at(&g->c, t->rows.begin + r.begin, t->cols.begin + j);
    float *sums = t->l.sums != NULL ? t->l.sums + r.begin * t->ld_sums + j : (float *)c;

    s->b = t->b + (j - t->b_begin) * t->b_col;
    s->b_row = t->b_row;
    s->n = cpu_least(t->panel, cpu_length(t->cols) - j);
    s->held = !begins || (cells_plain(g) && g->beta == 1) ? sums : NULL;
    s->ld_held = t->l.sums != NULL ? t->ld_sums : g->c.ld;
    if (puts) {
        s->c = t->l.strip;
        s->ldc = CPU_PANEL_MOST;
    } else if (ends) {
        to_c(t, s, c);
    } else {
        s->c = sums;
        s->ldc = s->ld_held;
    }
    cpu_kernels()->strip(s);
    if (puts)
        put(t, r, j);
}

/* Lines that each of so many strips prefetches. */
static int64_t lines_of(const struct cpu_ahead *a, int64_t strips)
{
    return a->rows * ((a->bytes + LINE - 1) / LINE) / strips + 1;
}

static struct cpu_ahead piece_of_b(const struct tr_gemm *g, struct cpu_range inner,
                                   struct cpu_range cols)
{
    const struct tr_view *w = &g->b.w;
    int64_t size = (int64_t)tr_dtype_bytes(w->dtype);
    struct cpu_range rows = g->trans_b ? cols : inner, across = g->trans_b ? inner : cols;

    return (struct cpu_ahead){.p = cpu_at(w, rows.begin, across.begin),
                              .rows = cpu_length(rows),
                              .bytes = cpu_length(across) * size,
                              .ld = w->ld * size};
}

/* What by_panels reads after the panel at column j of the tile: the next one, or the first one of
 * the next block, or what the next tile reads. */
static struct cpu_ahead after_panel(const struct tile *t, int64_t j)
{
    int64_t n = cpu_length(t->cols);
    struct cpu_range inner = t->inner;

    j += t->panel;
    if (j >= n) {
        j = 0;
        inner = (struct cpu_range){inner.end,
                                   cpu_least(inner.end + cpu_length(inner), cells_inner(t->g))};
    }
    if (cpu_length(inner) == 0)
        return *t->ahead;
    j += t->cols.begin;
    return piece_of_b(t->g, inner, (struct cpu_range){j, cpu_least(j + t->panel, t->cols.end)});
}

/* The rows of a that strip i reads, unless they are packed. */
static struct cpu_ahead rows_of_strip(const struct tile *t, int64_t i, int64_t strips)
{
    const struct tr_view *a = &t->g->a;
    int64_t size = (int64_t)tr_dtype_bytes(a->dtype);
    struct cpu_range r;

    if (i >= strips || t->g->trans_a)
        return (struct cpu_ahead){.rows = 0};
    r = cpu_strip_rows(cpu_length(t->rows), i, t->amx);
    return (struct cpu_ahead){.p = cpu_at(a, t->rows.begin + r.begin, t->inner.begin),
                              .rows = cpu_length(r),
                              .bytes = cpu_length(t->inner) * size,
                              .ld = a->ld * size};
}

/* All panels of the tile by each strip: they stay in the L2 cache. Meanwhile the rows of the next
 * strip are prefetched by the first half of the panels, and by the others what the next tile reads;
 * by AMX, which needs b sooner, that alone. */
static void by_strips(const struct tile *t, struct cpu_strip *s)
{
    int64_t m = cpu_length(t->rows), n = cpu_length(t->cols), strips = cpu_strips_of(m, t->amx);
    int64_t panels = cpu_panels_of(n), half = t->amx ? 0 : panels / 2;
    int64_t share = lines_of(t->ahead, strips * t->blocks * (panels - half));
    bool adds = t->g->beta != 0 || t->inner.begin > 0;

    for (int64_t i = 0; i < strips; i++) {
        struct cpu_range r = cpu_strip_rows(m, i, t->amx);
        struct cpu_ahead rows = rows_of_strip(t, i + 1, strips);
        int64_t lines = lines_of(&rows, half > 0 ? half : 1);

        rows_at(t, i, s);
        for (int64_t j = 0; j < n; j += t->panel) {
            bool first = j / t->panel < half;

            s->ahead = first ? &rows : t->ahead;
            s->lines = first ? lines : share;
            if (adds && i == 0)
                bring_sums(t, r, j);
            if (adds && i + 1 < strips)
                bring_sums(t, cpu_strip_rows(m, i + 1, t->amx), j);
            one_strip(t, s, r, j);
        }
    }
}

/* All strips by each panel, while the next panel is prefetched: packed rows of a stay in the L2
 * cache. */
static void by_panels(struct tile *t, struct cpu_strip *s)
{
    int64_t m = cpu_length(t->rows), n = cpu_length(t->cols), strips = cpu_strips_of(m, false);

    for (int64_t j = 0; j < n; j += t->panel) {
        struct cpu_ahead ahead = after_panel(t, j);

        place_b(t, j, cpu_least(t->panel, n - j));
        s->ahead = &ahead;
        s->lines = lines_of(s->ahead, strips);
        for (int64_t i = 0; i < strips; i++) {
            struct cpu_range r = cpu_strip_rows(m, i, false);

            rows_at(t, i, s);
            if (i == 0)
                bring_sums(t, r, j);
            if (i + 1 < strips)
                bring_sums(t, cpu_strip_rows(m, i + 1, false), j);
            one_strip(t, s, r, j);
        }
    }
}

static void multiply(struct tile *t)
{
    struct cpu_strip s = {.f32 = cells_f32(t->g),
                          .amx = t->amx,
                          .cells = cpu_cells_of(cpu_length(t->inner), cells_f32(t->g)),
                          .alpha = t->g->alpha,
                          .beta = t->g->beta};

    if (t->wide)
        by_panels(t, &s);
    else
        by_strips(t, &s);
}

struct cpu_ahead cells_tile_ahead(const struct cells_tile *t)
{
    const struct tr_gemm *g = t->g;
    struct cpu_range cols = t->cols;

    if (cells_packed(g)) /* sequentially */
        return (struct cpu_ahead){.p = (const char *)packed_at(g, cols.begin),
                                  .rows = 1,
                                  .bytes = cpu_panels_of(cpu_length(cols)) * cpu_kernels()->panel *
                                           cpu_cells_of(cells_inner(g), cells_f32(g)) * CELL};
    if (cells_tile_wide(g))
        cols.end = cpu_least(cols.begin + cpu_kernels()->panel, cols.end);
    return piece_of_b(g, (struct cpu_range){0, cells_depth(g)}, cols);
}

void cells_tile_run(const struct cells_tile *whole, void *work, struct cpu_ahead *ahead)
{
    const struct tr_gemm *g = whole->g;
    int64_t depth = cells_depth(g), D = cells_inner(g);
    struct tile t = {.g = g,
                     .amx = whole->amx && !cells_f32(g),
                     .wide = cells_tile_wide(g),
                     .panel = cpu_kernels()->panel,
                     .ld_sums = cells_tile_cols(g),
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
