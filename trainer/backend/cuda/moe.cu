/*
 * Routed rows: plan, permute, combine. All outputs are written ("=").
 *
 * moe_plan: a stable counting sort of the slots by expert in four launches. A warp owns a run of
 * RUN slots. plan_count counts the run's experts into the workspace (E, runs). plan_runs makes
 * prefix sums of each expert's counts over the runs, plan_experts prefix sums over the experts.
 * plan_place gives each slot its row: the first row of its expert, plus the expert's slots in
 * earlier runs, plus its earlier slots in the run. The only atomics add integers in shared memory,
 * whose sum does not depend on the order. Moves 4 T K + 4 E runs words, a word a lane: a thousandth
 * of the bytes of moe_permute. moe_permute: a block owns a row; 2 R n elements. moe_combine: a
 * block owns a token and sums its rows in the order of k in f32; T (K + 1) n elements, and T n with
 * add. A thread reads add before it writes, so y may be add. The limit of all is the bandwidth.
 */
#include "trainer/backend/cuda/cuda.h"

enum { RUN = 512, LANES = 32, SCAN_WARPS = 4 };

struct plan {
    const int32_t *ids, *tokens; /* tokens may be NULL */
    int64_t slots, K, E, runs;
    int32_t *counts, *offsets, *row_of, *slot_of;
    int32_t *before; /* (E, runs): rows of an expert in the run; after plan_runs, in the runs before
                        it */
};

/* The expert of slot s, -1 when the slot has no row. */
__device__ __forceinline__ int expert_of(const struct plan &p, int64_t s)
{
    int id;

    if (s >= p.slots || (p.tokens != NULL && s >= *p.tokens * p.K))
        return -1;
    id = p.ids[s];
    return id >= 0 && id < p.E ? id : -1;
}

__global__ void plan_count_kernel(struct plan p)
{
    DEV_DYNAMIC(int, count);
    int64_t run = blockIdx.x;

    for (int64_t e = threadIdx.x; e < p.E; e += LANES)
        count[e] = 0;
    __syncwarp();
    for (int64_t s = run * RUN + threadIdx.x; s < (run + 1) * RUN; s += LANES) {
        int e = expert_of(p, s);

        if (e >= 0)
            atomicAdd(&count[e], 1);
    }
    __syncwarp();
    for (int64_t e = threadIdx.x; e < p.E; e += LANES)
        p.before[e * p.runs + run] = count[e];
}

/* Returns the sum of x over the lanes before this one; *all: over all lanes. */
__device__ __forceinline__ int warp_before(int x, int *all)
{
    int lane = (int)threadIdx.x % LANES, sum = x;

#pragma unroll
    for (int by = 1; by < LANES; by *= 2) {
        int other = __shfl_up_sync(0xffffffffu, sum, (unsigned)by);

        sum += lane >= by ? other : 0;
    }
    *all = __shfl_sync(0xffffffffu, sum, LANES - 1);
    return sum - x;
}

/* Exclusive prefix sum: out[i] = in[0] + ... + in[i-1]. Returns the sum of all n. A warp calls; out
 * may be in. */
__device__ __forceinline__ int scan(int32_t *out, const int32_t *in, int64_t n)
{
    int64_t lane = threadIdx.x % LANES;
    int total = 0;

    for (int64_t first = 0; first < n; first += LANES) {
        int64_t i = first + lane;
        int all, before = warp_before(i < n ? in[i] : 0, &all);

        if (i < n)
            out[i] = total + before;
        total += all;
    }
    return total;
}

__global__ void plan_runs_kernel(struct plan p)
{
    int64_t e = (int64_t)blockIdx.x * SCAN_WARPS + threadIdx.x / LANES;
    int all;

    if (e >= p.E)
        return;
    all = scan(p.before + e * p.runs, p.before + e * p.runs, p.runs);
    if (threadIdx.x % LANES == 0)
        p.counts[e] = all;
}

__global__ void plan_experts_kernel(struct plan p)
{
    int all = scan(p.offsets, p.counts, p.E);

    if (threadIdx.x == 0)
        p.offsets[p.E] = all;
}

__global__ void plan_place_kernel(struct plan p)
{
    DEV_DYNAMIC(int, next); /* the next row of each expert */
    int64_t run = blockIdx.x, end = p.offsets[p.E];
    unsigned earlier = (1u << threadIdx.x) - 1;

    for (int64_t e = threadIdx.x; e < p.E; e += LANES)
        next[e] = p.offsets[e] + p.before[e * p.runs + run];
    __syncwarp();
    for (int64_t s = run * RUN + threadIdx.x; s < (run + 1) * RUN; s += LANES) {
        int e = expert_of(p, s), row = -1;
        unsigned same = __match_any_sync(0xffffffffu, e);

        if (e >= 0)
            row = next[e] + __popc(same & earlier);
        __syncwarp();
        if (e >= 0 && (same & earlier) == 0)
            next[e] += __popc(same);
        __syncwarp();
        if (s >= p.slots)
            continue;
        p.row_of[s] = row;
        if (row >= 0)
            p.slot_of[row] = (int32_t)s;
        if (s >= end)
            p.slot_of[s] = -1;
    }
}

enum fr_rc tr_cuda_moe_plan(struct cuda *cuda, struct tr_queue *q, const struct tr_moe_plan *a,
                            struct fr_err *err)
{
    int64_t slots = tr_view_count(a->ids), E = a->counts.shape[0];
    int64_t runs = slots > 0 ? (slots + RUN - 1) / RUN : 1;
    struct plan p = {static_cast<const int32_t *>(a->ids.p),
                     static_cast<const int32_t *>(a->tokens.p),
                     slots,
                     a->ids.shape[1],
                     E,
                     runs,
                     static_cast<int32_t *>(a->counts.p),
                     static_cast<int32_t *>(a->offsets.p),
                     static_cast<int32_t *>(a->row_of.p),
                     static_cast<int32_t *>(a->slot_of.p),
                     NULL};
    struct cuda_grid each = {dim3((unsigned)runs), LANES, (size_t)E * sizeof(int)};
    struct cuda_grid experts = {dim3(cuda_blocks(E, SCAN_WARPS)), SCAN_WARPS * LANES, 0};
    struct cuda_grid one = {dim3(1), LANES, 0};
    void *work = NULL;
    enum fr_rc rc = cuda_work(q, (size_t)(E * runs) * sizeof(int32_t), &work, err);

    (void)cuda;
    p.before = static_cast<int32_t *>(work);
    if (rc == FR_OK)
        rc = cuda_launch(q, each, err, plan_count_kernel, p);
    if (rc == FR_OK)
        rc = cuda_launch(q, experts, err, plan_runs_kernel, p);
    if (rc == FR_OK)
        rc = cuda_launch(q, one, err, plan_experts_kernel, p);
    return rc == FR_OK ? cuda_launch(q, each, err, plan_place_kernel, p) : rc;
}

/* Rows by their slots. */
struct slots {
    const int32_t *slot_of; /* NULL: row i has slot i */
    const float *weight;    /* NULL: 1 */
    int64_t K, n;
    struct window rows;
};

template <class T>
__global__ void permute_kernel(struct rows<T> xp, struct rows<const T> x, struct slots s)
{
    int64_t i = blockIdx.x, token;
    float w = 1, v[CHUNK];
    int slot;

    if (!within(s.rows, i))
        return;
    slot = s.slot_of[i];
    if (slot < 0)
        return;
    token = slot / s.K;
    if (s.weight != NULL)
        w = s.weight[slot];
    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < s.n; j += blockDim.x * CHUNK) {
        load(v, x.at(token, j), s.n - j);
#pragma unroll
        for (int k = 0; k < CHUNK; k++)
            v[k] *= w;
        store(xp.at(i, j), v, s.n - j);
    }
}

enum fr_rc tr_cuda_moe_permute(struct cuda *cuda, struct tr_queue *q,
                               const struct tr_moe_permute *a, struct fr_err *err)
{
    int64_t R = a->xp.shape[0], n = a->xp.shape[1];
    struct slots s = {static_cast<const int32_t *>(a->slot_of.p),
                      static_cast<const float *>(a->weight.p), a->K, n, cuda_window(a->rows)};

    (void)cuda;
    return cuda_float(a->xp.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_row_grid(R, n, 0), err, permute_kernel<T>, cuda_rows<T>(a->xp),
                           cuda_rows<const T>(a->x), s);
    });
}

/* The rows of a token. */
struct choice {
    struct rows<const int32_t> row_of;
    struct rows<const float> weight; /* absent: 1 */
    int64_t K, n;
};

template <class Y, class T>
__global__ void combine_kernel(struct rows<Y> y, struct rows<const Y> add, struct rows<const T> yp,
                               struct choice c)
{
    int64_t t = blockIdx.x;

    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < c.n; j += blockDim.x * CHUNK) {
        float sum[CHUNK], v[CHUNK];

#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum[i] = 0;
        if (add.p != NULL)
            load(sum, add.at(t, j), c.n - j);
#pragma unroll 4
        for (int64_t k = 0; k < c.K; k++) {
            int64_t row = *c.row_of.at(t, k);
            float w = c.weight.p != NULL ? *c.weight.at(t, k) : 1;

            if (row < 0)
                continue;
            load(v, yp.at(row, j), c.n - j);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                sum[i] += w * v[i];
        }
        store(y.at(t, j), sum, c.n - j);
    }
}

template <class Y, class T>
static enum fr_rc combine(struct tr_queue *q, const struct tr_moe_combine *a, struct fr_err *err)
{
    struct choice c = {cuda_rows<const int32_t>(a->row_of), cuda_rows<const float>(a->weight),
                       a->row_of.shape[1], a->y.shape[1]};

    return cuda_launch(q, cuda_row_grid(a->y.shape[0], c.n, 0), err, combine_kernel<Y, T>,
                       cuda_rows<Y>(a->y), cuda_rows<const Y>(a->add), cuda_rows<const T>(a->yp),
                       c);
}

enum fr_rc tr_cuda_moe_combine(struct cuda *cuda, struct tr_queue *q,
                               const struct tr_moe_combine *a, struct fr_err *err)
{
    (void)cuda;
    return cuda_float(a->yp.dtype, [&](auto t) {
        using T = decltype(t);

        return a->y.dtype == TR_F32 ? combine<float, T>(q, a, err) : combine<T, T>(q, a, err);
    });
}
