/* The simulator itself: each instruction against plain loops, queues, orders of threads. */
#include "tests/cudasim/sim_test.h"

#include <cmath>
#include <cstdlib>
#include <vector>

static std::vector<bf16> numbers(size_t n, unsigned seed)
{
    std::vector<bf16> x(n);

    for (size_t i = 0; i < n; i++)
        x[i] = from_f32<bf16>((float)((i * 37 + seed * 101) % 61) / 16 - 2);
    return x;
}

/* c (m, n) = a (m, k) b (k, n) where b is stored (n, k) unless turned. */
static std::vector<float> product(const std::vector<bf16> &a, const std::vector<bf16> &b, int m,
                                  int n, int k, bool turned)
{
    std::vector<float> c((size_t)(m * n));

    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int p = 0; p < k; p++)
                c[(size_t)(i * n + j)] += to_f32(a[(size_t)(i * k + p)]) *
                                          to_f32(b[(size_t)(turned ? p * n + j : j * k + p)]);
    return c;
}

static void compare(const std::vector<float> &got, const std::vector<float> &want)
{
    size_t bad = 0;

    for (size_t i = 0; i < want.size(); i++)
        bad += !(std::fabs(got[i] - want[i]) <= 1e-3f);
    CHECK_INT(bad, 0);
}

/* ---- a block ---- */

__global__ void sums_kernel(float *out, const float *x)
{
    DEV_SHARED(float, part, [32]);
    float s = block_sum(x[blockIdx.x * blockDim.x + threadIdx.x], part);
    unsigned odd = __ballot_sync(0xffffffffu, threadIdx.x & 1);
    float up = __shfl_up_sync(0xffffffffu, (float)threadIdx.x, 1);

    if (threadIdx.x == blockDim.x - 1)
        out[blockIdx.x] = s + (odd == 0xaaaaaaaau ? 1000.0f : 0) + up;
}

static void block_cases(void)
{
    std::vector<float> x(3 * 96), out(3);

    for (size_t i = 0; i < x.size(); i++)
        x[i] = (float)i;
    for (int d = 0; d < SIM_DEVICES; d++) {
        check_row(d == 0 ? "forward" : d == 1 ? "reversed" : "shuffled");
        launch(d, 3, 96, 0, sums_kernel, out.data(), x.data());
        for (int b = 0; b < 3; b++)
            CHECK(out[(size_t)b] == 96.0f * 95 / 2 + 96 * 96.0f * (float)b + 1000 + 94);
    }
}

/* ---- ldmatrix, mma, cp.async ---- */

__global__ void mma_kernel(float *c, const bf16 *a, const bf16 *b, int turned)
{
    enum { WIDE = 16 + 8, NARROW = 8 }; /* elements from a row to the next */
    DEV_SHARED(bf16, as, [16 * WIDE]);
    DEV_SHARED(bf16, bs, [8 * WIDE]);
    int lane = (int)threadIdx.x;
    uint32_t fa[4], fb[2], x[4];
    float d[4] = {0, 0, 0, 0};

    ptx_copy16(&as[lane / 2 * WIDE + lane % 2 * 8], &a[lane * 8], 16);
    ptx_copy16(turned ? &bs[lane % 16 * NARROW] : &bs[lane % 16 / 2 * WIDE + lane % 2 * 8],
               &b[lane % 16 * 8], 16);
    ptx_copy_commit();
    ptx_copy_wait<0>();
    __syncwarp();
    ptx_ldmatrix_x4(fa, &as[lane % 16 * WIDE + lane / 16 * 8]);
    if (turned) /* b stored (k, n); the third and fourth matrix are the first and second again */
        ptx_ldmatrix_x4_trans(x, &bs[lane % 16 * NARROW]);
    else
        ptx_ldmatrix_x4(x, &bs[lane % 8 * WIDE + lane / 8 % 2 * 8]);
    fb[0] = x[0];
    fb[1] = x[1];
    ptx_mma(d, fa, fb, bf16());
    for (int i = 0; i < 4; i++)
        c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

static void mma_cases(void)
{
    std::vector<bf16> a = numbers(256, 1), b = numbers(128, 2);

    for (int turned = 0; turned < 2; turned++)
        for (int d = 0; d < SIM_DEVICES; d++) {
            std::vector<float> c(128);

            check_row(turned ? "mma, ldmatrix.trans" : "mma, ldmatrix");
            launch(d, 1, 32, 0, mma_kernel, c.data(), a.data(), b.data(), turned);
            compare(c, product(a, b, 16, 8, 16, turned != 0));
        }
}

__global__ void tail_kernel(uint32_t *out, const uint32_t *in, int bytes)
{
    DEV_SHARED(uint32_t, x, [8]);

    ptx_copy16(x, in, 16);
    ptx_copy_commit();
    ptx_copy16(x + 4, in + 4, bytes);
    ptx_copy_commit();
    ptx_copy_wait<1>();
    out[0] = x[3];
    out[1] = x[4];
    ptx_copy_wait<0>();
    out[2] = x[4];
    out[3] = x[5];
}

static void copy_cases(void)
{
    alignas(16) uint32_t in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[4];

    check_row("cp.async");
    launch(0, 1, 1, 0, tail_kernel, (uint32_t *)out, (const uint32_t *)in, 4);
    CHECK_INT(out[0], 4);
    CHECK_INT(out[1], 0xffffffffu); /* not waited for */
    CHECK_INT(out[2], 5);
    CHECK_INT(out[3], 0); /* behind the valid bytes */
}

/* ---- bulk copies and wgmma: c (64, 64) = a (64, 64) b, tiles of 128-byte rows ---- */

enum { EDGE = 64 };

template <int TB, bool REGS>
__global__ void wgmma_kernel(float *c, const __grid_constant__ CUtensorMap a,
                             const __grid_constant__ CUtensorMap b)
{
    DEV_DYNAMIC(bf16, room);
    DEV_SHARED(uint64_t, bar, [1]);
    int t = (int)threadIdx.x, g = t % 32 / 4, col = t % 4 * 2;
    bf16 *bs = room + EDGE * EDGE;
    uint32_t fa[EDGE / 16][4];
    float d[EDGE / 2];

    for (int i = 0; i < EDGE / 2; i++)
        d[i] = 0;
    if (t == 0) {
        ptx_mbar_init(bar, 1);
        ptx_mbar_init_fence();
        ptx_mbar_expect(bar, 2 * EDGE * EDGE * sizeof(bf16));
        ptx_bulk_load(room, &a, 0, 0, bar);
        ptx_bulk_load(bs, &b, 0, 0, bar);
    }
    __syncthreads();
    ptx_mbar_wait(bar, 0);
    for (int k = 0; k < EDGE && REGS; k += 16) {
        int row = t / 32 * 16 + t % 16, word = k / 8 + t % 32 / 16;

        ptx_ldmatrix_x4(fa[k / 16], room + row * EDGE + (word ^ row % 8) * 8);
        ptx_wgmma_pin(fa[k / 16]);
    }
    ptx_wgmma_pin(d);
    ptx_wgmma_fence();
    for (int k = 0; k < EDGE; k += 16) {
        uint64_t mb = TB ? ptx_matrix(bs + k * EDGE, 8192, 1024) : ptx_matrix(bs + k, 16, 1024);

        if (REGS)
            ptx_wgmma_a<TB>(d, fa[k / 16], mb, k > 0, bf16());
        else
            ptx_wgmma<0, TB>(d, ptx_matrix(room + k, 16, 1024), mb, k > 0, bf16());
    }
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
    ptx_wgmma_pin(d);
    for (int k = 0; k < EDGE / 16 && REGS; k++)
        ptx_wgmma_pin(fa[k]);
    for (int i = 0; i < EDGE / 2; i++)
        c[(t / 32 * 16 + g + i / 2 % 2 * 8) * EDGE + i / 4 * 8 + col + i % 2] = d[i];
}

static void wgmma_cases(void)
{
    static const char *const names[] = {"wgmma", "wgmma n contiguous", "wgmma a in registers"};
    std::vector<bf16> a = numbers(EDGE * EDGE, 3), b = numbers(EDGE * EDGE, 4);
    struct tr_view va = tr_view2(a.data(), TR_BF16, EDGE, EDGE);
    struct tr_view vb = tr_view2(b.data(), TR_BF16, EDGE, EDGE);
    uint32_t box[2] = {EDGE, EDGE};
    CUtensorMap ma, mb;

    CHECK_INT(cuda_map(&ma, &va, box, NULL), FR_OK);
    CHECK_INT(cuda_map(&mb, &vb, box, NULL), FR_OK);
    for (int v = 0; v < 3; v++)
        for (int d = 0; d < SIM_DEVICES; d++) {
            std::vector<float> c(EDGE * EDGE);

            check_row(names[v]);
            launch(d, 1, 128, 2 * EDGE * EDGE * sizeof(bf16),
                   v == 0   ? wgmma_kernel<0, false>
                   : v == 1 ? wgmma_kernel<1, false>
                            : wgmma_kernel<0, true>,
                   c.data(), ma, mb);
            compare(c, product(a, b, EDGE, EDGE, EDGE, v == 1));
        }
}

/* What a thread sees of the registers of a product: of the sums, of the operand of two products,
 * behind the first wait and the second one, and once they are pinned. */
__global__ void early_kernel(uint32_t *out)
{
    DEV_DYNAMIC(bf16, room);
    uint64_t b = ptx_matrix(room, 16, 1024);
    uint32_t fa[4] = {1, 2, 3, 4};
    float d[16], e[16];

    out += threadIdx.x * 6;
    ptx_wgmma_pin(d);
    ptx_wgmma_pin(e);
    ptx_wgmma_pin(fa);
    ptx_wgmma_fence();
    ptx_wgmma_a<0>(d, fa, b, false, bf16());
    ptx_wgmma_commit();
    ptx_wgmma_fence();
    ptx_wgmma_a<0>(e, fa, b, false, bf16());
    ptx_wgmma_commit();
    out[0] = __float_as_uint(d[15]);
    out[1] = fa[3];
    ptx_wgmma_wait<1>();
    ptx_wgmma_pin(fa);
    out[2] = fa[3]; /* the second product still uses it */
    ptx_wgmma_wait<0>();
    out[3] = fa[3];
    ptx_wgmma_pin(d);
    ptx_wgmma_pin(e);
    ptx_wgmma_pin(fa);
    out[4] = fa[3];
    out[5] = d[15] != d[15]; /* shared memory is NaN */
}

static void early_case(void)
{
    static const uint32_t want[] = {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 4, 1};
    uint32_t out[128 * 6];
    int bad = 0;

    check_row("registers of a product before the wait and before the pin");
    launch(0, 1, 128, 8192, early_kernel, (uint32_t *)out);
    for (int i = 0; i < 128 * 6; i++)
        bad += out[i] != want[i % 6];
    CHECK_INT(bad, 0);
}

/* A box over the edge: zeros are read. */
__global__ void edge_kernel(float *out, const __grid_constant__ CUtensorMap from)
{
    DEV_DYNAMIC(float, room);
    DEV_SHARED(uint64_t, bar, [1]);

    ptx_mbar_init(bar, 1);
    ptx_mbar_init_fence();
    ptx_mbar_expect(bar, 8 * 8 * sizeof(float));
    ptx_bulk_load(room, &from, 4, 3, bar);
    ptx_mbar_wait(bar, 0);
    for (int i = 0; i < 64; i++)
        out[i] = room[i];
}

static void edge_cases(void)
{
    alignas(16) float x[5][8], y[2][32];
    struct tr_view vx = tr_view2(x, TR_F32, 5, 8);
    uint32_t box[2] = {8, 8};
    CUtensorMap mx;

    for (int i = 0; i < 40; i++)
        x[i / 8][i % 8] = (float)i + 1;
    check_row("bulk copies over the edge");
    CHECK_INT(cuda_map(&mx, &vx, box, NULL), FR_OK);
    launch(1, 1, 1, 256, edge_kernel, &y[0][0], mx);
    for (int i = 0; i < 64; i++) { /* two lines of four rows; the second one's chunks are swapped */
        int r = i / 8 + 3, c = i % 8 + 4, line = i / 32, chunk = i % 32 / 4 ^ line;

        CHECK(y[line][chunk * 4 + i % 4] == (r < 5 && c < 8 ? x[r][c] : 0));
    }
}

/* ---- queues ---- */

__global__ void set_kernel(int *x, int to)
{
    *x = to;
}

static void queue_cases(void)
{
    for (int d = 0; d < SIM_DEVICES; d++) {
        cudaStream_t a = stream_on(d), b = stream_on(d);
        cudaLaunchConfig_t c = {};
        cudaEvent_t e;
        int x = 0, y = 0;

        check_row("events");
        cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
        c.stream = a;
        cudaLaunchKernelEx(&c, set_kernel, &x, 1);
        CHECK_INT(x, d == 0 ? 1 : 0); /* as late as possible but on device 0 */
        cudaEventRecord(e, a);
        cudaLaunchKernelEx(&c, set_kernel, &x, 2);
        cudaStreamWaitEvent(b, e, 0);
        cudaMemcpyAsync(&y, &x, sizeof y, cudaMemcpyDefault, b);
        cudaStreamSynchronize(b);
        CHECK_INT(y, d == 0 ? 2 : 1);
        cudaStreamSynchronize(a);
        CHECK_INT(x, 2);
        cudaEventDestroy(e);
        cudaStreamDestroy(a);
        cudaStreamDestroy(b);
    }
}

/* A barrier is missing: each thread reads what its neighbour wrote. */
__global__ void missing_kernel(int *out)
{
    DEV_SHARED(int, x, [64]);

    x[threadIdx.x] = (int)threadIdx.x;
    out[threadIdx.x] = x[threadIdx.x ^ 63];
}

static void missing_case(void)
{
    int out[2][64];

    check_row("missing barrier");
    for (int d = 0; d < 2; d++)
        launch(d, 1, 64, 0, missing_kernel, (int *)out[d]);
    CHECK_INT(out[0][0], -1); /* never written */
    CHECK(memcmp(out[0], out[1], sizeof out[0]) != 0);
}

int main(void)
{
    block_cases();
    mma_cases();
    copy_cases();
    wgmma_cases();
    early_case();
    edge_cases();
    queue_cases();
    missing_case();
    fault_cases();
    return check_done();
}
