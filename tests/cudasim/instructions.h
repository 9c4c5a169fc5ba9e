/*
 * The instructions of trainer/backend/cuda/ptx.h, one function each, executed on the host. What is
 * asynchronous on the device happens here as late as it may: copies when they are waited for,
 * products of a warpgroup at the wait of their group. Until then the destination holds 0xff, and so
 * do registers that are an operand; a write to them meanwhile is found at the wait. Registers of a
 * product hold 0xff until they are pinned behind the wait: the compiler may have moved a read that
 * stands there to a place before the wait.
 */
#ifndef TESTS_CUDASIM_INSTRUCTIONS_H
#define TESTS_CUDASIM_INSTRUCTIONS_H

#include "tests/cudasim/block.h"
#include "tests/cudasim/isa.h"

/* Types, interleave, swizzle, promotion and fill are the ones that cuda_map() of cuda.h uses. */
enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_128B = 3 };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;

CUresult cuTensorMapEncodeTiled(CUtensorMap *m, CUtensorMapDataType type, cuuint32_t rank, void *p,
                                const cuuint64_t *shape, const cuuint64_t *stride,
                                const cuuint32_t *box, const cuuint32_t *step,
                                CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

inline float ptx_exp2(float x)
{
    float y = exp2f(fabsf(x) < 0x1p-126f ? 0 : x);

    return y < 0x1p-126f ? 0 : y;
}

inline uint32_t ptx_shared(const void *p, SIM_HERE)
{
    return sim_offset(p, 0, site);
}

/* n matrices of 8x8 16-bit elements. */
void sim_ldmatrix(uint32_t *r, int n, const void *row, bool trans, struct sim_site site);

inline void ptx_ldmatrix_x4(uint32_t (&r)[4], const void *row, SIM_HERE)
{
    sim_ldmatrix(r, 4, row, false, site);
}

inline void ptx_ldmatrix_x4_trans(uint32_t (&r)[4], const void *row, SIM_HERE)
{
    sim_ldmatrix(r, 4, row, true, site);
}

void ptx_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __nv_bfloat16,
             SIM_HERE);
void ptx_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __half, SIM_HERE);

void ptx_copy16(void *to, const void *from, int valid, SIM_HERE);
void ptx_copy_commit(void);
void sim_copy_wait(size_t open);

template <int N> inline void ptx_copy_wait(void)
{
    sim_copy_wait(N);
}

void ptx_mbar_init(uint64_t *bar, int count, SIM_HERE);
void ptx_mbar_arrive(uint64_t *bar, SIM_HERE);
void ptx_mbar_expect(uint64_t *bar, uint32_t bytes, SIM_HERE);
void ptx_mbar_wait(uint64_t *bar, uint32_t parity, SIM_HERE);

void ptx_mbar_init_fence(void);

void ptx_bulk_load(void *to, const CUtensorMap *map, int x, int y, uint64_t *bar, SIM_HERE);
void ptx_bulk_load3(void *to, const CUtensorMap *map, int x, int y, int z, uint64_t *bar, SIM_HERE);
inline void ptx_fence_async(void)
{
    sim_fence_async();
}

template <int N> inline void ptx_regs_give(SIM_HERE)
{
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "registers of setmaxnreg");
    sim_set_registers(N, false, site);
}

template <int N> inline void ptx_regs_take(SIM_HERE)
{
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "registers of setmaxnreg");
    sim_set_registers(N, true, site);
}

void sim_wgmma_put(const struct sim_wgmma *w, struct sim_site site);
void ptx_wgmma_fence(SIM_HERE);
void sim_wgmma_pin(void *at, size_t n, struct sim_site site);

template <class T, size_t N> inline void ptx_wgmma_pin(T (&x)[N], SIM_HERE)
{
    static_assert(sizeof(T) == sizeof(uint32_t), "registers have 32 bits");
    sim_wgmma_pin(x, N, site);
}

void ptx_wgmma_commit(SIM_HERE);
void sim_wgmma_wait(size_t open, struct sim_site site);

template <int N> inline void ptx_wgmma_wait(SIM_HERE)
{
    sim_wgmma_wait(N, site);
}

inline bool sim_is_f16(__nv_bfloat16)
{
    return false;
}

inline bool sim_is_f16(__half)
{
    return true;
}

template <int TA, int TB, size_t M, class T>
inline void ptx_wgmma(float (&d)[M], uint64_t a, uint64_t b, bool add, T t, SIM_HERE)
{
    struct sim_wgmma w = {d, nullptr, (int)M * 2, a, b, TA != 0, TB != 0, add, sim_is_f16(t)};

    sim_wgmma_put(&w, site);
}

template <int TB, size_t M, class T>
inline void ptx_wgmma_a(float (&d)[M], uint32_t (&a)[4], uint64_t b, bool add, T t, SIM_HERE)
{
    struct sim_wgmma w = {d, a, (int)M * 2, 0, b, false, TB != 0, add, sim_is_f16(t)};

    sim_wgmma_put(&w, site);
}

#endif
