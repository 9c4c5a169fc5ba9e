/*
 * The only inline PTX of the project: one wrapper an instruction, included by dev.h under nvcc.
 * tests/cudasim/instructions.h emulates each of them under the same name, as that one instruction.
 * Wrappers of sm_90a trap in the code for older devices, where their callers are never launched.
 * Source: PTX ISA 8.x, the section that each comment names.
 */
#ifndef TR_BACKEND_CUDA_PTX_H
#define TR_BACKEND_CUDA_PTX_H

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PTX_SM90(...) asm volatile(__VA_ARGS__)
#else
#define PTX_SM90(...) __trap()
#endif

/* ex2.approx.ftz: 2^x within 2 ulp; results below 2^-126 become 0. */
__device__ __forceinline__ float ptx_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The 32-bit shared-memory address that instructions take. */
__device__ __forceinline__ uint32_t ptx_shared(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* ---- matrices of 8x8 16-bit elements (ldmatrix). Lane l gives the address of a row of 16 bytes:
 * rows 0..7 of matrix m come from lanes 8m .. 8m+7. Lane l receives row l/4, columns 2(l%4) and
 * 2(l%4)+1 of each matrix; trans exchanges row and column. ---- */
__device__ __forceinline__ void ptx_ldmatrix_x4(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ptx_shared(row))
                 : "memory");
}

__device__ __forceinline__ void ptx_ldmatrix_x4_trans(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ptx_shared(row))
                 : "memory");
}

/* ---- mma.sync m16n8k16: d (16, 8) f32 += a (16, 16) b (16, 8). With g = lane/4, c = 2*(lane%4):
 * d: (g, c) (g, c+1) (g+8, c) (g+8, c+1); a: pairs at (g, c) (g+8, c) (g, c+8) (g+8, c+8);
 * b: pairs down the rows at (c, g) (c+8, g). ---- */
__device__ __forceinline__ void ptx_mma(float (&d)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2], __nv_bfloat16)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void ptx_mma(float (&d)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2], __half)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* ---- cp.async: copies 16 bytes from global to shared memory; the bytes from `valid` on become
 * zeros. This thread may read the copy after ptx_copy_wait, other threads after a barrier that
 * follows. ---- */
__device__ __forceinline__ void ptx_copy16(void *to, const void *from, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(ptx_shared(to)), "l"(from),
                 "r"(valid)
                 : "memory");
}

/* Commits the copies since the last commit as a group. */
__device__ __forceinline__ void ptx_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most the N newest groups of this thread are pending. */
template <int N> __device__ __forceinline__ void ptx_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* ---- mbarrier (sm_90): 8 bytes of shared memory. A phase completes after `count` arrivals and all
 * expected transaction bytes. Phases alternate in parity; the first has parity 0. ---- */
__device__ __forceinline__ void ptx_mbar_init(uint64_t *bar, int count)
{
    PTX_SM90("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ptx_shared(bar)), "r"(count)
             : "memory");
}

/* Makes the barriers that this thread initialised visible to other threads and to TMA; a
 * __syncthreads follows. */
__device__ __forceinline__ void ptx_mbar_init_fence(void)
{
    PTX_SM90("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void ptx_mbar_arrive(uint64_t *bar)
{
    PTX_SM90("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ptx_shared(bar)) : "memory");
}

/* Arrives, and adds `bytes` to the expected transaction bytes of this phase. */
__device__ __forceinline__ void ptx_mbar_expect(uint64_t *bar, uint32_t bytes)
{
    PTX_SM90("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ptx_shared(bar)),
             "r"(bytes)
             : "memory");
}

/* Waits until the phase of this parity has completed. */
__device__ __forceinline__ void ptx_mbar_wait(uint64_t *bar, uint32_t parity)
{
    PTX_SM90("{\n"
             ".reg .pred done;\n"
             "again:\n"
             "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
             "@done bra.uni end;\n"
             "bra.uni again;\n"
             "end:\n"
             "}" ::"r"(ptx_shared(bar)),
             "r"(parity)
             : "memory");
}

/* ---- TMA, bulk tensor copies (sm_90): one thread loads a box of the tensor that the map
 * describes. Its first element is at (x, y[, z]), x innermost. Bytes outside the tensor read as
 * zeros and count as transaction bytes. `to` is aligned to 1,024 bytes. ---- */
__device__ __forceinline__ void ptx_bulk_load(void *to, const CUtensorMap *map, int x, int y,
                                              uint64_t *bar)
{
    PTX_SM90("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
             "[%0], [%1, {%2, %3}], [%4];" ::"r"(ptx_shared(to)),
             "l"(map), "r"(x), "r"(y), "r"(ptx_shared(bar))
             : "memory");
}

__device__ __forceinline__ void ptx_bulk_load3(void *to, const CUtensorMap *map, int x, int y,
                                               int z, uint64_t *bar)
{
    PTX_SM90("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
             "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(ptx_shared(to)),
             "l"(map), "r"(x), "r"(y), "r"(z), "r"(ptx_shared(bar))
             : "memory");
}

/* Makes ordinary writes of this thread to shared memory visible to TMA and to wgmma. */
__device__ __forceinline__ void ptx_fence_async(void)
{
    PTX_SM90("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- setmaxnreg (sm_90a): all warps of a warpgroup call; N is a multiple of 8 in 24..256. ---- */
template <int N> __device__ __forceinline__ void ptx_regs_give(void)
{
    PTX_SM90("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ __forceinline__ void ptx_regs_take(void)
{
    PTX_SM90("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

#include "trainer/backend/cuda/ptx_wgmma.h"

#endif
