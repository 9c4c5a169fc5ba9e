/*
 * Inside the CUDA backend: its state, the launch of a kernel, and the dispatch over types. Every
 * device source includes this and nothing else of ours.
 *
 * To add an op: a kernel <op>_kernel and its launcher tr_cuda_<op> in the file of its family, the
 * file in trainer/backend/meson.build if it is new. A launcher puts work into the queue by
 * cuda_launch alone and asks cuda_work for what it keeps: a dry run of it gives the size. The top
 * of the file says formula, who owns what, bytes moved, "=" or "+=", the limit it should reach, and
 * the source. Its test rows stand in tests/op already, or are added there, where ref and cpu run
 * them too: `meson test -C build cudasim` runs the table on this backend, threads forward, reversed
 * and shuffled, which must give the same bits. So: no sum whose order depends on timing (no atomics
 * on floats), `block_sum` and `warp_sum` of dev.h, partial sums in the queue's workspace.
 *
 * A thread moves CHUNK elements at once by load and store of dev.h. Rows that begin at multiples of
 * 16 bytes are moved by words of 16 bytes, other rows element by element in the same kernel. A
 * store of 16-bit elements may become several of 4 bytes, as the compiler decides (rope,
 * mla_assemble and xent_chunk of nvcc 13.0). One value of a row, or what an index finds (ids,
 * offsets, 1/rms, a target's logit), is read by itself. Offsets are 64-bit. A kernel reads the
 * counts that only the device knows; the host's numbers are bounds.
 */
#ifndef TR_BACKEND_CUDA_CUDA_H
#define TR_BACKEND_CUDA_CUDA_H

#include "trainer/backend/cuda/dev.h"

extern "C" {
#include "trainer/backend/backend.h"
}

struct cuda {
    struct tr_backend base;
    int device;     /* ordinal */
    int sm;         /* what the kernels in use were built for: 80, 90 */
    int processors; /* multiprocessors */
    char name[64];
    struct tr_device_id id;
    char *arena; /* owns: all device memory of a run, NULL when none was reserved */
    size_t arena_bytes, arena_used, arena_pieces; /* bytes cut off, pieces not yet freed */
    struct lt *lt; /* owns: cuBLASLt, NULL until the first dense product; one thread makes calls */
};

struct tr_queue {
    struct cuda *owner;
    cudaStream_t stream;
    void *work; /* owns: scratch of its ops */
    size_t work_bytes;
    const char *op; /* the last one put into it, for the text of an error */
    bool dry;       /* nothing is put into it: work_bytes becomes what an op would take */
};

struct tr_event {
    cudaEvent_t event;
    bool recorded;
};

/* The CUDA runtime of this module: 13000 is 13.0. */
int cuda_runtime(void);

/* FR_OK, or a failure with CUDA's own text behind `what`. */
enum fr_rc cuda_ok(cudaError_t e, const char *what, struct fr_err *err);

/* At least `bytes` of the queue's workspace, 256-byte aligned; the previous op's contents are lost.
 * Growing waits for the queue: a run makes it large enough beforehand. FR_NOMEM. */
enum fr_rc cuda_work(struct tr_queue *q, size_t bytes, void **out, struct fr_err *err);

/* Blocks of a launch, threads of a block, bytes of dynamic shared memory. */
struct cuda_grid {
    dim3 blocks;
    int threads;
    size_t shared;
};

/* Puts a kernel into the queue; nothing when the grid has no blocks. The error of the launch itself
 * is returned; those of its execution come from tr_sync. */
template <class... P, class... A>
enum fr_rc cuda_launch(struct tr_queue *q, const struct cuda_grid &g, struct fr_err *err,
                       void (*kernel)(P...), A... args)
{
    cudaLaunchConfig_t c = {};
    cudaError_t e = cudaSuccess;

    if (q->dry || g.blocks.x == 0 || g.blocks.y == 0 || g.blocks.z == 0)
        return FR_OK;
    c.gridDim = g.blocks;
    c.blockDim = dim3((unsigned)g.threads);
    c.dynamicSmemBytes = g.shared;
    c.stream = q->stream;
    if (g.shared > (32 << 10)) /* with static shared memory it may be more than 48 KiB */
        e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)g.shared);
    if (e == cudaSuccess)
        e = cudaLaunchKernelEx(&c, kernel, args...);
    return cuda_ok(e, "launch", err);
}

/* n things, `each` a block. */
static inline unsigned cuda_blocks(int64_t n, int64_t each)
{
    return (unsigned)((n + each - 1) / each);
}

template <int N> struct cuda_int {
    static constexpr int value = N;
};

/* Calls f with a value of the device type of t: f(float()), f(bf16()), f(f16()). */
template <class F> enum fr_rc cuda_float(enum tr_dtype t, F f)
{
    switch (t) {
    case TR_BF16:
        return f(bf16());
    case TR_F16:
        return f(f16());
    default:
        return f(float());
    }
}

/* The rows of a view as a kernel takes them; p is NULL when absent. */
template <class T> struct rows {
    T *p;
    int64_t ld;

    __device__ __forceinline__ T *at(int64_t row, int64_t col) const
    {
        return p + row * ld + col;
    }
};

template <class T> static inline struct rows<T> cuda_rows(const struct tr_view &v) {
    return {static_cast<T *>(v.p), v.ld};
}

/* A view whose type the kernel reads at run time: the branch is the same for all threads. */
struct any {
    const void *p; /* NULL when absent */
    int64_t ld;
    enum tr_dtype dtype;
};

static inline struct any cuda_any(const struct tr_view &v)
{
    return {v.p, v.ld, v.dtype};
}

__device__ __forceinline__ void load_any(float (&x)[CHUNK], const struct any &a, int64_t row,
                                         int64_t col, int64_t n)
{
    int64_t at = row * a.ld + col;

    if (a.dtype == TR_BF16)
        load(x, static_cast<const bf16 *>(a.p) + at, n);
    else if (a.dtype == TR_F16)
        load(x, static_cast<const f16 *>(a.p) + at, n);
    else
        load(x, static_cast<const float *>(a.p) + at, n);
}

/* The rows of a call: offsets[first] .. offsets[last], or all. */
struct window {
    const int32_t *offsets;
    int64_t first, last;
};

static inline struct window cuda_window(const struct tr_rows &r)
{
    return {static_cast<const int32_t *>(r.offsets.p), r.first, r.last};
}

__device__ __forceinline__ bool within(const struct window &w, int64_t row)
{
    return w.offsets == NULL || (row >= w.offsets[w.first] && row < w.offsets[w.last]);
}

/* Whether every row of v begins at a multiple of 16 bytes. */
bool cuda_aligned(const struct tr_view &v);

/* Views of one shape, element by element: as one row when all are contiguous (and flat is asked
 * for). Absent views do not count. */
struct cuda_span {
    int64_t count, width; /* rows, elements of a row */
};
struct cuda_span cuda_span_of(bool flat, const struct tr_view *const *views, int n);

/* The chunk of a thread: its row, its first column, and the elements from there to the row's end.
 */
struct chunk {
    int64_t row, col, n;
};

__device__ __forceinline__ bool chunk_of(const struct cuda_span &s, struct chunk *c)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t across = (s.width + CHUNK - 1) / CHUNK;

    *c = s.count == 1 ? chunk{0, i * CHUNK, s.width - i * CHUNK}
                      : chunk{i / across, i % across * CHUNK, s.width - i % across * CHUNK};
    return c->row < s.count && c->n > 0;
}

/* A map of a rank-2 or rank-3 view (bf16, f16, f32; p and row bytes multiples of 16) in boxes of
 * box[0] x box[1] (x box[2]) elements, innermost first, with the swizzle of 128 bytes: a box's
 * inner row has at most so many. The kernel takes it as `const __grid_constant__ CUtensorMap`. */
enum fr_rc cuda_map(CUtensorMap *map, const struct tr_view *v, const uint32_t *box,
                    struct fr_err *err);

/* Threads of a block for a row of n elements: whole warps, as few idle threads as may be. */
static inline int cuda_row_threads(int64_t n)
{
    int64_t chunks = (n + CHUNK - 1) / CHUNK, turns = (chunks + 255) / 256;
    int64_t each = chunks > 0 ? (chunks + turns - 1) / turns : 1;

    return (int)((each + 31) / 32 * 32);
}

/* A block a row of n elements. */
static inline struct cuda_grid cuda_row_grid(int64_t rows, int64_t n, size_t shared)
{
    return {dim3((unsigned)rows), cuda_row_threads(n), shared};
}

/* A thread a chunk. */
enum { CUDA_THREADS = 256 };

static inline struct cuda_grid cuda_chunks(const struct cuda_span &s)
{
    return {dim3(cuda_blocks(s.count * ((s.width + CHUNK - 1) / CHUNK), CUDA_THREADS)),
            CUDA_THREADS, 0};
}

#define CUDA_OP(name, args, fp8)                                                                   \
    enum fr_rc tr_cuda_##name(struct cuda *cuda, struct tr_queue *q, const struct args *a,         \
                              struct fr_err *err);
TR_OPS(CUDA_OP)
#undef CUDA_OP

#endif
