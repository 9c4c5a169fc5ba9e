/*
 * The CUDA backend as backend.h sees it: queues (streams), events, the table of ops. memory.cu has
 * the memory.
 */
#include "trainer/backend/cuda/cuda.h"

#include "trainer/backend/cuda/lt.h"
#include "trainer/backend/cuda/memory.h"
#include "trainer/backend/module.h"

extern "C" {
#include "engine/base/sys.h"
}

#include <stdio.h>
#include <string.h>

/* The newest architecture that this module has kernels for (trainer/cli/meson.build). */
#ifndef SM_MOST
#define SM_MOST 90
#endif

enum fr_rc cuda_ok(cudaError_t e, const char *what, struct fr_err *err)
{
    if (e == cudaSuccess)
        return FR_OK;
    (void)cudaGetLastError();
    return fr_fail(err, e == cudaErrorMemoryAllocation ? FR_NOMEM : FR_IO, "%s: %s", what,
                   cudaGetErrorString(e));
}

static enum fr_rc cuda_copy(void *self, struct tr_queue *q, void *dst, const void *src,
                            size_t bytes)
{
    (void)self;
    return cuda_ok(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, q->stream), "copy", NULL);
}

static enum fr_rc cuda_zero(void *self, struct tr_queue *q, void *dst, size_t bytes)
{
    (void)self;
    return cuda_ok(cudaMemsetAsync(dst, 0, bytes, q->stream), "zero", NULL);
}

static void cuda_queue_destroy(void *self, struct tr_queue *q)
{
    if (q->stream != NULL)
        (void)cudaStreamDestroy(q->stream);
    cuda_mem_free(self, TR_MEM_DEVICE, q->work);
    fr_sys.free(q);
}

static enum fr_rc cuda_queue_create(void *self, size_t workspace_bytes, struct tr_queue **out,
                                    struct fr_err *err)
{
    struct tr_queue *q = static_cast<struct tr_queue *>(fr_sys.alloc(sizeof *q));
    void *unused;
    enum fr_rc rc;

    if (q == NULL)
        return fr_fail(err, FR_NOMEM, "queue");
    memset(q, 0, sizeof *q);
    q->owner = static_cast<struct cuda *>(self);
    rc = cuda_ok(cudaSetDevice(q->owner->device), "device", err);
    if (rc == FR_OK)
        rc = cuda_ok(cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking), "queue", err);
    if (rc == FR_OK)
        rc = cuda_work(q, workspace_bytes, &unused, err);
    if (rc == FR_OK)
        *out = q;
    else
        cuda_queue_destroy(self, q);
    return rc;
}

static enum fr_rc cuda_event_create(void *self, bool timed, struct tr_event **out,
                                    struct fr_err *err)
{
    struct tr_event *e = static_cast<struct tr_event *>(fr_sys.alloc(sizeof *e));
    enum fr_rc rc;

    (void)self;
    if (e == NULL)
        return fr_fail(err, FR_NOMEM, "event");
    memset(e, 0, sizeof *e);
    rc = cuda_ok(
        cudaEventCreateWithFlags(&e->event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "event", err);
    if (rc == FR_OK)
        *out = e;
    else
        fr_sys.free(e);
    return rc;
}

static void cuda_event_destroy(void *self, struct tr_event *e)
{
    (void)self;
    (void)cudaEventDestroy(e->event);
    fr_sys.free(e);
}

static enum fr_rc cuda_event_record(void *self, struct tr_queue *q, struct tr_event *e)
{
    (void)self;
    e->recorded = true;
    return cuda_ok(cudaEventRecord(e->event, q->stream), "event", NULL);
}

static enum fr_rc cuda_event_wait(void *self, struct tr_queue *q, struct tr_event *e)
{
    (void)self;
    if (!e->recorded)
        return FR_OK;
    if (q == NULL)
        return cuda_ok(cudaEventSynchronize(e->event), "event", NULL);
    return cuda_ok(cudaStreamWaitEvent(q->stream, e->event, 0), "event", NULL);
}

static double cuda_event_between(void *self, struct tr_event *from, struct tr_event *to)
{
    float ms = 0;

    (void)self;
    return cudaEventElapsedTime(&ms, from->event, to->event) == cudaSuccess ? 1000.0 * ms : 0;
}

static void *cuda_stream(void *self, struct tr_queue *q)
{
    (void)self;
    return q->stream;
}

/* An event with an error counts as reached; tr_sync reports the error. */
static bool cuda_event_done(void *self, struct tr_event *e)
{
    cudaError_t rc = cudaSetDevice(static_cast<struct cuda *>(self)->device);

    return rc != cudaSuccess || cudaEventQuery(e->event) != cudaErrorNotReady;
}

static enum fr_rc cuda_sync(void *self, struct tr_queue *q, struct fr_err *err)
{
    enum fr_rc rc = cuda_ok(cudaStreamSynchronize(q->stream), "device", err);

    (void)self;
    return rc == FR_OK || q->op == NULL ? rc : fr_while(err, "at or before %s", q->op);
}

static void cuda_describe(void *self, char out[256])
{
    struct cuda *cuda = static_cast<struct cuda *>(self);
    size_t room = 0, total = 0;

    (void)cudaMemGetInfo(&room, &total);
    snprintf(out, 256, "device=%d name=\"%s\" uuid=%s sm=%d processors=%d free=%zu of %zu bytes",
             cuda->device, cuda->name, cuda->id.uuid, cuda->sm, cuda->processors, room, total);
}

static void cuda_identity(void *self, struct tr_device_id *out)
{
    *out = static_cast<struct cuda *>(self)->id;
}

static void cuda_destroy(void *self)
{
    struct cuda *cuda = static_cast<struct cuda *>(self);

    lt_destroy(cuda->lt);
    (void)cudaFree(cuda->arena);
    fr_sys.free(self);
}

/* The function of an op in the table: notes the op for tr_sync, and names it in a failure. */
#define CUDA_RUN(name, args, fp8)                                                                  \
    static enum fr_rc run_##name(void *self, struct tr_queue *q, const struct args *a,             \
                                 struct fr_err *err)                                               \
    {                                                                                              \
        enum fr_rc rc;                                                                             \
                                                                                                   \
        q->op = #name;                                                                             \
        rc = tr_cuda_##name(static_cast<struct cuda *>(self), q, a, err);                          \
        return rc == FR_OK ? rc : fr_while(err, #name);                                            \
    }
TR_OPS(CUDA_RUN)
#undef CUDA_RUN

static const struct tr_queue_ops cuda_queues = {
    cuda_queue_create, cuda_queue_destroy, cuda_copy,          cuda_zero,
    cuda_sync,         cuda_event_create,  cuda_event_destroy, cuda_event_record,
    cuda_event_wait,   cuda_event_between, cuda_stream,        cuda_event_done};

static const struct tr_backend_ops cuda_ops = {"cuda",
                                               1 << TR_F32 | 1 << TR_BF16 | 1 << TR_F16,
                                               cuda_describe,
                                               cuda_identity,
                                               cuda_destroy,
                                               cuda_scratch,
                                               NULL, /* no packed weights */
                                               NULL,
                                               NULL,
                                               NULL,
#define CUDA_SLOT(name, args, fp8) run_##name,
                                               TR_OPS(CUDA_SLOT)
#undef CUDA_SLOT
};

/* The names that nvidia-smi and /sys use. */
static void name_device(struct tr_device_id *id, const cudaDeviceProp *p)
{
    const unsigned char *b = reinterpret_cast<const unsigned char *>(p->uuid.bytes);

    snprintf(id->uuid, sizeof id->uuid,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
    snprintf(id->bus, sizeof id->bus, "%04x:%02x:%02x.0", p->pciDomainID & 0xffff,
             p->pciBusID & 0xff, p->pciDeviceID & 0xff);
}

/*
 * A driver serves the runtimes of its own major version and of earlier ones. One of CUDA 12 has to
 * be of 12.1 at least: product_sm90.cu launches with more than 4,096 bytes of arguments. Source:
 * CUDA toolkit release notes, "minimum required driver version"; 12.1, "large kernel parameters".
 */
static enum fr_rc check_driver(struct fr_err *err)
{
    const int runtime = cuda_runtime(), major = runtime / 1000;
    const int least = major > 12 ? major * 1000 : 12010;
    const char *needed = major > 12 ? "580" : "530.30.02";
    int driver = 0;

    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "no NVIDIA driver on this machine: install driver %s or later, or pass "
                       "--device cpu",
                       needed);
    if (driver >= least)
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "the NVIDIA driver serves CUDA %d.%d, this build is of CUDA %d.%d: install "
                   "driver %s or later%s",
                   driver / 1000, driver / 10 % 100, major, runtime / 10 % 100, needed,
                   major > 12 && driver >= 12010 ? ", or take a build of CUDA 12" : "");
}

enum { NOT_READY = 802 /* cudaErrorSystemNotReady */ };

/* The shared memory of a block on sm_80, which the kernels need; sm_86 and sm_89 have 99 KiB. */
enum { SHARED_LEAST = 163 << 10 };

static enum fr_rc open_device(struct cuda *cuda, bool share, struct fr_err *err)
{
    cudaDeviceProp p;
    cudaError_t e;
    int n = 0;
    enum fr_rc rc;

    e = cudaGetDeviceCount(&n);
    if ((int)e == NOT_READY)
        return fr_fail(err, FR_UNSUPPORTED,
                       "the GPUs wait for their NVSwitch fabric: start Fabric Manager in the "
                       "driver's version by `systemctl start nvidia-fabricmanager`");
    if (e != cudaErrorNoDevice && (rc = cuda_ok(e, "devices", err)) != FR_OK)
        return rc;
    if (share && n > 0)
        cuda->device %= n;
    if (cuda->device < 0 || cuda->device >= n)
        return fr_fail(err, FR_NOTFOUND,
                       "device %d: this process sees %d; look at --nproc_per_node and "
                       "CUDA_VISIBLE_DEVICES, or share devices by --transport host",
                       cuda->device, n);
    if ((rc = cuda_ok(cudaSetDevice(cuda->device), "device", err)) != FR_OK ||
        (rc = cuda_ok(cudaGetDeviceProperties(&p, cuda->device), "device", err)) != FR_OK)
        return rc;
    if (p.major < 8)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s is sm_%d%d, kernels need sm_80 or later: leave it out of "
                       "CUDA_VISIBLE_DEVICES, or pass --device cpu",
                       p.name, p.major, p.minor);
    if (p.sharedMemPerBlockOptin < SHARED_LEAST)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s is sm_%d%d with %zu KiB of shared memory a block, kernels need %d KiB "
                       "(A100, H100, H200): leave it out of CUDA_VISIBLE_DEVICES, or pass "
                       "--device cpu",
                       p.name, p.major, p.minor, (size_t)p.sharedMemPerBlockOptin >> 10,
                       SHARED_LEAST >> 10);
    if (p.major > 9 && SM_MOST >= 90) /* the module has no PTX */
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s is sm_%d%d, kernels are of sm_80 and sm_90: leave it out of "
                       "CUDA_VISIBLE_DEVICES, or pass --device cpu",
                       p.name, p.major, p.minor);
    cuda->processors = p.multiProcessorCount;
    cuda->sm = p.major == 9 && SM_MOST >= 90 ? 90 : 80;
    snprintf(cuda->name, sizeof cuda->name, "%.60s", p.name);
    name_device(&cuda->id, &p);
    return FR_OK;
}

int cuda_runtime(void)
{
    int version = 0;

    return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : CUDART_VERSION;
}

/* Checks the driver and cuBLASLt first, before this module starts anything: if they are missing,
 * another module may work. */
enum fr_rc tr_cuda_open(size_t table_bytes, int device, bool share, struct tr_backend **out,
                        struct fr_err *err)
{
    struct cuda *cuda;
    enum fr_rc rc;

    *out = NULL;
    if (table_bytes != TR_TABLE_BYTES)
        return fr_fail(err, FR_UNSUPPORTED, "the CUDA module is of another build than flowtrain");
    if ((rc = check_driver(err)) != FR_OK || (rc = lt_present(err)) != FR_OK)
        return rc;
    cuda = static_cast<struct cuda *>(fr_sys.alloc(sizeof *cuda));
    if (cuda == NULL)
        return fr_fail(err, FR_NOMEM, "backend cuda");
    memset(cuda, 0, sizeof *cuda);
    cuda->base = {&cuda_memory, &cuda_queues, cuda, &cuda_ops, cuda, NULL, 0};
    cuda->device = device;
    if ((rc = open_device(cuda, share, err)) != FR_OK || (rc = lt_open(cuda, err)) != FR_OK) {
        fr_sys.free(cuda);
        return rc;
    }
    *out = &cuda->base;
    return FR_OK;
}

bool cuda_aligned(const struct tr_view &v)
{
    return (uintptr_t)v.p % 16 == 0 && v.ld * (int64_t)tr_dtype_bytes(v.dtype) % 16 == 0;
}

struct cuda_span cuda_span_of(bool flat, const struct tr_view *const *views, int n)
{
    const struct tr_view *v = views[0];
    struct cuda_span s = {1, 1};
    bool one = true;

    for (int i = v->rank == 1 ? 0 : 1; i < v->rank; i++)
        s.width *= v->shape[i];
    if (v->rank > 1)
        s.count = v->shape[0];
    for (int i = 0; i < n; i++)
        one = one && (views[i]->p == NULL || s.count == 1 || views[i]->ld == s.width);
    if (flat && one && s.count > 0) {
        s.width *= s.count;
        s.count = 1;
    }
    return s;
}
