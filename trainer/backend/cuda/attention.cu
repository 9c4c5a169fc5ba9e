/*
 * attention_fwd: O = softmax(scale Q K^T) V per segment and head, causal or not, and lse ("=").
 * FlashAttention: a block owns 128 queries (64 in f32) of one segment and head, a warp 16 of them.
 * cp.async loads the keys and values in tiles. A warp keeps m, l and the accumulators of its rows
 * in registers, and rescales them when the maximum grows. There is no T x T buffer, and V has a
 * width of its own. The device finds the segments; the longest causal rows begin first.
 *
 * Moves Q and O once, K and V once per 128 queries (from L2). A head takes 2*T*len*(dq+dv)
 * operations, half of them when causal. The limit is the matrix rate. On sm_90a attention_sm90.cu
 * takes most calls.
 * Source: Dao 2023 (FlashAttention-2), algorithm 1.
 */
#include "trainer/backend/cuda/attention.h"

template <class S, class T> struct forward_room {
    static constexpr int KEYS = sizeof(T) == 2 ? 64 : 32;
    static constexpr int K = KEYS * S::LDQ, V = KEYS * S::LDV, Q = S::ROWS * S::LDQ;
    static constexpr size_t BYTES = (size_t)(Q + S::STAGES * (K + V)) * sizeof(T);
};

template <class T, class S>
__global__ void __launch_bounds__(S::THREADS)
    attention_fwd_kernel(const __grid_constant__ struct attention a)
{
    typedef forward_room<S, T> R;
    constexpr int KEYS = R::KEYS;
    DEV_DYNAMIC(T, room);
    T *ring = room + R::Q;
    int me = (int)threadIdx.x, head = (int)blockIdx.y, kv = head / (a.nh / a.nkv);
    float sum[S::DV / 8][4] = {}, m[2] = {-INFINITY, -INFINITY}, l[2] = {0, 0};
    struct span s;

    if (!attention_span(&s, a, S::ROWS))
        return;

    int64_t row = s.first + me / 32 * 16, last = s.first + S::ROWS;
    int64_t end = a.causal && last < s.len ? last : s.len, steps = (end + KEYS - 1) / KEYS;
    int64_t begin = a.window > 0 && s.first >= a.window ? (s.first - a.window + 1) / KEYS : 0;
    tile_source<T> K = attention_source<T>(a.K, s.begin, s.len, kv, a.dq);
    tile_source<T> V = attention_source<T>(a.V, s.begin, s.len, kv, a.dv);
    auto fetch = [&](int64_t step) {
        T *k = ring + step % S::STAGES * (R::K + R::V);

        tile_fetch<KEYS, S::DQ, S::THREADS>(k, S::LDQ, K, step * KEYS, 0, me);
        tile_fetch<KEYS, S::DV, S::THREADS>(k + R::K, S::LDV, V, step * KEYS, 0, me);
    };

    tile_fetch<S::ROWS, S::DQ, S::THREADS>(
        room, S::LDQ, attention_source<T>(a.Q, s.begin, s.len, head, a.dq), s.first, 0, me);
    if constexpr (S::STAGES == 2)
        fetch(begin);
    ptx_copy_commit();
    for (int64_t step = begin; step < steps; step++) {
        const T *k = ring + step % S::STAGES * (R::K + R::V);
        float p[KEYS / 8][4] = {}, keep[2];

        if constexpr (S::STAGES == 1) {
            __syncthreads();
            fetch(step);
            ptx_copy_commit();
        }
        ptx_copy_wait<0>();
        __syncthreads();
        if (S::STAGES == 2 && step + 1 < steps)
            fetch(step + 1);
        ptx_copy_commit();
        if (row >= s.len || (a.causal && step * KEYS > row + 15))
            continue;
        attention_scores<KEYS / 16>(p, room + me / 32 * 16 * S::LDQ, k, S::LDQ, a.dq);
        if (attention_partial<false, KEYS>(a, row, step * KEYS, s.len))
            attention_mask<false>(p, a, row, step * KEYS, s.len);
        attention_softmax(p, m, l, keep, a.scale * ATTENTION_LOG2E);
#pragma unroll
        for (int n = 0; n < S::DV / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[n][e] *= keep[e / 2];
        attention_add<KEYS / 16, S::DV>(sum, p, k + R::K, S::LDV, a.dv);
    }
    if (row >= s.len)
        return;
    attention_end(a, s, head, row, m, l);
    attention_put<T, S::DV>(a.O, sum, s, row, (int64_t)head * a.dv, a.dv, l);
}

static struct heads heads_of(const struct tr_view &v)
{
    return {v.p, v.ld, tile_wide(v, v.shape[2])};
}

enum fr_rc attention_args(struct attention *out, const struct tr_attention *a, struct fr_err *err)
{
    if (a->Q.shape[2] > 192 || a->V.shape[2] > 128)
        return fr_fail(err, FR_UNSUPPORTED, "heads of %lld and %lld, at most 192 and 128",
                       (long long)a->Q.shape[2], (long long)a->V.shape[2]);
    *out = {};
    out->Q = heads_of(a->Q);
    out->K = heads_of(a->K);
    out->V = heads_of(a->V);
    out->O = heads_of(a->O);
    out->dQ = heads_of(a->dQ);
    out->dK = heads_of(a->dK);
    out->dV = heads_of(a->dV);
    out->dO = heads_of(a->dO);
    out->lse = static_cast<float *>(a->lse.p);
    out->lse_ld = a->lse.ld;
    out->T = a->Q.shape[0];
    out->offsets = static_cast<const int32_t *>(a->offsets.p);
    out->segments = (int)a->offsets.shape[0] - 1;
    out->nh = (int)a->Q.shape[1];
    out->nkv = (int)a->K.shape[1];
    out->dq = (int)a->Q.shape[2];
    out->dv = (int)a->V.shape[2];
    out->scale = a->scale;
    out->causal = a->causal;
    out->window = a->window;
    return FR_OK;
}

enum fr_rc tr_cuda_attention_fwd(struct cuda *cuda, struct tr_queue *q,
                                 const struct tr_attention *a, struct fr_err *err)
{
    struct attention x;
    enum fr_rc rc = attention_args(&x, a, err);

    if (rc != FR_OK || x.T == 0)
        return rc;
    if (attention_sm90_takes(cuda, a->Q.dtype, x))
        return attention_sm90(q, a, x, err);
    return attention_sized(a->Q.dtype, x, [&](auto t, auto dq, auto dv) {
        using T = decltype(t);
        using S = attention_shape<T, decltype(dq)::value, decltype(dv)::value>;
        struct cuda_grid g = attention_grid(x, S::ROWS, x.nh, S::THREADS);

        g.shared = forward_room<S, T>::BYTES;
        return cuda_launch(q, g, err, attention_fwd_kernel<T, S>, x);
    });
}
