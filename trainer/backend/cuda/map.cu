/*
 * Tensor maps for TMA (sm_90). The host makes them for each launch and passes them by value (const
 * __grid_constant__ CUtensorMap). The runtime supplies the driver's function that encodes a map, so
 * that the module loads without libcuda.
 */
#include "trainer/backend/cuda/cuda.h"

typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                           const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                           const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static encode_fn *find_encoder(void)
{
    void *f = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t e;

#if CUDART_VERSION >= 12050
    e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                         &found);
#else
    e = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &f, cudaEnableDefault, &found);
#endif
    return e == cudaSuccess && found == cudaDriverEntryPointSuccess
               ? reinterpret_cast<encode_fn *>(f)
               : NULL;
}

enum fr_rc cuda_map(CUtensorMap *map, const struct tr_view *v, const uint32_t *box,
                    struct fr_err *err)
{
    CUtensorMapDataType type = v->dtype == TR_BF16  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                               : v->dtype == TR_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                    : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    uint64_t size = v->dtype == TR_F32 ? 4 : 2;
    cuuint32_t rank = (cuuint32_t)v->rank, step[3] = {1, 1, 1};
    cuuint64_t shape[3] = {1, 1, 1}, stride[2] = {(uint64_t)v->ld * size, (uint64_t)v->ld * size};
    encode_fn *encode = find_encoder();

    if (encode == NULL)
        return fr_fail(err, FR_UNSUPPORTED, "this driver makes no tensor maps");
    for (int i = 0; i < v->rank; i++)
        shape[i] = (uint64_t)v->shape[v->rank - 1 - i];
    if (v->rank == 3)
        stride[0] = shape[0] * size;
    if (encode(map, type, rank, v->p, shape, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        return fr_fail(err, FR_BUG, "no tensor map for %lld x %lld, ld %lld",
                       (long long)v->shape[0], (long long)v->shape[1], (long long)v->ld);
    return FR_OK;
}
