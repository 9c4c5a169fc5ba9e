/*
 * The types and qualifiers of CUDA C++ as the host compiler sees them under the simulator. Only
 * what trainer/backend/cuda uses is defined.
 */
#ifndef TESTS_CUDASIM_TYPES_H
#define TESTS_CUDASIM_TYPES_H

#include <cmath>
#include <cstdint>
#include <cstring>

extern "C" {
#include "trainer/tensor/convert.h"
#include "trainer/tensor/tensor.h"
}

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __grid_constant__
#define __constant__ static const
#define __align__(n) alignas(n)

struct alignas(8) uint2 {
    unsigned x, y;
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

struct dim3 {
    unsigned x, y, z;

    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};

struct __nv_bfloat16 {
    uint16_t bits;
};
struct __half {
    uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
struct alignas(4) __half2 {
    __half x, y;
};

inline float __bfloat162float(__nv_bfloat16 x)
{
    return tr_bf16_value(x.bits);
}

inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    return {tr_bf16_bits(x)};
}

inline float __half2float(__half x)
{
    return tr_f16_to(x.bits);
}

inline __half __float2half_rn(float x)
{
    return {tr_f16_of(x)};
}

/* Two values, the first in the lower half. */
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

inline __half2 __floats2half2_rn(float x, float y)
{
    return {__float2half_rn(x), __float2half_rn(y)};
}

inline uint32_t __float_as_uint(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

inline float __uint_as_float(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

inline int __float_as_int(float x)
{
    return (int)__float_as_uint(x);
}

inline float __int_as_float(int i)
{
    return __uint_as_float((uint32_t)i);
}

inline float __expf(float x)
{
    return expf(x);
}

inline float __logf(float x)
{
    return logf(x);
}

inline float __fdividef(float x, float y)
{
    return x / y;
}

inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}

inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

inline unsigned __umulhi(unsigned x, unsigned y)
{
    return (unsigned)((uint64_t)x * y >> 32);
}

template <class T> inline T min(T a, T b)
{
    return b < a ? b : a;
}

template <class T> inline T max(T a, T b)
{
    return a < b ? b : a;
}

#endif
