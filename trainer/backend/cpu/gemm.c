/*
 * The matrix product of every type: tiles of c, each summed over blocks of the inner dimension
 * whose operands are turned into f32 first (FP8 decoded, 16 bits widened; f32 is used where it
 * lies). A tile is one thread's work and its blocks come in order, so threads do not change the
 * bits.
 */
#include "trainer/backend/cpu/cpu.h"

#include <assert.h>
#include <omp.h>
#include <string.h>

enum { TILE_M = 256, TILE_N = 256, TILE_K = 512 };

/* f32 scratch of one thread: blocks of a and b, their transposes, and the tile of c. */
struct scratch {
    float a[TILE_M * TILE_K], b[TILE_K * TILE_N], c[TILE_M * TILE_N];
    float turned_a[TILE_M * TILE_K], turned_b[TILE_K * TILE_N];
};

struct block {
    const float *p;
    int64_t ld;
};

void cpu_load_weight(float *dst, const struct tr_weight *w, int64_t row, struct cpu_range cols)
{
    const uint8_t *code;

    if (w->w.dtype != TR_F8_E4M3) {
        cpu_load(dst, &w->w, row, cols.begin, cols.end - cols.begin);
        return;
    }
    code = (const uint8_t *)w->w.p + row * w->w.ld;
    for (int64_t j = cols.begin; j < cols.end;) {
        int64_t block = j / w->block_cols, end = (block + 1) * w->block_cols;
        float scale =
            ((const float *)w->scale.p)[(w->row0 + row) / w->block_rows * w->scale.ld + block];

        end = end < cols.end ? end : cols.end;
        cpu_f8_to_f32(dst + (j - cols.begin), code + j, scale, end - j);
        j = end;
    }
}

/* Rows x cols of a stored matrix as f32: in place, or converted into buf. */
static struct block block_of(float *buf, const struct tr_weight *m, struct cpu_range rows,
                             struct cpu_range cols)
{
    struct block b = {buf, cols.end - cols.begin};

    if (m->w.dtype == TR_F32) {
        b.p = (const float *)m->w.p + rows.begin * m->w.ld + cols.begin;
        b.ld = m->w.ld;
        return b;
    }
    for (int64_t i = rows.begin; i < rows.end; i++)
        cpu_load_weight(buf + (i - rows.begin) * b.ld, m, i, cols);
    return b;
}

/* c += op(a) op(b) for one block of the inner dimension. */
static void multiply(const struct tr_gemm *g, struct cpu_tile *t, struct scratch *s)
{
    if (g->trans_b) {
        cpu_turn(&(struct cpu_turn){s->turned_b, t->b, t->n, t->k, t->n, t->ldb});
        t->b = s->turned_b;
        t->ldb = t->n;
    }
    if (g->trans_a) {
        cpu_turn(&(struct cpu_turn){s->turned_a, t->a, t->k, t->m, t->k, t->lda});
        t->a = s->turned_a;
        t->lda = t->k;
    }
    cpu_tile_gemm(t);
}

/* c = alpha * sum + beta * c + bias for a tile at (i0, j0). */
static void finish(const struct tr_gemm *g, int64_t i0, int64_t j0, struct cpu_tile *t)
{
    float old[TILE_N];

    for (int64_t i = 0; i < t->m; i++) {
        float *row = t->c + i * t->ldc;

        if (g->alpha != 1)
            cpu_scale(row, g->alpha, t->n);
        if (g->beta != 0) {
            cpu_load(old, &g->c, i0 + i, j0, t->n);
            cpu_axpy(row, g->beta, old, t->n);
        }
        if (!tr_view_absent(g->bias)) {
            struct tr_view bias = g->bias;

            cpu_load(old, &bias, 0, j0, t->n);
            cpu_axpy(row, 1, old, t->n);
        }
        cpu_store(&g->c, i0 + i, j0, row, t->n);
    }
}

static void tile(const struct tr_gemm *g, int64_t i0, int64_t j0, struct scratch *s)
{
    int64_t D = g->a.shape[g->trans_a ? 0 : 1];
    struct cpu_range rows = {i0, cpu_least(i0 + TILE_M, g->c.shape[0])};
    struct cpu_range cols = {j0, cpu_least(j0 + TILE_N, g->c.shape[1])};
    struct tr_weight a = {.w = g->a};
    struct cpu_tile t = {.c = s->c, .m = rows.end - i0, .n = cols.end - j0, .ldc = cols.end - j0};

    memset(s->c, 0, (size_t)(t.m * t.n) * sizeof(float));
    for (int64_t k0 = 0; k0 < D; k0 += TILE_K) {
        struct cpu_range inner = {k0, cpu_least(k0 + TILE_K, D)};
        struct block x =
            g->trans_a ? block_of(s->a, &a, inner, rows) : block_of(s->a, &a, rows, inner);
        struct block y =
            g->trans_b ? block_of(s->b, &g->b, cols, inner) : block_of(s->b, &g->b, inner, cols);

        t.a = x.p;
        t.lda = x.ld;
        t.b = y.p;
        t.ldb = y.ld;
        t.k = inner.end - inner.begin;
        multiply(g, &t, s);
    }
    finish(g, i0, j0, &t);
}

struct tr_gemm cpu_expert(const struct tr_grouped_gemm *a, int64_t e)
{
    int64_t begin = cpu_int(&a->offsets, e, 0), n = cpu_int(&a->offsets, e + 1, 0) - begin;
    struct tr_gemm one = {.trans_b = a->trans_b, .alpha = a->alpha, .beta = a->beta};

    if (a->weights[e] == NULL)
        n = 0;
    else
        one.b = *a->weights[e];
    one.c = tr_view_rows(a->c, begin, n);
    one.a = tr_view_rows(a->a, begin, n);
    return one;
}

/* The tiles of one product, or of one after the other of a group; tiles [first[i], first[i+1]) are
 * those of product i. */
struct tiles {
    const struct tr_gemm *one;
    const struct tr_grouped_gemm *group; /* experts e0 .. e0 + n */
    int64_t n, *first;
};

static int64_t tiles_of(const struct tr_gemm *g)
{
    return (g->c.shape[0] + TILE_M - 1) / TILE_M * ((g->c.shape[1] + TILE_N - 1) / TILE_N);
}

int64_t cpu_which(const int64_t *first, int64_t n, int64_t i)
{
    int64_t lo = 0, hi = n;

    while (hi - lo > 1) {
        int64_t mid = (lo + hi) / 2;

        if (first[mid] <= i)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void run_tile(const struct tiles *all, int64_t i, struct scratch *s)
{
    int64_t lo = cpu_which(all->first, all->n, i), across;
    struct tr_gemm g;

    g = all->group != NULL ? cpu_expert(all->group, all->group->e0 + lo) : *all->one;
    across = (g.c.shape[1] + TILE_N - 1) / TILE_N;
    i -= all->first[lo];
    tile(&g, i / across * TILE_M, i % across * TILE_N, s);
}

static void run_tiles(const struct cpu *cpu, const struct tiles *all, struct scratch *work)
{
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic) if (all->first[all->n] > 1)
    for (int64_t i = 0; i < all->first[all->n]; i++)
        run_tile(all, i, &work[omp_get_thread_num()]);
}

enum fr_rc cpu_f32_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                           struct fr_err *err)
{
    int64_t first[] = {0, tiles_of(g)};
    void *work;
    enum fr_rc rc;

    if (first[1] == 0)
        return FR_OK;
    assert(!g->b.repacked);
    rc = cpu_work(q, CPU_WORK_GEMM, (size_t)cpu->threads * sizeof(struct scratch), &work, err);
    if (rc == FR_OK)
        run_tiles(cpu, &(struct tiles){.one = g, .n = 1, .first = first}, work);
    return rc;
}

static size_t group_bytes(const struct cpu *cpu, const struct tr_grouped_gemm *a)
{
    return (size_t)cpu->threads * sizeof(struct scratch) +
           (size_t)(a->e1 - a->e0 + 1) * sizeof(int64_t);
}

/* All experts at once: each alone has too few tiles to keep many threads busy. */
static enum fr_rc f32_group(struct cpu *cpu, struct tr_queue *q, const struct tr_grouped_gemm *a,
                            struct fr_err *err)
{
    struct tiles all = {.group = a, .n = a->e1 - a->e0};
    void *work;
    enum fr_rc rc = cpu_work(q, CPU_WORK_GEMM, group_bytes(cpu, a), &work, err);

    if (rc != FR_OK)
        return rc;
    all.first = (int64_t *)((struct scratch *)work + cpu->threads);
    all.first[0] = 0;
    for (int64_t i = 0; i < all.n; i++) {
        struct tr_gemm g = cpu_expert(a, a->e0 + i);

        all.first[i + 1] = all.first[i] + tiles_of(&g);
    }
    run_tiles(cpu, &all, work);
    return FR_OK;
}

size_t cpu_product_bytes(struct cpu *cpu, const struct tr_gemm *g)
{
    return cpu_cells_take(cpu, g) ? cpu_cells_bytes(cpu, 1, g)
                                  : (size_t)cpu->threads * sizeof(struct scratch);
}

enum fr_rc cpu_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                       struct fr_err *err)
{
    if (tr_view_count(g->c) > 0 && cpu_cells_take(cpu, g))
        return cpu_cells_product(cpu, q, g, err);
    return cpu_f32_product(cpu, q, g, err);
}

enum fr_rc tr_cpu_gemm(void *self, struct tr_queue *q, const struct tr_gemm *a, struct fr_err *err)
{
    return cpu_product(self, q, a, err);
}

/* The product of any expert, from shapes alone: weights may not be loaded yet. */
static struct tr_gemm any_expert(const struct tr_grouped_gemm *a)
{
    int64_t D = a->a.shape[1], N = a->c.shape[1];
    struct tr_gemm g = {
        .c = a->c, .a = a->a, .trans_b = a->trans_b, .alpha = a->alpha, .beta = a->beta};

    g.b.w = a->trans_b ? tr_view2(NULL, a->a.dtype, N, D) : tr_view2(NULL, a->a.dtype, D, N);
    return g;
}

size_t cpu_grouped_bytes(struct cpu *cpu, const struct tr_grouped_gemm *a)
{
    struct tr_gemm g = any_expert(a);

    return cpu_cells_take(cpu, &g) ? cpu_cells_bytes(cpu, a->e1 - a->e0, &g) : group_bytes(cpu, a);
}

/* The first product with rows; all experts have one type. */
static bool first_product(const struct tr_grouped_gemm *a, struct tr_gemm *one)
{
    for (int64_t e = a->e0; e < a->e1; e++) {
        *one = cpu_expert(a, e);
        if (one->c.shape[0] > 0)
            return true;
    }
    return false;
}

enum fr_rc tr_cpu_grouped_gemm(void *self, struct tr_queue *q, const struct tr_grouped_gemm *a,
                               struct fr_err *err)
{
    struct cpu *cpu = self;
    struct tr_gemm one;

    if (!first_product(a, &one))
        return FR_OK;
    return cpu_cells_take(cpu, &one) ? cpu_cells_group(cpu, q, a, &one, err)
                                     : f32_group(cpu, q, a, err);
}

enum fr_rc tr_cpu_grouped_wgrad(void *self, struct tr_queue *q, const struct tr_grouped_wgrad *a,
                                struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int64_t e = a->e0; e < a->e1 && rc == FR_OK; e++) {
        int64_t begin = cpu_int(&a->offsets, e, 0), n = cpu_int(&a->offsets, e + 1, 0) - begin;

        if (a->dw[e] == NULL)
            continue;
        struct tr_gemm one = {.c = *a->dw[e],
                              .a = tr_view_rows(a->dy, begin, n),
                              .b = {.w = tr_view_rows(a->x, begin, n)},
                              .trans_a = true,
                              .alpha = a->alpha,
                              .beta = a->beta};
        rc = cpu_product(self, q, &one, err);
    }
    return rc;
}
