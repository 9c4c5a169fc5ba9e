/*
 * Dense GEMMs by cuBLASLt. Row-major c = op(a) op(b) is column-major c^T = op(b)^T op(a)^T for the
 * library, so a and b change places. Sums are f32 (true f32 for f32 operands). Split-K sums are
 * f32, too; the library's default reduces parts that are rounded to c's type. Moves a, b, c once,
 * or as the library does. The limit is the matrix rate; for skinny products the bandwidth.
 * Source: cuBLAS library manual, "Using the cuBLASLt API".
 */
#include "trainer/backend/cuda/lt.h"

extern "C" {
#include "engine/base/sys.h"
}

#include <stdio.h>
#include <string.h>

#define LT_CALLS(X)                                                                                \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmul)

/* The key of a plan. Keys are compared as bytes, so a key is zeroed first. */
struct lt_key {
    int64_t M, N, D, lda, ldb, ldc;
    int type, c_type;
    uint32_t align_a, align_b, align_c;
    bool trans_a, trans_b;
};

struct lt_plan {
    struct lt_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* the library's operands: a is our b */
    cublasLtMatmulAlgo_t algo;
};

enum { LT_PLANS = 128 };

struct lt {
#define LT_SLOT(f) decltype(&::f) f;
    LT_CALLS(LT_SLOT)
#undef LT_SLOT
    cublasLtHandle_t handle;
    struct lt_plan plan[LT_PLANS]; /* a ring: a new plan replaces the oldest */
    int next;
};

static enum fr_rc lt_ok(cublasStatus_t s, const char *what, struct fr_err *err)
{
    return s == CUBLAS_STATUS_SUCCESS
               ? FR_OK
               : fr_fail(err, FR_IO, "cublasLt: %s: status %d", what, (int)s);
}

static void *library_of(char (&name)[32], struct fr_err *err)
{
    int major = cuda_runtime() / 1000;
    void *library;

    snprintf(name, sizeof name, "libcublasLt.so.%d", major);
    library = dev_library(name);
    if (library == NULL)
        fr_fail(err, FR_UNSUPPORTED,
                "%s cannot be opened: install cuBLAS of CUDA %d, or name its folder in "
                "LD_LIBRARY_PATH, or pass --device cpu",
                name, major);
    return library;
}

enum fr_rc lt_present(struct fr_err *err)
{
    char name[32];

    return library_of(name, err) != NULL ? FR_OK : FR_UNSUPPORTED;
}

static enum fr_rc lt_load(struct lt *lt, struct fr_err *err)
{
    char name[32];
    void *library = library_of(name, err);

    if (library == NULL)
        return FR_UNSUPPORTED;
#define LT_FIND(f)                                                                                 \
    lt->f = reinterpret_cast<decltype(&::f)>(dev_symbol(library, #f));                             \
    if (lt->f == NULL)                                                                             \
        return fr_fail(err, FR_UNSUPPORTED, "%s has no %s", name, #f);
    LT_CALLS(LT_FIND)
#undef LT_FIND
    return lt_ok(lt->cublasLtCreate(&lt->handle), "create", err);
}

enum fr_rc lt_open(struct cuda *cuda, struct fr_err *err)
{
    struct lt *lt;
    enum fr_rc rc;

    if ((lt = static_cast<struct lt *>(fr_sys.alloc(sizeof *lt))) == NULL)
        return fr_fail(err, FR_NOMEM, "cublasLt");
    memset(lt, 0, sizeof *lt);
    if ((rc = lt_load(lt, err)) == FR_OK)
        cuda->lt = lt;
    else
        fr_sys.free(lt);
    return rc;
}

static void lt_forget(struct lt *lt, struct lt_plan *p)
{
    if (p->a != NULL)
        (void)lt->cublasLtMatrixLayoutDestroy(p->a);
    if (p->b != NULL)
        (void)lt->cublasLtMatrixLayoutDestroy(p->b);
    if (p->c != NULL)
        (void)lt->cublasLtMatrixLayoutDestroy(p->c);
    if (p->desc != NULL)
        (void)lt->cublasLtMatmulDescDestroy(p->desc);
    memset(p, 0, sizeof *p);
}

void lt_destroy(struct lt *lt)
{
    if (lt == NULL)
        return;
    for (int i = 0; i < LT_PLANS; i++)
        lt_forget(lt, &lt->plan[i]);
    (void)lt->cublasLtDestroy(lt->handle);
    fr_sys.free(lt);
}

static cudaDataType_t data_type(int t)
{
    return t == TR_F32 ? CUDA_R_32F : t == TR_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static enum fr_rc lt_describe(struct lt *lt, struct lt_plan *p, struct fr_err *err)
{
    const struct lt_key *k = &p->key;
    cudaDataType_t type = data_type(k->type);
    int32_t ta = k->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
            tb = k->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint64_t M = (uint64_t)k->M, N = (uint64_t)k->N, D = (uint64_t)k->D;
    cublasStatus_t s = lt->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);

    if (s == CUBLAS_STATUS_SUCCESS)
        s = lt->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta,
                                               sizeof ta);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lt->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb,
                                               sizeof tb);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lt->cublasLtMatrixLayoutCreate(&p->a, type, k->trans_b ? D : N, k->trans_b ? N : D,
                                           k->ldb);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lt->cublasLtMatrixLayoutCreate(&p->b, type, k->trans_a ? M : D, k->trans_a ? D : M,
                                           k->lda);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lt->cublasLtMatrixLayoutCreate(&p->c, data_type(k->c_type), N, M, k->ldc);
    return lt_ok(s, "plan", err);
}

static enum fr_rc lt_choose(struct lt *lt, struct lt_plan *p, struct fr_err *err)
{
    const struct lt_key *k = &p->key;
    const uint64_t room = LT_WORKSPACE;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } set[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->align_b, sizeof k->align_b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->align_a, sizeof k->align_a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->align_c, sizeof k->align_c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->align_c, sizeof k->align_c},
    };
    cublasStatus_t s = lt->cublasLtMatmulPreferenceCreate(&pref);

    for (size_t i = 0; i < sizeof set / sizeof set[0] && s == CUBLAS_STATUS_SUCCESS; i++)
        s = lt->cublasLtMatmulPreferenceSetAttribute(pref, set[i].name, set[i].value, set[i].bytes);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, p->desc, p->a, p->b, p->c, p->c, pref, 1,
                                               &best, &found);
    if (pref != NULL)
        (void)lt->cublasLtMatmulPreferenceDestroy(pref);
    if (s != CUBLAS_STATUS_SUCCESS || found == 0)
        return fr_fail(err, FR_UNSUPPORTED, "cublasLt has no algorithm for %lld x %lld x %lld",
                       (long long)k->M, (long long)k->N, (long long)k->D);
    p->algo = best.algo;
    return FR_OK;
}

static enum fr_rc lt_plan_of(struct lt *lt, const struct lt_key *key, struct lt_plan **out,
                             struct fr_err *err)
{
    struct lt_plan *p;
    enum fr_rc rc;

    for (int i = 0; i < LT_PLANS; i++)
        if (lt->plan[i].desc != NULL && memcmp(&lt->plan[i].key, key, sizeof *key) == 0) {
            *out = &lt->plan[i];
            return FR_OK;
        }
    p = &lt->plan[lt->next];
    lt_forget(lt, p);
    memcpy(&p->key, key, sizeof *key);
    if ((rc = lt_describe(lt, p, err)) == FR_OK)
        rc = lt_choose(lt, p, err);
    if (rc == FR_OK)
        lt->next = (lt->next + 1) % LT_PLANS;
    else
        lt_forget(lt, p);
    *out = p;
    return rc;
}

/* The largest power of two up to 16 that divides the address and the row stride. */
static uint32_t alignment(const void *p, int64_t ld, int64_t size)
{
    uint32_t a = 16;

    while (((uintptr_t)p | (uintptr_t)(ld * size)) % a != 0)
        a /= 2;
    return a;
}

enum fr_rc lt_gemm(struct cuda *cuda, struct tr_queue *q, const struct tr_gemm *a,
                   struct fr_err *err)
{
    int64_t size = (int64_t)tr_dtype_bytes(a->a.dtype),
            c_size = (int64_t)tr_dtype_bytes(a->c.dtype);
    struct lt_key key;
    struct lt *lt = cuda->lt;
    struct lt_plan *p;
    void *work;
    enum fr_rc rc;

    memset(&key, 0, sizeof key);
    key.M = a->c.shape[0];
    key.N = a->c.shape[1];
    key.D = a->a.shape[a->trans_a ? 0 : 1];
    key.lda = a->a.ld;
    key.ldb = a->b.w.ld;
    key.ldc = a->c.ld;
    key.type = (int)a->a.dtype;
    key.c_type = (int)a->c.dtype;
    key.align_a = alignment(a->a.p, a->a.ld, size);
    key.align_b = alignment(a->b.w.p, a->b.w.ld, size);
    key.align_c = alignment(a->c.p, a->c.ld, c_size);
    key.trans_a = a->trans_a;
    key.trans_b = a->trans_b;
    if ((rc = cuda_work(q, LT_WORKSPACE, &work, err)) != FR_OK || q->dry ||
        (rc = lt_plan_of(lt, &key, &p, err)) != FR_OK)
        return rc;
    return lt_ok(lt->cublasLtMatmul(lt->handle, p->desc, &a->alpha, a->b.w.p, p->a, a->a.p, p->b,
                                    &a->beta, a->c.p, p->c, a->c.p, p->c, &p->algo, work,
                                    LT_WORKSPACE, q->stream),
                 "matmul", err);
}
