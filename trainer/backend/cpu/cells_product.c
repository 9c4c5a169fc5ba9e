/* Products, and groups of products, by the kernels of cells.h, divided into tiles for the threads.
 * Small products have small tiles, so that all threads have work: tile sizes do not change the bits
 * (cells.h). */
#include "trainer/backend/cpu/cells_tile.h"

#include "engine/base/sys.h"

#include <omp.h>
#include <string.h>

enum {
    SHARE = 4,    /* wanted tiles of a thread */
    FEW = 1 << 18 /* multiplications of one thread in the time in which others start */
};

static bool is_float(enum tr_dtype t)
{
    return t == TR_F32 || t == TR_BF16 || t == TR_F16;
}

bool cpu_cells_take(const struct cpu *cpu, const struct tr_gemm *g)
{
    enum tr_dtype b = g->b.w.dtype;

    return cpu->cells && tr_view_count(g->a) > 0 && is_float(g->a.dtype) && is_float(g->c.dtype) &&
           (is_float(b) || b == TR_F8_E4M3);
}

/* One product, or the products of a group's experts; tiles [first[i], first[i+1]) belong to product
 * i. */
struct tiles {
    int64_t claimed; /* tiles claimed by threads */
    const struct tr_gemm *one;
    const struct tr_grouped_gemm *group;
    int64_t n, *first;
    int64_t rows, cols; /* of a tile */
    bool amx;
    int threads; /* number of threads */
    char *work;
    size_t lane; /* bytes of a thread */
};

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

static bool few(const struct tiles *all)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < all->n && sum <= FEW; i++) {
        struct tr_gemm g = product_at(all, i);

        sum += g.c.shape[0] * g.c.shape[1] * g.a.shape[g.trans_a ? 0 : 1];
    }
    return sum <= FEW;
}

/* Makes tiles narrower if their number leaves some threads without work. */
static void even(struct tiles *all)
{
    int64_t cols = all->cols, panel = cpu_kernels()->panel;

    while (all->first[all->n] % all->threads != 0 && all->cols > 2 * panel) {
        all->cols -= panel;
        count(all);
    }
    if (all->first[all->n] % all->threads != 0) {
        all->cols = cols;
        count(all);
    }
}

/* Makes tiles smaller if there are too few for all threads: first narrower, then lower; wide ones,
 * which pack their rows, the other way round. */
static void divide(struct tiles *all, const struct tr_gemm *any)
{
    bool wide = cells_tile_wide(any);
    int64_t panel = cpu_kernels()->panel, least = 4 * cpu_kernels()->strip_rows;

    all->rows = cells_tile_rows(any);
    all->cols = cells_tile_cols(any);
    count(all);
    while (all->threads > 1 && all->first[all->n] < SHARE * all->threads) {
        if (wide && all->rows > least)
            all->rows = (all->rows + 1) / 2;
        else if (all->cols > 2 * panel)
            all->cols = (all->cols / panel + 1) / 2 * panel;
        else if (all->rows > least)
            all->rows = (all->rows + 1) / 2;
        else
            break;
        count(all);
    }
    if (all->first[all->n] < 4 * SHARE * all->threads)
        even(all);
}

/* Returns tile i; *g: its product. */
static struct cells_tile tile_at(const struct tiles *all, struct tr_gemm *g, int64_t i)
{
    int64_t p = cpu_which(all->first, all->n, i), across, row, col;

    *g = product_at(all, p);
    across = (g->c.shape[1] + all->cols - 1) / all->cols;
    row = (i - all->first[p]) / across * all->rows;
    col = (i - all->first[p]) % across * all->cols;
    return (struct cells_tile){.g = g,
                               .amx = all->amx,
                               .rows = {row, cpu_least(row + all->rows, g->c.shape[0])},
                               .cols = {col, cpu_least(col + all->cols, g->c.shape[1])}};
}

static void run_tile(const struct tiles *all, int64_t i, int64_t next)
{
    struct tr_gemm g;
    struct cpu_ahead ahead = {.rows = 0};
    struct cells_tile t;

    if (next < all->first[all->n]) {
        t = tile_at(all, &g, next);
        ahead = cells_tile_ahead(&t);
    }
    t = tile_at(all, &g, i);
    cells_tile_run(&t, all->work + all->lane * (size_t)omp_get_thread_num(), &ahead);
}

static int64_t claim(struct tiles *all)
{
    int64_t i;

#pragma omp atomic capture
    i = all->claimed++;
    return i;
}

static bool many_left(const struct tiles *all)
{
    int64_t claimed;

#pragma omp atomic read
    claimed = all->claimed;
    return all->first[all->n] - claimed > all->threads;
}

/* Runs tiles; claims the next one while the current one runs, to prefetch it. The last ones are
 * left to whoever is free first: threads are seldom equally fast. */
static void run_tiles(struct tiles *all)
{
    int64_t n = all->first[all->n], next;

    for (int64_t i = claim(all); i < n; i = next) {
        bool ahead = many_left(all);

        next = ahead ? claim(all) : n;
        run_tile(all, i, next);
        if (!ahead)
            next = claim(all);
    }
}

/* Bytes before the threads' lanes: `first`. */
static size_t head_bytes(int64_t n)
{
    return (size_t)((n + 1 + 7) / 8 * 8) * sizeof(int64_t);
}

size_t cpu_cells_bytes(const struct cpu *cpu, int64_t n, const struct tr_gemm *any)
{
    return head_bytes(n) + cells_tile_bytes(any) * (size_t)cpu->threads;
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
    all->lane = cells_tile_bytes(any);
    all->threads = few(all) ? 1 : cpu->threads;
    divide(all, any);
#pragma omp parallel num_threads(cpu->threads) if (all->threads > 1)
    run_tiles(all);
    return FR_OK;
}

enum fr_rc cpu_cells_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                             struct fr_err *err)
{
    return run(cpu, q, &(struct tiles){.one = g, .n = 1, .amx = cpu->amx}, g, err);
}

enum fr_rc cpu_cells_group(struct cpu *cpu, struct tr_queue *q, const struct tr_grouped_gemm *a,
                           const struct tr_gemm *any, struct fr_err *err)
{
    return run(cpu, q, &(struct tiles){.group = a, .n = a->e1 - a->e0, .amx = cpu->amx}, any, err);
}

/* ---- packed weights ---- */

size_t cpu_prepack_bytes(void *self, const struct tr_view *w)
{
    const struct cpu *cpu = self;

    if (!cpu->pairs || w->dtype != TR_BF16 || w->rank != 2 || w->shape[1] % 2 != 0)
        return 0;
    return (size_t)(cpu_panels_of(w->shape[0]) * cpu_kernels()->panel *
                    cpu_cells_of(w->shape[1], false)) *
           sizeof(uint32_t);
}

enum fr_rc cpu_prepack(void *self, struct tr_queue *q, const struct tr_view *w, void *packed)
{
    const struct cpu *cpu = self;
    int64_t cols = cpu_kernels()->panel, panel = cols * cpu_cells_of(w->shape[1], false);

    (void)q;
#pragma omp parallel for num_threads(cpu->threads)
    for (int64_t j = 0; j < cpu_panels_of(w->shape[0]); j++)
        cpu_kernels()->pack_turned(&(struct cpu_pack){
            .dst = (uint32_t *)packed + j * panel,
            .src = (const uint16_t *)w->p + j * cols * w->ld,
            .k = w->shape[1],
            .n = cpu_least(cols, w->shape[0] - j * cols),
            .ld = w->ld,
            .type = TR_BF16,
        });
    return FR_OK;
}

bool cpu_repacks(void *self, const struct tr_view *w)
{
    (void)self;
    return tr_view_contiguous(*w) && w->shape[0] % 2 == 0 &&
           w->shape[1] % cpu_kernels()->panel == 0;
}

enum fr_rc cpu_repack(void *self, struct tr_queue *q, const struct tr_view *w, struct fr_err *err)
{
    const struct cpu *cpu = self;
    size_t bytes = tr_view_bytes(*w);
    int64_t cols = cpu_kernels()->panel, panel = cols * cpu_cells_of(w->shape[0], false);
    char *copy = fr_sys.alloc(bytes);

    (void)q;
    if (copy == NULL)
        return fr_fail(err, FR_NOMEM, "packed weights: %zu bytes for a copy of one", bytes);
    memcpy(copy, w->p, bytes);
#pragma omp parallel for num_threads(cpu->threads)
    for (int64_t j = 0; j < w->shape[1]; j += cols)
        cpu_kernels()->pack_rows(&(struct cpu_pack){
            .dst = (uint32_t *)w->p + j / cols * panel,
            .src = (const uint16_t *)copy + j,
            .k = w->shape[0],
            .n = cols,
            .ld = w->ld,
            .type = TR_BF16,
        });
    fr_sys.free(copy);
    return FR_OK;
}
