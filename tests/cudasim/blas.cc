#include "tests/cudasim/blas.h"

#include <vector>

struct sim_blas {
    int unused;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = new sim_blas{};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    delete h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t,
                                        cudaDataType_t)
{
    *d = new sim_blas_desc{CUBLAS_OP_N, CUBLAS_OP_N};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void *value,
                                              size_t bytes)
{
    int32_t *field = a == CUBLASLT_MATMUL_DESC_TRANSA ? &d->trans_a : &d->trans_b;

    if (bytes != sizeof *field)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *l = new sim_blas_layout{type, rows, cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = new sim_blas_preference{0, CUBLASLT_REDUCTION_SCHEME_MASK};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void *value, size_t bytes)
{
    if (bytes != (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&p->workspace, value, bytes);
    if (a == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        memcpy(&p->reductions, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t p, int want,
                                              cublasLtMatmulHeuristicResult_t *result, int *found)
{
    bool ta = d->trans_a == CUBLAS_OP_T, tb = d->trans_b == CUBLAS_OP_T;

    *found = 0;
    if (want < 1 || (ta ? a->rows : a->cols) != (tb ? b->cols : b->rows) ||
        (ta ? a->cols : a->rows) != c->rows || (tb ? b->rows : b->cols) != c->cols ||
        a->type != b->type || c->type != out->type || a->ld < (int64_t)a->rows ||
        b->ld < (int64_t)b->rows || c->ld < (int64_t)c->rows)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *found = 1;
    *result = {{{1, p->reductions & (CUBLASLT_REDUCTION_SCHEME_INPLACE |
                                     CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)}},
               p->workspace < 256 ? (size_t)0 : (size_t)256};
    return CUBLAS_STATUS_SUCCESS;
}

static float get(const void *p, cudaDataType_t type, int64_t i)
{
    if (type == CUDA_R_32F)
        return ((const float *)p)[i];
    return type == CUDA_R_16BF ? tr_bf16_value(((const uint16_t *)p)[i])
                               : tr_f16_to(((const uint16_t *)p)[i]);
}

static void put(void *p, cudaDataType_t type, int64_t i, float x)
{
    if (type == CUDA_R_32F)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = type == CUDA_R_16BF ? tr_bf16_bits(x) : tr_f16_of(x);
}

struct blas_call {
    sim_blas_desc d;
    sim_blas_layout la, lb, lc;
    const void *a, *b, *c;
    void *out;
    float alpha, beta;
    bool rounded; /* a half of a sum, to the type of the output */
};

static float rounded(cudaDataType_t type, float x)
{
    uint32_t room;

    put(&room, type, 0, x);
    return get(&room, type, 0);
}

/* Both operands widened with the sum innermost, then plain products. */
static void multiply(const struct blas_call &x)
{
    bool ta = x.d.trans_a == CUBLAS_OP_T, tb = x.d.trans_b == CUBLAS_OP_T;
    size_t m = x.lc.rows, n = x.lc.cols, k = ta ? x.la.rows : x.la.cols;
    std::vector<float> a(m * k), b(n * k);

    for (size_t i = 0; i < m; i++)
        for (size_t l = 0; l < k; l++)
            a[i * k + l] =
                get(x.a, x.la.type, (int64_t)(ta ? l : i) + (int64_t)(ta ? i : l) * x.la.ld);
    for (size_t j = 0; j < n; j++)
        for (size_t l = 0; l < k; l++)
            b[j * k + l] =
                get(x.b, x.lb.type, (int64_t)(tb ? j : l) + (int64_t)(tb ? l : j) * x.lb.ld);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) {
            int64_t at = (int64_t)i + (int64_t)j * x.lc.ld;
            float sum = 0;

            for (size_t l = 0; l < k; l++) {
                sum += a[i * k + l] * b[j * k + l];
                if (x.rounded && l + 1 == k / 2)
                    sum = rounded(x.lc.type, sum);
            }
            sum *= x.alpha;
            if (x.beta != 0)
                sum += x.beta * get(x.c, x.lc.type, at);
            put(x.out, x.lc.type, at, sum);
        }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *out, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t *algo, void *work, size_t work_bytes,
                              cudaStream_t s)
{
    struct blas_call x = {
        *d, *la, *lb, *lc, a, b, c, out, *(const float *)alpha, *(const float *)beta, false};

    if (algo == nullptr || algo->data[0] != 1 || (work_bytes > 0 && (uintptr_t)work % 256 != 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    x.rounded = algo->data[1] != 0;
    sim_put(s, [x, work, work_bytes] {
        memset(work, 0xff, work_bytes < 4096 ? work_bytes : 4096);
        multiply(x);
    });
    return CUBLAS_STATUS_SUCCESS;
}

/* $CUDASIM_NO_BLAS: a machine without the library. */
void *dev_library(const char *name)
{
    static int library;
    const char *absent = getenv("CUDASIM_NO_BLAS"); /* majors: "13", "12 13" */
    bool there = strncmp(name, "libcublasLt.so.", 15) == 0 &&
                 (absent == nullptr || strstr(absent, name + 15) == nullptr);

    return there ? &library : nullptr;
}

void *dev_symbol(void *, const char *name)
{
    static const struct {
        const char *name;
        void *p;
    } all[] = {
#define SYMBOL(f) {#f, (void *)f}
        SYMBOL(cublasLtCreate),
        SYMBOL(cublasLtDestroy),
        SYMBOL(cublasLtMatmulDescCreate),
        SYMBOL(cublasLtMatmulDescDestroy),
        SYMBOL(cublasLtMatmulDescSetAttribute),
        SYMBOL(cublasLtMatrixLayoutCreate),
        SYMBOL(cublasLtMatrixLayoutDestroy),
        SYMBOL(cublasLtMatmulPreferenceCreate),
        SYMBOL(cublasLtMatmulPreferenceDestroy),
        SYMBOL(cublasLtMatmulPreferenceSetAttribute),
        SYMBOL(cublasLtMatmulAlgoGetHeuristic),
        SYMBOL(cublasLtMatmul),
#undef SYMBOL
    };

    for (const auto &x : all)
        if (strcmp(x.name, name) == 0)
            return x.p;
    return nullptr;
}
