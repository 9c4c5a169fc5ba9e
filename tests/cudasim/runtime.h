/*
 * The part of the CUDA runtime that trainer/backend/cuda uses, on the host. Device memory is filled
 * with 0xff and shut to the host: it is open while a stream works. Three devices differ in order
 * of blocks and threads: 0 forward, 1 reversed, 2 shuffled by a seed. A stream runs what was
 * put into it in order: at once on device 0, on the others (and collectives on all) as late as
 * possible (when something waits for it), so that a missing event or sync is seen; with
 * $CUDASIM_EARLY set copies and collectives run at once where kernels run late (all: on device 0,
 * too). Events tell the time of a device whose streams really run side by side: a piece of work
 * takes a microsecond, and the host takes none.
 */
#ifndef TESTS_CUDASIM_RUNTIME_H
#define TESTS_CUDASIM_RUNTIME_H

#include "tests/cudasim/block.h"
#include "tests/cudasim/isa.h"

#include <cstddef>
#include <tuple>
#include <utility>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600
};
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDefault = 4
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum { cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0 };
enum { cudaEventDefault = 0, cudaEventDisableTiming = 2 };

typedef struct sim_stream *cudaStream_t;
typedef struct sim_event *cudaEvent_t;

struct cudaDeviceProp {
    char name[256];
    struct {
        char bytes[16];
    } uuid;
    int pciDomainID, pciBusID, pciDeviceID;
    size_t totalGlobalMem, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount, l2CacheSize;
};

struct cudaFuncAttributes {
    int binaryVersion, ptxVersion, maxDynamicSharedSizeBytes, numRegs;
    size_t sharedSizeBytes, localSizeBytes;
};

struct cudaLaunchAttribute {
    int id;
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    struct cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

enum { SIM_DEVICES = 3 };

/* What the devices are: sm 80 or 90; the seed of device 2 for streams made afterwards. */
void cudasim_device(int sm, uint64_t seed);
/* How the tensor cores of all devices sum (isa.h). */
void cudasim_sums(enum isa_sums kind);

cudaError_t cudaDriverGetVersion(int *v);
cudaError_t cudaRuntimeGetVersion(int *v);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int device);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetLastError(void);

cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s);
cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t s);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess = 0 };
#define CUDART_VERSION 13000
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found);

cudaError_t sim_set_shared(const void *kernel, int bytes);
cudaError_t sim_get_attributes(struct cudaFuncAttributes *a, const void *kernel);
/* Checks the launch against the device's limits and enqueues it in the stream. */
cudaError_t sim_enqueue(const struct cudaLaunchConfig_t *c, const void *kernel,
                        std::function<void()> body);
/* Enqueues any work in the stream (the simulated cuBLASLt and NCCL do). */
void sim_put(cudaStream_t s, std::function<void()> work);

template <class... P>
inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), enum cudaFuncAttribute a, int value)
{
    return a == cudaFuncAttributeMaxDynamicSharedMemorySize
               ? sim_set_shared((const void *)kernel, value)
               : cudaSuccess;
}

template <class... P>
inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, void (*kernel)(P...))
{
    return sim_get_attributes(a, (const void *)kernel);
}

/* As on a device, every thread has its own copy of the parameters. */
template <class... P, class... A>
inline cudaError_t cudaLaunchKernelEx(const struct cudaLaunchConfig_t *c, void (*kernel)(P...),
                                      A &&...args)
{
    std::tuple<P...> all(std::forward<A>(args)...);

    return sim_enqueue(c, (const void *)kernel,
                       [kernel, all] { std::apply(kernel, std::tuple<P...>(all)); });
}

#endif
