/*
 * The matrix rate of a backend: y = x Wt at one shape and type, best of some rounds.
 * usage: rate TYPE ROWS IN OUT [cpu|cuda]    prints GFLOP/s
 */
#include "engine/base/str.h"
#include "trainer/backend/device.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7 };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum fr_rc matrix(struct tr_backend *be, struct tr_queue *q, enum tr_dtype t,
                         const int64_t shape[2], struct tr_view *v, struct fr_err *err)
{
    void *p;
    enum fr_rc rc =
        tr_mem_alloc(be, TR_MEM_DEVICE, (size_t)(shape[0] * shape[1]) * tr_dtype_bytes(t), &p, err);

    if (rc != FR_OK)
        return rc;
    *v = tr_view2(p, t, shape[0], shape[1]);
    struct tr_fill f = {.y = *v, .value = 0.01};
    return tr_fill(be, q, &f, err);
}

static enum fr_rc measure(enum tr_device device, enum tr_dtype t, const int64_t n[3],
                          double *gflops, struct fr_err *err)
{
    struct tr_backend *be = NULL;
    struct tr_queue *q = NULL;
    struct tr_gemm g = {.trans_b = true, .alpha = 1};
    struct tr_view w = {0};
    enum fr_rc rc = tr_device_create(device, 0, &be, err);

    if (rc == FR_OK)
        rc = tr_queue_create(be, 0, &q, err);
    if (rc == FR_OK)
        rc = matrix(be, q, t, (int64_t[]){n[0], n[1]}, &g.a, err);
    if (rc == FR_OK)
        rc = matrix(be, q, t, (int64_t[]){n[2], n[1]}, &w, err);
    if (rc == FR_OK)
        rc = matrix(be, q, t, (int64_t[]){n[0], n[2]}, &g.c, err);
    g.b.w = w;
    double best = 1e30;
    for (int i = 0; i < ROUNDS && rc == FR_OK; i++) {
        double s = now_s();
        rc = tr_gemm(be, q, &g, err);
        if (rc == FR_OK)
            rc = tr_sync(be, q, err);
        s = now_s() - s;
        best = s < best ? s : best;
    }
    *gflops = 2.0 * (double)n[0] * (double)n[1] * (double)n[2] / best * 1e-9;
    return rc;
}

int main(int argc, char **argv)
{
    int64_t n[3] = {0};
    double gflops = 0;
    struct fr_err err;
    enum tr_device device = TR_DEVICE_CPU;
    enum tr_dtype t = argc > 1 && strcmp(argv[1], "bf16") == 0 ? TR_BF16 : TR_F32;

    for (int i = 0; i < 3; i++)
        if (argc < 5 || argc > 6 || fr_parse_i64(fr_str_of(argv[2 + i]), &n[i], &err) != FR_OK ||
            n[i] < 1) {
            fprintf(stderr, "usage: rate f32|bf16 ROWS IN OUT [cpu|cuda]\n");
            return 2;
        }
    if ((argc == 6 && tr_device_parse(argv[5], &device, &err) != FR_OK) ||
        measure(device, t, n, &gflops, &err) != FR_OK) {
        fprintf(stderr, "rate: %s\n", err.msg);
        return 1;
    }
    printf("%.1f\n", gflops);
    return 0;
}
