/*
 * Exact sums of doubles that are not negative. A sum is an integer of TR_EXACT_LIMBS digits of 32
 * bits, each in an int64_t; its unit is 2^-320. Digits add in any order and over any number of
 * ranks, so the sum has the same bits for every partition. Call tr_exact_carry after at most 2^30
 * values. Squares of floats lie between 2^-298 and 2^256. Bits below 2^-320 are cut off; a value of
 * 2^308 or more is added as a smaller one. Plain C that is valid C++ too: device code includes it.
 * Source: Kulisch & Snyder 2011 (the exact dot product as basic tool for long interval arithmetic).
 */
#ifndef TR_BACKEND_EXACT_H
#define TR_BACKEND_EXACT_H

#include "trainer/tensor/draw.h"

#include <stdint.h>

enum { TR_EXACT_LIMBS = 20, TR_EXACT_LOWEST = 320, TR_EXACT_TOP = 17 /* most of tr_exact.limb */ };

/* A value's digits: part[i] belongs to limb + i. */
struct tr_exact {
    int limb;
    uint32_t part[3];
};

/* m times 2^(at - 320). */
TR_INLINE struct tr_exact tr_exact_scaled(uint64_t m, int at)
{
    struct tr_exact x = {0, {0, 0, 0}};
    uint64_t low, high;

    if (at < 0) {
        m = at > -64 ? m >> -at : 0;
        at = 0;
    }
    x.limb = at / 32 < TR_EXACT_TOP ? at / 32 : TR_EXACT_TOP;
    low = (m & 0xffffffffu) << at % 32;
    high = (m >> 32) << at % 32;
    x.part[0] = (uint32_t)low;
    low = (low >> 32) + (high & 0xffffffffu);
    x.part[1] = (uint32_t)low;
    x.part[2] = (uint32_t)((high >> 32) + (low >> 32));
    return x;
}

/* A double is its mantissa, of TR_EXACT_DIGITS bits, times 2^(at - 320), with `at` its exponent's
 * bits and TR_EXACT_SHIFT. */
enum { TR_EXACT_DIGITS = 53, TR_EXACT_SHIFT = TR_EXACT_LOWEST - 1023 - 52 };

TR_INLINE int tr_exact_exponent(uint64_t bits)
{
    return (int)(bits >> 52 & 0x7ff);
}

TR_INLINE uint64_t tr_exact_mantissa(uint64_t bits)
{
    return (bits & 0xfffffffffffffu) | (uint64_t)1 << 52;
}

/* bits: of a finite double >= 0. Below 2^-1022: 0. */
TR_INLINE struct tr_exact tr_exact_of(uint64_t bits)
{
    int exponent = tr_exact_exponent(bits);

    return tr_exact_scaled(exponent > 0 ? tr_exact_mantissa(bits) : 0, exponent + TR_EXACT_SHIFT);
}

TR_INLINE void tr_exact_add(int64_t *limbs, struct tr_exact x)
{
    for (int i = 0; i < 3; i++)
        limbs[x.limb + i] += x.part[i];
}

/* Carries, so that each digit but the last is below 2^32 again. The value is the same. */
TR_INLINE void tr_exact_carry(int64_t *limbs)
{
    for (int i = 0; i + 1 < TR_EXACT_LIMBS; i++) {
        limbs[i + 1] += limbs[i] >> 32;
        limbs[i] &= 0xffffffff;
    }
}

/* The value of carried digits, with an error of about one unit in the last place at most. */
TR_INLINE double tr_exact_value(const int64_t *limbs)
{
    double sum = 0, digit = 0x1p-320;

    for (int i = 0; i < TR_EXACT_LIMBS; i++, digit *= 0x1p32)
        sum += (double)limbs[i] * digit; /* ascending: what was rounded off is below */
    return sum;
}

#endif
