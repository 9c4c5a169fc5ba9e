/*
 * Arguments of the mixture-of-experts ops: router, plan of the routed rows, permute, combine and
 * the grouped products. The rules at the top of ops.h hold.
 *
 * Routed rows: R = T*K slots, slot s = t*K + k. Permuted row order = expert, then slot; so
 * offsets[e] .. offsets[e+1] are expert e's rows. Under expert parallelism the same ops run on the
 * received rows with K = 1 and `tokens` as their count.
 */
#ifndef TR_BACKEND_MOE_H
#define TR_BACKEND_MOE_H

#include "trainer/backend/ops.h"

/* Rows as TR_DENSE_OPS has. */
#define TR_MOE_OPS(X)                                                                              \
    X(router_fwd, tr_router, false)                                                                \
    X(router_bwd, tr_router_grad, false)                                                           \
    X(moe_plan, tr_moe_plan, false)                                                                \
    X(moe_permute, tr_moe_permute, false)                                                          \
    X(moe_combine, tr_moe_combine, false)                                                          \
    X(grouped_gemm, tr_grouped_gemm, true)                                                         \
    X(grouped_wgrad, tr_grouped_wgrad, false)

/*
 * router_fwd, all f32: z_e = gate[e].x, s_e = 1/(1+exp(-z_e)), or with softmax s = softmax(z) over
 * all experts; c_e = s_e + bias_e (selection only).
 * Experts lie in n_group equal groups; a group scores the sum of its two largest c; outside the
 * topk_group best groups c = -inf. The K largest c are chosen; ties go to the
 * lower index; ids are stored ascending. weights = s (/ (sum of the chosen s + 1e-20) when norm)
 * * factor. With replay ids is an input, and weights, scores and all are computed.
 * Source: DeepSeek-V3 2024, section 2.1.2; with softmax Mixtral 2024, section 2.1, which writes its
 * norm as a softmax of the chosen z.
 */
struct tr_router {
    struct tr_view ids;     /* (T, K) i32 = ; in with replay */
    struct tr_view weights; /* (T, K) f32* = */
    struct tr_view scores;  /* (T, K) f32* = s of the chosen, for backward */
    struct tr_view all;     /* (T, E) f32* = s, optional: for backward of softmax without norm */
    struct tr_view x;       /* (T, H) C in */
    struct tr_view gate;    /* (E, H) C or f32* in */
    struct tr_view bias;    /* (E) f32* in optional */
    int64_t n_group;        /* divides E; 1: no groups; else a group has >= 2 experts */
    int64_t topk_group;     /* 1 .. n_group, topk_group * E/n_group >= K */
    float factor;
    bool norm, replay, softmax;
};

/*
 * router_bwd: d = dweights, S = sum of the chosen s. norm: ds_e = factor/(S+1e-20) *
 * (d_e - sum_j s_j d_j/(S+1e-20)), else ds_e = factor*d_e; dz_e = ds_e s_e (1-s_e);
 * dx (+)= sum over the chosen of dz_e gate[e]; dgate[e] += sum over t of dz_e x.
 * softmax: with norm dz_e = ds_e s_e; else all experts have a gradient, the sums are over all, and
 * dz_e = s_e (ds_e - sum_j s_j ds_j), ds_e 0 of those that are not chosen.
 */
struct tr_router_grad {
    struct tr_view dx;       /* (T, H) C or f32* = or += (add) */
    struct tr_view dgate;    /* (E, H) f32* += optional */
    struct tr_view dweights; /* (T, K) f32* in */
    struct tr_view ids;      /* (T, K) i32 in */
    struct tr_view scores;   /* (T, K) f32* in */
    struct tr_view all;      /* (T, E) f32* in, with softmax and without norm */
    struct tr_view gate;     /* (E, H) C or f32* in */
    struct tr_view x;        /* (T, H) C in, with dgate */
    float factor;
    bool norm, add, softmax;
};

/* moe_plan: the permuted row of each slot. A token t >= tokens (device) has no rows; its row_of is
 * -1, as is the row_of of an id outside [0, E). slot_of from offsets[E] on is -1. */
struct tr_moe_plan {
    struct tr_view counts;  /* (E) i32 = */
    struct tr_view offsets; /* (E+1) i32 = */
    struct tr_view row_of;  /* (T, K) i32 = */
    struct tr_view slot_of; /* (R) i32 = , R = T*K */
    struct tr_view ids;     /* (T, K) i32 in, contiguous */
    struct tr_view tokens;  /* (1) i32 in optional: absent means T */
};

/* moe_permute: xp[i] = w * x[slot_of[i] / K], w = weight[slot_of[i]], 1 when absent. Rows with
 * slot -1 are not written. */
struct tr_moe_permute {
    struct tr_view xp;      /* (R, n) C = */
    struct tr_view x;       /* (T, n) C in */
    struct tr_view weight;  /* (T, K) f32* in optional, contiguous */
    struct tr_view slot_of; /* (R) i32 in */
    int64_t K;
    struct tr_rows rows;
};

/* moe_combine: y[t] = add[t] + sum over k ascending of w[t,k] * yp[row_of[t,k]], w 1 when absent,
 * row_of -1 skipped; f32 sum, one rounding. y may be add. Backward of permute and of the
 * unweighted exchange as well. */
struct tr_moe_combine {
    struct tr_view y;      /* (T, n) C or f32* = */
    struct tr_view add;    /* (T, n) type of y in optional */
    struct tr_view yp;     /* (R, n) C in */
    struct tr_view weight; /* (T, K) f32* in optional */
    struct tr_view row_of; /* (T, K) i32 in */
};

/*
 * grouped_gemm: for each expert e in [e0, e1) whose weight is given, over its rows:
 * c = alpha * a * op(w_e) + beta * c; op transposes with trans_b (w (out, in), y = x W^T).
 * Rows of other experts stay as they are. Serves frozen experts, LoRA on experts, forward and dX.
 */
struct tr_grouped_gemm {
    struct tr_view c;                       /* (R, N) C or f32* = */
    struct tr_view a;                       /* (R, D) C in */
    const struct tr_weight *const *weights; /* [E] host, read from e0 to e1 during the call; NULL:
                                               skipped */
    struct tr_view offsets;                 /* (E+1) i32 in */
    int64_t e0, e1;
    bool trans_b;
    float alpha, beta;
};

/* grouped_wgrad: for each e in [e0, e1) with dw[e] given: dw_e = alpha * dy_e^T x_e + beta * dw_e
 * over its rows. */
struct tr_grouped_wgrad {
    const struct tr_view *const *dw; /* [E] host array of (N, D) f32*, borrowed for the call */
    struct tr_view dy;               /* (R, N) C in */
    struct tr_view x;                /* (R, D) C in */
    struct tr_view offsets;          /* (E+1) i32 in */
    int64_t e0, e1;
    float alpha, beta;
};

#endif
