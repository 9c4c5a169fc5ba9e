/*
 * The simulator itself: each instruction against plain loops, and what it has to find. A row of
 * `faults` runs in a child process, which must abort with the row's words.
 */
#include "trainer/backend/cuda/cuda.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "tests/unit/check.h"
}

static cudaStream_t stream_on(int device)
{
    cudaStream_t s;

    cudaSetDevice(device);
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    return s;
}

template <class... P, class... A>
static void launch(int device, int blocks, int threads, size_t shared, void (*kernel)(P...),
                   A... args)
{
    cudaStream_t s = stream_on(device);
    cudaLaunchConfig_t c = {};

    c.gridDim = dim3((unsigned)blocks);
    c.blockDim = dim3((unsigned)threads);
    c.dynamicSmemBytes = shared;
    c.stream = s;
    if (shared > 48 << 10)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    CHECK_INT(cudaLaunchKernelEx(&c, kernel, args...), cudaSuccess);
    cudaStreamDestroy(s);
}

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
    DEV_SHARED(bf16, as, [16 * 16]);
    DEV_SHARED(bf16, bs, [8 * 16]);
    int lane = (int)threadIdx.x;
    uint32_t fa[4], fb[2], x[4];
    float d[4] = {0, 0, 0, 0};

    ptx_copy16(&as[lane * 8], &a[lane * 8], 16);
    ptx_copy16(&bs[lane % 16 * 8], &b[lane % 16 * 8], 16);
    ptx_copy_commit();
    ptx_copy_wait<0>();
    __syncwarp();
    ptx_ldmatrix_x4(fa, &as[lane % 16 * 16 + lane / 16 * 8]);
    if (turned) /* b stored (k, n); the third and fourth matrix are the first and second again */
        ptx_ldmatrix_x4_trans(x, &bs[lane % 16 * 8]);
    else
        ptx_ldmatrix_x4(x, &bs[lane % 8 * 16 + lane / 8 % 2 * 8]);
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

/* ---- faults: one block of FAULTY threads, as many numbers of device memory ---- */

enum { FAULTY = 128, ROOM = 8192 };

__global__ void divergent_kernel(float *)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void ended_kernel(float *)
{
    if (threadIdx.x == 5)
        return;
    __syncthreads();
}

__global__ void lanes_kernel(float *x)
{
    if (threadIdx.x < 16)
        x[0] += __shfl_sync(0xffffffffu, 1.0f, 0);
}

__global__ void unwaited_kernel(float *x)
{
    DEV_SHARED(float, room, [4]);

    ptx_copy16(room, x, 16);
    ptx_copy_commit();
}

__global__ void never_kernel(float *)
{
    DEV_SHARED(uint64_t, bar, [1]);

    if (threadIdx.x == 0) {
        ptx_mbar_init(bar, 2);
        ptx_mbar_init_fence();
    }
    __syncthreads();
    ptx_mbar_wait(bar, 0);
}

__global__ void unset_kernel(float *)
{
    DEV_SHARED(uint64_t, bar, [1]);

    ptx_mbar_arrive(bar);
}

__global__ void landing_kernel(float *)
{
    DEV_DYNAMIC(unsigned char, room);
    DEV_SHARED(uint64_t, bar, [1]);
    alignas(16) float x[2][8] = {};
    CUtensorMap m = {(char *)x, 2, 4, {8, 2, 1}, {4, 32, 0}, {8, 2, 1}};

    if (threadIdx.x != 0)
        return;
    ptx_mbar_init(bar, 1);
    ptx_mbar_init_fence();
    ptx_mbar_expect(bar, 64);
    ptx_bulk_load(room, &m, 0, 0, bar);
}

/* What a product of a warpgroup can lack, one thing a value. */
enum fault {
    NO_FENCE,
    NO_PIN,
    LATE_PIN,      /* behind the fence */
    STALE_PIN,     /* the sums were written behind it */
    NO_PIN_A,      /* of the left operand */
    SUMS_WRITTEN,  /* before the wait */
    A_WRITTEN,     /* before the wait */
    NOT_TAKEN,     /* no pin behind the wait */
    NOT_TAKEN_A,   /* none of the left operand */
    TAKEN_TWICE,   /* the next product without a pin */
    OTHER_SHAPE,   /* a product of another shape on the same sums */
    GENERIC_WRITE, /* to b, without ptx_fence_async */
    ONE_WARP,      /* the last warp asks for nothing */
    DESCRIPTOR     /* starts inside the pattern */
};

template <int F> __global__ void product_kernel(float *)
{
    DEV_DYNAMIC(bf16, room);
    uint64_t b = ptx_matrix(F == DESCRIPTOR ? room + 64 : room, 16, 1024);
    uint32_t fa[4] = {};
    float d[16];

    if (F == GENERIC_WRITE)
        room[threadIdx.x] = from_f32<bf16>(1);
    __syncthreads();
    if (F == ONE_WARP && threadIdx.x >= 96)
        return;
    if (F != NO_PIN && F != LATE_PIN)
        ptx_wgmma_pin(d);
    if (F == STALE_PIN)
        d[3] = 1;
    if (F != NO_PIN_A)
        ptx_wgmma_pin(fa);
    if (F != NO_FENCE)
        ptx_wgmma_fence();
    if (F == LATE_PIN)
        ptx_wgmma_pin(d);
    ptx_wgmma_a<0>(d, fa, b, false, bf16());
    if (F == OTHER_SHAPE)
        ptx_wgmma_a<0>(reinterpret_cast<float(&)[8]>(d), fa, b, false, bf16());
    ptx_wgmma_commit();
    if (F == SUMS_WRITTEN)
        d[15] = 0;
    if (F == A_WRITTEN)
        fa[3] = 5;
    ptx_wgmma_wait<0>();
    if (F == TAKEN_TWICE) {
        ptx_wgmma_fence();
        ptx_wgmma_a<0>(d, fa, b, true, bf16());
    }
    if (F != NOT_TAKEN)
        ptx_wgmma_pin(d);
    if (F != NOT_TAKEN_A)
        ptx_wgmma_pin(fa);
}

/* An mbarrier that others use without the fence of its initialisation. */
__global__ void unfenced_bar_kernel(float *)
{
    DEV_SHARED(uint64_t, bar, [1]);

    if (threadIdx.x == 0)
        ptx_mbar_init(bar, FAULTY);
    __syncthreads();
    ptx_mbar_arrive(bar);
}

__global__ void twice_kernel(float *)
{
    DEV_SHARED(uint64_t, bar, [1]);

    if (threadIdx.x != 0)
        return;
    ptx_mbar_init(bar, 1);
    ptx_mbar_init(bar, 1);
}

/* The first thread waits for a phase; the second one ends that and the next. */
__global__ void overtaken_kernel(float *)
{
    DEV_SHARED(uint64_t, bar, [1]);

    if (threadIdx.x == 0) {
        ptx_mbar_init(bar, 1);
        ptx_mbar_init_fence();
    }
    __syncthreads();
    if (threadIdx.x == 0)
        ptx_mbar_wait(bar, 0);
    for (int i = 0; i < 3 && threadIdx.x == 1; i++)
        ptx_mbar_arrive(bar);
}

/* setmaxnreg where every thread begins with 248 registers: nobody gives what the block takes. */
__global__ void greedy_kernel(float *)
{
    ptx_regs_take<256>();
    __syncthreads();
}

__global__ void backward_kernel(float *)
{
    ptx_regs_give<40>();
    ptx_regs_give<56>();
}

__global__ void some_warps_kernel(float *)
{
    if (threadIdx.x < 96)
        ptx_regs_give<40>();
}

/* One element behind device memory. */
__global__ void read_kernel(float *x)
{
    x[0] = x[threadIdx.x + 1];
}

__global__ void write_kernel(float *x)
{
    x[threadIdx.x + 1] = 0;
}

#if defined(__SANITIZE_ADDRESS__)
#define BEYOND "AddressSanitizer: use-after-poison"
__global__ void beyond_kernel(float *x)
{
    DEV_SHARED(float, room, [FAULTY]);
    DEV_SHARED(float, other, [FAULTY]);
    float *p = room; /* no array any more, whose bounds the compiler knows */

    other[threadIdx.x] = 0;
    p[threadIdx.x + 1] = x[0]; /* the last one lies between the two */
}

__global__ void beyond_launch_kernel(float *x)
{
    DEV_DYNAMIC(float, room);

    x[0] = room[ROOM / 4 + 1 - FAULTY + threadIdx.x]; /* the launch has ROOM bytes */
}
#else
#define BEYOND "device memory that nobody was given"
#endif

static const struct {
    const char *words;
    void (*kernel)(float *);
} faults[] = {
    {"divergent barrier", divergent_kernel},
    {"have ended", ended_kernel},
    {"deadlock", lanes_kernel},
    {"never waited for", unwaited_kernel},
    {"deadlock", never_kernel},
    {"never initialised", unset_kernel},
    {"may write its shared memory", landing_kernel},
    {"no ptx_wgmma_fence", product_kernel<NO_FENCE>},
    {"no ptx_wgmma_pin of these registers before", product_kernel<NO_PIN>},
    {"no ptx_wgmma_pin of these registers before", product_kernel<LATE_PIN>},
    {"were written behind ptx_wgmma_pin", product_kernel<STALE_PIN>},
    {"no ptx_wgmma_pin of these registers before", product_kernel<NO_PIN_A>},
    {"in flight were written", product_kernel<SUMS_WRITTEN>},
    {"in flight were written", product_kernel<A_WRITTEN>},
    {"ended without ptx_wgmma_pin", product_kernel<NOT_TAKEN>},
    {"ended without ptx_wgmma_pin", product_kernel<NOT_TAKEN_A>},
    {"since their last wait", product_kernel<TAKEN_TWICE>},
    {"of another shape", product_kernel<OTHER_SHAPE>},
    {"without ptx_fence_async", product_kernel<GENERIC_WRITE>},
    {"differ in wgmma", product_kernel<ONE_WARP>},
    {"starts inside the pattern", product_kernel<DESCRIPTOR>},
    {"without ptx_mbar_init_fence", unfenced_bar_kernel},
    {"initialised twice", twice_kernel},
    {"two phases", overtaken_kernel},
    {"deadlock", greedy_kernel},
    {"setmaxnreg.dec to 56 registers of a thread that has 40", backward_kernel},
    {"differ in setmaxnreg", some_warps_kernel},
    {BEYOND, read_kernel},
    {BEYOND, write_kernel},
#if defined(__SANITIZE_ADDRESS__)
    {"AddressSanitizer", beyond_kernel},
    {"AddressSanitizer", beyond_launch_kernel},
#endif
};
#if defined(__SANITIZE_ADDRESS__)
#define TOUCHED "AddressSanitizer"
#else
#define TOUCHED "the host touches device memory"
#endif

/* Host code that follows a device pointer. */
static void touch(void)
{
    void *p = NULL;

    cudaMalloc(&p, 256);
    printf("%d\n", *static_cast<volatile char *>(p));
}

/* kernel NULL: touch. */
static void fault_case(const char *words, void (*kernel)(float *))
{
    static char text[4096];
    int to[2], status = 0;
    size_t n = 0;
    ssize_t got;
    pid_t child;

    CHECK(pipe(to) == 0);
    fflush(stdout);
    if ((child = fork()) == 0) {
        void *x = NULL;

        dup2(to[1], 2);
        signal(SIGABRT, SIG_DFL);
        if (kernel == NULL)
            touch();
        cudaMalloc(&x, FAULTY * sizeof(float));
        launch(0, 1, FAULTY, ROOM, kernel, static_cast<float *>(x));
        _exit(0);
    }
    close(to[1]);
    while (n < sizeof text - 1 && (got = read(to[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    close(to[0]);
    text[n] = '\0';
    waitpid(child, &status, 0);
    check_row(words);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    if (!CHECK(strstr(text, words) != NULL))
        printf("%s\n", text);
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
    for (const auto &f : faults)
        fault_case(f.words, f.kernel);
    if (pkey_alloc(0, 0) >= 0) /* the processor can shut memory */
        fault_case(TOUCHED, NULL);
    return check_done();
}
