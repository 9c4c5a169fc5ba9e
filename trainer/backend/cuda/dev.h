/*
 * The only file that includes CUDA's headers; device sources include it through cuda.h. Under nvcc
 * it includes the CUDA runtime and the inline PTX of ptx.h. Under a C++17 host compiler it includes
 * tests/cudasim, which defines the same names, executes each thread, and emulates the instructions
 * of ptx.h one by one. A kernel has one body for both.
 *
 * These names differ between the two:
 *   DEV_SHARED(float, part, [32]);   static shared memory: float part[32]
 *   DEV_DYNAMIC(unsigned char, room); the dynamic shared memory of the launch, 1024-byte aligned
 * Kernels are launched by cuda_launch() of cuda.h alone.
 */
#ifndef TR_BACKEND_CUDA_DEV_H
#define TR_BACKEND_CUDA_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cublasLt.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#define DEV_SHARED(T, name, dims) __shared__ T name dims
#define DEV_DYNAMIC(T, name)                                                                       \
    extern __shared__ __align__(1024) unsigned char dev_dynamic[];                                 \
    T *name = reinterpret_cast<T *>(dev_dynamic)
#include "trainer/backend/cuda/ptx.h"

/* Opens a library of CUDA at run time and never closes it; NULL: it is not installed. */
static inline void *dev_library(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static inline void *dev_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}
#else
#include <cudasim.h>
#endif
#include "trainer/backend/cuda/ptx_matrix.h"

typedef __nv_bfloat16 bf16;
typedef __half f16;

/* Values as f32 and back, rounded to nearest even. */
__device__ __forceinline__ float to_f32(float x)
{
    return x;
}

__device__ __forceinline__ float to_f32(bf16 x)
{
    return __bfloat162float(x);
}

__device__ __forceinline__ float to_f32(f16 x)
{
    return __half2float(x);
}

template <class T> __device__ __forceinline__ T from_f32(float x);

template <> __device__ __forceinline__ float from_f32<float>(float x)
{
    return x;
}

template <> __device__ __forceinline__ bf16 from_f32<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

template <> __device__ __forceinline__ f16 from_f32<f16>(float x)
{
    return __float2half_rn(x);
}

/* x rounded to T. */
template <class T> __device__ __forceinline__ float round_to(float x)
{
    return to_f32(from_f32<T>(x));
}

/* FP8 E4M3 (4 bits of exponent with bias 7, 3 of fraction, no infinity): exact in f32. Source:
 * Micikevicius et al. 2022, table 1. */
__device__ __forceinline__ float f8_value(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80) << 24, bits = b & 0x7f;

    if (bits == 0x7f)
        return __uint_as_float(sign | 0x7fc00000u);
    if (bits < 8) /* denormal: fraction * 2^-9 */
        return __uint_as_float(sign | __float_as_uint((float)bits * 0x1p-9f));
    return __uint_as_float(sign | ((bits << 20) + (120u << 23)));
}

/*
 * load reads the first n elements of the chunk at p as f32 and fills the rest with zeros; store
 * writes them back. A whole chunk moves by words of 16 bytes (FP8: 8 bytes) if p is aligned to
 * them, other chunks element by element.
 */
enum { CHUNK = 8 };

template <class T> struct alignas(16) dev_word {
    T x[16 / sizeof(T)];
};

/* The raw bytes of a whole chunk that is aligned to 16 bytes. A thread can have several such loads
 * in flight; load and store branch in between and cannot. */
template <class T> struct dev_chunk {
    dev_word<T> w[CHUNK * sizeof(T) / 16];

    __device__ __forceinline__ float value(int i) const
    {
        return to_f32(w[i / (16 / (int)sizeof(T))].x[i % (16 / (int)sizeof(T))]);
    }
};

template <class T> __device__ __forceinline__ dev_chunk<T> &dev_chunk_at(T *p)
{
    return *reinterpret_cast<dev_chunk<T> *>(p);
}

template <class T> __device__ __forceinline__ const dev_chunk<T> &dev_chunk_at(const T *p)
{
    return *reinterpret_cast<const dev_chunk<T> *>(p);
}

__device__ __forceinline__ bool dev_words(const void *p, int64_t n, size_t bytes)
{
    return n >= CHUNK && reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

template <class T> __device__ __forceinline__ void load(float (&x)[CHUNK], const T *p, int64_t n)
{
    constexpr int N = 16 / sizeof(T);

    if (dev_words(p, n, 16)) {
#pragma unroll
        for (int w = 0; w < CHUNK / N; w++) {
            dev_word<T> word = reinterpret_cast<const dev_word<T> *>(p)[w];

#pragma unroll
            for (int i = 0; i < N; i++)
                x[w * N + i] = to_f32(word.x[i]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] = i < n ? to_f32(p[i]) : 0;
}

template <class T> __device__ __forceinline__ void store(T *p, const float (&x)[CHUNK], int64_t n)
{
    constexpr int N = 16 / sizeof(T);

    if (dev_words(p, n, 16)) {
#pragma unroll
        for (int w = 0; w < CHUNK / N; w++) {
            dev_word<T> word;

#pragma unroll
            for (int i = 0; i < N; i++)
                word.x[i] = from_f32<T>(x[w * N + i]);
            reinterpret_cast<dev_word<T> *>(p)[w] = word;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        if (i < n)
            p[i] = from_f32<T>(x[i]);
}

__device__ __forceinline__ void load_f8(float (&x)[CHUNK], const uint8_t *p, int64_t n)
{
    if (dev_words(p, n, 8)) {
        uint2 word = *reinterpret_cast<const uint2 *>(p);

#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            x[i] = f8_value((uint8_t)((i < 4 ? word.x : word.y) >> i % 4 * 8));
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] = i < n ? f8_value(p[i]) : 0;
}

/* Sums over the 32 lanes of a warp, always in the same order. All lanes call. */
template <class T> __device__ __forceinline__ T warp_sum(T x)
{
#pragma unroll
    for (int m = 16; m > 0; m >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, m);
    return x;
}

__device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int m = 16; m > 0; m >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, m));
    return x;
}

/* Returns the sum over a block of whole warps to every thread. part: 32 elements of shared memory,
 * unused when the call begins, and again after the next __syncthreads. */
template <class T> __device__ __forceinline__ T block_sum(T x, T *part)
{
    int warps = (int)(blockDim.x / 32), lane = (int)(threadIdx.x % 32);

    x = warp_sum(x);
    if (lane == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum(lane < warps ? part[lane] : (T)0);
}

#endif
