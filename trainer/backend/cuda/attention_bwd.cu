/*
 * attention_bwd ("="): delta_i = dO_i.O_i, then one kernel for dK and dV and one for dQ. Both
 * recompute P = exp(scale Q K^T - lse) tile by tile. One block owns each output element and adds in
 * a fixed order, so that the result does not depend on timing.
 *   keys owned: dV_j = sum P_ij dO_i, dK_j = scale sum dS_ij Q_i, the q heads of a kv head in turn;
 *   queries owned: dQ_i = scale sum dS_ij K_j;   dS = P (dO V^T - delta).
 * One kernel serves both passes, with the owned side ("x") and the other side ("y") exchanged. A
 * warp owns 16 rows. The accumulators of the transposed scores of owned keys have the layout of the
 * next product's left operand.
 *
 * delta moves O and dO once; its limit is the bandwidth. The passes move Q, K, V, dO twice and the
 * results once, plus the other side per 128 owned rows (64 in f32; from L2). A head takes
 * 2*T*len*(4*dq + 3*dv) operations, half of them when causal: 2*dq + 2*dv for keys, 2*dq + dv for
 * queries. 3*dq + 2*dv would suffice if scores were computed once. The limit is the matrix rate.
 * Source: Dao 2023 (FlashAttention-2), algorithm 2, with dQ as a pass of its own.
 */
#include "trainer/backend/cuda/attention_bwd.h"

enum { DELTA_ROWS = CUDA_THREADS / 16 };

/* Computes struct attention_query of each query (nh, T). 16 lanes own a token and head. */
template <class T>
__global__ void attention_queries_kernel(const __grid_constant__ struct attention a)
{
    constexpr int LANES = CUDA_THREADS / DELTA_ROWS;
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES, t = i / a.nh,
            h = i % a.nh;
    const T *dO = static_cast<const T *>(a.dO.p) + t * a.dO.ld + h * a.dv;
    const T *O = static_cast<const T *>(a.O.p) + t * a.O.ld + h * a.dv;
    int me = (int)(threadIdx.x % LANES);
    float sum = 0;

    for (int d = me * CHUNK; d < a.dv && t < a.T; d += LANES * CHUNK) {
        float x[CHUNK], y[CHUNK];

        load(x, dO + d, a.dv - d);
        load(y, O + d, a.dv - d);
#pragma unroll
        for (int k = 0; k < CHUNK; k++)
            sum += x[k] * y[k];
    }
#pragma unroll
    for (int m = LANES / 2; m > 0; m /= 2) /* all lanes of the warp */
        sum += __shfl_xor_sync(0xffffffffu, sum, m);
    if (me == 0 && t < a.T)
        a.queries[h * a.T + t] = {a.lse[h * a.lse_ld + t] * ATTENTION_LOG2E, sum};
}

template <class T>
static enum fr_rc queries(struct tr_queue *q, const struct attention &x, struct fr_err *err)
{

    struct cuda_grid g = {dim3(cuda_blocks(x.T * x.nh, DELTA_ROWS)), CUDA_THREADS, 0};

    return cuda_launch(q, g, err, attention_queries_kernel<T>, x);
}

enum { OTHERS = 32 }; /* rows of a tile of the other side */

template <class S, class T> struct backward_room {
    static constexpr int X = S::ROWS * S::LDQ, X2 = S::ROWS * S::LDV;
    static constexpr int Y = OTHERS * S::LDQ, Y2 = OTHERS * S::LDV;
    static constexpr size_t BYTES = (size_t)(X + X2 + S::STAGES * (Y + Y2)) * sizeof(T);
};

template <class T, class S, bool KEYS>
__global__ void __launch_bounds__(S::THREADS)
    attention_bwd_kernel(const __grid_constant__ struct attention a)
{
    typedef backward_room<S, T> R;
    DEV_DYNAMIC(T, room);
    T *ring = room + R::X + R::X2;
    int me = (int)threadIdx.x, group = a.nh / a.nkv, own = (int)blockIdx.y;
    float sum[S::DQ / 8][4] = {}, sum2[KEYS ? S::DV / 8 : 1][4] = {};
    const float scale[2] = {a.scale, a.scale}, one[2] = {1, 1};
    struct attention_query mine[2] = {};
    struct span s;

    if (!attention_span(&s, a, S::ROWS))
        return;

    int64_t row = s.first + me / 32 * 16, last = s.first + S::ROWS;
    int64_t begin = KEYS && a.causal ? s.first / OTHERS : 0;
    int64_t end = !KEYS && a.causal && last < s.len ? last : s.len;
    int64_t each = (end + OTHERS - 1) / OTHERS - begin, steps = each * (KEYS ? group : 1);
    auto fetch = [&](int64_t step) {
        T *y = ring + step % S::STAGES * (R::Y + R::Y2);
        int head = KEYS ? own * group + (int)(step / each) : own / group;
        int64_t first = (begin + step % each) * OTHERS;

        tile_fetch<OTHERS, S::DQ, S::THREADS>(
            y, S::LDQ, attention_source<T>(KEYS ? a.Q : a.K, s.begin, s.len, head, a.dq), first, 0,
            me);
        tile_fetch<OTHERS, S::DV, S::THREADS>(
            y + R::Y, S::LDV, attention_source<T>(KEYS ? a.dO : a.V, s.begin, s.len, head, a.dv),
            first, 0, me);
    };

    tile_fetch<S::ROWS, S::DQ, S::THREADS>(
        room, S::LDQ, attention_source<T>(KEYS ? a.K : a.Q, s.begin, s.len, own, a.dq), s.first, 0,
        me);
    tile_fetch<S::ROWS, S::DV, S::THREADS>(
        room + R::X, S::LDV, attention_source<T>(KEYS ? a.V : a.dO, s.begin, s.len, own, a.dv),
        s.first, 0, me);
    if constexpr (S::STAGES == 2)
        fetch(0);
    ptx_copy_commit();
    if constexpr (!KEYS)
        for (int h = 0; h < 2; h++)
            mine[h] = attention_query_of(a, s, own, row + me % 32 / 4 + h * 8);
    for (int64_t step = 0; step < steps; step++) {
        const T *y = ring + step % S::STAGES * (R::Y + R::Y2), *x = room + me / 32 * 16 * S::LDQ;
        const T *x2 = room + R::X + me / 32 * 16 * S::LDV;
        int64_t col = (begin + step % each) * OTHERS;
        float p[OTHERS / 8][4] = {}, d[OTHERS / 8][4] = {};

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
        if (row >= s.len || (a.causal && (KEYS ? col + OTHERS <= row : col > row + 15)) ||
            (a.window > 0 &&
             (KEYS ? col >= row + 15 + a.window : col + OTHERS - 1 <= row - a.window)))
            continue;
        attention_scores<OTHERS / 16>(p, x, y, S::LDQ, a.dq);
        attention_scores<OTHERS / 16>(d, x2, y + R::Y, S::LDV, a.dv);
        if (attention_partial<KEYS, OTHERS>(a, row, col, s.len))
            attention_mask<KEYS>(p, a, row, col, s.len);
        attention_gradients<KEYS, OTHERS>(p, d, a.scale * ATTENTION_LOG2E, mine, [&](int column) {
            return attention_query_of(a, s, own * group + (int)(step / each), col + column);
        });
        if constexpr (KEYS)
            attention_add<OTHERS / 16, S::DV>(sum2, p, y + R::Y, S::LDV, a.dv);
        attention_add<OTHERS / 16, S::DQ>(sum, d, y, S::LDQ, a.dq);
    }
    if (row >= s.len)
        return;
    attention_put<T, S::DQ>(KEYS ? a.dK : a.dQ, sum, s, row, (int64_t)own * a.dq, a.dq, scale);
    if constexpr (KEYS)
        attention_put<T, S::DV>(a.dV, sum2, s, row, (int64_t)own * a.dv, a.dv, one);
}

template <class T, class S>
static enum fr_rc backward(struct cuda *cuda, struct tr_queue *q, const struct tr_attention *args,
                           const struct attention &x, struct fr_err *err)
{
    struct cuda_grid keys = attention_grid(x, S::ROWS, x.nkv, S::THREADS);
    struct cuda_grid others = attention_grid(x, S::ROWS, x.nh, S::THREADS);
    enum fr_rc rc = queries<T>(q, x, err);

    if (rc == FR_OK && attention_sm90_takes(cuda, args->Q.dtype, x))
        return attention_bwd_sm90(q, args, x, err);
    keys.shared = others.shared = backward_room<S, T>::BYTES;
    if (rc == FR_OK)
        rc = cuda_launch(q, keys, err, attention_bwd_kernel<T, S, true>, x);
    if (rc == FR_OK)
        rc = cuda_launch(q, others, err, attention_bwd_kernel<T, S, false>, x);
    return rc;
}

enum fr_rc tr_cuda_attention_bwd(struct cuda *cuda, struct tr_queue *q,
                                 const struct tr_attention *a, struct fr_err *err)
{
    struct attention x;
    void *work;
    enum fr_rc rc = attention_args(&x, a, err);

    if (rc != FR_OK || x.T == 0)
        return rc;
    if ((rc = cuda_work(q, (size_t)(x.nh * x.T) * sizeof(*x.queries), &work, err)) != FR_OK)
        return rc;
    x.queries = static_cast<struct attention_query *>(work);
    return attention_sized(a->Q.dtype, x, [&](auto t, auto dq, auto dv) {
        using T = decltype(t);

        return backward<T, attention_shape<T, decltype(dq)::value, decltype(dv)::value>>(cuda, q, a,
                                                                                         x, err);
    });
}
