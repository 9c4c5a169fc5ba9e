/*
 * The grouped GEMM of product.h, c = alpha * op(a) * op(b) + beta * c + bias, on tensor cores by
 * mma.sync (sm_80 and later), with f32 accumulators.
 *
 * Blocks are persistent: block i takes tiles i, i + gridDim.x, ... of the scheduler in product.h,
 * which reads the row counts on the device. cp.async loads the operands into a pipeline of stages
 * in shared memory. A warp computes 64 x 32 of a tile with BLOCK_M = BLOCK_N = 128, which is used
 * if such tiles fill the device, and 32 x 32 of a tile of 64 x 64 otherwise. The order of the sum
 * over D does not depend on the schedule.
 *
 * Moves M*D + N*D + M*N elements; L2 serves a again for each column of tiles and b for each row of
 * tiles; c moves twice with beta. The limit is the matrix rate at hundreds of rows a group, else
 * the bandwidth of the weights. In the epilogue of a 16-bit c four lanes exchange columns and store
 * 16 bytes each. An f32 c is stored, and c and the bias are read, element by element in the
 * accumulator layout.
 *
 * On sm_90a product_sm90.cu takes most calls. This kernel keeps FP8 weights: they are decoded in
 * registers, 8 at a time, on the way to shared memory, which TMA cannot do; the limit at hundreds
 * of rows is then the rate of mma.sync. It keeps `reduce`, whose depth only the device knows, for
 * LoRA on experts (no block needs it yet); with r columns the limit is the bandwidth of dy and x.
 * It keeps f32, as six products of bf16 parts (tile.h), and rows that are not aligned to 16 bytes.
 * Source: PTX ISA, mma.m16n8k16; persistent grouped GEMM (CUTLASS manual).
 */
#include "trainer/backend/cuda/product.h"

/* BLOCK_M, BLOCK_N, and the warps along each. */
template <int M_, int N_, int DOWN_, int ACROSS_> struct tile_shape {
    static constexpr int M = M_, N = N_, K = 32, DOWN = DOWN_, ACROSS = ACROSS_;
    static constexpr int THREADS = DOWN * ACROSS * 32;
    static constexpr int WM = M / DOWN / 16, WN = N / ACROSS / 16; /* of a warp, in units of 16 */
};
typedef tile_shape<128, 128, 2, 4> big_shape;
typedef tile_shape<64, 64, 2, 2> small_shape;

template <class T, class S, bool TA, bool TB> struct ring {
    static constexpr int STAGES = 8 / (int)sizeof(T);
    static constexpr int LDA = (TA ? S::M : S::K) + 8, LDB = (TB ? S::K : S::N) + 8;
    static constexpr int A = (TA ? S::K : S::M) * LDA, B = (TB ? S::N : S::K) * LDB;
    static constexpr size_t BYTES = (size_t)(A + B) * STAGES * sizeof(T);
};

/* One tile: its operands from the group's first row on, and the tile's first row and column. */
template <class T> struct job {
    tile_source<T> a, b;
    const uint8_t *f8;
    const float *scale;
    int64_t scale_ld, row0;
    char *c;
    int64_t ldc, M, N, D, m0, n0;
};

/* As tile_fetch, from FP8 in blocks: each element is decoded and rounded to T. */
template <int ROWS, int COLS, int THREADS, class T>
__device__ void fetch_f8(T *tile, int ld, const job<T> &j, const struct product &p, int64_t row,
                         int64_t col)
{
    constexpr int ACROSS = COLS / CHUNK;

    for (int i = (int)threadIdx.x; i < ROWS * ACROSS; i += THREADS) {
        int64_t r = row + i / ACROSS, c = col + i % ACROSS * CHUNK;
        int64_t n = r < j.b.rows ? j.b.cols - c : 0;
        float x[CHUNK] = {};

        if (n > 0) {
            const float *scale = j.scale + (j.row0 + r) / p.block_rows * j.scale_ld;

            load_f8(x, j.f8 + r * j.b.ld + c, n);
#pragma unroll
            for (int k = 0; k < CHUNK; k++)
                if (k < n)
                    x[k] *= scale[(int)(c + k) / p.block_cols];
        }
        store(tile + i / ACROSS * ld + i % ACROSS * CHUNK, x, CHUNK);
    }
}

template <class T, class S, bool TA, bool TB>
__device__ bool find_job(job<T> &j, struct product_tile &at, const struct product &p, int64_t tile)
{
    if (!product_find(at, p, S::M, S::N, tile))
        return false;

    const struct product_group &g = p.group[at.group];
    const T *a = static_cast<const T *>(p.a), *b = static_cast<const T *>(p.reduce ? p.b : g.p);

    j.M = p.reduce ? p.M : at.rows;
    j.N = p.N;
    j.D = p.reduce ? at.rows : p.D;
    j.m0 = at.m0;
    j.n0 = at.n0;
    j.a = {a + at.first * p.lda, p.lda, TA ? j.D : j.M, TA ? j.M : j.D, p.wide_a};
    if (p.reduce)
        j.b = {b + at.first * p.ldb, p.ldb, j.D, j.N, p.wide_b};
    else
        j.b = {b, g.ld, TB ? j.N : j.D, TB ? j.D : j.N, p.wide_b};
    j.f8 = p.f8 ? static_cast<const uint8_t *>(g.p) : NULL;
    j.scale = g.scale;
    j.scale_ld = g.scale_ld;
    j.row0 = g.row0;
    j.ldc = p.reduce ? g.ld : p.ldc;
    j.c = p.reduce
              ? static_cast<char *>(const_cast<void *>(g.p))
              : static_cast<char *>(p.c) + at.first * p.ldc * (p.f32_c ? 4 : (int64_t)sizeof(T));
    return true;
}

template <class T, class S, bool TA, bool TB>
__device__ __forceinline__ void fetch_stage(T *room, const job<T> &j, const struct product &p,
                                            int64_t step)
{
    typedef ring<T, S, TA, TB> R;
    T *a = room + step % R::STAGES * (R::A + R::B), *b = a + R::A;
    int64_t k = step * S::K;
    int me = (int)threadIdx.x;

    if constexpr (TA)
        tile_fetch<S::K, S::M, S::THREADS>(a, R::LDA, j.a, k, j.m0, me);
    else
        tile_fetch<S::M, S::K, S::THREADS>(a, R::LDA, j.a, j.m0, k, me);
    if (j.f8 != NULL) {
        if constexpr (TB)
            fetch_f8<S::N, S::K, S::THREADS>(b, R::LDB, j, p, j.n0, k);
        else
            fetch_f8<S::K, S::N, S::THREADS>(b, R::LDB, j, p, k, j.n0);
        return;
    }
    if constexpr (TB)
        tile_fetch<S::N, S::K, S::THREADS>(b, R::LDB, j.b, j.n0, k, me);
    else
        tile_fetch<S::K, S::N, S::THREADS>(b, R::LDB, j.b, k, j.n0, me);
}

/* Multiplies the warp's part of one stage. */
template <class T, class S, bool TA, bool TB>
__device__ __forceinline__ void multiply(float (&sum)[S::WM][S::WN][2][4], const T *room,
                                         int64_t step, int m, int n)
{
    typedef ring<T, S, TA, TB> R;
    const T *a = room + step % R::STAGES * (R::A + R::B), *b = a + R::A;

#pragma unroll
    for (int k = 0; k < S::K; k += 16) {
        tile_b<T> fb[S::WN];

#pragma unroll
        for (int j = 0; j < S::WN; j++) {
            int col = n + j * 16;

            tile_load_b<TB>(fb[j], b + (TB ? col * R::LDB + k : k * R::LDB + col), R::LDB);
        }
#pragma unroll
        for (int i = 0; i < S::WM; i++) {
            int row = m + i * 16;
            tile_a<T> fa;

            tile_load_a<TA>(fa, a + (TA ? k * R::LDA + row : row * R::LDA + k), R::LDA);
#pragma unroll
            for (int j = 0; j < S::WN; j++) {
                tile_mma<T>(sum[i][j][0], fa, fb[j], 0);
                tile_mma<T>(sum[i][j][1], fa, fb[j], 1);
            }
        }
    }
}

/* The epilogue of a warp: its accumulators into c. */
template <class T, class S, class C>
__device__ void put_all(const float (&sum)[S::WM][S::WN][2][4], const job<T> &j,
                        const struct product &p, int m, int n)
{
    int64_t row = j.m0 + m + threadIdx.x % 32 / 4;
    bool wide = j.ldc % 8 == 0 && reinterpret_cast<uintptr_t>(j.c) % 16 == 0;

    static_assert(S::WN == 2, "a warp has other than 32 columns");
#pragma unroll
    for (int i = 0; i < S::WM; i++)
#pragma unroll
        for (int h = 0; h < 2; h++, row += 8) {
            const float *d = &sum[i][0][0][2 * h];

            product_put_row<T>(reinterpret_cast<C *>(j.c) + row * j.ldc, p, d, j.n0 + n, row < j.M,
                               wide);
        }
}

template <class T, class S, bool TA, bool TB>
__global__ void __launch_bounds__(S::THREADS)
    product_kernel(const __grid_constant__ struct product p)
{
    typedef ring<T, S, TA, TB> R;
    DEV_DYNAMIC(T, room);
    int warp = (int)(threadIdx.x / 32), m = warp / S::ACROSS * S::WM * 16;
    int n = warp % S::ACROSS * S::WN * 16;
    struct product_tile at = {};
    job<T> j;

    for (int64_t tile = blockIdx.x; find_job<T, S, TA, TB>(j, at, p, tile); tile += gridDim.x) {
        float sum[S::WM][S::WN][2][4] = {};
        int64_t steps = (j.D + S::K - 1) / S::K;
        bool mine = j.m0 + m < j.M && j.n0 + n < j.N;

#pragma unroll
        for (int s = 0; s < R::STAGES - 1; s++) {
            if (s < steps)
                fetch_stage<T, S, TA, TB>(room, j, p, s);
            ptx_copy_commit();
        }
        for (int64_t s = 0; s < steps; s++) {
            ptx_copy_wait<R::STAGES - 2>();
            __syncthreads();
            if (s + R::STAGES - 1 < steps)
                fetch_stage<T, S, TA, TB>(room, j, p, s + R::STAGES - 1);
            ptx_copy_commit();
            if (mine)
                multiply<T, S, TA, TB>(sum, room, s, m, n);
        }
        ptx_copy_wait<0>();
        __syncthreads();
        if (!mine)
            continue;
        if (p.f32_c)
            put_all<T, S, float>(sum, j, p, m, n);
        else
            put_all<T, S, T>(sum, j, p, m, n);
    }
}

template <class T, class S, bool TA, bool TB>
static enum fr_rc launch(struct cuda *cuda, struct tr_queue *q, const struct product *p,
                         struct fr_err *err)
{
    int64_t down = (p->M + S::M - 1) / S::M, across = (p->N + S::N - 1) / S::N, tiles;
    int64_t most = 2 * (int64_t)cuda->processors;

    tiles = (p->reduce ? down * p->groups : down + p->groups - 1) * across;
    return cuda_launch(
        q, {dim3((unsigned)(tiles < most ? tiles : most)), S::THREADS, ring<T, S, TA, TB>::BYTES},
        err, product_kernel<T, S, TA, TB>, *p);
}

/* Selects tiles of 128 x 128 if there is one for each multiprocessor. f32, which only small runs
 * use, has tiles of 64 x 64 alone. */
template <class T, bool TA, bool TB>
static enum fr_rc sized(struct cuda *cuda, struct tr_queue *q, const struct product *p,
                        struct fr_err *err)
{
    int64_t down = (p->each + big_shape::M - 1) / big_shape::M;
    int64_t tiles = down * (p->N / big_shape::N) * p->groups;

    if constexpr (sizeof(T) == 2)
        if (p->each >= PRODUCT_TALL && tiles >= cuda->processors)
            return launch<T, big_shape, TA, TB>(cuda, q, p, err);
    return launch<T, small_shape, TA, TB>(cuda, q, p, err);
}

enum fr_rc cuda_product(struct cuda *cuda, struct tr_queue *q, enum tr_dtype type, bool trans_a,
                        bool trans_b, const struct product *p, struct fr_err *err)
{
    if (p->M == 0 || p->N == 0 || p->groups == 0)
        return FR_OK;
    if (trans_a && trans_b)
        return fr_fail(err, FR_UNSUPPORTED, "both operands transposed, with FP8 or a wider bias");
    if (product_sm90_takes(cuda, type, trans_a, p))
        return product_sm90(cuda, q, type, trans_b, p, err);
    return cuda_float(type, [&](auto t) {
        using T = decltype(t);

        if (trans_a)
            return sized<T, true, false>(cuda, q, p, err);
        return trans_b ? sized<T, false, true>(cuda, q, p, err)
                       : sized<T, false, false>(cuda, q, p, err);
    });
}

struct product_group product_weight(const struct tr_weight *w)
{
    return {w->w.p, static_cast<const float *>(w->scale.p), w->w.ld, w->scale.ld, w->row0};
}
