#include "tests/op/op.h"
#include "trainer/backend/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A queue keeps no more for a product than was foretold from its shapes. */
static bool foretold(struct tr_backend *be, enum tr_dtype t, bool trans_a)
{
    enum { M = 304, N = 704, D = 520 };
    struct tr_gemm g = {.trans_a = trans_a, .trans_b = !trans_a, .alpha = 1};
    struct tr_scratch most = {0};
    struct tr_queue *q = NULL;
    struct fr_err err;
    void *p = NULL;
    size_t bytes = (size_t)(M * N + M * D + N * D) * sizeof(float);
    bool good = tr_queue_create(be, 0, &q, &err) == FR_OK &&
                tr_mem_alloc(be, TR_MEM_DEVICE, bytes, &p, &err) == FR_OK &&
                tr_zero(be, q, p, bytes) == FR_OK;

    g.c = tr_view2(p, TR_F32, M, N);
    g.a = trans_a ? tr_view2((float *)p + M * N, t, D, M) : tr_view2((float *)p + M * N, t, M, D);
    g.b.w = trans_a ? tr_view2((float *)p + M * N, t, D, N) : tr_view2((float *)p + M * N, t, N, D);
    if (good) {
        be->ops->scratch(be->self, TR_OP_gemm, &g, &most);
        good = tr_gemm(be, q, &g, &err) == FR_OK && q->bytes[CPU_WORK_GEMM] > 0 &&
               q->bytes[CPU_WORK_GEMM] <= most.product && most.op == 0;
    }
    if (!good)
        printf("a product's scratch: foretold %zu, taken %zu\n", most.product,
               q != NULL ? q->bytes[CPU_WORK_GEMM] : 0);
    tr_mem_free(be, TR_MEM_DEVICE, p);
    tr_queue_destroy(be, q);
    return good;
}

/* f32 that is no number, whatever bits say so, is no number in bf16 and f16. */
static bool keeps_nan(struct tr_backend *be)
{
    enum { N = 37 };
    static const uint32_t bits[] = {0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff, 0x7fc00000};
    static const enum tr_dtype types[] = {TR_BF16, TR_F16};
    uint32_t x[N];
    uint16_t y[N];
    struct tr_cast a = {.x = tr_view1(x, TR_F32, N)};
    struct tr_queue *q = NULL;
    struct fr_err err;
    bool good = tr_queue_create(be, 0, &q, &err) == FR_OK;

    for (int i = 0; i < N; i++)
        x[i] = bits[i % 5];
    for (int t = 0; t < 2 && good; t++) {
        a.y = tr_view1(y, types[t], N);
        good = tr_cast(be, q, &a, &err) == FR_OK;
        for (int i = 0; i < N && good; i++)
            good = isnan(tr_get(a.y, i));
    }
    if (!good)
        printf("NaN does not stay NaN in a cast\n");
    tr_queue_destroy(be, q);
    return good;
}

/* The mutation run: every fault in every op, on one backend. */
static int prove(void)
{
    struct tr_backend *be = NULL;
    struct fr_err err;

    omp_set_num_threads(1);
    if (cpu_create(CPU_MATH_PLAIN, &be, &err) != FR_OK || op_prove(be, &err) != FR_OK) {
        printf("%s\n", err.msg);
        return EXIT_FAILURE;
    }
    return op_run();
}

/* op_test [plain|cells]: which matrix products the CPU backend takes; none: the machine's best.
 * Once with one thread, once with three. op_test mutations: see prove(). */
int main(int argc, char **argv)
{
    static const char *const names[] = {"best", "plain", "cells"};
    enum cpu_math math = CPU_MATH_BEST;
    struct tr_backend *be[2] = {NULL, NULL};
    struct fr_err err;
    enum fr_rc rc = FR_OK;

    if (argc > 1 && strcmp(argv[1], "mutations") == 0)
        return prove();
    for (int i = 0; i < 3 && argc > 1; i++)
        if (strcmp(argv[1], names[i]) == 0)
            math = (enum cpu_math)i;
    for (int i = 0; i < 2 && rc == FR_OK; i++) {
        omp_set_num_threads(1 + 2 * i);
        rc = cpu_create(math, &be[i], &err);
        if (rc == FR_OK && !(keeps_nan(be[i]) && foretold(be[i], TR_F32, false) &&
                             foretold(be[i], TR_BF16, false) && foretold(be[i], TR_BF16, true)))
            return EXIT_FAILURE;
    }
    if (rc == FR_OK)
        rc = op_setup(be, 2, &err);
    if (rc != FR_OK) {
        printf("%s\n", err.msg);
        return rc == FR_UNSUPPORTED ? 77 : EXIT_FAILURE;
    }
    return op_run();
}
