/*
 * Internal to the CUDA backend: its state, the launch of a kernel, and the dispatch over types.
 *
 * To add an op, write a kernel <op>_kernel and its launcher tr_cuda_<op> in the file of its family;
 * a new file goes into trainer/backend/meson.build. A launcher puts work into the queue only by
 * cuda_launch, and takes workspace only from cuda_work, so that a dry run finds its size. The head
 * of the file has the formula, the work of a block or thread, the bytes moved, "=" or "+=", the
 * limit and the source. tests/op has the test cases, which ref and cpu run, too. The test `cudasim`
 * runs them on this backend with the threads forward, reversed and shuffled; all three must give
 * the same bits. Therefore no sum may depend on timing: no atomics on floats, but block_sum and
 * warp_sum of dev.h, and partial sums in the queue's workspace.
 *
 * A thread moves CHUNK elements at a time by load and store of dev.h. Rows that are aligned to 16
 * bytes move by words of 16 bytes, other rows element by element in the same kernel. The compiler
 * may split a store of 16-bit elements into several of 4 bytes (rope, mla_assemble and xent_chunk
 * with nvcc 13.0). Single values of a row, and values that an index selects (ids, offsets, 1/rms, a
 * target's logit), are read one by one. Offsets are 64-bit. A kernel reads the counts that only the
 * device knows; the host's numbers are bounds.
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
    int sm;         /* the architecture of the kernels in use: 80, 90 */
    int processors; /* multiprocessors */
    char name[64];
    struct tr_device_id id;
    char *arena; /* owns: all device memory of a run, NULL when none was reserved */
    size_t arena_bytes, arena_used, arena_pieces; /* bytes allocated, allocations not yet freed */
    struct lt *lt; /* owns: cuBLASLt, NULL until the first dense product; one thread makes calls */
};

struct tr_queue {
    struct cuda *owner;
    cudaStream_t stream;
    void *work; /* owns: the workspace of its ops */
    size_t work_bytes;
    const char *op; /* the last op of the queue, for the text of an error */
    bool dry;       /* nothing is launched; work_bytes becomes the workspace of the op */
};

struct tr_event {
    cudaEvent_t event;
    bool recorded;
};

/* The version of the CUDA runtime of this module; 13000 is 13.0. */
int cuda_runtime(void);

/* FR_OK, or a failure whose text is `what` and CUDA's own text. */
enum fr_rc cuda_ok(cudaError_t e, const char *what, struct fr_err *err);

/* At least `bytes` of the queue's workspace, 256-byte aligned; the previous op's contents are lost.
 * A workspace that is too small waits for the queue and grows; a run makes it large enough
 * beforehand. FR_NOMEM. */
enum fr_rc cuda_work(struct tr_queue *q, size_t bytes, void **out, struct fr_err *err);

/* Blocks of a launch, threads of a block, bytes of dynamic shared memory. */
struct cuda_grid {
    dim3 blocks;
    int threads;
    size_t shared;
};

/* Launches a kernel in the queue, unless the grid has no blocks. Returns an error of the launch;
 * tr_sync reports errors of the execution. */
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
    if (g.shared > (32 << 10)) /* static shared memory is added; the limit without this is 48 KiB */
        e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)g.shared);
    if (e == cudaSuccess)
        e = cudaLaunchKernelEx(&c, kernel, args...);
    return cuda_ok(e, "launch", err);
}

/* The number of blocks for n items, `each` items a block. */
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

/* A view whose type is known at run time; all threads take the same branch. */
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

/* The span of element-wise views of one shape: a single row if flat is true and all are contiguous.
 * Absent views do not count. */
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

/* Makes the tensor map of a rank-2 or rank-3 view (bf16, f16, f32; aligned to 16 bytes, as are its
 * rows). A box has box[0] x box[1] (x box[2]) elements, innermost first, and the 128-byte swizzle:
 * an inner row of a box has at most 128 bytes. The kernel's parameter is `const __grid_constant__
 * CUtensorMap`. */
enum fr_rc cuda_map(CUtensorMap *map, const struct tr_view *v, const uint32_t *box,
                    struct fr_err *err);

/* The threads of a block for a row of n elements: whole warps, with few idle threads. */
static inline int cuda_row_threads(int64_t n)
{
    int64_t chunks = (n + CHUNK - 1) / CHUNK, turns = (chunks + 255) / 256;
    int64_t each = chunks > 0 ? (chunks + turns - 1) / turns : 1;

    return (int)((each + 31) / 32 * 32);
}

/* The grid with a block for each row of n elements. */
static inline struct cuda_grid cuda_row_grid(int64_t rows, int64_t n, size_t shared)
{
    return {dim3((unsigned)rows), cuda_row_threads(n), shared};
}

/* The grid with a thread for each chunk. */
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
