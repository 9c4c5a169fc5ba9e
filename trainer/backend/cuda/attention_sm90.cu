/*
 * attention_fwd for 16-bit types on sm_90a: as attention.cu, with products of warpgroups (wgmma) on
 * tiles that the copy engine brings.
 *
 * A block owns 128 queries of one segment and head and has three warpgroups. The last one's first
 * thread asks for Q once, then for 128 rows of K and of V at a time, in two rings of two stages;
 * the other two own 64 queries each: S = Q K^T, the probabilities stay in registers as the left
 * operand of P V. The product of one tile's P V runs beside that of the next tile's S; while one
 * warpgroup computes exponentials, the other one's products keep the tensor cores busy. Columns
 * beyond a head's size read as zeros; rows of a tile beyond the segment's end are the next
 * segment's and are masked.
 *
 * Moves Q and O once, K and V once per 128 queries (by L2); 2*T*len*(dq+dv) operations a head, half
 * of them when causal; limit: the matrix rate.
 * Source: Dao 2023 (FlashAttention-2), algorithm 1; Shah et al. 2024 (FlashAttention-3), section 3:
 * roles of warpgroups.
 */
#include "trainer/backend/cuda/attention.h"

enum {
    ROWS = 128, /* queries of a block, keys of a tile */
    LINE = 128, /* bytes of 64 columns: a tile lies in boxes of (128, 64) */
    BOX = ROWS * LINE,
    GROUP = 128, /* threads of a warpgroup */
    THREADS = 3 * GROUP,
    WARPS = 2 * GROUP / 32, /* that multiply */
    STAGES = 2
};

template <int DQ_, int DV_> struct shape {
    static constexpr int DQ = DQ_, DV = DV_;
    static constexpr int Q = DQ / 64 * BOX, V = DV / 64 * BOX; /* bytes of a tile; K is as Q */
    static constexpr size_t BYTES = Q + STAGES * (Q + V);
};

struct maps {
    CUtensorMap q, k, v;
};

/* Barriers of the rings: a tile is there; it was read by all. */
struct gates {
    uint64_t q, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
};

/* Stage and parity of the step's turn: both sides count alike. */
__device__ __forceinline__ int stage_of(int64_t step)
{
    return (int)(step % STAGES);
}

__device__ __forceinline__ uint32_t turn_of(int64_t step)
{
    return (uint32_t)(step / STAGES % 2);
}

/* Tokens from `token` on of one head: (128, BYTES/BOX * 64). */
template <int BYTES>
__device__ __forceinline__ void load_tile(unsigned char *to, const CUtensorMap *map, int head,
                                          int64_t token, uint64_t *bar)
{
    ptx_mbar_expect(bar, BYTES);
#pragma unroll
    for (int i = 0; i < BYTES / BOX; i++)
        ptx_bulk_load3(to + i * BOX, map, i * 64, head, (int)token, bar);
}

template <class S>
__device__ void bring(unsigned char *room, struct gates *g, const struct maps &maps,
                      const struct span &s, int head, int kv, int64_t steps)
{
    unsigned char *k = room + S::Q, *v = k + STAGES * S::Q;

    load_tile<S::Q>(room, &maps.q, head, s.begin + s.first, &g->q);
    for (int64_t step = 0; step < steps; step++) {
        int at = stage_of(step);
        uint32_t free = turn_of(step) ^ 1; /* the stages of the first turn are free */

        ptx_mbar_wait(&g->k_empty[at], free);
        load_tile<S::Q>(k + at * S::Q, &maps.k, kv, s.begin + step * ROWS, &g->k_full[at]);
        ptx_mbar_wait(&g->v_empty[at], free);
        load_tile<S::V>(v + at * S::V, &maps.v, kv, s.begin + step * ROWS, &g->v_full[at]);
    }
}

/* p (64, 128) = q (64, DQ) k^T, put into the queue as a group. */
template <class T, class S>
__device__ __forceinline__ void scores(float (&p)[ROWS / 8][4], const unsigned char *q,
                                       const unsigned char *k)
{
    float(&d)[ROWS / 2] = reinterpret_cast<float(&)[ROWS / 2]>(p);

    ptx_wgmma_fence();
#pragma unroll
    for (int i = 0; i < S::DQ / 16; i++) {
        int at = i / 4 * BOX + i % 4 * 32;

        ptx_wgmma<0, 0>(d, ptx_matrix(q + at, 16, 8 * LINE, PTX_SWIZZLE_128),
                        ptx_matrix(k + at, 16, 8 * LINE, PTX_SWIZZLE_128), i > 0, T());
    }
    ptx_wgmma_commit();
}

/* sum (64, DV) += p (64, 128) v (128, DV), put into the queue as a group. */
template <class T, class S>
__device__ __forceinline__ void add(float (&sum)[S::DV / 8][4], const float (&p)[ROWS / 8][4],
                                    const unsigned char *v)
{
    float(&d)[S::DV / 2] = reinterpret_cast<float(&)[S::DV / 2]>(sum);
    tile_a<T> a[ROWS / 16];

#pragma unroll
    for (int i = 0; i < ROWS / 16; i++)
        tile_take<T>(a[i], p[2 * i], p[2 * i + 1]);
    ptx_wgmma_fence();
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++)
        ptx_wgmma_a<1>(d, a[i].r[0], ptx_matrix(v + i * 16 * LINE, BOX, 8 * LINE, PTX_SWIZZLE_128),
                       true, T());
    ptx_wgmma_commit();
}

/* The 64 queries of warpgroup `mine`. */
template <class T, class S>
__device__ void attend(const unsigned char *room, struct gates *g, const struct attention &a,
                       const struct span &s, int head, int mine, int64_t steps)
{
    const unsigned char *q = room + mine * 64 * LINE, *k = room + S::Q, *v = k + STAGES * S::Q;
    int64_t row = s.first + mine * 64 + threadIdx.x % GROUP / 32 * 16;
    bool speaks = threadIdx.x % 32 == 0;
    float sum[S::DV / 8][4] = {}, m[2] = {-INFINITY, -INFINITY}, l[2] = {0, 0};

    ptx_mbar_wait(&g->q, 0);
    for (int64_t step = 0; step < steps; step++) {
        int at = stage_of(step);
        float p[ROWS / 8][4], keep[2];

        ptx_mbar_wait(&g->k_full[at], turn_of(step));
        scores<T, S>(p, q, k + at * S::Q);
        ptx_wgmma_wait<0>();
        if (speaks) {
            ptx_mbar_arrive(&g->k_empty[at]);
            if (step > 0)
                ptx_mbar_arrive(&g->v_empty[stage_of(step - 1)]);
        }
        if ((step + 1) * ROWS > s.len || (a.causal && (step + 1) * ROWS > row + 1))
            attention_mask(p, row, step * ROWS, s.len, a.causal);
        attention_soften(p, m, l, keep, a.scale * 1.44269504089f);
#pragma unroll
        for (int n = 0; n < S::DV / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[n][e] *= keep[e / 2];
        ptx_mbar_wait(&g->v_full[at], turn_of(step));
        add<T, S>(sum, p, v + at * S::V);
    }
    ptx_wgmma_wait<0>();
    if (row >= s.len)
        return;
    attention_end(a, s, head, row, m, l);
    attention_put<T, S::DV>(a.O, sum, s, row, (int64_t)head * a.dv, a.dv, l);
}

template <class T, class S>
__global__ void __launch_bounds__(THREADS)
    attention_sm90_kernel(const __grid_constant__ struct attention a,
                          const __grid_constant__ struct maps maps)
{
    DEV_DYNAMIC(unsigned char, room);
    DEV_SHARED(struct gates, gates, [1]);
    int mine = (int)(threadIdx.x / GROUP), head = (int)blockIdx.y, kv = head / (a.nh / a.nkv);
    struct gates *g = gates;
    struct span s;

    if (!attention_span(&s, a, ROWS))
        return;

    int64_t last = s.first + ROWS, end = a.causal && last < s.len ? last : s.len;
    int64_t steps = (end + ROWS - 1) / ROWS;

    if (threadIdx.x == 0) {
        ptx_mbar_init(&g->q, 1);
        for (int i = 0; i < STAGES; i++) {
            ptx_mbar_init(&g->k_full[i], 1);
            ptx_mbar_init(&g->v_full[i], 1);
            ptx_mbar_init(&g->k_empty[i], WARPS);
            ptx_mbar_init(&g->v_empty[i], WARPS);
        }
        ptx_mbar_init_fence();
    }
    __syncthreads();
    if (mine == 2) {
        ptx_regs_give<40>();
        if (threadIdx.x == 2 * GROUP)
            bring<S>(room, g, maps, s, head, kv, steps);
    } else {
        ptx_regs_take<232>();
        attend<T, S>(room, g, a, s, head, mine, steps);
    }
}

template <class T, class S>
static enum fr_rc launch(struct tr_queue *q, const struct tr_attention *a,
                         const struct attention &x, struct fr_err *err)
{
    const uint32_t box[3] = {64, 1, ROWS};
    struct cuda_grid g = attention_grid(x, ROWS, x.nh, THREADS);
    struct maps maps = {};
    enum fr_rc rc = cuda_map(&maps.q, &a->Q, box, PTX_SWIZZLE_128, err);

    if (rc == FR_OK)
        rc = cuda_map(&maps.k, &a->K, box, PTX_SWIZZLE_128, err);
    if (rc == FR_OK)
        rc = cuda_map(&maps.v, &a->V, box, PTX_SWIZZLE_128, err);
    g.shared = S::BYTES;
    return rc != FR_OK ? rc : cuda_launch(q, g, err, attention_sm90_kernel<T, S>, x, maps);
}

template <class T>
static enum fr_rc sized(struct tr_queue *q, const struct tr_attention *a, const struct attention &x,
                        struct fr_err *err)
{
    if (x.dq <= 64 && x.dv <= 64)
        return launch<T, shape<64, 64>>(q, a, x, err);
    if (x.dq <= 128)
        return launch<T, shape<128, 128>>(q, a, x, err);
    return launch<T, shape<192, 128>>(q, a, x, err);
}

bool attention_sm90_takes(const struct cuda *cuda, enum tr_dtype type, const struct attention &x)
{
    return cuda->sm >= 90 && type != TR_F32 && x.Q.wide && x.K.wide && x.V.wide;
}

enum fr_rc attention_sm90(struct tr_queue *q, const struct tr_attention *a,
                          const struct attention &x, struct fr_err *err)
{
    return a->Q.dtype == TR_BF16 ? sized<bf16>(q, a, x, err) : sized<f16>(q, a, x, err);
}
