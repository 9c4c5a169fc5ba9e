/*
 * wgmma (sm_90a): the part of ptx.h for products of a warpgroup; only ptx.h includes it.
 *
 * d (64, N) f32 = a (64, 16) b (16, N) + (add ? d : 0). A descriptor gives b in shared memory; a is
 * in shared memory or registers. With g = lane/4, c = 2*(lane%4), warp w of the group:
 * d[4j .. 4j+3] = (16w+g, 8j+c) (.., +1) (16w+g+8, 8j+c) (.., +1); a in registers as in ptx_mma,
 * the rows of warp w. All 128 threads of an aligned group of 4 warps call. From the call to the
 * wait for its group no code may access d or an a in registers, and both stay in scope
 * (ptx_wgmma_pin). If ordinary stores wrote the shared memory, ptx_fence_async and a barrier come
 * first.
 * Source: PTX ISA 8.x, "Asynchronous warpgroup level matrix instructions".
 */
#ifndef TR_BACKEND_CUDA_PTX_WGMMA_H
#define TR_BACKEND_CUDA_PTX_WGMMA_H

/*
 * Pins registers; emits no instruction. The compiler does not know that an asynchronous product
 * still writes d or reads a, and could move accesses across the fence or the wait. Therefore every
 * array of d, and of a in registers, is pinned
 *   before the fence, after its last ordinary write, and
 *   after each wait, before its first ordinary read or write.
 */
template <int N> __device__ __forceinline__ void ptx_wgmma_pin(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

template <int N> __device__ __forceinline__ void ptx_wgmma_pin(uint32_t (&a)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(a[i])::"memory");
}

/* Comes before the first product of a batch, and after accesses to registers of d or a. */
__device__ __forceinline__ void ptx_wgmma_fence(void)
{
    PTX_SM90("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void ptx_wgmma_commit(void)
{
    PTX_SM90("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most the N newest groups are pending. */
template <int N> __device__ __forceinline__ void ptx_wgmma_wait(void)
{
    PTX_SM90("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* clang-format off */
#define PTX_S0 "%0,%1,%2,%3,%4,%5,%6,%7," \
    "%8,%9,%10,%11,%12,%13,%14,%15"
#define PTX_S1 "%16,%17,%18,%19,%20,%21,%22,%23," \
    "%24,%25,%26,%27,%28,%29,%30,%31"
#define PTX_S2 "%32,%33,%34,%35,%36,%37,%38,%39," \
    "%40,%41,%42,%43,%44,%45,%46,%47"
#define PTX_S3 "%48,%49,%50,%51,%52,%53,%54,%55," \
    "%56,%57,%58,%59,%60,%61,%62,%63"
#define PTX_S4 "%64,%65,%66,%67,%68,%69,%70,%71," \
    "%72,%73,%74,%75,%76,%77,%78,%79"
#define PTX_S5 "%80,%81,%82,%83,%84,%85,%86,%87," \
    "%88,%89,%90,%91,%92,%93,%94,%95"
#define PTX_S6 "%96,%97,%98,%99,%100,%101,%102,%103," \
    "%104,%105,%106,%107,%108,%109,%110,%111"
#define PTX_S7 "%112,%113,%114,%115,%116,%117,%118,%119," \
    "%120,%121,%122,%123,%124,%125,%126,%127"
#define PTX_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), \
    "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define PTX_OPEN(...) __VA_ARGS__
#define PTX_D32(i) PTX_D8(i), PTX_D8(i + 8), PTX_D8(i + 16), PTX_D8(i + 24)

/* N, type, accumulators as text and as operands, the numbers of the operands behind them. */
#define PTX_WGMMA(N, T, type, S, D, o0, o1, o2, o3, o4, o5, o6)                                    \
    /* a and b in shared memory; TA, TB: m, n contiguous */                                        \
    template <int TA, int TB>                                                                      \
    __device__ __forceinline__ void ptx_wgmma(float (&d)[N / 2], uint64_t a, uint64_t b,        \
                                              bool add, T)                                         \
    {                                                                                              \
        PTX_SM90("{\n.reg .pred p;\nsetp.ne.b32 p, %" o2 ", 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" S "}, "      \
                 "%" o0 ", %" o1 ", p, 1, 1, %" o3 ", %" o4 ";\n}"                                 \
                 : PTX_OPEN D : "l"(a), "l"(b), "r"((int)add), "n"(TA), "n"(TB));                  \
    }                                                                                              \
    /* a in registers */                                                                           \
    template <int TB>                                                                              \
    __device__ __forceinline__ void ptx_wgmma_a(float (&d)[N / 2], uint32_t (&a)[4], uint64_t b,   \
                                                bool add, T)                                       \
    {                                                                                              \
        PTX_SM90("{\n.reg .pred p;\nsetp.ne.b32 p, %" o5 ", 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" S "}, "      \
                 "{%" o0 ", %" o1 ", %" o2 ", %" o3 "}, %" o4 ", p, 1, 1, %" o6 ";\n}"             \
                 : PTX_OPEN D                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(TB));    \
    }
#define PTX_WGMMA_TYPES(N, S, D, ...)                                                              \
    PTX_WGMMA(N, __nv_bfloat16, "bf16", S, D, __VA_ARGS__)                                         \
    PTX_WGMMA(N, __half, "f16", S, D, __VA_ARGS__)

PTX_WGMMA_TYPES(32, PTX_S0,
    (PTX_D8(0), PTX_D8(8)), "16", "17", "18", "19", "20", "21", "22")
PTX_WGMMA_TYPES(64, PTX_S0 "," PTX_S1,
    (PTX_D32(0)), "32", "33", "34", "35", "36", "37", "38")
PTX_WGMMA_TYPES(128, PTX_S0 "," PTX_S1 "," PTX_S2 "," PTX_S3,
    (PTX_D32(0), PTX_D32(32)), "64", "65", "66", "67", "68", "69", "70")
PTX_WGMMA_TYPES(192, PTX_S0 "," PTX_S1 "," PTX_S2 "," PTX_S3 "," PTX_S4 "," PTX_S5,
    (PTX_D32(0), PTX_D32(32), PTX_D32(64)), "96", "97", "98", "99", "100", "101", "102")
PTX_WGMMA_TYPES(256,
    PTX_S0 "," PTX_S1 "," PTX_S2 "," PTX_S3 "," PTX_S4 "," PTX_S5 "," PTX_S6 "," PTX_S7,
    (PTX_D32(0), PTX_D32(32), PTX_D32(64), PTX_D32(96)),
    "128", "129", "130", "131", "132", "133", "134")
/* clang-format on */

#endif
