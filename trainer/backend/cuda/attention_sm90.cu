/*
 * attention_fwd for 16-bit types on sm_90a: as attention.cu, by wgmma on tiles that TMA loads.
 *
 * A block owns 128 queries of one segment and head. The producer thread loads Q once, then 128 rows
 * of K and of V at a time into two pipelines of two stages. S = Q K^T; the probabilities stay in
 * registers as the left operand of P V. A math warpgroup issues the next tile's S and this tile's P
 * V together, so that the softmax of the next tile overlaps the product of this one. The products
 * of the other math warpgroup fill the rest of the tensor cores' time.
 *
 * Moves Q and O once, K and V once per 128 queries (from L2). A head takes 2*T*len*(dq+dv)
 * operations, half of them when causal. The limit is the matrix rate.
 * Source: Dao 2023 (FlashAttention-2), algorithm 1; Shah et al. 2024 (FlashAttention-3), section 3:
 * roles of warpgroups.
 */
#include "trainer/backend/cuda/attention_sm90.h"

enum { KEYS = 128, STAGES = 2 };

template <int DQ_, int DV_> struct forward_shape {
    static constexpr int DQ = DQ_, DV = DV_;
    static constexpr int Q = sm90_bytes<SM90_OWNED, DQ>, K = sm90_bytes<KEYS, DQ>;
    static constexpr int V = sm90_bytes<KEYS, DV>;
    static constexpr size_t BYTES = Q + STAGES * (K + V);
};

struct forward_maps {
    CUtensorMap q, k, v;
};

/* Barriers of the pipelines. full: the tile has arrived. empty: all math warps have read it. */
struct forward_barriers {
    uint64_t q, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
};

template <class S>
__device__ void produce(unsigned char *room, struct forward_barriers *g,
                        const struct forward_maps &maps, const struct span &s, int head, int kv,
                        int64_t steps)
{
    unsigned char *k = room + S::Q, *v = k + STAGES * S::K;

    ptx_mbar_expect(&g->q, S::Q);
    sm90_load<SM90_OWNED, S::DQ>(room, &maps.q, head, s.begin + s.first, &g->q);
    for (int64_t step = 0; step < steps; step++) {
        sm90_turn<STAGES> t(step);
        int64_t token = s.begin + step * KEYS;

        ptx_mbar_wait(&g->k_empty[t.stage], t.parity ^ 1);
        ptx_mbar_expect(&g->k_full[t.stage], S::K);
        sm90_load<KEYS, S::DQ>(k + t.stage * S::K, &maps.k, kv, token, &g->k_full[t.stage]);
        ptx_mbar_wait(&g->v_empty[t.stage], t.parity ^ 1);
        ptx_mbar_expect(&g->v_full[t.stage], S::V);
        sm90_load<KEYS, S::DV>(v + t.stage * S::V, &maps.v, kv, token, &g->v_full[t.stage]);
    }
}

/* A math warpgroup: the 64 queries of warpgroup `mine`. */
template <class T, class S>
__device__ void consume(const unsigned char *room, struct forward_barriers *g,
                        const struct attention &a, const struct span &s, int head, int mine,
                        int64_t steps)
{
    uint64_t q = sm90_rows(room + mine * 64 * SM90_LINE), k = sm90_rows(room + S::Q);
    uint64_t v = sm90_columns<KEYS>(room + S::Q + STAGES * S::K);
    int64_t row = s.first + threadIdx.x / 32 * 16;
    bool elected = threadIdx.x % 32 == 0;
    float sum[S::DV / 8][4] = {}, m[2] = {-INFINITY, -INFINITY}, l[2] = {0, 0};
    float p[KEYS / 8][4], keep[2], scale = a.scale * ATTENTION_LOG2E;
    tile_a<T> fp[KEYS / 16];
    auto score = [&](int64_t step) {
        sm90_turn<STAGES> t(step);

        ptx_mbar_wait(&g->k_full[t.stage], t.parity);
        sm90_pin(p);
        ptx_wgmma_fence();
        sm90_scores<T, KEYS, S::DQ>(p, q, ptx_matrix_at(k, t.stage * S::K));
        ptx_wgmma_commit();
    };
    auto soften = [&](int64_t step) {
        sm90_pin(p);
        if (elected)
            ptx_mbar_arrive(&g->k_empty[sm90_turn<STAGES>(step).stage]);
        if (attention_partial<false, KEYS>(a, row, step * KEYS, s.len))
            attention_mask<false>(p, a, row, step * KEYS, s.len);
        attention_softmax(p, m, l, keep, scale);
    };
    auto add = [&](int64_t step) {
        sm90_turn<STAGES> t(step);

        ptx_mbar_wait(&g->v_full[t.stage], t.parity);
        sm90_pin(sum);
        sm90_pin(fp);
        ptx_wgmma_fence();
        sm90_add<T, KEYS, S::DV>(sum, fp, ptx_matrix_at(v, t.stage * S::V));
        ptx_wgmma_commit();
    };

    ptx_mbar_wait(&g->q, 0);
    score(0);
    ptx_wgmma_wait<0>();
    soften(0);
    sm90_take<T, KEYS>(fp, p);
    for (int64_t step = 1; step < steps; step++) {
        score(step);
        add(step - 1);
        ptx_wgmma_wait<1>();
        soften(step);
        ptx_wgmma_wait<0>();
        sm90_pin(sum);
        sm90_pin(fp);
        if (elected)
            ptx_mbar_arrive(&g->v_empty[sm90_turn<STAGES>(step - 1).stage]);
#pragma unroll
        for (int n = 0; n < S::DV / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[n][e] *= keep[e / 2];
        sm90_take<T, KEYS>(fp, p);
    }
    add(steps - 1);
    ptx_wgmma_wait<0>();
    sm90_pin(sum);
    sm90_pin(fp);
    if (row >= s.len)
        return;
    attention_end(a, s, head, row, m, l);
    attention_put<T, S::DV>(a.O, sum, s, row, (int64_t)head * a.dv, a.dv, l);
}

template <class T, class S>
__global__ void __launch_bounds__(SM90_THREADS)
    attention_sm90_kernel(const __grid_constant__ struct attention a,
                          const __grid_constant__ struct forward_maps maps)
{
    DEV_DYNAMIC(unsigned char, room);
    DEV_SHARED(struct forward_barriers, barriers, [1]);
    int mine = sm90_group(), head = (int)blockIdx.y;
    struct forward_barriers *g = barriers;
    struct span s;

    if (!attention_span(&s, a, SM90_OWNED))
        return;

    int64_t last = s.first + SM90_OWNED, end = a.causal && last < s.len ? last : s.len;
    int64_t steps = (end + KEYS - 1) / KEYS;

    if (threadIdx.x == 0) {
        ptx_mbar_init(&g->q, 1);
        for (int i = 0; i < STAGES; i++) {
            ptx_mbar_init(&g->k_full[i], 1);
            ptx_mbar_init(&g->v_full[i], 1);
            ptx_mbar_init(&g->k_empty[i], SM90_WARPS);
            ptx_mbar_init(&g->v_empty[i], SM90_WARPS);
        }
        ptx_mbar_init_fence();
    }
    __syncthreads();
    if (mine == 2) {
        ptx_regs_give<24>();
        if (threadIdx.x == 2 * SM90_GROUP)
            produce<S>(room, g, maps, s, head, head / (a.nh / a.nkv), steps);
    } else {
        ptx_regs_take<240>();
        consume<T, S>(room, g, a, s, head, mine, steps);
    }
}

bool attention_sm90_takes(const struct cuda *cuda, enum tr_dtype type, const struct attention &x)
{
    return cuda->sm >= 90 && type != TR_F32 && x.window == 0 && x.Q.wide && x.K.wide && x.V.wide &&
           (x.dO.p == NULL || x.dO.wide);
}

enum fr_rc attention_sm90(struct tr_queue *q, const struct tr_attention *a,
                          const struct attention &x, struct fr_err *err)
{
    struct forward_maps maps = {};
    enum fr_rc rc = sm90_map(&maps.q, &a->Q, SM90_OWNED, err);

    if (rc == FR_OK)
        rc = sm90_map(&maps.k, &a->K, KEYS, err);
    if (rc == FR_OK)
        rc = sm90_map(&maps.v, &a->V, KEYS, err);
    if (rc != FR_OK)
        return rc;
    return attention_sized(a->Q.dtype, x, [&](auto t, auto dq, auto dv) {
        using T = decltype(t);
        struct cuda_grid g = attention_grid(x, SM90_OWNED, x.nh, SM90_THREADS);

        if constexpr (sizeof(T) == 2) {
            using S = forward_shape<decltype(dq)::value, decltype(dv)::value>;

            g.shared = S::BYTES;
            return cuda_launch(q, g, err, attention_sm90_kernel<T, S>, x, maps);
        }
        return fr_fail(err, FR_BUG, "attention in f32 by wgmma");
    });
}
