/*
 * Arguments of the element-wise ops, the optimizer and the ordered reduction. The rules at the top
 * of ops.h hold; here float types may differ within a call (sums f32, f64 when any view is f64).
 */
#ifndef TR_BACKEND_VEC_H
#define TR_BACKEND_VEC_H

#include "trainer/backend/coded.h"
#include "trainer/backend/exact.h"
#include "trainer/tensor/tensor.h"

#include <stdbool.h>
#include <stdint.h>

/* Rows as TR_DENSE_OPS of ops.h has. */
#define TR_VEC_OPS(X)                                                                              \
    X(noise, tr_noise, false)                                                                      \
    X(fill, tr_fill, false)                                                                        \
    X(cast, tr_cast, false)                                                                        \
    X(decode, tr_decode, true)                                                                     \
    X(sum, tr_sum, false)                                                                          \
    X(sumsq, tr_sumsq, false)                                                                      \
    X(nonfinite, tr_nonfinite, true)                                                               \
    X(adamw, tr_adamw, false)                                                                      \
    X(reduce_ordered, tr_reduce, false)

enum { TR_SUM_MAX = 4 };

/* fill: y = value. */
struct tr_fill {
    struct tr_view y; /* any shape, float or integer = */
    double value;
};

/*
 * noise: y[i] = scale * value at first + i of the stream `key` (tr_draw_of's), i counted over all
 * of y: tr_draw_normal, or 2*tr_draw_uniform - 1. The same bits on every backend (tensor/draw.h),
 * so the rank that uses weights can make them.
 */
struct tr_noise {
    struct tr_view y; /* any shape, float, contiguous = */
    uint64_t key;
    int64_t first;
    float scale;
    bool uniform;
};

/* cast: y = x, converted. Copies between strided views as well. Integers only to the same type. */
struct tr_cast {
    struct tr_view y; /* shape of x = */
    struct tr_view x; /* in */
};

/* decode: y = w * scale, FP8 in blocks to a float type. */
struct tr_decode {
    struct tr_view y;   /* (out, in) f32, bf16, f16 = */
    struct tr_weight w; /* (out, in) f8_e4m3 in */
};

/* sum: y = alpha[0] x[0] + … + alpha[n-1] x[n-1], one rounding; y may be any x. */
struct tr_sum {
    struct tr_view y;
    struct tr_view x[TR_SUM_MAX]; /* shape of y */
    float alpha[TR_SUM_MAX];
    int n; /* 1 .. TR_SUM_MAX */
};

/* sumsq: out += sum of x*x. Each TR_SUMSQ_BLOCK elements of a row are a block; what its last block
 * lacks counts as zeros. Element i of a block belongs to lane i mod TR_SUMSQ_LANES. A lane sums its
 * squares in f64, ascending; then lane l += lane l + 4, lane l += lane l + 2, and lanes 0 and 1 are
 * the block's sum. These are added exactly (exact.h). So parts of x whose rows begin at multiples
 * of a block add up to the same bits as all of x. A block with a NaN or an infinity adds nothing to
 * out; found += number of these. */
enum { TR_SUMSQ_BLOCK = 64, TR_SUMSQ_LANES = 8 };

struct tr_sumsq {
    struct tr_view out;   /* (TR_EXACT_LIMBS) i64 += */
    struct tr_view x;     /* any shape, float in */
    struct tr_view found; /* (1) i64 += optional */
};

/* nonfinite: found += number of NaN and infinities in x. */
struct tr_nonfinite {
    struct tr_view found; /* (1) i64 += */
    struct tr_view x;     /* any shape, float or FP8 in */
};

/*
 * adamw: with g' = g * scale (* gscale when given): m = b1 m + (1-b1) g', v = b2 v + (1-b2) g'^2,
 * p = p - lr*wd*p - lr * (m/(1-b1^step)) / (sqrt(v/(1-b2^step)) + eps).
 * Nothing changes where skip is given and not 0. The CUDA backend rounds as these fused products
 * do: m = fma(1-b1, g', b1 m), v = fma(b2, v, ((1-b2) g') g'), p = fma(p, 1-lr*wd, -(the last
 * term)). The CPU backend fuses what its compiler fuses, unless device_bits asks for the same bits.
 * Coded m and v (coded.h; v has codes >= 0 alone) are decoded, updated as f32, used for p, and
 * coded again; block k is elements 256 k to 256 k + 255. There all backends round as CUDA does.
 * Source: Loshchilov & Hutter 2019, algorithm 2.
 */
struct tr_adamw {
    struct tr_view p;            /* (n) f32* += */
    struct tr_view m, v;         /* (n) f32* +=, or codes u8 += */
    struct tr_view m_max, v_max; /* (ceil(n/256)) f32 +=; absent where m and v are f32* */
    struct tr_view g;            /* (n) f32* in */
    struct tr_view copy;         /* (n) C = optional: p rounded */
    struct tr_view gscale;       /* (1) f32* in optional: a clip factor on the device */
    struct tr_view skip;         /* (1) i64 in optional: the count of nonfinite */
    float lr, wd, scale;
    double b1, b2, eps;
    int64_t step;     /* 1 at the first update */
    bool device_bits; /* round as the CUDA backend does, whatever backend runs it */
};

/* reduce_ordered: out = sum over w ascending of slices[w] (+ out with add), f32 sums, one rounding:
 * the reduction of gradients over ranks, the same bits on every transport. */
struct tr_reduce {
    struct tr_view out;    /* (n) f32* or 16-bit = */
    struct tr_view slices; /* (W, n) float in */
    bool add;
};

#endif
