/*
 * Arguments of the dense ops: embedding, norm, matrix product, dropout, rotary positions,
 * attention, SwiGLU and the fused cross-entropy.
 *
 * What holds for every op
 * - "=" written, "+=" accumulated, "in" read. Outputs overlap no input unless said.
 * - A view of rank 2 or 3 may be row-strided (ld); rank 1 is contiguous. Zero rows are fine.
 * - A view begins at a multiple of its element's size. Kernels move rows that begin at multiples
 *   of 16 bytes by words of 16 bytes, other rows (odd sizes, small LoRA ranks) by elements.
 * - Compute type C: bf16, f16 or f32 (the reference backend also f64; f32 state is then f64 too,
 *   written "f32*"). All views marked C in one call have one type. Sums are f32 (f64 for f64)
 *   inside an op, and a result is rounded once, when it is stored.
 * - An optional view is absent when its p is NULL (a zeroed struct tr_view).
 * - Views are device memory; numbers are host values and bounds. Nothing waits for the device.
 * - Same inputs, same bits: on a backend and machine the result does not depend on the number of
 *   threads nor on timing.
 * Errors of all: FR_SHAPE, FR_DTYPE (naming the op and the view), FR_UNSUPPORTED (naming op and
 * types).
 */
#ifndef TR_BACKEND_OPS_H
#define TR_BACKEND_OPS_H

#include "trainer/tensor/tensor.h"

#include <stdbool.h>
#include <stdint.h>

/* The ops of this header: name, arguments, whether a weight may be FP8 in blocks. backend.h joins
 * these rows with those of moe.h, cache.h and vec.h; tr_<name>(be, queue, args, err) runs an op. */
#define TR_DENSE_OPS(X)                                                                            \
    X(embed_fwd, tr_embed, false)                                                                  \
    X(embed_bwd, tr_embed, false)                                                                  \
    X(rmsnorm_fwd, tr_rmsnorm, false)                                                              \
    X(rmsnorm_bwd, tr_rmsnorm_grad, false)                                                         \
    X(gemm, tr_gemm, true)                                                                         \
    X(colsum, tr_colsum, false)                                                                    \
    X(dropout, tr_dropout, false)                                                                  \
    X(rope, tr_rope, false)                                                                        \
    X(mla_assemble_fwd, tr_mla, false)                                                             \
    X(mla_assemble_bwd, tr_mla_grad, false)                                                        \
    X(attention_fwd, tr_attention, false)                                                          \
    X(attention_bwd, tr_attention, false)                                                          \
    X(swiglu_fwd, tr_swiglu, false)                                                                \
    X(swiglu_bwd, tr_swiglu_grad, false)                                                           \
    X(xent_chunk, tr_xent, true)                                                                   \
    X(xent_finish, tr_xent_finish, false)                                                          \
    X(xent_bwd, tr_xent_grad, false)

/* Rows offsets[first] .. offsets[last] of a call; the device reads offsets. Absent: all rows.
 * Other rows are neither read nor written. */
struct tr_rows {
    struct tr_view offsets; /* (n) i32 ascending, n > last */
    int64_t first, last;
};

/*
 * embed_fwd: y[t] = table[ids[t] - row0]; a row of zeros where ids[t] is outside the table's rows.
 * embed_bwd: dtable[ids[t] - row0] += dy[t], t ascending; ids outside are skipped.
 */
struct tr_embed {
    struct tr_view y;      /* (T, H) C       fwd = */
    struct tr_view table;  /* (rows, H) C    fwd in */
    struct tr_view ids;    /* (T) i32 */
    int64_t row0;          /* vocabulary index of the table's first row */
    struct tr_view dtable; /* (rows, H) f32* bwd += */
    struct tr_view dy;     /* (T, H) C       bwd in */
};

/*
 * rmsnorm_fwd, each row by itself: s = x + add rounded to C (x itself when add is absent),
 * r = 1/sqrt(mean(s*s) + eps), y = gain * C(s*r): the normalised row is rounded before the gain, as
 * the reference model does. y may be x or add; sum may be x or add.
 * Source: Zhang & Sennrich 2019, eq. 4.
 */
struct tr_rmsnorm {
    struct tr_view y;    /* (T, n) C     = */
    struct tr_view rrms; /* (T) f32*     =  r, for backward; optional */
    struct tr_view sum;  /* (T, n) C     =  s; optional, only with add */
    struct tr_view x;    /* (T, n) C     in */
    struct tr_view add;  /* (T, n) C     in optional */
    struct tr_view gain; /* (n) C or f32 in */
    float eps;           /* >= 0 */
};

/*
 * rmsnorm_bwd: with x the s of the forward, u = gain*dy, xh = x*r, n the row's length:
 * dx = dres + r*(u - xh*(u.xh)/n); dgain += sum over t of dy*xh. dx may be dy or dres.
 */
struct tr_rmsnorm_grad {
    struct tr_view dx;    /* (T, n) C or f32* = ; optional when dgain is given */
    struct tr_view dres;  /* (T, n) type of dx in, optional: a gradient added to the result */
    struct tr_view dgain; /* (n) f32* += optional */
    struct tr_view dy;    /* (T, n) C or f32* in */
    struct tr_view x;     /* (T, n) C in */
    struct tr_view rrms;  /* (T) f32* in */
    struct tr_view gain;  /* (n) C or f32 in */
};

/*
 * gemm: c = alpha * op(a) * op(b) + beta * c + bias, op = transpose when the flag is set; c is not
 * read when beta is 0. All products of a linear are this one: with W (out, in) and x (T, in)
 *   y = x W^T: trans_b        dX = dY W: no flag        dW += dY^T X: trans_a, beta 1, c f32.
 * a and b have one type, or b is FP8 in blocks and a is C (the weight is decoded, and rounded to C
 * where the product takes both operands in one type; activations are not quantised). c has a's type
 * or f32*.
 */
struct tr_gemm {
    struct tr_view c;    /* (M, N) C or f32* = */
    struct tr_view a;    /* (M, D), or (D, M) with trans_a */
    struct tr_weight b;  /* (D, N), or (N, D) with trans_b */
    struct tr_view bias; /* (N) C or f32* in optional */
    bool trans_a, trans_b;
    float alpha, beta;
};

/* colsum: out[j] += sum over t of x[t, j]: the gradient of a bias. */
struct tr_colsum {
    struct tr_view out; /* (N) f32* += */
    struct tr_view x;   /* (T, N) C in */
};

/*
 * dropout: y = x * keep / (1 - p), keep a function of (seed, module, epoch, place, pos, channel)
 * alone (philox.h), so the same call serves forward, recompute and backward on every backend and
 * world. y may be x. With slot_of the rows are routed rows: row i is of token slot_of[i] / K; with
 * groups, row i in [groups[e], groups[e+1]) has module id module + e.
 */
struct tr_dropout {
    struct tr_view y;       /* (R, n) C = */
    struct tr_view x;       /* (R, n) C in */
    struct tr_view place;   /* (T) i64 the sample's place in the global order */
    struct tr_view pos;     /* (T) i32 position in its sample */
    struct tr_view slot_of; /* (R) i32 optional: t*K + k of a routed row; absent: R = T */
    int64_t K;              /* with slot_of */
    struct tr_view groups;  /* (E+1) i32 optional */
    struct tr_rows rows;
    uint64_t seed, module; /* module: an id, a hash of its name */
    uint32_t epoch;
    float p; /* 0 <= p < 1 */
};

/*
 * Rotary positions. Tables hold a*cos and a*sin of the angle (position, i), i < dr/2. Interleaved:
 * pair i is (2i, 2i+1); otherwise (i, i + dr/2). (x, z) -> (x cos - z sin, z cos + x sin); the
 * stored order of channels is kept. Rotated in f32*, rounded once. Source: Su et al. 2021, section
 * 3.4.2.
 */
struct tr_rope_table {
    struct tr_view cosines; /* (positions, dr/2) f32* contiguous */
    struct tr_view sines;   /* (positions, dr/2) f32* contiguous */
    struct tr_view pos;     /* (T) i32, each below positions */
    bool interleave;
};

/* rope: the first dr channels of each head are rotated, the others copied; inverse rotates by the
 * negative angle, which is the backward. y may be x. */
struct tr_rope {
    struct tr_view y; /* (T, n, hd) C = */
    struct tr_view x; /* (T, n, hd) C in */
    struct tr_rope_table table;
    bool inverse;
};

/*
 * mla_assemble_fwd: Q[t,h] = [q_nope, rope(q_pe)], K[t,h] = [k_nope, rope(k_pe)] with one k_pe for
 * all heads, V[t,h] = v. Source: DeepSeek-V2 2024, eq. 9-19.
 */
struct tr_mla {
    struct tr_view Q;    /* (T, nh, dn+dr) C = */
    struct tr_view K;    /* (T, nh, dn+dr) C = */
    struct tr_view V;    /* (T, nh, dv) C = */
    struct tr_view q;    /* (T, nh*(dn+dr)) C in, a head: dn without position, then dr */
    struct tr_view kv;   /* (T, nh*(dn+dv)) C in, a head: dn of the key, then dv of the value */
    struct tr_view k_pe; /* (T, dr) C in */
    struct tr_rope_table table;
};

/* mla_assemble_bwd: the transposed map; dk_pe sums the heads, h ascending. */
struct tr_mla_grad {
    struct tr_view dq;    /* (T, nh*(dn+dr)) C = */
    struct tr_view dkv;   /* (T, nh*(dn+dv)) C = */
    struct tr_view dk_pe; /* (T, dr) C = */
    struct tr_view dQ;    /* (T, nh, dn+dr) C in */
    struct tr_view dK;    /* (T, nh, dn+dr) C in */
    struct tr_view dV;    /* (T, nh, dv) C in */
    struct tr_rope_table table;
};

/*
 * attention_fwd, per segment [offsets[b], offsets[b+1]) and head h, kv head h / (nh/nkv):
 * O_i = sum_j softmax_j(scale * Q_i.K_j) V_j over j <= i (causal) or all j of the segment, with a
 * window those j > i - window alone; lse_i is the log of the sum. Tokens outside every segment are
 * not written. No T x T buffer is made.
 * attention_bwd: dV_j = sum_i P_ij dO_i; dS_ij = P_ij (dO_i.V_j - dO_i.O_i);
 * dQ_i = scale sum_j dS_ij K_j; dK_j = scale sum_i dS_ij Q_i; the q heads of a kv head are summed.
 * Probabilities and dS may be rounded to C where they are factors of a product.
 * Source: Dao et al. 2022 (FlashAttention), algorithms 1 and 4.
 */
struct tr_attention {
    struct tr_view O;       /* (T, nh, dv) C    fwd =  bwd in */
    struct tr_view lse;     /* (nh, T) f32*     fwd =  bwd in */
    struct tr_view Q;       /* (T, nh, dq) C    in */
    struct tr_view K;       /* (T, nkv, dq) C   in, nh % nkv == 0 */
    struct tr_view V;       /* (T, nkv, dv) C   in */
    struct tr_view offsets; /* (B+1) i32 ascending, within [0, T] */
    int64_t max_len;        /* no segment is longer; 0: T */
    float scale;
    bool causal;
    int64_t window;            /* 0: none; only with causal */
    struct tr_view dQ, dK, dV; /* as Q, K, V    bwd = */
    struct tr_view dO;         /* as O          bwd in */
};

/* swiglu_fwd: h = silu(g) * u, silu(z) = z / (1 + exp(-z)); one rounding. h may be g or u. */
struct tr_swiglu {
    struct tr_view h; /* (R, I) C = */
    struct tr_view g; /* (R, I) C in */
    struct tr_view u; /* (R, I) C in */
    struct tr_rows rows;
};

/*
 * swiglu_bwd: with e = w*dh: dg = e*u*s*(1 + g*(1-s)), du = e*g*s, s = 1/(1 + exp(-g)).
 * w is weight[slot_of[row]], 1 when absent; dweight[slot_of[row]] = sum_j dh*silu(g)*u, the
 * gradient of a routing weight from an unweighted dh. dg may be g, du may be u or dh.
 */
struct tr_swiglu_grad {
    struct tr_view dg;      /* (R, I) C = */
    struct tr_view du;      /* (R, I) C = */
    struct tr_view dh;      /* (R, I) C in */
    struct tr_view g;       /* (R, I) C in */
    struct tr_view u;       /* (R, I) C in */
    struct tr_view weight;  /* (T, K) f32* in optional */
    struct tr_view dweight; /* (T, K) f32* = optional, of the slots of these rows alone */
    struct tr_view slot_of; /* (R) i32 t*K + k, with weight or dweight */
    struct tr_rows rows;
};

/*
 * Cross-entropy over a vocabulary that comes in chunks of rows (each once, in any fixed order).
 * xent_chunk, logits = F Wc^T never stored whole: for each t keeps m = max of them, l = sum
 * exp(logit-m), acc = sum exp(logit-m) Wc, and from the chunk that holds the target its logit and
 * its row. exp(logit-m) may be rounded to C as a factor of acc. first: the state is begun, whatever
 * it held. With p, for xent_bwd: p = exp(logit-m) of this chunk's rows, and top = that m, the
 * largest logit of this chunk and those before it.
 */
struct tr_xent_state {
    struct tr_view m;            /* (T) f32* */
    struct tr_view l;            /* (T) f32* */
    struct tr_view target_logit; /* (T) f32* */
    struct tr_view acc;          /* (T, H) f32* optional: absent in evaluation */
    struct tr_view target_row;   /* (T, H) C with acc */
};

struct tr_xent {
    struct tr_xent_state state; /* += */
    struct tr_view p;           /* (T, rows) C or f32* = optional, without acc */
    struct tr_view top;         /* (T) f32* = with p */
    struct tr_view F;           /* (T, H) C in */
    struct tr_weight w;         /* (rows, H) C in */
    int64_t row0;               /* vocabulary index of w's first row */
    struct tr_view targets;     /* (T) i32, -1: none */
    bool first;
};

/* xent_finish: over t with a target, loss[t] = m + log l - target_logit, loss_sum += sum of
 * loss[t]; dF[t] = scale * (acc/l - target_row); rows without a target get zeros. */
struct tr_xent_finish {
    struct tr_xent_state state; /* in */
    struct tr_view targets;     /* (T) i32 in */
    struct tr_view loss_sum;    /* (1) f64 += */
    struct tr_view loss;        /* (T) f32* = optional */
    struct tr_view dF;          /* (T, H) C or f32* = optional, needs acc */
    double scale;               /* 1 / number of targets of the step */
};

/* xent_bwd: the gradient of a chunk's logits z = F Wc^T, for a head that is trained, from p and
 * top of xent_chunk: dz[t, v] = scale * (p[t, v] * exp(top[t] - m[t]) / l[t] - [targets[t] == row0
 * + v]), m and l those of the whole vocabulary. Rows without a target get zeros. dz may be p. Then
 * dF += dz Wc, dWc += dz^T F. */
struct tr_xent_grad {
    struct tr_view dz;      /* (T, rows) C = */
    struct tr_view p;       /* (T, rows) C or f32* in */
    struct tr_view top;     /* (T) f32* in */
    struct tr_view m, l;    /* (T) f32* in */
    struct tr_view targets; /* (T) i32 in */
    int64_t row0;
    double scale;
};

#endif
