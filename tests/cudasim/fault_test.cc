/*
 * The errors that the simulator must find: each row of `faults` runs in a child process, which must
 * abort with the row's words. A block of FAULTY threads has as many numbers of device memory.
 */
#include "tests/cudasim/sim_test.h"

#include <csignal>
#include <cstdio>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Rows 128 bytes apart begin in the same bank. */
__global__ void banks_kernel(float *)
{
    enum { APART = 64 };
    DEV_SHARED(uint16_t, room, [8 * APART]);
    uint32_t r[4];

    ptx_ldmatrix_x4(r, &room[threadIdx.x % 8 * APART]);
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
    ONE_WARP,      /* the last warp is missing */
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

/* setmaxnreg where every thread begins with 248 registers and no thread gives any. */
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
#define BEYOND "device memory that is not allocated"
#endif

static const struct {
    const char *words;
    void (*kernel)(float *);
} faults[] = {
    {"divergent barrier", divergent_kernel},
    {"have ended", ended_kernel},
    {"deadlock", lanes_kernel},
    {"never waited for", unwaited_kernel},
    {"from the same banks", banks_kernel},
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

void fault_cases(void)
{
    for (const auto &f : faults)
        fault_case(f.words, f.kernel);
    if (pkey_alloc(0, 0) >= 0) /* the processor has protection keys */
        fault_case(TOUCHED, NULL);
}
