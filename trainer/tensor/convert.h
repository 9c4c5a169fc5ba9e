/*
 * bf16 conversion that a compiler can put into a loop: the bodies of tr_bf16_of and tr_bf16_to.
 * bf16 is the upper half of an f32; rounding is to nearest even; a NaN stays a NaN.
 */
#ifndef TR_TENSOR_CONVERT_H
#define TR_TENSOR_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline uint16_t tr_bf16_bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float tr_bf16_value(uint16_t b)
{
    uint32_t u = (uint32_t)b << 16;
    float x;

    memcpy(&x, &u, sizeof(x));
    return x;
}

#endif
