/* How fast the CPU backend's ops are, at the shapes of DeepSeek-V3's layers cut to 512 tokens. */
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/philox.h"

#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 5 };

struct bench {
    struct tr_backend *be;
    struct tr_queue *q;
    uint64_t seed;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Random numbers; freed with the process. */
static struct tr_view made(struct bench *b, enum tr_dtype t, int64_t x, int64_t y, int64_t z)
{
    int64_t shape[] = {x, y, z};
    struct tr_view v = tr_view_of(NULL, t, z > 0 ? 3 : 2, shape);
    struct fr_err err;

    if (tr_mem_alloc(b->be, TR_MEM_DEVICE, tr_view_bytes(v), &v.p, &err) != FR_OK) {
        fr_complain("%s\n", err.msg);
        return v;
    }
    for (int64_t i = 0; i < tr_view_count(v); i++)
        tr_set(v, i, (double)(tr_mix64(b->seed++) >> 11) * 0x1p-53 - 0.5);
    return v;
}

/* The best of some rounds, in seconds. */
#define BEST(out, call)                                                                            \
    do {                                                                                           \
        (out) = 1e9;                                                                               \
        for (int best_i = 0; best_i < ROUNDS; best_i++) {                                          \
            double best_t = seconds();                                                             \
            if ((call) != FR_OK)                                                                   \
                fr_complain("%s\n", err.msg);                                                      \
            best_t = seconds() - best_t;                                                           \
            (out) = best_t < (out) ? best_t : (out);                                               \
        }                                                                                          \
    } while (0)

static void gemm(struct bench *b, enum tr_dtype t, const int64_t *size, bool wgrad)
{
    int64_t M = size[0], N = size[1], D = size[2];
    struct tr_gemm g = {.trans_a = wgrad, .trans_b = !wgrad, .alpha = 1};
    struct fr_err err;
    double best;

    g.a = wgrad ? made(b, t, D, M, 0) : made(b, t, M, D, 0);
    g.b.w = wgrad ? made(b, t, D, N, 0) : made(b, t, N, D, 0);
    g.c = made(b, wgrad ? TR_F32 : t, M, N, 0);
    BEST(best, tr_gemm(b->be, b->q, &g, &err));
    fr_print("gemm %-5s %5lld x %5lld x %5lld %s %9.3f ms %8.1f GFLOP/s\n", tr_dtype_name(t),
             (long long)M, (long long)N, (long long)D, wgrad ? "dW" : "  ", best * 1e3,
             2e-9 * (double)(M * N * D) / best);
    tr_mem_free(b->be, TR_MEM_DEVICE, g.a.p);
    tr_mem_free(b->be, TR_MEM_DEVICE, g.b.w.p);
    tr_mem_free(b->be, TR_MEM_DEVICE, g.c.p);
}

static void attention(struct bench *b, enum tr_dtype t, int32_t T, int64_t nh)
{
    enum { DQ = 192, DV = 128 };
    struct tr_attention a = {.scale = 0.0722f, .causal = true};
    int32_t ends[] = {0, T};
    struct fr_err err;
    double fwd, bwd, pairs = 0.5 * (double)T * (double)T * (double)nh;

    a.Q = made(b, t, T, nh, DQ);
    a.K = made(b, t, T, nh, DQ);
    a.V = made(b, t, T, nh, DV);
    a.O = made(b, t, T, nh, DV);
    a.dO = made(b, t, T, nh, DV);
    a.dQ = made(b, t, T, nh, DQ);
    a.dK = made(b, t, T, nh, DQ);
    a.dV = made(b, t, T, nh, DV);
    a.lse = made(b, TR_F32, nh, T, 0);
    a.offsets = tr_view1(ends, TR_I32, 2);
    BEST(fwd, tr_attention_fwd(b->be, b->q, &a, &err));
    BEST(bwd, tr_attention_bwd(b->be, b->q, &a, &err));
    fr_print("attention %-5s T=%d nh=%lld %9.3f ms %8.1f GFLOP/s, backward %9.3f ms %8.1f\n",
             tr_dtype_name(t), T, (long long)nh, fwd * 1e3, 2e-9 * pairs * (DQ + DV) / fwd,
             bwd * 1e3, 2e-9 * pairs * (3 * DQ + 2 * DV) / bwd);
}

static void rows(struct bench *b, enum tr_dtype t)
{
    enum { T = 512, H = 7168, I = 2048 };
    struct tr_rmsnorm n = {.eps = 1e-6f};
    struct tr_swiglu s = {0};
    struct fr_err err;
    double best;

    n.x = made(b, t, T, H, 0);
    n.y = made(b, t, T, H, 0);
    n.gain = tr_view1(made(b, t, 1, H, 0).p, t, H);
    BEST(best, tr_rmsnorm_fwd(b->be, b->q, &n, &err));
    fr_print("rmsnorm %-5s %d x %d %9.3f ms\n", tr_dtype_name(t), T, H, best * 1e3);
    s.h = made(b, t, T, I, 0);
    s.g = made(b, t, T, I, 0);
    s.u = made(b, t, T, I, 0);
    BEST(best, tr_swiglu_fwd(b->be, b->q, &s, &err));
    fr_print("swiglu %-5s %d x %d %9.3f ms\n", tr_dtype_name(t), T, I, best * 1e3);
}

int main(void)
{
    static const enum tr_dtype types[] = {TR_F32, TR_BF16};
    static const int64_t sizes[][3] = {{512, 1536, 7168}, {512, 2048, 7168}, {512, 7168, 2048},
                                       {512, 16, 7168},   {16, 2048, 7168},  {100, 2048, 7168},
                                       {100, 64, 64}};
    struct bench b = {.seed = 1};
    struct fr_err err;

    if (tr_cpu_create(&b.be, &err) != FR_OK || tr_queue_create(b.be, 0, &b.q, &err) != FR_OK) {
        fr_complain("%s\n", err.msg);
        return EXIT_FAILURE;
    }
    for (int t = 0; t < 2; t++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            gemm(&b, types[t], sizes[i], false);
        gemm(&b, types[t], (const int64_t[]){16, 7168, 512}, true);
        attention(&b, types[t], 1024, 4);
        attention(&b, types[t], 128, 16);
        rows(&b, types[t]);
    }
    tr_queue_destroy(b.be, b.q);
    tr_backend_destroy(b.be);
    return EXIT_SUCCESS;
}
