#include "tests/cudasim/device.h"

#include "tests/cudasim/instructions.h"
#include "tests/cudasim/kernels.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <unistd.h>

/* Work in a stream: when the host issued it, and how long it takes, in microseconds. */
struct sim_piece {
    std::function<void()> run;
    double issued, takes;
};

/* Work not done yet; `done` counts what was. */
struct sim_work {
    std::deque<struct sim_piece> open;
    double clock; /* when the last piece ended */
    unsigned long put;
    std::atomic<unsigned long> done;
    bool running;
    struct sim_order order;
};

struct sim_stream {
    std::shared_ptr<struct sim_work> work;
};

struct sim_event {
    std::shared_ptr<struct sim_work> of;
    unsigned long at;
    std::shared_ptr<double> clock; /* of the stream when it was reached */
};

static thread_local int device;
static thread_local double host_clock; /* when the last thing that this thread waited for ended */
static int device_sm = 90;
static uint64_t device_seed = 1;
static enum isa_sums device_sums = ISA_IN_ORDER;
static std::mutex lock; /* of the table below: ranks are host threads */
static std::map<const void *, int> shared_of;

void cudasim_device(int sm, uint64_t seed)
{
    device_sm = sm;
    device_seed = seed;
}

void cudasim_sums(enum isa_sums kind)
{
    device_sums = kind;
}

enum isa_sums sim_sums(void)
{
    return device_sums;
}

/* Does the work that was put before `until`. */
static void drain(const std::shared_ptr<struct sim_work> &w, unsigned long until)
{
    if (w->running || w->done >= until)
        return;
    w->running = true;
    sim_open();
    while (w->done < until) {
        struct sim_piece p = std::move(w->open.front());

        w->open.pop_front();
        w->clock = std::max(w->clock, p.issued) + p.takes;
        p.run();
        w->done++;
    }
    sim_shut();
    w->running = false;
}

/* What cannot be done at once holds up what follows, until something waits for it. */
static void put(cudaStream_t s, bool at_once, double takes, std::function<void()> work)
{
    struct sim_work *w = s->work.get();

    at_once = at_once && w->order.kind == 0 && w->done == w->put;
    w->open.push_back({std::move(work), host_clock, takes});
    w->put++;
    if (at_once)
        drain(s->work, w->put);
}

void sim_put(cudaStream_t s, std::function<void()> work)
{
    put(s, true, 1, std::move(work));
}

/* $CUDASIM_EARLY: where kernels run late, what moves data runs at once; "all": collectives do on
 * device 0 as well, so that ranks run those of several communicators in the order of the host. */
static void hurry(cudaStream_t s)
{
    const char *early = getenv("CUDASIM_EARLY");

    if (early != nullptr && (s->work->order.kind != 0 || strcmp(early, "all") == 0))
        drain(s->work, s->work->put);
}

void sim_put_late(cudaStream_t s, double takes, std::function<void()> work)
{
    put(s, false, takes, std::move(work));
    hurry(s);
}

/* $CUDASIM_DRIVER: 12040 is one that serves CUDA 12.4. */
cudaError_t cudaDriverGetVersion(int *v)
{
    const char *given = getenv("CUDASIM_DRIVER");

    *v = given != nullptr ? (int)strtol(given, nullptr, 10) : CUDART_VERSION;
    return cudaSuccess;
}

/* The module's own: its file is named for it. */
cudaError_t cudaRuntimeGetVersion(int *v)
{
    Dl_info self = {};
    bool older = dladdr((void *)cudaRuntimeGetVersion, &self) != 0 &&
                 strstr(self.dli_fname, "flowtrain_cuda12") != nullptr;

    *v = older ? 12090 : CUDART_VERSION;
    return cudaSuccess;
}

/* $CUDASIM_FABRIC: a machine with NVSwitch whose Fabric Manager does not run. $CUDASIM_DEVICES: so
 * many are seen. */
cudaError_t cudaGetDeviceCount(int *n)
{
    const char *given = getenv("CUDASIM_DEVICES");

    *n = given != nullptr ? (int)strtol(given, nullptr, 10) : SIM_DEVICES;
    return getenv("CUDASIM_FABRIC") != nullptr ? (cudaError_t)802 : cudaSuccess;
}

cudaError_t cudaSetDevice(int d)
{
    if (d < 0 || d >= SIM_DEVICES)
        return cudaErrorInvalidValue;
    device = d;
    return cudaSuccess;
}

/* Every process has devices of its own, but with $CUDASIM_GPU set all have the same one.
 * $CUDASIM_SM: 75 is a device of sm_75. */
/* Source: CUDA C++ programming guide, "Technical specifications per compute capability". */
static size_t shared_of_device(int sm)
{
    return sm == 86 || sm == 89 || sm >= 120 ? 99 << 10 : sm >= 90 ? 227 << 10 : 163 << 10;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d)
{
    size_t room;
    uint32_t own[2] = {(uint32_t)getpid(), (uint32_t)d};
    const char *given = getenv("CUDASIM_SM");
    int sm = given != nullptr ? (int)strtol(given, nullptr, 10) : device_sm;

    *p = {};
    if (getenv("CUDASIM_GPU") == nullptr)
        memcpy(p->uuid.bytes, own, sizeof own);
    p->pciBusID = 0x18 + d;
    snprintf(p->name, sizeof p->name, "cudasim sm_%d", sm);
    (void)cudaMemGetInfo(&room, &p->totalGlobalMem);
    p->sharedMemPerBlockOptin = shared_of_device(sm);
    p->major = sm / 10;
    p->minor = sm % 10;
    p->multiProcessorCount = 4; /* few, so that persistent blocks have several turns */
    p->l2CacheSize = 1 << 20;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr, int)
{
    *value = 4;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    default:
        return "invalid argument";
    }
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind,
                            cudaStream_t s)
{
    sim_put(s, [dst, src, bytes] { memmove(dst, src, bytes); });
    hurry(s);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t s)
{
    sim_put(s, [p, byte, bytes] { memset(p, byte, bytes); });
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = new sim_stream{std::make_shared<struct sim_work>()};
    (*s)->work->order = {device, device_seed};
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    drain(s->work, s->work->put);
    host_clock = std::max(host_clock, s->work->clock);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaStreamSynchronize(s);
    delete s;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = new sim_event{};
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    std::shared_ptr<struct sim_work> of = s->work;
    auto clock = std::make_shared<double>(0);

    put(s, true, 0, [of, clock] { *clock = of->clock; });
    *e = {of, of->put, clock};
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    std::shared_ptr<struct sim_work> of = e->of, own = s->work;
    std::shared_ptr<double> clock = e->clock;
    unsigned long at = e->at;

    if (of != nullptr && of != own)
        put(s, of->done >= at, 0, [of, at, own, clock] {
            drain(of, at);
            own->clock = std::max(own->clock, *clock);
        });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    if (e->of == nullptr)
        return cudaSuccess;
    drain(e->of, e->at);
    host_clock = std::max(host_clock, *e->clock);
    return cudaSuccess;
}

/* Any host thread may ask; it does no work. */
cudaError_t cudaEventQuery(cudaEvent_t e)
{
    return e->of == nullptr || e->of->done >= e->at ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)((*to->clock - *from->clock) / 1000);
    return cudaSuccess;
}

/* The one entry point that is ever asked for. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned,
                                             unsigned long long,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    if (strcmp(name, "cuTensorMapEncodeTiled") != 0)
        return cudaErrorInvalidValue;
    *f = (void *)cuTensorMapEncodeTiled;
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

void sim_need_sm90(struct sim_site site)
{
    if (device_sm < 90)
        sim_fail("%s:%d: an instruction of sm_90 on sm_%d", site.file, site.line, device_sm);
}

cudaError_t sim_set_shared(const void *kernel, int bytes)
{
    std::lock_guard<std::mutex> hold(lock);

    if (bytes < 0 || (size_t)bytes > shared_of_device(device_sm))
        return cudaErrorInvalidValue;
    shared_of[kernel] = bytes;
    return cudaSuccess;
}

cudaError_t sim_get_attributes(struct cudaFuncAttributes *a, const void *)
{
    *a = {};
    a->binaryVersion = a->ptxVersion = device_sm;
    return cudaSuccess;
}

/* What a launch of the kernel may ask for; *room: what that and its static shared memory may be
 * together, 48 KiB where the kernel's attribute is not set. */
static size_t shared_limit(const void *kernel, size_t *room)
{
    std::lock_guard<std::mutex> hold(lock);
    auto found = shared_of.find(kernel);

    *room = found != shared_of.end() ? shared_of_device(device_sm) : 48 << 10;
    return found != shared_of.end() ? (size_t)found->second : 48 << 10;
}

cudaError_t sim_enqueue(const struct cudaLaunchConfig_t *c, const void *kernel,
                        std::function<void()> body)
{
    size_t threads = (size_t)c->blockDim.x * c->blockDim.y * c->blockDim.z;
    size_t room, limit = shared_limit(kernel, &room);
    struct sim_launch l = {c->gridDim, c->blockDim,     c->dynamicSmemBytes,
                           room,       std::move(body), c->stream->work->order};

    if (threads == 0 || threads > 1024 || c->blockDim.z > 64 || c->gridDim.x == 0 ||
        c->gridDim.x > 0x7fffffffu || c->gridDim.y == 0 || c->gridDim.y > 65535 ||
        c->gridDim.z == 0 || c->gridDim.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (c->dynamicSmemBytes > limit)
        return cudaErrorInvalidValue;
    sim_kernel_launched(kernel);
    sim_put(c->stream, [l] { sim_run(&l); });
    return cudaSuccess;
}
