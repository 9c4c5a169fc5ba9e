/*
 * The grouped GEMM of product.h, c = alpha * a * op(b) + beta * c + bias, for 16-bit types on
 * sm_90a: wgmma on tiles that TMA loads, with f32 accumulators.
 *
 * Blocks are persistent, one a multiprocessor, with one TMA warpgroup and two math warpgroups. The
 * first thread of the TMA warpgroup runs ahead through the tiles. It loads boxes of a (BLOCK_M, 64)
 * and b (256, 64) into a pipeline of stages; elements outside the matrices are zeros. BLOCK_N is
 * 256 and BLOCK_K 64. If a group has many rows, BLOCK_M is 128 and a math warpgroup computes 64 x
 * 256; else BLOCK_M is 64 and a math warpgroup computes 64 x 128. All eight math warps release a
 * stage. Rows of a box after a group's end belong to the next group; their results are not stored.
 * The order of the sum over D does not depend on the schedule.
 *
 * The epilogue of a warp goes through its own lines in shared memory, so that a thread stores 16
 * bytes at a time. Stores in the accumulator layout, each with its bounds check, took 12,000
 * instructions a tile.
 *
 * Moves M*D + N*D + M*N elements; L2 serves a again for every 256 columns and b for each row of
 * tiles; c moves twice with beta. The limit is the matrix rate at hundreds of rows a group, else
 * the bandwidth of the weights.
 * Source: PTX ISA 8.x, "Asynchronous warpgroup level matrix instructions", "mbarrier"; the roles of
 * warpgroups as in CUTLASS's manual, "Efficient GEMM in CUDA", warp specialisation.
 */
#include "trainer/backend/cuda/product.h"

enum {
    WIDTH = 256, /* BLOCK_N */
    DEPTH = 64,  /* BLOCK_K: a line of 128 bytes */
    LINE = DEPTH * 2,
    GROUP = 128, /* threads of a warpgroup */
    THREADS = 3 * GROUP,
    WARPS = 2 * GROUP / 32, /* of the math warpgroups */
    /* The epilogue buffer of a warp: 16 rows, 256 bytes of each at a time. The padding puts the
     * eight rows of a column into different banks. */
    OUT_LINE = 256 + 16,
    OUT = 16 * OUT_LINE,
    ROOM = (226 << 10) - WARPS * OUT /* shared memory of the stages */
};

/* BLOCK_M = HEIGHT: the columns of a warpgroup, and the stages of the pipeline. */
template <int HEIGHT> struct sm90_shape {
    static constexpr int N = HEIGHT == 128 ? WIDTH : WIDTH / 2; /* columns of a warpgroup */
    static constexpr int A = HEIGHT * LINE, BYTES = A + WIDTH * LINE;
    static constexpr int STAGES = ROOM / BYTES;
};

struct product_maps {
    CUtensorMap a, b[PRODUCT_GROUPS];
};

/* The pipeline state of a producer or consumer: its stage, and the parity of its phase. */
struct ring_turn {
    int stage;
    uint32_t parity;
};

template <int STAGES> __device__ __forceinline__ void next(struct ring_turn &t)
{
    if (++t.stage == STAGES) {
        t.stage = 0;
        t.parity ^= 1;
    }
}

/* Loads b of one stage: a box (256, 64) with K contiguous, or four boxes (64, 64) with N
 * contiguous. */
template <bool TB>
__device__ __forceinline__ void load_b(unsigned char *to, const CUtensorMap *map, int k, int n,
                                       uint64_t *bar)
{
    if constexpr (TB) {
        ptx_bulk_load(to, map, k, n, bar);
    } else {
#pragma unroll
        for (int i = 0; i < WIDTH / DEPTH; i++)
            ptx_bulk_load(to + i * DEPTH * LINE, map, n + i * DEPTH, k, bar);
    }
}

template <int HEIGHT, bool TB>
__device__ void produce(unsigned char *room, uint64_t *full, uint64_t *empty,
                        const struct product &p, const struct product_maps &maps)
{
    typedef sm90_shape<HEIGHT> S;
    struct product_tile at = {};
    struct ring_turn t = {0, 1}; /* in the first round all stages are empty */

    for (int64_t tile = blockIdx.x; product_find(at, p, HEIGHT, WIDTH, tile); tile += gridDim.x)
        for (int64_t k = 0; k < p.D; k += DEPTH) {
            unsigned char *to = room + t.stage * S::BYTES;
            uint64_t *bar = &full[t.stage];

            ptx_mbar_wait(&empty[t.stage], t.parity);
            ptx_mbar_expect(bar, S::BYTES);
            ptx_bulk_load(to, &maps.a, (int)k, (int)(at.first + at.m0), bar);
            load_b<TB>(to + S::A, &maps.b[at.group], (int)k, (int)at.n0, bar);
            next<S::STAGES>(t);
        }
}

/* Multiplies one stage into the accumulators of warpgroup g. */
template <class T, int HEIGHT, bool TB>
__device__ __forceinline__ void multiply(float (&sum)[sm90_shape<HEIGHT>::N / 2],
                                         const unsigned char *stage, int g, bool add)
{
    typedef sm90_shape<HEIGHT> S;
    const unsigned char *a = stage + (HEIGHT == 128 ? g * 64 * LINE : 0);
    const unsigned char *b = stage + S::A + (HEIGHT == 128 ? 0 : g * S::N * LINE);

    ptx_wgmma_pin(sum);
    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        uint64_t ma = ptx_matrix(a + k * 32, 16, 8 * LINE);
        uint64_t mb = TB ? ptx_matrix(b + k * 32, 16, 8 * LINE)
                         : ptx_matrix(b + k * 16 * LINE, DEPTH * LINE, 8 * LINE);

        ptx_wgmma<0, !TB>(sum, ma, mb, add || k > 0, T());
    }
    ptx_wgmma_commit();
}

/* Writes alpha times the accumulators of a warp's 16 rows to its lines `out`: as many columns, from
 * `first` on, as a line holds. */
template <class S, int N>
__device__ __forceinline__ void put_lines(unsigned char *out, const float (&sum)[N], int first,
                                          float alpha)
{
    constexpr int COLUMNS = 256 / (int)sizeof(S);
    int lane = (int)(threadIdx.x % 32);

    __syncwarp();
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float *d = &sum[(first / 8 + j) * 4 + 2 * h];
            unsigned char *to =
                out + (lane / 4 + 8 * h) * OUT_LINE + (8 * j + lane % 4 * 2) * (int)sizeof(S);

            if constexpr (sizeof(S) == 2)
                *reinterpret_cast<uint32_t *>(to) = tile_pair(d[0] * alpha, d[1] * alpha, S());
            else
                *reinterpret_cast<float2 *>(to) = float2{d[0] * alpha, d[1] * alpha};
        }
    __syncwarp();
}

/* Copies a warp's lines to c, whose rows are the group's from m on and whose columns begin at n. */
template <class T>
__device__ __forceinline__ void copy_lines(T *c, const unsigned char *out, const struct product &p,
                                           int rows, int64_t n)
{
    int lane = (int)(threadIdx.x % 32), at = lane % 16 * 16;
    int64_t col = n + lane % 16 * CHUNK;

    if (col >= p.N)
        return;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int r = 2 * i + lane / 16;

        if (r < rows)
            *reinterpret_cast<dev_word<T> *>(c + r * p.ldc + col) =
                *reinterpret_cast<const dev_word<T> *>(out + r * OUT_LINE + at);
    }
}

/* The same from lines of f32, with beta * c and the bias. wide: c's rows are aligned to 16 bytes.
 */
template <class T, class C>
__device__ __forceinline__ void add_lines(C *c, const unsigned char *out, const struct product &p,
                                          int rows, int64_t n, bool wide)
{
    int lane = (int)(threadIdx.x % 32), r = lane / 8;
    int64_t col = n + lane % 8 * CHUNK, left = p.N - col;

    if (left <= 0)
        return;
    out += lane % 8 * CHUNK * sizeof(float);
    c += col;
    if (wide && left >= CHUNK && p.beta != 0 && p.bias == NULL) {
#pragma unroll 1
        for (; r < rows; r += 8) {
            struct dev_chunk<C> had[2];

#pragma unroll
            for (int k = 0; k < 2; k++)
                if (r + 4 * k < rows)
                    had[k] = dev_chunk_at(c + (r + 4 * k) * p.ldc);
#pragma unroll
            for (int k = 0; k < 2; k++) {
                float x[CHUNK];

                if (r + 4 * k >= rows)
                    continue;
                load(x, reinterpret_cast<const float *>(out + (r + 4 * k) * OUT_LINE), CHUNK);
#pragma unroll
                for (int i = 0; i < CHUNK; i++)
                    x[i] += p.beta * had[k].value(i);
                store(c + (r + 4 * k) * p.ldc, x, CHUNK);
            }
        }
        return;
    }
#pragma unroll 1
    for (; r < rows; r += 4) {
        C *to = c + r * p.ldc;
        float x[CHUNK], y[CHUNK];

        load(x, reinterpret_cast<const float *>(out + r * OUT_LINE), CHUNK);
        if (p.beta != 0) {
            load(y, to, left);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                x[i] += p.beta * y[i];
        }
        if (p.bias != NULL) {
            if (p.f32_bias)
                load(y, static_cast<const float *>(p.bias) + col, left);
            else
                load(y, static_cast<const T *>(p.bias) + col, left);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                x[i] += y[i];
        }
        store(to, x, left);
    }
}

/* The epilogue of warpgroup g: its accumulators into c. */
template <class T, int HEIGHT>
__device__ __forceinline__ void put_tile(const float (&sum)[sm90_shape<HEIGHT>::N / 2],
                                         unsigned char *room, const struct product &p,
                                         const struct product_tile &at, int g)
{
    typedef sm90_shape<HEIGHT> S;
    int64_t m = at.m0 + (HEIGHT == 128 ? g * 64 : 0) + threadIdx.x % GROUP / 32 * 16;
    int64_t n = at.n0 + (HEIGHT == 128 ? 0 : g * S::N), to = (at.first + m) * p.ldc;
    int rows = at.rows - m < 16 ? (int)(at.rows - m) : 16;
    unsigned char *out = room + S::STAGES * S::BYTES + threadIdx.x / 32 * OUT;
    bool wide = p.ldc % 8 == 0 && reinterpret_cast<uintptr_t>(p.c) % 16 == 0;

    if (wide && p.N % CHUNK == 0 && !p.f32_c && p.beta == 0 && p.bias == NULL) {
#pragma unroll
        for (int j = 0; j < S::N; j += 128) {
            put_lines<T>(out, sum, j, p.alpha);
            copy_lines(static_cast<T *>(p.c) + to, out, p, rows, n + j);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < S::N; j += 64) {
        put_lines<float>(out, sum, j, p.alpha);
        if (p.f32_c)
            add_lines<T>(static_cast<float *>(p.c) + to, out, p, rows, n + j, wide);
        else
            add_lines<T>(static_cast<T *>(p.c) + to, out, p, rows, n + j, wide);
    }
}

template <class T, int HEIGHT, bool TB>
__device__ void multiply_all(unsigned char *room, uint64_t *full, uint64_t *empty,
                             const struct product &p, int g)
{
    typedef sm90_shape<HEIGHT> S;
    bool elected = threadIdx.x % 32 == 0;
    struct product_tile at = {};
    struct ring_turn t = {0, 0};

    for (int64_t tile = blockIdx.x; product_find(at, p, HEIGHT, WIDTH, tile); tile += gridDim.x) {
        float sum[S::N / 2];
        int last = -1; /* the stage of the pending product */

        for (int64_t k = 0; k < p.D; k += DEPTH) {
            ptx_mbar_wait(&full[t.stage], t.parity);
            multiply<T, HEIGHT, TB>(sum, room + t.stage * S::BYTES, g, k > 0);
            ptx_wgmma_wait<1>();
            ptx_wgmma_pin(sum);
            if (elected && last >= 0)
                ptx_mbar_arrive(&empty[last]);
            last = t.stage;
            next<S::STAGES>(t);
        }
        ptx_wgmma_wait<0>();
        ptx_wgmma_pin(sum);
        if (elected)
            ptx_mbar_arrive(&empty[last]);
        put_tile<T, HEIGHT>(sum, room, p, at, g);
    }
}

template <class T, int HEIGHT, bool TB>
__global__ void __launch_bounds__(THREADS)
    sm90_kernel(const __grid_constant__ struct product p,
                const __grid_constant__ struct product_maps maps)
{
    typedef sm90_shape<HEIGHT> S;
    DEV_DYNAMIC(unsigned char, room);
    DEV_SHARED(uint64_t, full, [S::STAGES]);
    DEV_SHARED(uint64_t, empty, [S::STAGES]);
    int g = (int)(threadIdx.x / GROUP);

    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            ptx_mbar_init(&full[i], 1);
            ptx_mbar_init(&empty[i], WARPS);
        }
        ptx_mbar_init_fence();
    }
    __syncthreads();
    if (g == 2) {
        ptx_regs_give<40>();
        if (threadIdx.x == 2 * GROUP)
            produce<HEIGHT, TB>(room, full, empty, p, maps);
    } else {
        ptx_regs_take<232>();
        multiply_all<T, HEIGHT, TB>(room, full, empty, p, g);
    }
}

/* Makes the tensor map of a group's matrix; absent groups have none. */
static enum fr_rc map_b(CUtensorMap *map, enum tr_dtype type, bool trans_b, const struct product *p,
                        const struct product_group *g, struct fr_err *err)
{
    const uint32_t box[2] = {DEPTH, trans_b ? (uint32_t)WIDTH : (uint32_t)DEPTH};
    struct tr_view v =
        tr_view2(const_cast<void *>(g->p), type, trans_b ? p->N : p->D, trans_b ? p->D : p->N);

    v.ld = g->ld;
    return g->p == NULL ? FR_OK : cuda_map(map, &v, box, err);
}

template <class T, int HEIGHT, bool TB>
static enum fr_rc launch(struct cuda *cuda, struct tr_queue *q, enum tr_dtype type,
                         const struct product *p, struct fr_err *err)
{
    const uint32_t box[2] = {DEPTH, HEIGHT};
    int64_t down = (p->M + HEIGHT - 1) / HEIGHT + p->groups - 1;
    int64_t tiles = down * ((p->N + WIDTH - 1) / WIDTH);
    struct tr_view a = tr_view2(const_cast<void *>(p->a), type, p->M, p->D);
    struct product_maps maps = {};
    enum fr_rc rc;

    a.ld = p->lda;
    rc = cuda_map(&maps.a, &a, box, err);
    for (int g = 0; g < p->groups && rc == FR_OK; g++)
        rc = map_b(&maps.b[g], type, TB, p, &p->group[g], err);
    if (rc != FR_OK)
        return rc;
    return cuda_launch(
        q,
        {dim3((unsigned)(tiles < cuda->processors ? tiles : cuda->processors)), THREADS,
         (size_t)sm90_shape<HEIGHT>::BYTES * sm90_shape<HEIGHT>::STAGES + WARPS * OUT},
        err, sm90_kernel<T, HEIGHT, TB>, *p, maps);
}

template <class T>
static enum fr_rc sized(struct cuda *cuda, struct tr_queue *q, enum tr_dtype type, bool trans_b,
                        const struct product *p, struct fr_err *err)
{
    if (p->each >= PRODUCT_TALL)
        return trans_b ? launch<T, 128, true>(cuda, q, type, p, err)
                       : launch<T, 128, false>(cuda, q, type, p, err);
    return trans_b ? launch<T, 64, true>(cuda, q, type, p, err)
                   : launch<T, 64, false>(cuda, q, type, p, err);
}

bool product_sm90_takes(const struct cuda *cuda, enum tr_dtype type, bool trans_a,
                        const struct product *p)
{
    return cuda->sm >= 90 && type != TR_F32 && !trans_a && !p->reduce && !p->f8 && p->wide_a &&
           p->wide_b && p->D > 0;
}

enum fr_rc product_sm90(struct cuda *cuda, struct tr_queue *q, enum tr_dtype type, bool trans_b,
                        const struct product *p, struct fr_err *err)
{
    if (type == TR_BF16)
        return sized<bf16>(cuda, q, type, trans_b, p, err);
    return sized<f16>(cuda, q, type, trans_b, p, err);
}
