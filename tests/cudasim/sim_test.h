/* What the two parts of the simulator's own test share: sim_test.cc (instructions, queues) and
 * fault_test.cc (errors that the simulator must find). */
#ifndef TESTS_CUDASIM_SIM_TEST_H
#define TESTS_CUDASIM_SIM_TEST_H

#include "trainer/backend/cuda/cuda.h"

extern "C" {
#include "tests/unit/check.h"
}

static inline cudaStream_t stream_on(int device)
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
void fault_cases(void);

#endif
