/*
 * oneDNN: f32 tiles by its sgemm, and whole bf16 products by matmul primitives where the chip has
 * bf16 arithmetic. A product is cut into tiles by constants and each tile is run by one thread with
 * a primitive made for one thread, so that the bits do not depend on the number of threads. Row
 * counts are rounded up (to 16 below 128, to 64 above), primitives are kept by shape: making one
 * costs several times more than running it.
 * Source: oneDNN Developer Guide v2.6, "MatMul" and "Primitive Attributes".
 */
#include "trainer/backend/cpu/cpu.h"

#include "engine/base/sys.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TILE_M = 256, TILE_N = 512, TILE_D = 512, BUCKETS = 256, ALIGN = 64 };

/* What a primitive is made for: c (m, n) = alpha op(a) op(b) + beta c, bf16 in. */
struct shape {
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
    bool trans_a, trans_b, c_f32;
};

struct primitive {
    struct shape shape;
    dnnl_primitive_t run; /* owns */
    dnnl_memory_desc_t a, b, c, scratch;
    size_t scratch_bytes;
    struct primitive *next; /* owns: of the same bucket */
};

struct cpu_onednn {
    dnnl_engine_t engine; /* owns */
    pthread_mutex_t lock; /* of the buckets: several queues may make primitives */
    struct primitive *buckets[BUCKETS];
};

bool cpu_onednn_has_sgemm(void)
{
    return true;
}

void cpu_onednn_tile(const struct cpu_tile *t, bool trans_a, bool trans_b)
{
    /* Fails only on arguments that no tile has. */
    dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', t->m, t->n, t->k, 1, t->a, t->lda, t->b,
               t->ldb, 1, t->c, t->ldc);
}

static bool isa_has(dnnl_cpu_isa_t isa)
{
    return ((int)dnnl_get_effective_cpu_isa() & (int)isa) == (int)isa;
}

bool cpu_onednn_has_bf16(bool emulated)
{
    return isa_has(emulated ? dnnl_cpu_isa_avx512_core : dnnl_cpu_isa_avx512_core_bf16);
}

enum fr_rc cpu_onednn_create(struct cpu_onednn **out, struct fr_err *err)
{
    struct cpu_onednn *d = fr_sys.alloc(sizeof *d);

    *out = NULL;
    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "oneDNN");
    memset(d, 0, sizeof *d);
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) != dnnl_success) {
        fr_sys.free(d);
        return fr_fail(err, FR_UNSUPPORTED, "oneDNN has no CPU engine");
    }
    pthread_mutex_init(&d->lock, NULL);
    *out = d;
    return FR_OK;
}

void cpu_onednn_destroy(struct cpu_onednn *d)
{
    if (d == NULL)
        return;
    for (int i = 0; i < BUCKETS; i++)
        while (d->buckets[i] != NULL) {
            struct primitive *p = d->buckets[i];

            d->buckets[i] = p->next;
            dnnl_primitive_destroy(p->run);
            fr_sys.free(p);
        }
    dnnl_engine_destroy(d->engine);
    pthread_mutex_destroy(&d->lock);
    fr_sys.free(d);
}

static bool same_shape(const struct shape *a, const struct shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb &&
           a->ldc == b->ldc && a->alpha == b->alpha && a->beta == b->beta &&
           a->trans_a == b->trans_a && a->trans_b == b->trans_b && a->c_f32 == b->c_f32;
}

static unsigned bucket_of(const struct shape *s)
{
    uint64_t h = (uint64_t)s->m;

    h = h * 0x9E3779B97F4A7C15u + (uint64_t)s->n;
    h = h * 0x9E3779B97F4A7C15u + (uint64_t)s->k;
    h = h * 0x9E3779B97F4A7C15u + (uint64_t)s->lda;
    return (unsigned)(h >> 32) % BUCKETS;
}

enum { TURNED = 1, F32 = 2 };

/* A matrix (rows, cols) whose stored rows are ld apart; turned: it is stored as (cols, rows). */
static bool describe(dnnl_memory_desc_t *md, int64_t rows, int64_t cols, int64_t ld, int flags)
{
    dnnl_dims_t dims = {rows, cols}, strides = {ld, 1};

    if (flags & TURNED) {
        strides[0] = 1;
        strides[1] = ld;
    }
    return dnnl_memory_desc_init_by_strides(md, 2, dims, flags & F32 ? dnnl_f32 : dnnl_bf16,
                                            strides) == dnnl_success;
}

static dnnl_status_t attributes(const struct shape *s, dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t post;
    dnnl_status_t st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);

    if (st == dnnl_success && s->alpha != 1)
        st = dnnl_primitive_attr_set_output_scales(attr, 1, 0, &s->alpha);
    if (st != dnnl_success || s->beta == 0)
        return st;
    if ((st = dnnl_post_ops_create(&post)) != dnnl_success)
        return st;
    st = dnnl_post_ops_append_sum(post, s->beta);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_post_ops(attr, post);
    dnnl_post_ops_destroy(post);
    return st;
}

static dnnl_status_t make(const struct cpu_onednn *d, struct primitive *p)
{
    const struct shape *s = &p->shape;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_matmul_desc_t desc;
    dnnl_status_t st = dnnl_primitive_attr_create(&attr);

    if (!describe(&p->a, s->m, s->k, s->lda, s->trans_a ? TURNED : 0) ||
        !describe(&p->b, s->k, s->n, s->ldb, s->trans_b ? TURNED : 0) ||
        !describe(&p->c, s->m, s->n, s->ldc, s->c_f32 ? F32 : 0))
        st = dnnl_invalid_arguments;
    if (st == dnnl_success)
        st = attributes(s, attr);
    if (st == dnnl_success)
        st = dnnl_matmul_desc_init(&desc, &p->a, &p->b, NULL, &p->c);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&pd, &desc, attr, d->engine, NULL);
    if (st == dnnl_success) {
        p->scratch = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        p->scratch_bytes = dnnl_memory_desc_get_size(&p->scratch);
        st = dnnl_primitive_create(&p->run, pd);
    }
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return st;
}

/* The primitive of a shape, made when it is the first of its kind. */
static enum fr_rc find(struct cpu_onednn *d, const struct shape *s, const struct primitive **out,
                       struct fr_err *err)
{
    unsigned at = bucket_of(s);
    struct primitive *p;
    dnnl_status_t st = dnnl_out_of_memory;

    pthread_mutex_lock(&d->lock);
    for (p = d->buckets[at]; p != NULL && !same_shape(&p->shape, s); p = p->next)
        ;
    if (p == NULL && (p = fr_sys.alloc(sizeof *p)) != NULL) {
        memset(p, 0, sizeof *p);
        p->shape = *s;
#pragma omp parallel num_threads(1)
        {
            omp_set_num_threads(1); /* the work of a primitive is divided when it is made */
            st = make(d, p);
        }
        if (st == dnnl_success) {
            p->next = d->buckets[at];
            d->buckets[at] = p;
        } else {
            fr_sys.free(p);
            p = NULL;
        }
    }
    pthread_mutex_unlock(&d->lock);
    *out = p;
    if (p != NULL)
        return FR_OK;
    return fr_fail(err, st == dnnl_out_of_memory ? FR_NOMEM : FR_UNSUPPORTED,
                   "oneDNN refuses a bf16 product of %lldx%lldx%lld: status %d", (long long)s->m,
                   (long long)s->n, (long long)s->k, (int)st);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows that a primitive is made for. */
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
    /* With a turned, rows are not filled up, and c keeps its f32 sums between blocks of tokens. */
    return !g->trans_a || (g->c.dtype == TR_F32 && g->c.shape[0] % 16 == 0 && g->a.shape[0] >= 16);
}

/* One product: primitives for full and last tiles, and each thread's scratch. */
struct job {
    const struct tr_gemm *g;
    const struct primitive *prim[2][2]; /* [last rows][last columns] */
    char *work;
    size_t lane, pad_a, pad_c; /* bytes of a thread; where its padded a and c start */
};

static bool padded(const struct tr_gemm *g, int64_t m)
{
    return !g->trans_a && rounded(m) != m;
}

static struct shape shape_of(const struct tr_gemm *g, int64_t m, int64_t n)
{
    int64_t D = g->a.shape[g->trans_a ? 0 : 1];
    bool pad = padded(g, m);

    return (struct shape){.m = pad ? rounded(m) : m,
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

static char *at(const struct tr_view *v, int64_t row, int64_t col)
{
    return (char *)v->p + (row * v->ld + col) * (int64_t)tr_dtype_bytes(v->dtype);
}

/* m rows of n elements between a view at (i, j) and a dense block; out: into the view. */
static void move_rows(const struct tr_view *v, char *block, struct cpu_range rows,
                      struct cpu_range cols, bool out)
{
    size_t bytes = (size_t)(cols.end - cols.begin) * tr_dtype_bytes(v->dtype);

    for (int64_t i = rows.begin; i < rows.end; i++, block += bytes)
        if (out)
            memcpy(at(v, i, cols.begin), block, bytes);
        else
            memcpy(block, at(v, i, cols.begin), bytes);
}

static dnnl_status_t execute(const struct primitive *p, char *const addr[4])
{
    static const int args[4] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    const dnnl_memory_desc_t *mds[4] = {&p->a, &p->b, &p->c, &p->scratch};
    dnnl_exec_arg_t list[4] = {{0}};
    dnnl_engine_t engine;
    dnnl_stream_t stream = NULL;
    const_dnnl_primitive_desc_t pd;
    dnnl_status_t st = dnnl_primitive_get_primitive_desc(p->run, &pd);

    if (st == dnnl_success)
        st = dnnl_primitive_desc_query(pd, dnnl_query_engine, 0, &engine);
    if (st == dnnl_success)
        st = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    for (int i = 0; i < 4 && st == dnnl_success; i++) {
        list[i].arg = args[i];
        st = dnnl_memory_create(&list[i].memory, mds[i], engine, addr[i]);
    }
    if (st == dnnl_success)
        st = dnnl_primitive_execute(p->run, stream, 4, list);
    if (st == dnnl_success)
        st = dnnl_stream_wait(stream);
    for (int i = 0; i < 4; i++)
        dnnl_memory_destroy(list[i].memory);
    dnnl_stream_destroy(stream);
    return st;
}

static dnnl_status_t run_tile(const struct job *job, int64_t i0, int64_t j0)
{
    const struct tr_gemm *g = job->g;
    struct cpu_range rows = {i0, least(i0 + TILE_M, g->c.shape[0])};
    struct cpu_range cols = {j0, least(j0 + TILE_N, g->c.shape[1])};
    struct cpu_range inner = {0, g->a.shape[g->trans_a ? 0 : 1]};
    int64_t m = rows.end - i0, n = cols.end - j0;
    const struct primitive *p = job->prim[m != TILE_M][n != TILE_N];
    char *lane = job->work + job->lane * (size_t)omp_get_thread_num();
    char *addr[4] = {g->trans_a ? at(&g->a, 0, i0) : at(&g->a, i0, 0),
                     g->trans_b ? at(&g->b.w, j0, 0) : at(&g->b.w, 0, j0), at(&g->c, i0, j0), lane};
    dnnl_status_t st;

    if (!padded(g, m))
        return execute(p, addr);
    addr[0] = lane + job->pad_a;
    addr[2] = lane + job->pad_c;
    memset(addr[0] + m * inner.end * 2, 0, (size_t)((p->shape.m - m) * inner.end * 2));
    move_rows(&g->a, addr[0], rows, inner, false);
    if (g->beta != 0)
        move_rows(&g->c, addr[2], rows, cols, false);
    st = execute(p, addr);
    move_rows(&g->c, addr[2], rows, cols, true);
    return st;
}

/* Primitives of a product, and what a thread needs beside them. */
static enum fr_rc plan(struct cpu *cpu, struct job *job, struct fr_err *err)
{
    const struct tr_gemm *g = job->g;
    int64_t M = g->c.shape[0], N = g->c.shape[1], D = g->a.shape[g->trans_a ? 0 : 1];
    size_t scratch = 0;
    enum fr_rc rc = FR_OK;

    for (int i = 0; i < 4 && rc == FR_OK; i++) {
        int64_t m = i & 2 ? M % TILE_M : TILE_M, n = i & 1 ? N % TILE_N : TILE_N;
        const struct primitive **p = &job->prim[i >> 1][i & 1];
        struct shape s = shape_of(g, m, n);

        if (m == 0 || n == 0 || m > M || n > N)
            continue;
        rc = find(cpu->onednn, &s, p, err);
        if (rc == FR_OK && (*p)->scratch_bytes > scratch)
            scratch = (*p)->scratch_bytes;
    }
    job->pad_a = (scratch + ALIGN - 1) / ALIGN * ALIGN;
    job->pad_c = job->pad_a + (size_t)(TILE_M * D) * 2;
    job->lane = job->pad_c + (size_t)(TILE_M * TILE_N) * 4;
    job->lane = (job->lane + ALIGN - 1) / ALIGN * ALIGN;
    return rc;
}

static enum fr_rc product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                          struct fr_err *err)
{
    struct job job = {.g = g};
    int64_t across = (g->c.shape[1] + TILE_N - 1) / TILE_N;
    int64_t tiles = (g->c.shape[0] + TILE_M - 1) / TILE_M * across;
    int failed = dnnl_success;
    void *work = NULL;
    enum fr_rc rc = plan(cpu, &job, err);

    if (rc == FR_OK)
        rc = cpu_work(q, CPU_WORK_GEMM, job.lane * (size_t)cpu->threads, &work, err);
    if (rc != FR_OK)
        return rc;
    job.work = work;
#pragma omp parallel num_threads(cpu->threads)
    {
        omp_set_num_threads(1);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < tiles; i++) {
            dnnl_status_t st = run_tile(&job, i / across * TILE_M, i % across * TILE_N);

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

enum fr_rc cpu_onednn_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                              struct fr_err *err)
{
    struct tr_gemm part = *g;
    enum fr_rc rc = FR_OK;

    if (!g->trans_a)
        return product(cpu, q, g, err);
    /* The inner dimension is tokens: by blocks of a constant, then of 16, the rest in f32. */
    for (int64_t k = 0, n; k < g->a.shape[0] && rc == FR_OK; k += n) {
        n = least(TILE_D, g->a.shape[0] - k);
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
    int64_t n = least(TILE_D, g->a.shape[0]) / 16 * 16;

    if (g->trans_a) {
        part.a = tr_view_rows(g->a, 0, n);
        part.b.w = g->trans_b ? tr_view_cols(g->b.w, 0, n) : tr_view_rows(g->b.w, 0, n);
    }
    return plan(cpu, &job, NULL) == FR_OK ? job.lane * (size_t)cpu->threads : 0;
}

void cpu_onednn_describe(char out[128])
{
    const dnnl_version_t *v = dnnl_version();

    snprintf(out, 128, " onednn=%d.%d.%d isa=%#x", v->major, v->minor, v->patch,
             (unsigned)dnnl_get_effective_cpu_isa());
}
