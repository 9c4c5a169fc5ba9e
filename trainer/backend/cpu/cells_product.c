/*
 * Whole products of f32 and of bf16 by AVX-512. A tile of c is one thread's work: it packs its
 * columns of b, and runs over its rows of a in strips. Tiles are as small as all threads need them:
 * their sizes do not change the bits (cells.h).
 */
#include "trainer/backend/cpu/cells.h"

#include <omp.h>

enum {
    PACKED = 1 << 16, /* cells of a packed piece of b, which is to stay in a core's own cache */
    PANELS = 8,       /* most panels of a tile */
    ROWS = 512,       /* most rows of a tile */
    ROWS_MIN = 4 * CPU_STRIP,
    TOKENS = 512, /* of a block, where the inner dimension is tokens: a is packed as well */
    SHARE = 4,    /* tiles that a thread should have */
    CELL = sizeof(uint32_t)
};

/* An adapter's product: so narrow that tiles of the chip would be empty for the most part. The
 * number of tokens does not decide: bits do not depend on how they are shared out. */
static bool skinny(const struct tr_gemm *g)
{
    int64_t a = g->c.shape[1], b = g->trans_a ? g->c.shape[0] : g->a.shape[1];

    return a <= CPU_PANEL || b <= CPU_PANEL;
}

static bool is_f32(const struct tr_gemm *g)
{
    return g->a.dtype == TR_F32;
}

bool cpu_cells_take(const struct cpu *cpu, const struct tr_gemm *g)
{
    enum tr_dtype t = g->a.dtype;

    if (tr_view_count(g->a) == 0 || g->b.w.dtype != t)
        return false;
    if (t == TR_F32)
        return cpu->cells_f32 && g->c.dtype == TR_F32;
    if (!cpu->cells_bf16 || t != TR_BF16 || (cpu->onednn != NULL && !skinny(g)))
        return false;
    if (g->trans_a) /* c keeps its sums between blocks of tokens */
        return g->c.dtype == TR_F32;
    return g->a.shape[1] % 2 == 0 && (g->c.dtype == TR_F32 || g->c.dtype == TR_BF16);
}

/* One product, or those of a group's experts one behind the other; tiles [first[i], first[i+1]) are
 * those of product i. */
struct tiles {
    int64_t claimed; /* tiles that threads have taken */
    const struct tr_gemm *one;
    const struct tr_grouped_gemm *group;
    int64_t n, *first;
    int64_t rows, cols; /* of a tile */
    char *work;
    size_t lane; /* bytes of a thread */
};

static int64_t inner_of(const struct tr_gemm *g)
{
    return g->a.shape[g->trans_a ? 0 : 1];
}

/* Elements of the inner dimension that are packed at once. */
static int64_t depth_of(const struct tr_gemm *g)
{
    return g->trans_a ? cpu_least(TOKENS, inner_of(g)) : inner_of(g);
}

static int64_t rows_of(const struct tr_gemm *g)
{
    return g->trans_a ? ROWS / 2 : ROWS;
}

static int64_t cols_of(const struct tr_gemm *g)
{
    int64_t panels = PACKED / (cpu_cells_of(depth_of(g), is_f32(g)) * CPU_PANEL);

    panels = cpu_least(panels < 1 ? 1 : panels, PANELS);
    return CPU_PANEL * cpu_least(panels, cpu_panels_of(g->c.shape[1]));
}

/* What a thread keeps: packed pieces of b and (turned) a, sums of a strip, a piece of the bias. */
struct lane {
    uint32_t *b, *a;
    float *sums, *bias;
};

static size_t lane_bytes(const struct tr_gemm *g)
{
    int64_t depth = cpu_cells_of(depth_of(g), is_f32(g));
    int64_t cells = depth * cols_of(g) + (g->trans_a ? depth * rows_of(g) : 0);

    return (size_t)((cells + (CPU_STRIP + 1) * CPU_PANEL + 15) / 16 * 16) * sizeof(uint32_t);
}

static struct lane lane_of(const struct tiles *all, const struct tr_gemm *g)
{
    int64_t depth = cpu_cells_of(depth_of(g), is_f32(g));
    struct lane l;

    l.b = (uint32_t *)(all->work + all->lane * (size_t)omp_get_thread_num());
    l.sums = (float *)(l.b + depth * cols_of(g));
    l.bias = l.sums + CPU_STRIP * CPU_PANEL;
    l.a = (uint32_t *)(l.bias + CPU_PANEL);
    return l;
}

static struct tr_gemm product_at(const struct tiles *all, int64_t i)
{
    return all->group != NULL ? cpu_expert(all->group, all->group->e0 + i) : *all->one;
}

static void count(struct tiles *all)
{
    all->first[0] = 0;
    for (int64_t i = 0; i < all->n; i++) {
        struct tr_gemm g = product_at(all, i);

        all->first[i + 1] = all->first[i] + (g.c.shape[0] + all->rows - 1) / all->rows *
                                                ((g.c.shape[1] + all->cols - 1) / all->cols);
    }
}

/* Smaller tiles where there are too few for all threads: first narrower, then lower ones. */
static void divide(struct tiles *all, const struct tr_gemm *any, int threads)
{
    all->rows = rows_of(any);
    all->cols = cols_of(any);
    count(all);
    while (all->first[all->n] < SHARE * threads) {
        if (all->cols > 2 * CPU_PANEL)
            all->cols = (all->cols / CPU_PANEL + 1) / 2 * CPU_PANEL;
        else if (all->rows > ROWS_MIN)
            all->rows = (all->rows + 1) / 2;
        else
            return;
        count(all);
    }
}

static char *at(const struct tr_view *v, int64_t row, int64_t col)
{
    return (char *)v->p + (row * v->ld + col) * (int64_t)tr_dtype_bytes(v->dtype);
}

struct tile {
    const struct tr_gemm *g;
    struct cpu_range rows, cols, inner;
    struct lane l;
    struct cpu_ahead *ahead; /* what is packed next, brought nearer meanwhile */
    int64_t blocks;          /* of the inner dimension */
};

static void pack(const struct tile *t)
{
    const struct tr_gemm *g = t->g;
    const struct tr_view *w = &g->b.w;
    struct cpu_pack b = {.dst = t->l.b,
                         .k = cpu_length(t->inner),
                         .n = cpu_length(t->cols),
                         .ld = w->ld,
                         .f32 = is_f32(g)};
    struct cpu_pack a = {.dst = t->l.a,
                         .k = cpu_length(t->inner),
                         .n = cpu_length(t->rows),
                         .ld = g->a.ld,
                         .f32 = is_f32(g)};

    if (g->trans_b) {
        b.src = at(w, t->cols.begin, t->inner.begin);
        cpu_pack_turned(&b);
    } else {
        b.src = at(w, t->inner.begin, t->cols.begin);
        cpu_pack_rows(&b);
    }
    if (g->trans_a) {
        a.src = at(&g->a, t->inner.begin, t->rows.begin);
        cpu_pack_cells(&a);
    }
}

/* Sums of rows [r.begin, r.end) of the tile with the panel at column j of it, into c. */
static void put(const struct tile *t, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    bool again = t->inner.begin > 0, biased = !again && !tr_view_absent(g->bias);
    struct tr_view bias = g->bias;
    struct cpu_put p = {.bias = biased ? t->l.bias : NULL,
                        .n = cpu_least(CPU_PANEL, cpu_length(t->cols) - j),
                        .alpha = g->alpha,
                        .beta = again ? 1 : g->beta,
                        .f32 = g->c.dtype == TR_F32};

    if (biased)
        cpu_load(t->l.bias, &bias, 0, t->cols.begin + j, p.n);
    for (int64_t i = r.begin; i < r.end; i++) {
        p.x = t->l.sums + (i - r.begin) * CPU_PANEL;
        p.y = at(&g->c, t->rows.begin + i, t->cols.begin + j);
        cpu_put(&p);
    }
}

/* Whether sums are stored as they are, or rounded and no more. */
static bool plain(const struct tr_gemm *g, float beta)
{
    return g->alpha == 1 && tr_view_absent(g->bias) &&
           (beta == 0 || (beta == 1 && g->c.dtype == TR_F32));
}

/* Rows of c that put() reads are brought nearer before their sums are made. */
static void bring_sums(const struct tile *t, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    int64_t bytes = CPU_PANEL * (int64_t)tr_dtype_bytes(g->c.dtype);

    if (g->beta == 0 && t->inner.begin == 0)
        return;
    for (int64_t i = r.begin; i < r.end; i++) {
        const char *y = at(&g->c, t->rows.begin + i, t->cols.begin + j);

        for (int64_t k = 0; k < bytes; k += 64)
            __builtin_prefetch(y + k, 1, 3);
    }
}

/* Where strips of the tile find a, and where c takes them as they are. */
static struct cpu_strip strip_of(const struct tile *t)
{
    const struct tr_gemm *g = t->g;
    struct cpu_strip s = {.f32 = is_f32(g), .cells = cpu_cells_of(cpu_length(t->inner), is_f32(g))};

    if (g->trans_a) {
        s.a = (const char *)t->l.a;
        s.a_row = CELL;
        s.a_cell = cpu_length(t->rows) * CELL;
    } else {
        s.a = at(&g->a, t->rows.begin, 0);
        s.a_row = g->a.ld * (int64_t)tr_dtype_bytes(g->a.dtype);
        s.a_cell = CELL;
    }
    return s;
}

/* Sums of rows r with the panel at column j of the tile. */
static void one_strip(const struct tile *t, struct cpu_strip s, struct cpu_range r, int64_t j)
{
    const struct tr_gemm *g = t->g;
    float beta = t->inner.begin > 0 ? 1 : g->beta;
    char *c = at(&g->c, t->rows.begin + r.begin, t->cols.begin + j);

    s.a += r.begin * s.a_row;
    s.b = t->l.b + j * s.cells;
    s.m = cpu_length(r);
    s.n = cpu_least(CPU_PANEL, cpu_length(t->cols) - j);
    if (plain(g, beta)) {
        s.ldc = g->c.ld;
        s.add = beta == 1;
        if (g->c.dtype == TR_F32)
            s.c = (float *)c;
        else
            s.half = (uint16_t *)c;
        cpu_strip(&s);
        return;
    }
    s.c = t->l.sums;
    s.ldc = CPU_PANEL;
    bring_sums(t, r, j);
    cpu_strip(&s);
    put(t, r, j);
}

static void multiply(const struct tile *t)
{
    struct cpu_strip s = strip_of(t);
    int64_t m = cpu_length(t->rows), n = cpu_length(t->cols);
    int64_t turns = cpu_strips_of(m) * cpu_panels_of(n) * t->blocks;
    int64_t share = t->ahead->rows * (t->ahead->bytes / 64 + 1) / turns + 1;

    for (int64_t i = 0; i < cpu_strips_of(m); i++)
        for (int64_t j = 0; j < n; j += CPU_PANEL) {
            cpu_bring(t->ahead, share);
            one_strip(t, s, cpu_strip_rows(m, i), j);
        }
}

static struct tile tile_at(const struct tiles *all, struct tr_gemm *g, int64_t i)
{
    int64_t p = cpu_which(all->first, all->n, i), across, row, col;

    *g = product_at(all, p);
    across = (g->c.shape[1] + all->cols - 1) / all->cols;
    row = (i - all->first[p]) / across * all->rows;
    col = (i - all->first[p]) % across * all->cols;
    return (struct tile){.g = g,
                         .rows = {row, cpu_least(row + all->rows, g->c.shape[0])},
                         .cols = {col, cpu_least(col + all->cols, g->c.shape[1])},
                         .inner = {0, depth_of(g)}};
}

/* The piece of b that tile i packs first. */
static struct cpu_ahead ahead_of(const struct tiles *all, int64_t i)
{
    struct tr_gemm g;
    struct tile t;
    struct cpu_ahead a = {.rows = 0};

    if (i >= all->first[all->n])
        return a;
    t = tile_at(all, &g, i);
    a.rows = cpu_length(g.trans_b ? t.cols : t.inner);
    a.bytes = cpu_length(g.trans_b ? t.inner : t.cols) * (int64_t)tr_dtype_bytes(g.b.w.dtype);
    a.ld = g.b.w.ld * (int64_t)tr_dtype_bytes(g.b.w.dtype);
    a.p = at(&g.b.w, g.trans_b ? t.cols.begin : 0, g.trans_b ? 0 : t.cols.begin);
    return a;
}

static void run_tile(const struct tiles *all, int64_t i, struct cpu_ahead *ahead)
{
    struct tr_gemm g;
    struct tile t = tile_at(all, &g, i);
    int64_t depth = depth_of(&g), D = inner_of(&g);

    t.l = lane_of(all, &g);
    t.ahead = ahead;
    t.blocks = (D + depth - 1) / depth;
    for (int64_t k = 0; k < D; k += depth) {
        t.inner = (struct cpu_range){k, cpu_least(k + depth, D)};
        pack(&t);
        multiply(&t);
    }
}

static int64_t claim(struct tiles *all)
{
    int64_t i;

#pragma omp atomic capture
    i = all->claimed++;
    return i;
}

/* Tile by tile, each claimed while the one before is run. */
static void run_tiles(struct tiles *all)
{
    int64_t next = claim(all);

    for (int64_t i; (i = next) < all->first[all->n];) {
        struct cpu_ahead ahead;

        next = claim(all);
        ahead = ahead_of(all, next);
        run_tile(all, i, &ahead);
    }
}

/* Bytes in front of the threads' lanes: first. */
static size_t head_bytes(int64_t n)
{
    return (size_t)((n + 1 + 7) / 8 * 8) * sizeof(int64_t);
}

size_t cpu_cells_bytes(const struct cpu *cpu, int64_t n, const struct tr_gemm *any)
{
    return head_bytes(n) + lane_bytes(any) * (size_t)cpu->threads;
}

static enum fr_rc run(struct cpu *cpu, struct tr_queue *q, struct tiles *all,
                      const struct tr_gemm *any, struct fr_err *err)
{
    void *work = NULL;
    enum fr_rc rc = cpu_work(q, CPU_WORK_GEMM, cpu_cells_bytes(cpu, all->n, any), &work, err);

    if (rc != FR_OK)
        return rc;
    all->first = work;
    all->work = (char *)work + head_bytes(all->n);
    all->lane = lane_bytes(any);
    divide(all, any, cpu->threads);
#pragma omp parallel num_threads(cpu->threads)
    run_tiles(all);
    return FR_OK;
}

enum fr_rc cpu_cells_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                             struct fr_err *err)
{
    return run(cpu, q, &(struct tiles){.one = g, .n = 1}, g, err);
}

enum fr_rc cpu_cells_group(struct cpu *cpu, struct tr_queue *q, const struct tr_grouped_gemm *a,
                           const struct tr_gemm *any, struct fr_err *err)
{
    return run(cpu, q, &(struct tiles){.group = a, .n = a->e1 - a->e0}, any, err);
}
