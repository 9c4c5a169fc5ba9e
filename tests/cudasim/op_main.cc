/*
 * The op table of tests/op on the simulated device: threads forward, reversed and shuffled, which
 * must give the same bits, against the reference.
 */
#include "trainer/backend/cuda/cuda.h"
#include "trainer/backend/module.h"

#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include "tests/op/op.h"
}

/* The ops that have no kernel yet; op_setup checks that the backend says so. */
static const enum tr_op lacks[] = {};

/* The order of threads is the plain build's matter; sanitizers look at one. */
#if defined(__SANITIZE_ADDRESS__)
enum { DEVICES = 1 };
#else
enum { DEVICES = SIM_DEVICES };
#endif

/* cudasim_op [80]: as a device of sm_90, or of sm_80, whose threads then run in one order. */
int main(int argc, char **argv)
{
    int sm = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 90, devices = sm == 90 ? DEVICES : 1;
    struct tr_backend *be[DEVICES] = {};
    struct fr_err err;
    enum fr_rc rc = FR_OK;

    cudasim_device(sm, 1);
    for (int i = 0; i < devices && rc == FR_OK; i++)
        rc = tr_cuda_open(sizeof *be[i]->ops, i, false, &be[i], &err);
    if (rc == FR_OK)
        rc = op_setup(be, devices, lacks, sizeof lacks / sizeof lacks[0], &err);
    if (rc != FR_OK) {
        printf("%s\n", err.msg);
        return EXIT_FAILURE;
    }
    return op_run();
}
