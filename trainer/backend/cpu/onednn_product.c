/*
 * Whole bf16 products by oneDNN's matmul primitives where the chip has bf16 arithmetic. A product
 * is cut into tiles by constants and each tile is run by one thread with a primitive made for one
 * thread, so that the bits do not depend on the number of threads. Row counts are rounded up, to 16
 * below 128, to 64 above.
 */
#include "trainer/backend/cpu/onednn.h"

#include <omp.h>
#include <string.h>

enum { TILE_M = 256, TILE_N = 512, TILE_D = 512, ALIGN = 64 };

/* Rows of the primitive for so many rows. */
static int64_t rounded(int64_t rows)
{
    int64_t to = rows < 128 ? 16 : 64;

    return (rows + to - 1) / to * to;
}

bool cpu_onednn_takes(const struct cpu_onednn *d, const struct tr_gemm *g)
{
    if (d == NULL || tr_view_count(g->a) == 0 || !tr_view_absent(g->bias))
        return false;
    if (g->a.dtype != TR_BF16 || g->b.w.dtype != TR_BF16 ||
        (g->c.dtype != TR_BF16 && g->c.dtype != TR_F32))
        return false;
    /* If a is transposed, rows are not padded, and c keeps f32 sums between blocks of tokens. */
    return !g->trans_a || (g->c.dtype == TR_F32 && g->c.shape[0] % 16 == 0 && g->a.shape[0] >= 16);
}

/* One product: primitives for full and last tiles, and each thread's scratch. */
struct job {
    const struct tr_gemm *g;
    const struct cpu_primitive *prim[2][2]; /* [last rows][last columns] */
    char *work;
    size_t lane, pad_a, pad_c; /* bytes of a thread; where its padded a and c start */
};

static bool padded(const struct tr_gemm *g, int64_t m)
{
    return !g->trans_a && rounded(m) != m;
}

static struct cpu_shape shape_of(const struct tr_gemm *g, int64_t m, int64_t n)
{
    int64_t D = g->a.shape[g->trans_a ? 0 : 1];
    bool pad = padded(g, m);

    return (struct cpu_shape){.m = pad ? rounded(m) : m,
                              .n = n,
                              .k = D,
                              .lda = pad ? D : g->a.ld,
                              .ldb = g->b.w.ld,
                              .ldc = pad ? n : g->c.ld,
                              .alpha = g->alpha,
                              .beta = g->beta,
                              .trans_a = g->trans_a,
                              .trans_b = g->trans_b,
                              .c_f32 = g->c.dtype == TR_F32};
}

/* m rows of n elements between a view at (i, j) and a dense block; out: into the view. */
static void move_rows(const struct tr_view *v, char *block, struct cpu_range rows,
                      struct cpu_range cols, bool out)
{
    size_t bytes = (size_t)(cols.end - cols.begin) * tr_dtype_bytes(v->dtype);

    for (int64_t i = rows.begin; i < rows.end; i++, block += bytes)
        if (out)
            memcpy(cpu_at(v, i, cols.begin), block, bytes);
        else
            memcpy(block, cpu_at(v, i, cols.begin), bytes);
}

static dnnl_status_t run_tile(const struct job *job, int64_t i0, int64_t j0)
{
    const struct tr_gemm *g = job->g;
    struct cpu_range rows = {i0, cpu_least(i0 + TILE_M, g->c.shape[0])};
    struct cpu_range cols = {j0, cpu_least(j0 + TILE_N, g->c.shape[1])};
    struct cpu_range inner = {0, g->a.shape[g->trans_a ? 0 : 1]};
    int64_t m = rows.end - i0, n = cols.end - j0;
    const struct cpu_primitive *p = job->prim[m != TILE_M][n != TILE_N];
    char *lane = job->work + job->lane * (size_t)omp_get_thread_num();
    char *addr[4] = {g->trans_a ? cpu_at(&g->a, 0, i0) : cpu_at(&g->a, i0, 0),
                     g->trans_b ? cpu_at(&g->b.w, j0, 0) : cpu_at(&g->b.w, 0, j0),
                     cpu_at(&g->c, i0, j0), lane};
    dnnl_status_t st;

    if (!padded(g, m))
        return cpu_primitive_run(p, addr);
    addr[0] = lane + job->pad_a;
    addr[2] = lane + job->pad_c;
    memset(addr[0] + m * inner.end * 2, 0, (size_t)((p->shape.m - m) * inner.end * 2));
    move_rows(&g->a, addr[0], rows, inner, false);
    if (g->beta != 0)
        move_rows(&g->c, addr[2], rows, cols, false);
    st = cpu_primitive_run(p, addr);
    move_rows(&g->c, addr[2], rows, cols, true);
    return st;
}

/* Finds the primitives of a product and sets the bytes of a thread. */
static enum fr_rc plan(struct cpu *cpu, struct job *job, struct fr_err *err)
{
    const struct tr_gemm *g = job->g;
    int64_t M = g->c.shape[0], N = g->c.shape[1], D = g->a.shape[g->trans_a ? 0 : 1];
    size_t scratch = 0;
    enum fr_rc rc = FR_OK;

    for (int i = 0; i < 4 && rc == FR_OK; i++) {
        int64_t m = i & 2 ? M % TILE_M : TILE_M, n = i & 1 ? N % TILE_N : TILE_N;
        const struct cpu_primitive **p = &job->prim[i >> 1][i & 1];
        struct cpu_shape s = shape_of(g, m, n);

        if (m == 0 || n == 0 || m > M || n > N)
            continue;
        rc = cpu_primitive_find(cpu->onednn, &s, p, err);
        if (rc == FR_OK && (*p)->scratch_bytes > scratch)
            scratch = (*p)->scratch_bytes;
    }
    job->pad_a = (scratch + ALIGN - 1) / ALIGN * ALIGN;
    job->pad_c = job->pad_a + (size_t)(TILE_M * D) * 2;
    job->lane = job->pad_c + (size_t)(TILE_M * TILE_N) * 4;
    job->lane = (job->lane + ALIGN - 1) / ALIGN * ALIGN;
    return rc;
}

static int64_t across_of(const struct tr_gemm *g)
{
    return (g->c.shape[1] + TILE_N - 1) / TILE_N;
}

static int64_t tiles_of(const struct tr_gemm *g)
{
    return (g->c.shape[0] + TILE_M - 1) / TILE_M * across_of(g);
}

/* Products whose tiles all threads share; tiles [first[i], first[i+1]) belong to job i. */
struct jobs {
    struct job *v;
    int64_t *first; /* (n + 1) */
    int64_t n;
};

static dnnl_status_t run_tile_of(const struct jobs *all, int64_t tile)
{
    int64_t p = cpu_which(all->first, all->n, tile), across = across_of(all->v[p].g);

    tile -= all->first[p];
    return run_tile(&all->v[p], tile / across * TILE_M, tile % across * TILE_N);
}

static enum fr_rc run_jobs(const struct cpu *cpu, const struct jobs *all, struct fr_err *err)
{
    int failed = dnnl_success;

#pragma omp parallel num_threads(cpu->threads) if (all->first[all->n] > 1)
    {
        omp_set_num_threads(1);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < all->first[all->n]; i++) {
            dnnl_status_t st = run_tile_of(all, i);

            if (st != dnnl_success) {
#pragma omp atomic write
                failed = (int)st;
            }
        }
    }
    if (failed != dnnl_success)
        return fr_fail(err, FR_IO, "oneDNN: status %d", failed);
    return FR_OK;
}

static enum fr_rc product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                          struct fr_err *err)
{
    struct job job = {.g = g};
    int64_t first[] = {0, tiles_of(g)};
    void *work = NULL;
    enum fr_rc rc = plan(cpu, &job, err);

    if (rc == FR_OK)
        rc = cpu_work(q, CPU_WORK_GEMM, job.lane * (size_t)cpu->threads, &work, err);
    if (rc != FR_OK)
        return rc;
    job.work = work;
    return run_jobs(cpu, &(struct jobs){&job, first, 1}, err);
}

/* Bytes before the threads' lanes: a product and a job for each expert, and `first`. */
static size_t head_bytes(int64_t n)
{
    size_t all = (size_t)n * (sizeof(struct tr_gemm) + sizeof(struct job)) +
                 (size_t)(n + 1) * sizeof(int64_t);

    return (all + ALIGN - 1) / ALIGN * ALIGN;
}

static enum fr_rc largest_lane(struct cpu *cpu, const struct tr_grouped_gemm *a, size_t *lane,
                               struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *lane = 0;
    for (int64_t e = a->e0; e < a->e1 && rc == FR_OK; e++) {
        struct tr_gemm g = cpu_expert(a, e);
        struct job job = {.g = &g};

        rc = plan(cpu, &job, err);
        *lane = job.lane > *lane ? job.lane : *lane;
    }
    return rc;
}

enum fr_rc cpu_onednn_group(struct cpu *cpu, struct tr_queue *q, const struct tr_grouped_gemm *a,
                            struct fr_err *err)
{
    int64_t n = a->e1 - a->e0;
    struct jobs all = {.n = n};
    struct tr_gemm *products;
    size_t lane;
    void *work = NULL;
    enum fr_rc rc = largest_lane(cpu, a, &lane, err);

    if (rc == FR_OK)
        rc = cpu_work(q, CPU_WORK_GEMM, head_bytes(n) + lane * (size_t)cpu->threads, &work, err);
    if (rc != FR_OK)
        return rc;
    products = work;
    all.v = (struct job *)(products + n);
    all.first = (int64_t *)(all.v + n);
    all.first[0] = 0;
    for (int64_t i = 0; i < n && rc == FR_OK; i++) {
        products[i] = cpu_expert(a, a->e0 + i);
        all.v[i] = (struct job){.g = &products[i], .work = (char *)work + head_bytes(n)};
        rc = plan(cpu, &all.v[i], err);
        all.v[i].lane = lane;
        all.first[i + 1] = all.first[i] + tiles_of(&products[i]);
    }
    return rc == FR_OK ? run_jobs(cpu, &all, err) : rc;
}

enum fr_rc cpu_onednn_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                              struct fr_err *err)
{
    struct tr_gemm part = *g;
    enum fr_rc rc = FR_OK;

    if (!g->trans_a)
        return product(cpu, q, g, err);
    /* The inner dimension is tokens: full blocks, then a multiple of 16, the rest in f32. */
    for (int64_t k = 0, n; k < g->a.shape[0] && rc == FR_OK; k += n) {
        n = cpu_least(TILE_D, g->a.shape[0] - k);
        n = n < 16 ? n : n / 16 * 16;
        part.a = tr_view_rows(g->a, k, n);
        part.b.w = g->trans_b ? tr_view_cols(g->b.w, k, n) : tr_view_rows(g->b.w, k, n);
        rc = n < 16 ? cpu_f32_product(cpu, q, &part, err) : product(cpu, q, &part, err);
        part.beta = 1;
    }
    return rc;
}

size_t cpu_onednn_bytes(struct cpu *cpu, const struct tr_gemm *g)
{
    struct tr_gemm part = *g;
    struct job job = {.g = &part};
    int64_t n = cpu_least(TILE_D, g->a.shape[0]) / 16 * 16;

    if (g->trans_a) {
        part.a = tr_view_rows(g->a, 0, n);
        part.b.w = g->trans_b ? tr_view_cols(g->b.w, 0, n) : tr_view_rows(g->b.w, 0, n);
    }
    return plan(cpu, &job, NULL) == FR_OK ? job.lane * (size_t)cpu->threads : 0;
}

size_t cpu_onednn_group_bytes(struct cpu *cpu, const struct tr_grouped_gemm *a,
                              const struct tr_gemm *any)
{
    return head_bytes(a->e1 - a->e0) + cpu_onednn_bytes(cpu, any);
}
