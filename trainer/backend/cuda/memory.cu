/*
 * Device memory of a run: the reserve, from which every allocation is taken, and the workspace of a
 * queue. A dry run of an op computes the size of its workspace beforehand.
 */
#include "trainer/backend/cuda/memory.h"

#include "trainer/backend/cuda/lt.h"

static enum fr_rc take(enum tr_mem kind, size_t bytes, void **out, struct fr_err *err)
{
    size_t all = bytes > 0 ? bytes : 1, room = 0, total = 0;
    enum fr_rc rc = FR_IO;
    cudaError_t e = kind == TR_MEM_DEVICE ? cudaMalloc(out, all)
                                          : cudaHostAlloc(out, all, cudaHostAllocDefault);

    if (e == cudaSuccess)
        return FR_OK;
    *out = NULL;
    (void)cudaGetLastError();
    if (e == cudaErrorMemoryAllocation)
        rc = FR_NOMEM;
    if (kind != TR_MEM_DEVICE)
        return fr_fail(err, rc, "%zu bytes of pinned memory: %s", bytes, cudaGetErrorString(e));
    (void)cudaMemGetInfo(&room, &total);
    return fr_fail(err, rc,
                   "%zu bytes of device memory: %s; %zu of the device's %zu bytes are free", bytes,
                   cudaGetErrorString(e), room, total);
}

static enum fr_rc cuda_mem_reserve(void *self, size_t bytes, struct fr_err *err)
{
    struct cuda *cuda = static_cast<struct cuda *>(self);
    void *p = NULL;
    enum fr_rc rc;

    if (cuda->arena != NULL)
        return fr_fail(err, FR_BUG, "device memory is reserved already");
    if ((rc = take(TR_MEM_DEVICE, bytes, &p, err)) != FR_OK)
        return rc;
    cuda->arena = static_cast<char *>(p);
    cuda->arena_bytes = bytes;
    return FR_OK;
}

static enum fr_rc cuda_mem_alloc(void *self, enum tr_mem kind, size_t bytes, void **out,
                                 struct fr_err *err)
{
    struct cuda *cuda = static_cast<struct cuda *>(self);
    size_t n = (bytes + 255) / 256 * 256;

    if (kind != TR_MEM_DEVICE || cuda->arena == NULL)
        return take(kind, bytes, out, err);
    if (n > cuda->arena_bytes - cuda->arena_used)
        return fr_fail(err, FR_NOMEM, "%zu bytes: %zu of the %zu reserved bytes are left", bytes,
                       cuda->arena_bytes - cuda->arena_used, cuda->arena_bytes);
    *out = cuda->arena + cuda->arena_used;
    cuda->arena_used += n;
    cuda->arena_pieces++;
    return FR_OK;
}

static size_t cuda_mem_room(void *)
{
    size_t room = 0, total = 0;

    return cudaMemGetInfo(&room, &total) == cudaSuccess ? room : 0;
}

/* Memory of the reserve becomes free only when all its allocations are freed. */
void cuda_mem_free(void *self, enum tr_mem kind, void *p)
{
    struct cuda *cuda = static_cast<struct cuda *>(self);

    if (p == NULL)
        return;
    if (kind != TR_MEM_DEVICE)
        (void)cudaFreeHost(p);
    else if (cuda->arena == NULL)
        (void)cudaFree(p);
    else if (--cuda->arena_pieces == 0)
        cuda->arena_used = 0;
}

const struct tr_memory_ops cuda_memory = {false, cuda_mem_alloc, cuda_mem_free, cuda_mem_reserve,
                                          cuda_mem_room};

/* The workspace of a dry queue: an address that is never accessed. */
static void *nowhere(void)
{
    return reinterpret_cast<void *>((uintptr_t)4096);
}

enum fr_rc cuda_work(struct tr_queue *q, size_t bytes, void **out, struct fr_err *err)
{
    if (q->dry) {
        q->work_bytes = bytes > q->work_bytes ? bytes : q->work_bytes;
        q->work = nowhere();
    } else if (bytes > q->work_bytes) {
        enum fr_rc rc = cuda_ok(cudaStreamSynchronize(q->stream), "workspace", err);

        if (rc != FR_OK)
            return rc;
        cuda_mem_free(q->owner, TR_MEM_DEVICE, q->work);
        q->work = NULL;
        q->work_bytes = 0;
        if ((rc = cuda_mem_alloc(q->owner, TR_MEM_DEVICE, bytes, &q->work, err)) != FR_OK)
            return fr_while(err, "workspace");
        q->work_bytes = bytes;
    }
    *out = q->work;
    return FR_OK;
}

/* Runs the op on a dry queue: nothing is launched, and work_bytes becomes the op's workspace. */
void cuda_scratch(void *self, enum tr_op op, const void *args, struct tr_scratch *most)
{
    struct tr_queue q = {};

    q.owner = static_cast<struct cuda *>(self);
    q.dry = true;
    switch (op) {
#define CUDA_DRY(name, type, fp8)                                                                  \
    case TR_OP_##name:                                                                             \
        (void)tr_cuda_##name(q.owner, &q, static_cast<const struct type *>(args), NULL);           \
        break;
        TR_OPS(CUDA_DRY)
#undef CUDA_DRY
    default:
        break;
    }
    most->op = q.work_bytes > most->op ? q.work_bytes : most->op;
    if (op == TR_OP_gemm && q.work_bytes >= LT_WORKSPACE) {
        most->library = LT_WORKSPACE;
        most->library_name = "cuBLASLt workspace";
    }
}
