/*
 * P and dS of a tile, for both backward kernels of attention. Internal to trainer/backend/cuda.
 */
#ifndef TR_BACKEND_CUDA_ATTENTION_BWD_H
#define TR_BACKEND_CUDA_ATTENTION_BWD_H

#include "trainer/backend/cuda/attention.h"

/* Query i of the segment. After its end: a query whose P is 0. */
__device__ __forceinline__ struct attention_query
attention_query_of(const struct attention &a, const struct span &s, int head, int64_t i)
{
    if (i >= s.len)
        return {INFINITY, 0};
    return a.queries[head * a.T + s.begin + i];
}

/*
 * Replaces the scores p of a tile, -inf where masked, by P, and d = dO V^T by dS. KEYS: of(column)
 * is the query of a column; otherwise own[0] and own[1] are the queries of a lane's rows.
 */
template <bool KEYS, int N, class F>
__device__ __forceinline__ void attention_gradients(float (&p)[N / 8][4], float (&d)[N / 8][4],
                                                    float scale,
                                                    const struct attention_query (&own)[2], F of)
{
    int lane = (int)(threadIdx.x % 32);

#pragma unroll
    for (int n = 0; n < N / 8; n++) {
        struct attention_query q[2] = {own[0], own[1]};

        if constexpr (KEYS) {
            q[0] = of(n * 8 + lane % 4 * 2);
            q[1] = of(n * 8 + lane % 4 * 2 + 1);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const struct attention_query &x = q[KEYS ? e % 2 : e / 2];

            p[n][e] = ptx_exp2(fmaf(p[n][e], scale, -x.lse));
            d[n][e] = p[n][e] * (d[n][e] - x.delta);
        }
    }
}

#endif
