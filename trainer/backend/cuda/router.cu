/*
 * Forward and backward pass of the router, all in f32.
 *
 * router_fwd ("="): logits z = x gate^T go to the workspace. Then a warp owns a token: s =
 * 1/(1+exp(-z)) or softmax(z), c = s + bias; a group's score is the sum of its two largest c; the K
 * largest c of the kept groups win, ids ascending. If x and gate have one 16-bit type, the tensor
 * cores compute the logits with f32 accumulators: a block owns TILE tokens x TILE experts, with a
 * pipeline of 4 STAGES of DEPTH channels. It uses mma.sync on sm_90a, too: 2 T H E operations are
 * half a percent of the experts' operations, and wgmma would save a part of that. Otherwise (f32
 * runs, a gate in f32) a thread owns 4 x 4 logits and computes by FMA, so that choices have the
 * precision of f32. Moves T H + E H elements (from L2 x again per TILE experts, gate per TILE
 * tokens) and 8 T E bytes of logits. The limit is the bandwidth for E <= 256 on tensor cores, else
 * the FMA rate. The choice compares values as ordered integers with the index in the low bits. Ties
 * go to the lower index and NaN comes last, whatever the order of the lanes.
 *
 * router_bwd: ds = factor/(S+1e-20) (d - sum_j s_j d_j/(S+1e-20)) with norm, else factor d; dz = ds
 * s (1-s). dx (= or +=) sum over k of dz_k gate[id_k]: a block owns a token, gate comes from the
 * caches, T H elements move once or twice. Only K of E columns of dz are not 0, so K FMA a channel
 * are less work than a dense product. dgate (+=) = sum over t of dz x: a block owns columns of an
 * expert and adds the tokens that chose it in order, which it finds 32 slots at a time; E H words,
 * and T K H elements of x from the caches. The order gives the same bits everywhere. Routers are
 * frozen, and no block computes their gradient. Softmax without norm gives all E experts a dz; both
 * products are then dense, with E instead of K FMA a channel.
 * Sources: DeepSeek-V3 2024, section 2.1.2; Mixtral 2024, section 2.1.
 */
#include "trainer/backend/cuda/cuda.h"

enum { TILE = 64, DEPTH = 32, PITCH = DEPTH + 8, STAGES = 4, MMA_THREADS = 128 };
enum { FMA_DEPTH = 32, FMA_THREADS = 256, LANES = 32, TOKENS = 4 };

struct logits {
    float *z; /* (T, E) */
    int64_t T, E, H;
};

/* ---- logits on tensor cores ---- */

/* Starts the copy of rows [first, first+TILE) x channels [h, h+DEPTH) of v; outside are zeros. */
template <class T>
__device__ __forceinline__ void fetch(T *to, struct rows<const T> v, int64_t first, int64_t rows,
                                      int64_t h, int64_t H)
{
#pragma unroll
    for (int i = 0; i < TILE * DEPTH / 8 / MMA_THREADS; i++) {
        int u = i * MMA_THREADS + (int)threadIdx.x, row = u / (DEPTH / 8),
            col = u % (DEPTH / 8) * 8;
        bool there = first + row < rows && h + col < H;

        ptx_copy16(to + row * PITCH + col, there ? v.at(first + row, h + col) : v.p,
                   there ? 16 : 0);
    }
}

/* d += tokens 16w .. 16w+15 times all experts of a stage; w is the warp. */
template <class T>
__device__ __forceinline__ void multiply(float (&d)[TILE / 8][4], const T *x, const T *gate)
{
    int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;

#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        uint32_t a[4], b[4];

        ptx_ldmatrix_x4(a, x + (warp * 16 + lane % 16) * PITCH + k + lane / 16 * 8);
#pragma unroll
        for (int n = 0; n < TILE / 8; n += 2) {
            ptx_ldmatrix_x4(b, gate + (n * 8 + lane / 16 * 8 + lane % 8) * PITCH + k +
                                   lane / 8 % 2 * 8);
            ptx_mma(d[n], a, {b[0], b[1]}, T());
            ptx_mma(d[n + 1], a, {b[2], b[3]}, T());
        }
    }
}

template <class T>
__global__ void __launch_bounds__(MMA_THREADS)
    logits_mma_kernel(struct logits o, struct rows<const T> x, struct rows<const T> gate)
{
    DEV_SHARED(T, xs, [STAGES][TILE * PITCH]);
    DEV_SHARED(T, gs, [STAGES][TILE * PITCH]);
    int64_t t0 = (int64_t)blockIdx.x * TILE, e0 = (int64_t)blockIdx.y * TILE;
    int64_t steps = (o.H + DEPTH - 1) / DEPTH;
    int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    float d[TILE / 8][4] = {};

    for (int64_t s = 0; s < steps + STAGES - 1; s++) {
        int64_t now = s - (STAGES - 1);

        if (s < steps) {
            fetch<T>(xs[s % STAGES], x, t0, o.T, s * DEPTH, o.H);
            fetch<T>(gs[s % STAGES], gate, e0, o.E, s * DEPTH, o.H);
        }
        ptx_copy_commit();
        if (now < 0)
            continue;
        ptx_copy_wait<STAGES - 1>();
        __syncthreads();
        multiply<T>(d, xs[now % STAGES], gs[now % STAGES]);
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t t = t0 + warp * 16 + lane / 4 + i / 2 * 8;
            int64_t e = e0 + n * 8 + lane % 4 * 2 + i % 2;

            if (t < o.T && e < o.E)
                o.z[t * o.E + e] = d[n][i];
        }
}

/* ---- logits by FMA ---- */

__device__ __forceinline__ void fetch_any(float (*to)[TILE + 1], const struct any &v, int64_t first,
                                          int64_t rows, int64_t h, int64_t H)
{
    for (int u = (int)threadIdx.x; u < TILE * FMA_DEPTH / CHUNK; u += FMA_THREADS) {
        int row = u / (FMA_DEPTH / CHUNK), col = u % (FMA_DEPTH / CHUNK) * CHUNK;
        float x[CHUNK] = {};

        if (first + row < rows && h + col < H)
            load_any(x, v, first + row, h + col, H - h - col);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            to[col + i][row] = x[i];
    }
}

__global__ void __launch_bounds__(FMA_THREADS)
    logits_fma_kernel(struct logits o, struct any x, struct any gate)
{
    DEV_SHARED(float, xs, [FMA_DEPTH][TILE + 1]);
    DEV_SHARED(float, gs, [FMA_DEPTH][TILE + 1]);
    int64_t t0 = (int64_t)blockIdx.x * TILE, e0 = (int64_t)blockIdx.y * TILE;
    int row = (int)threadIdx.x / 16 * 4, col = (int)threadIdx.x % 16;
    float d[4][4] = {};

    for (int64_t h = 0; h < o.H; h += FMA_DEPTH) {
        fetch_any(xs, x, t0, o.T, h, o.H);
        fetch_any(gs, gate, e0, o.E, h, o.H);
        __syncthreads();
        for (int k = 0; k < FMA_DEPTH; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    d[i][j] += xs[k][row + i] * gs[k][col + j * 16];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (t0 + row + i < o.T && e0 + col + j * 16 < o.E)
                o.z[(t0 + row + i) * o.E + e0 + col + j * 16] = d[i][j];
}

/* ---- choice ---- */

struct choice {
    int64_t T, E, K, groups, top;
    int64_t room; /* words of shared memory a token: scores, c, ranks of experts and groups */
    struct rows<int32_t> ids;
    struct rows<float> weights, scores, all; /* all: p may be NULL */
    const float *bias;                       /* may be NULL */
    float factor;
    bool norm, replay, softmax;
};

/* f as an integer of the same order, at least 2. NaN: 1. 0 is not used. */
__device__ __forceinline__ uint32_t rank_of(float f)
{
    uint32_t bits = __float_as_uint(f);

    if (f != f)
        return 1;
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

/* Returns the index of the largest of rank[0..n) and sets that rank to 0; ties go to the lower
 * index. A warp calls. */
__device__ __forceinline__ int64_t take_largest(uint32_t *rank, int64_t n)
{
    int64_t lane = threadIdx.x % LANES, at;
    uint64_t best = 0;

    for (int64_t i = lane; i < n; i += LANES) {
        uint64_t mine = (uint64_t)rank[i] << 32 | (0xffffffffu - (uint32_t)i);

        best = max(best, mine);
    }
#pragma unroll
    for (int m = LANES / 2; m > 0; m /= 2)
        best = max(best, (uint64_t)__shfl_xor_sync(0xffffffffu, best, m));
    at = 0xffffffffu - (uint32_t)best;
    __syncwarp();
    if (lane == 0)
        rank[at] = 0;
    __syncwarp();
    return at;
}

/* Ranks of the groups, from the two largest c of each. */
__device__ __forceinline__ void score_groups(uint32_t *group, const float *c,
                                             const struct choice &p)
{
    int64_t size = p.E / p.groups;

    for (int64_t g = threadIdx.x % LANES; g < p.groups; g += LANES) {
        float best = -INFINITY, second = -INFINITY;

        for (int64_t e = g * size; e < (g + 1) * size; e++)
            if (c[e] > best) {
                second = best;
                best = c[e];
            } else if (c[e] > second) {
                second = c[e];
            }
        group[g] = rank_of(best + second);
    }
    __syncwarp();
}

/* Sets rank[e] from c, from -inf outside the kept groups, then to 0 for the chosen experts. */
__device__ __forceinline__ void choose(uint32_t *rank, uint32_t *group, const float *c,
                                       const struct choice &p)
{
    int64_t lane = threadIdx.x % LANES, size = p.E / p.groups;
    uint32_t masked = rank_of(-INFINITY);

    if (p.groups > 1) {
        score_groups(group, c, p);
        for (int64_t g = 0; g < p.top; g++)
            take_largest(group, p.groups);
    }
    for (int64_t e = lane; e < p.E; e += LANES)
        rank[e] = p.groups > 1 && group[e / size] != 0 ? masked : rank_of(c[e]);
    __syncwarp();
    for (int64_t k = 0; k < p.K; k++)
        take_largest(rank, p.E);
}

/* The experts of rank 0, ascending. */
__device__ __forceinline__ void write_ids(int32_t *ids, const uint32_t *rank, int64_t E)
{
    unsigned lane = threadIdx.x % LANES;
    int at = 0;

    for (int64_t first = 0; first < E; first += LANES) {
        int64_t e = first + lane;
        bool mine = e < E && rank[e < E ? e : 0] == 0;
        unsigned all = __ballot_sync(0xffffffffu, mine);

        if (mine)
            ids[at + __popc(all & ((1u << lane) - 1))] = (int32_t)e;
        at += __popc(all);
    }
    __syncwarp();
}

/* s of the logits z of a token. A warp calls. */
__device__ __forceinline__ void score(float *s, const float *z, const struct choice &p)
{
    int64_t lane = threadIdx.x % LANES;
    float most = -INFINITY, sum = 0;

    for (int64_t e = lane; p.softmax && e < p.E; e += LANES)
        most = fmaxf(most, z[e]);
    most = warp_max(most);
    for (int64_t e = lane * CHUNK; e < p.E; e += LANES * CHUNK) {
        float x[CHUNK];

        load(x, z + e, p.E - e);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            x[i] = p.softmax ? expf(x[i] - most) : 1.0f / (1.0f + expf(-x[i]));
            sum += e + i < p.E ? x[i] : 0;
        }
        store(s + e, x, p.E - e);
    }
    sum = warp_sum(sum);
    __syncwarp();
    for (int64_t e = lane; p.softmax && e < p.E; e += LANES)
        s[e] /= sum;
    __syncwarp();
}

__global__ void choose_kernel(struct choice p, const float *z)
{
    DEV_DYNAMIC(float, room);
    int64_t t = (int64_t)blockIdx.x * TOKENS + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    float *s = room + threadIdx.x / LANES * p.room, *c = s + p.E, sum = 0;
    uint32_t *rank = reinterpret_cast<uint32_t *>(c + p.E), *group = rank + p.E;
    int32_t *ids;

    if (t >= p.T)
        return;
    ids = p.ids.at(t, 0);
    score(s, z + t * p.E, p);
    for (int64_t e = lane; e < p.E; e += LANES) {
        c[e] = s[e] + (p.bias != NULL ? p.bias[e] : 0);
        if (p.all.p != NULL)
            *p.all.at(t, e) = s[e];
    }
    __syncwarp();
    if (!p.replay) {
        choose(rank, group, c, p);
        write_ids(ids, rank, p.E);
    }
    for (int64_t k = 0; k < p.K; k++)
        sum += s[ids[k]];
    for (int64_t k = lane; k < p.K; k += LANES) {
        float mine = s[ids[k]];

        *p.scores.at(t, k) = mine;
        *p.weights.at(t, k) = p.factor * (p.norm ? mine / (sum + 1e-20f) : mine);
    }
}

static enum fr_rc put_logits(struct tr_queue *q, const struct tr_router *a, const struct logits &o,
                             struct fr_err *err)
{
    struct cuda_grid g = {dim3(cuda_blocks(o.T, TILE), cuda_blocks(o.E, TILE)), MMA_THREADS, 0};
    bool wide = o.H % CHUNK == 0 && cuda_aligned(a->x) && cuda_aligned(a->gate);
    enum tr_dtype t = a->x.dtype;

    if (t != TR_F32 && t == a->gate.dtype && wide)
        return t == TR_BF16
                   ? cuda_launch(q, g, err, logits_mma_kernel<bf16>, o, cuda_rows<const bf16>(a->x),
                                 cuda_rows<const bf16>(a->gate))
                   : cuda_launch(q, g, err, logits_mma_kernel<f16>, o, cuda_rows<const f16>(a->x),
                                 cuda_rows<const f16>(a->gate));
    g.threads = FMA_THREADS;

    return cuda_launch(q, g, err, logits_fma_kernel, o, cuda_any(a->x), cuda_any(a->gate));
}

enum fr_rc tr_cuda_router_fwd(struct cuda *cuda, struct tr_queue *q, const struct tr_router *a,
                              struct fr_err *err)
{
    int64_t T = a->x.shape[0], E = a->gate.shape[0];
    struct logits o = {NULL, T, E, a->x.shape[1]};
    struct choice p = {T,
                       E,
                       a->ids.shape[1],
                       a->n_group,
                       a->topk_group,
                       (3 * E + a->n_group + 7) / 8 * 8,
                       cuda_rows<int32_t>(a->ids),
                       cuda_rows<float>(a->weights),
                       cuda_rows<float>(a->scores),
                       cuda_rows<float>(a->all),
                       static_cast<const float *>(a->bias.p),
                       a->factor,
                       a->norm,
                       a->replay,
                       a->softmax};
    struct cuda_grid g = {dim3(cuda_blocks(T, TOKENS)), TOKENS * LANES,
                          TOKENS * (size_t)p.room * sizeof(float)};
    void *work = NULL;
    enum fr_rc rc = cuda_work(q, (size_t)(T * E) * sizeof(float), &work, err);

    (void)cuda;
    o.z = static_cast<float *>(work);
    if (rc == FR_OK)
        rc = put_logits(q, a, o, err);
    if (rc != FR_OK)
        return rc;

    return cuda_launch(q, g, err, choose_kernel, p, (const float *)o.z);
}

/* ---- backward ---- */

struct grad_in {
    struct rows<const float> dweights, scores, all; /* all.p: NULL but for softmax without norm */
    struct rows<const int32_t> ids;
    struct any gate, x;
    int64_t T, K, N, H; /* N experts of a token have a gradient: K, or with `all` E */
    float factor;
    bool norm, add, softmax;
    float *dz; /* (T, N) for dgate, or NULL */
};

/* The expert of gradient n of token t. */
__device__ __forceinline__ int64_t graded(const struct grad_in &in, int64_t t, int64_t n)
{
    return in.all.p != NULL ? n : *in.ids.at(t, n);
}

/* dz of expert e of token t, of all that have one. */
__device__ __forceinline__ float logit_grad_all(const struct grad_in &in, int64_t t, int64_t e)
{
    float d = 0, mean = 0;

    for (int64_t k = 0; k < in.K; k++) {
        int64_t chosen = *in.ids.at(t, k);

        mean += *in.all.at(t, chosen) * *in.dweights.at(t, k);
        if (chosen == e)
            d = *in.dweights.at(t, k);
    }
    return in.factor * *in.all.at(t, e) * (d - mean);
}

/* dz of choice k of token t. */
__device__ __forceinline__ float logit_grad(const struct grad_in &in, int64_t t, int64_t k)
{
    float S = 1e-20f, mean = 0, s = *in.scores.at(t, k), d = *in.dweights.at(t, k);

    if (in.norm) {
        for (int64_t j = 0; j < in.K; j++)
            S += *in.scores.at(t, j);
        for (int64_t j = 0; j < in.K; j++)
            mean += *in.scores.at(t, j) / S * *in.dweights.at(t, j);
        d = (d - mean) / S;
    }
    return in.factor * d * s * (in.softmax ? 1 : 1 - s);
}

template <class DX> __global__ void router_bwd_kernel(struct rows<DX> dx, struct grad_in in)
{
    DEV_DYNAMIC(float, dz);
    int64_t t = blockIdx.x;

    for (int64_t n = threadIdx.x; n < in.N; n += blockDim.x) {
        dz[n] = in.all.p != NULL ? logit_grad_all(in, t, n) : logit_grad(in, t, n);
        if (in.dz != NULL)
            in.dz[t * in.N + n] = dz[n];
    }
    __syncthreads();
    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < in.H; j += blockDim.x * CHUNK) {
        float sum[CHUNK], g[CHUNK];

#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum[i] = 0;
        if (in.add)
            load(sum, dx.at(t, j), in.H - j);
#pragma unroll 4
        for (int64_t n = 0; n < in.N; n++) {
            load_any(g, in.gate, graded(in, t, n), j, in.H - j);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                sum[i] += dz[n] * g[i];
        }
        store(dx.at(t, j), sum, in.H - j);
    }
}

__global__ void gate_grad_kernel(struct rows<float> dgate, struct grad_in in)
{
    int64_t e = blockIdx.x, j = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * CHUNK;
    int64_t slots = in.T * in.N;
    bool mine = j < in.H;
    float sum[CHUNK] = {}, x[CHUNK];

    if (mine)
        load(sum, dgate.at(e, j), in.H - j);
    for (int64_t first = 0; first < slots; first += LANES) {
        int64_t s = first + threadIdx.x % LANES;
        bool here = s < slots && graded(in, s / in.N, s % in.N) == e;

        for (unsigned hits = __ballot_sync(0xffffffffu, here); hits != 0; hits &= hits - 1) {
            int64_t slot = first + __ffs((int)hits) - 1;

            if (!mine)
                continue;
            load_any(x, in.x, slot / in.N, j, in.H - j);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                sum[i] += in.dz[slot] * x[i];
        }
    }
    if (mine)
        store(dgate.at(e, j), sum, in.H - j);
}

enum fr_rc tr_cuda_router_bwd(struct cuda *cuda, struct tr_queue *q, const struct tr_router_grad *a,
                              struct fr_err *err)
{
    int64_t T = a->dx.shape[0], H = a->dx.shape[1], K = a->ids.shape[1], E = a->gate.shape[0];
    int64_t N = a->all.p != NULL ? E : K;
    bool dgate = a->dgate.p != NULL;
    struct grad_in in = {cuda_rows<const float>(a->dweights),
                         cuda_rows<const float>(a->scores),
                         cuda_rows<const float>(a->all),
                         cuda_rows<const int32_t>(a->ids),
                         cuda_any(a->gate),
                         cuda_any(a->x),
                         T,
                         K,
                         N,
                         H,
                         a->factor,
                         a->norm,
                         a->add,
                         a->softmax,
                         NULL};
    void *work = NULL;
    enum fr_rc rc = dgate ? cuda_work(q, (size_t)(T * N) * sizeof(float), &work, err) : FR_OK;

    (void)cuda;
    in.dz = static_cast<float *>(work);
    if (rc == FR_OK)
        rc = cuda_float(a->dx.dtype, [&](auto t) {
            using DX = decltype(t);
            struct cuda_grid g = {dim3((unsigned)T), cuda_row_threads(H),
                                  (size_t)N * sizeof(float)};

            return cuda_launch(q, g, err, router_bwd_kernel<DX>, cuda_rows<DX>(a->dx), in);
        });
    if (rc != FR_OK || !dgate || T == 0)
        return rc;

    int threads = cuda_row_threads(H);
    struct cuda_grid g = {dim3((unsigned)E, cuda_blocks(H, (int64_t)threads * CHUNK)), threads, 0};

    return cuda_launch(q, g, err, gate_grad_kernel, cuda_rows<float>(a->dgate), in);
}
