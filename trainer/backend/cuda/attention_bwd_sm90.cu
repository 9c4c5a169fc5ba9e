/*
 * attention_bwd for 16-bit types on sm_90a: as attention_bwd.cu, one kernel for both passes, by
 * wgmma on tiles that TMA loads.
 *
 * A block owns 128 rows of one segment and head: keys (x is K, x2 is V) or queries (x is Q, x2 is
 * dO). The producer thread loads x and x2 once, then tiles y and y2 of the other side into a
 * pipeline. If the other side is queries, the next warp writes their lse and delta into the stage.
 * A math warpgroup owns 64 rows. It computes the scores x y^T and x2 y2^T, and from them P and dS,
 * which stay in registers as left operands of sum2 += P y2 (keys alone) and sum += dS y. These
 * products overlap the next tile's scores. A tile of the other side has 32 rows for keys, whose two
 * accumulators take most registers, and 64 for queries.
 *
 * Moves Q, K, V, dO twice and the results once, plus the other side per 128 owned rows (from L2). A
 * head takes 2*T*len*(4*dq + 3*dv) operations, half of them when causal: 2*dq + 2*dv for keys, 2*dq
 * + dv for queries. 3*dq + 2*dv would suffice if scores were computed once. The limit is the matrix
 * rate.
 * Source: Dao 2023 (FlashAttention-2), algorithm 2, with dQ as a pass of its own.
 */
#include "trainer/backend/cuda/attention_bwd.h"
#include "trainer/backend/cuda/attention_sm90.h"

template <int DQ_, int DV_, bool KEYS> struct backward_shape {
    static constexpr int DQ = DQ_, DV = DV_, OTHERS = KEYS ? 32 : 64, STAGES = KEYS ? 4 : 3;
    static constexpr int X = sm90_bytes<SM90_OWNED, DQ>, X2 = sm90_bytes<SM90_OWNED, DV>;
    static constexpr int Y = sm90_bytes<OTHERS, DQ>, Y2 = sm90_bytes<OTHERS, DV>;
    static constexpr size_t BYTES = X + X2 + STAGES * (Y + Y2);
};

struct backward_maps {
    CUtensorMap x, x2, y, y2;
};

/* The barriers of the pipeline, and the queries of its stages. */
template <class S> struct backward_ring {
    uint64_t owned, full[S::STAGES], empty[S::STAGES];
    struct attention_query of[S::STAGES][S::OTHERS];
};

/* The tiles of a block's loop: of one head, or of each q head of a kv head in turn. */
struct schedule {
    int64_t begin, each, steps; /* the first tile, the tiles of a head, all tiles */
    int head, heads;            /* the first head of the other side, and how many */

    __device__ __forceinline__ int head_of(int64_t step) const
    {
        return head + (int)(step / each);
    }
    __device__ __forceinline__ int64_t tile_of(int64_t step) const
    {
        return begin + step % each;
    }
};

template <class S, bool KEYS>
__device__ __forceinline__ struct schedule schedule_of(const struct attention &a,
                                                       const struct span &s)
{
    int group = a.nh / a.nkv, own = (int)blockIdx.y;
    int64_t last = s.first + SM90_OWNED, begin = KEYS && a.causal ? s.first / S::OTHERS : 0;
    int64_t end = !KEYS && a.causal && last < s.len ? last : s.len;
    int64_t each = (end + S::OTHERS - 1) / S::OTHERS - begin;

    return {begin, each, each * (KEYS ? group : 1), KEYS ? own * group : own / group,
            KEYS ? group : 1};
}

template <class S>
__device__ void produce(unsigned char *room, struct backward_ring<S> *g,
                        const struct backward_maps &maps, const struct span &s,
                        const struct schedule &c)
{
    unsigned char *ring = room + S::X + S::X2;
    int own = (int)blockIdx.y;

    ptx_mbar_expect(&g->owned, S::X + S::X2);
    sm90_load<SM90_OWNED, S::DQ>(room, &maps.x, own, s.begin + s.first, &g->owned);
    sm90_load<SM90_OWNED, S::DV>(room + S::X, &maps.x2, own, s.begin + s.first, &g->owned);
    for (int64_t step = 0; step < c.steps; step++) {
        sm90_turn<S::STAGES> t(step);
        unsigned char *y = ring + t.stage * (S::Y + S::Y2);
        int64_t token = s.begin + c.tile_of(step) * S::OTHERS;

        ptx_mbar_wait(&g->empty[t.stage], t.parity ^ 1);
        ptx_mbar_expect(&g->full[t.stage], S::Y + S::Y2);
        sm90_load<S::OTHERS, S::DQ>(y, &maps.y, c.head_of(step), token, &g->full[t.stage]);
        sm90_load<S::OTHERS, S::DV>(y + S::Y, &maps.y2, c.head_of(step), token, &g->full[t.stage]);
    }
}

/* One warp writes the queries of a tile into the stage, a lane a query, with few registers. of: the
 * segment's len queries; those of the next head follow after `ld`. */
template <class S>
__device__ void produce_queries(struct backward_ring<S> *g, const struct attention_query *of,
                                int64_t ld, int len, int first, int heads)
{
    int lane = (int)(threadIdx.x % 32);
    uint32_t step = 0;

    static_assert(S::OTHERS == 32, "a tile has other than 32 queries");
#pragma unroll 1
    for (; heads > 0; heads--, of += ld)
#pragma unroll 1
        for (int i = first + lane; i < len + lane; i += S::OTHERS, step++) {
            struct attention_query x = {INFINITY, 0};

            ptx_mbar_wait(&g->empty[step % S::STAGES], (step / S::STAGES % 2) ^ 1);
            if (i < len)
                x = of[i];
            g->of[step % S::STAGES][lane] = x;
            ptx_mbar_arrive(&g->full[step % S::STAGES]);
        }
}

/* Pins the accumulators and left operands of the second pair of products. */
template <bool KEYS, class T, int D, int D2, int N>
__device__ __forceinline__ void pin_sums(float (&sum)[D][4], float (&sum2)[D2][4],
                                         tile_a<T> (&fp)[N], tile_a<T> (&fd)[N])
{
    sm90_pin(sum);
    sm90_pin(fd);
    if constexpr (KEYS) {
        sm90_pin(sum2);
        sm90_pin(fp);
    }
}

/* A math warpgroup: the 64 rows of warpgroup `mine`. */
template <class T, class S, bool KEYS>
__device__ void collect(const unsigned char *room, struct backward_ring<S> *g,
                        const struct attention &a, const struct span &s, const struct schedule &c,
                        int mine)
{
    constexpr int N = S::OTHERS;
    const unsigned char *ring = room + S::X + S::X2;
    uint64_t x = sm90_rows(room + mine * 64 * SM90_LINE), x2 = ptx_matrix_at(x, S::X);
    uint64_t rows = sm90_rows(ring), columns = sm90_columns<N>(ring); /* of the first stage */
    int64_t row = s.first + threadIdx.x / 32 * 16;
    float sum[S::DQ / 8][4] = {}, sum2[KEYS ? S::DV / 8 : 1][4] = {};
    tile_a<T> fp[N / 16], fd[N / 16]; /* in use until the next tile's wait */
    const float scale[2] = {a.scale, a.scale}, one[2] = {1, 1};
    struct attention_query of[2] = {};
    bool elected = threadIdx.x % 32 == 0;
    int own = (int)blockIdx.y, last = 0; /* the stage that sum and sum2 read */
    int begin = (int)c.begin * N, end = begin + (int)c.each * N, col = begin;

    if constexpr (!KEYS)
        for (int h = 0; h < 2; h++)
            of[h] = attention_query_of(a, s, own, row + threadIdx.x % 32 / 4 + h * 8);
    ptx_mbar_wait(&g->owned, 0);
    for (int64_t step = 0; step < c.steps; step++) {
        sm90_turn<S::STAGES> t(step);
        uint64_t y = ptx_matrix_at(rows, t.stage * (S::Y + S::Y2));
        uint64_t by_y = ptx_matrix_at(columns, t.stage * (S::Y + S::Y2));
        float p[N / 8][4], d[N / 8][4];

        ptx_mbar_wait(&g->full[t.stage], t.parity);
        sm90_pin(p);
        sm90_pin(d);
        ptx_wgmma_fence();
        sm90_scores<T, N, S::DQ>(p, x, y);
        sm90_scores<T, N, S::DV>(d, x2, ptx_matrix_at(y, S::Y));
        ptx_wgmma_commit();
        ptx_wgmma_wait<0>();
        sm90_pin(p);
        sm90_pin(d);
        pin_sums<KEYS>(sum, sum2, fp, fd);
        __syncwarp(); /* all lanes have read the last tile's queries */
        if (elected && step > 0)
            ptx_mbar_arrive(&g->empty[last]);
        if (attention_partial<KEYS, N>(a, row, col, s.len))
            attention_mask<KEYS>(p, a, row, col, s.len);
        attention_gradients<KEYS, N>(p, d, a.scale * ATTENTION_LOG2E, of,
                                     [&](int column) { return g->of[t.stage][column]; });
        sm90_take<T, N>(fd, d);
        if constexpr (KEYS)
            sm90_take<T, N>(fp, p);
        pin_sums<KEYS>(sum, sum2, fp, fd);
        ptx_wgmma_fence();
        if constexpr (KEYS)
            sm90_add<T, N, S::DV>(sum2, fp, ptx_matrix_at(by_y, S::Y));
        sm90_add<T, N, S::DQ>(sum, fd, by_y);
        ptx_wgmma_commit();
        last = t.stage;
        col = col + N < end ? col + N : begin;
    }
    ptx_wgmma_wait<0>();
    pin_sums<KEYS>(sum, sum2, fp, fd);
    if (row >= s.len)
        return;
    attention_put<T, S::DQ>(KEYS ? a.dK : a.dQ, sum, s, row, (int64_t)own * a.dq, a.dq, scale);
    if constexpr (KEYS)
        attention_put<T, S::DV>(a.dV, sum2, s, row, (int64_t)own * a.dv, a.dv, one);
}

template <class T, class S, bool KEYS>
__global__ void __launch_bounds__(SM90_THREADS)
    attention_bwd_sm90_kernel(const __grid_constant__ struct attention a,
                              const __grid_constant__ struct backward_maps maps)
{
    DEV_DYNAMIC(unsigned char, room);
    DEV_SHARED(struct backward_ring<S>, barriers, [1]);
    /* Smaller accumulators fit into the registers that a thread starts with. */
    constexpr bool MANY = S::DQ > 64;
    int mine = sm90_group();
    struct backward_ring<S> *g = barriers;
    struct span s;

    if (!attention_span(&s, a, SM90_OWNED))
        return;
    struct schedule c = schedule_of<S, KEYS>(a, s);

    if (threadIdx.x == 0) {
        ptx_mbar_init(&g->owned, 1);
        for (int i = 0; i < S::STAGES; i++) {
            ptx_mbar_init(&g->full[i], KEYS ? 1 + 32 : 1);
            ptx_mbar_init(&g->empty[i], SM90_WARPS);
        }
        ptx_mbar_init_fence();
    }
    __syncthreads();
    if (mine == 2) {
        if constexpr (MANY)
            ptx_regs_give<24>();
        if (threadIdx.x == 2 * SM90_GROUP)
            produce<S>(room, g, maps, s, c);
        if constexpr (KEYS)
            if (threadIdx.x / 32 == 2 * SM90_GROUP / 32 + 1)
                produce_queries<S>(g, a.queries + c.head * a.T + s.begin, a.T, (int)s.len,
                                   (int)c.begin * S::OTHERS, c.heads);
    } else {
        if constexpr (MANY)
            ptx_regs_take<240>();
        collect<T, S, KEYS>(room, g, a, s, c, mine);
    }
}

template <class T, int DQ, int DV, bool KEYS>
static enum fr_rc pass(struct tr_queue *q, const struct tr_attention *a, const struct attention &x,
                       struct fr_err *err)
{
    typedef backward_shape<DQ, DV, KEYS> S;
    struct cuda_grid g = attention_grid(x, SM90_OWNED, KEYS ? x.nkv : x.nh, SM90_THREADS);
    struct backward_maps m = {};
    enum fr_rc rc = sm90_map(&m.x, KEYS ? &a->K : &a->Q, SM90_OWNED, err);

    if (rc == FR_OK)
        rc = sm90_map(&m.x2, KEYS ? &a->V : &a->dO, SM90_OWNED, err);
    if (rc == FR_OK)
        rc = sm90_map(&m.y, KEYS ? &a->Q : &a->K, S::OTHERS, err);
    if (rc == FR_OK)
        rc = sm90_map(&m.y2, KEYS ? &a->dO : &a->V, S::OTHERS, err);
    g.shared = S::BYTES;
    return rc != FR_OK ? rc : cuda_launch(q, g, err, attention_bwd_sm90_kernel<T, S, KEYS>, x, m);
}

enum fr_rc attention_bwd_sm90(struct tr_queue *q, const struct tr_attention *a,
                              const struct attention &x, struct fr_err *err)
{
    return attention_sized(a->Q.dtype, x, [&](auto t, auto dq, auto dv) {
        using T = decltype(t);
        constexpr int DQ = decltype(dq)::value, DV = decltype(dv)::value;

        if constexpr (sizeof(T) == 2) {
            enum fr_rc rc = pass<T, DQ, DV, true>(q, a, x, err);

            return rc == FR_OK ? pass<T, DQ, DV, false>(q, a, x, err) : rc;
        }
        return fr_fail(err, FR_BUG, "attention in f32 by wgmma");
    });
}
