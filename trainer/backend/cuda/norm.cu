/*
 * Forward and backward pass of RMSNorm, and the sums over rows for gradients of gains and biases.
 *
 * rmsnorm_fwd: s = x + add rounded to C, r = 1/sqrt(mean(s*s) + eps), y = gain * C(s*r) ("=").
 * rmsnorm_bwd: dx = dres + r*(u - xh*(u.xh)/n), u = gain*dy, xh = x*r ("="). A block owns a row and
 * keeps the inputs in shared memory in their own type, so that each view moves once: forward x,
 * add, sum, y (2 to 4 rows), backward dy, x, dx, dres. The gain comes from the caches. A thread
 * owns the same chunks in both passes, so any output may be any input. colsum: out += sum over t of
 * x; dgain += sum over t of dy*x*r. A thread sums CHUNK columns over ROWS rows into the workspace;
 * a second kernel adds the parts in order. x (and dy) move once. The limit is the bandwidth.
 * Source: Zhang & Sennrich 2019, eq. 4.
 */
#include "trainer/backend/cuda/cuda.h"

enum { SHARED_MAX = 160 << 10 }; /* bytes of a row; the limit of sm_80 */

struct norm_out {
    float *rrms; /* NULL: not wanted */
    float eps;
    int64_t n;
};

template <class C>
__global__ void rmsnorm_fwd_kernel(struct rows<C> y, struct rows<C> sum, struct rows<const C> x,
                                   struct rows<const C> add, struct any gain, struct norm_out o)
{
    DEV_DYNAMIC(C, kept);
    DEV_SHARED(float, part, [32]);
    int64_t t = blockIdx.x;
    float sq = 0, r;

    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < o.n; j += blockDim.x * CHUNK) {
        float s[CHUNK], other[CHUNK];

        load(s, x.at(t, j), o.n - j);
        if (add.p != NULL) {
            load(other, add.at(t, j), o.n - j);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                s[i] = round_to<C>(s[i] + other[i]);
            if (sum.p != NULL)
                store(sum.at(t, j), s, o.n - j);
        }
        store(kept + j, s, o.n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sq += s[i] * s[i];
    }
    r = 1 / sqrtf(block_sum(sq, part) / (float)o.n + o.eps);
    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < o.n; j += blockDim.x * CHUNK) {
        float s[CHUNK], g[CHUNK];

        load(s, kept + j, o.n - j);
        load_any(g, gain, 0, j, o.n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            s[i] = g[i] * round_to<C>(s[i] * r);
        store(y.at(t, j), s, o.n - j);
    }
    if (threadIdx.x == 0 && o.rrms != NULL)
        o.rrms[t] = r;
}

enum fr_rc tr_cuda_rmsnorm_fwd(struct cuda *cuda, struct tr_queue *q, const struct tr_rmsnorm *a,
                               struct fr_err *err)
{
    const struct tr_view *views[] = {&a->x, &a->y, &a->sum, &a->add};
    struct cuda_span s = cuda_span_of(false, views, 4);
    struct norm_out o = {static_cast<float *>(a->rrms.p), a->eps, s.width};

    (void)cuda;
    return cuda_float(a->x.dtype, [&](auto t) {
        using C = decltype(t);
        struct cuda_grid g = {dim3((unsigned)s.count), cuda_row_threads(s.width),
                              (size_t)s.width * sizeof(C)};

        if (g.shared > SHARED_MAX)
            return fr_fail(err, FR_UNSUPPORTED, "a row of %lld elements", (long long)s.width);
        return cuda_launch(q, g, err, rmsnorm_fwd_kernel<C>, cuda_rows<C>(a->y),
                           cuda_rows<C>(a->sum), cuda_rows<const C>(a->x),
                           cuda_rows<const C>(a->add), cuda_any(a->gain), o);
    });
}

/* Row t of the inputs of the backward pass; DY is the type of dy. */
template <class C, class DY> struct norm_in {
    struct rows<const DY> dy;
    struct rows<const C> x;
    const float *rrms;
    int64_t n;
};

template <class DX, class C, class DY>
__global__ void rmsnorm_bwd_kernel(struct rows<DX> dx, struct rows<const DX> dres,
                                   struct norm_in<C, DY> in, struct any gain)
{
    DEV_DYNAMIC(unsigned char, room);
    DEV_SHARED(float, part, [32]);
    DY *dys = reinterpret_cast<DY *>(room);
    C *xs = reinterpret_cast<C *>(dys + (in.n + 7) / 8 * 8);
    int64_t t = blockIdx.x;
    float dot = 0, r = in.rrms[t];

    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < in.n; j += blockDim.x * CHUNK) {
        float dy[CHUNK], x[CHUNK], g[CHUNK];

        load(dy, in.dy.at(t, j), in.n - j);
        load(x, in.x.at(t, j), in.n - j);
        load_any(g, gain, 0, j, in.n - j);
        store(dys + j, dy, in.n - j);
        store(xs + j, x, in.n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            dot += g[i] * dy[i] * (x[i] * r);
    }
    dot = block_sum(dot, part) / (float)in.n;
    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < in.n; j += blockDim.x * CHUNK) {
        float dy[CHUNK], x[CHUNK], g[CHUNK], res[CHUNK];

        load(dy, dys + j, in.n - j);
        load(x, xs + j, in.n - j);
        load_any(g, gain, 0, j, in.n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            dy[i] = r * (g[i] * dy[i] - x[i] * r * dot);
        if (dres.p != NULL) {
            load(res, dres.at(t, j), in.n - j);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                dy[i] += res[i];
        }
        store(dx.at(t, j), dy, in.n - j);
    }
}

/* ---- sums over rows ---- */

enum { COLUMNS = 128, ROWS = 256 }; /* threads of a block; rows that a part sums */

template <class X>
__global__ void colsum_kernel(float *parts, struct rows<const X> x, int64_t T, int64_t n)
{
    int64_t j = ((int64_t)blockIdx.x * COLUMNS + threadIdx.x) * CHUNK;
    int64_t end = ((int64_t)blockIdx.y + 1) * ROWS < T ? ((int64_t)blockIdx.y + 1) * ROWS : T;
    float sum[CHUNK], row[CHUNK];

    if (j >= n)
        return;
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        sum[i] = 0;
#pragma unroll 4
    for (int64_t t = (int64_t)blockIdx.y * ROWS; t < end; t++) {
        load(row, x.at(t, j), n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum[i] += row[i];
    }
    store(parts + blockIdx.y * n + j, sum, n - j);
}

template <class C, class DY>
__global__ void dgain_kernel(float *parts, struct norm_in<C, DY> in, int64_t T)
{
    int64_t j = ((int64_t)blockIdx.x * COLUMNS + threadIdx.x) * CHUNK;
    int64_t end = ((int64_t)blockIdx.y + 1) * ROWS < T ? ((int64_t)blockIdx.y + 1) * ROWS : T;
    float sum[CHUNK], x[CHUNK], dy[CHUNK];

    if (j >= in.n)
        return;
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        sum[i] = 0;
#pragma unroll 2
    for (int64_t t = (int64_t)blockIdx.y * ROWS; t < end; t++) {
        float r = in.rrms[t];

        load(x, in.x.at(t, j), in.n - j);
        load(dy, in.dy.at(t, j), in.n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum[i] += dy[i] * x[i] * r;
    }
    store(parts + blockIdx.y * in.n + j, sum, in.n - j);
}

__global__ void add_parts_kernel(float *out, const float *parts, int64_t count, int64_t n)
{
    int64_t j = ((int64_t)blockIdx.x * COLUMNS + threadIdx.x) * CHUNK;
    float sum[CHUNK] = {}, x[CHUNK];

    if (j >= n)
        return;
    for (int64_t p = 0; p < count; p++) {
        load(x, parts + p * n + j, n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum[i] += x[i];
    }
    load(x, out + j, n - j);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] += sum[i];
    store(out + j, x, n - j);
}

/* The workspace of the partial sums over T rows of n columns, and the grid that fills it. */
static enum fr_rc parts_of(struct tr_queue *q, int64_t T, int64_t n, float **parts,
                           struct fr_err *err)
{
    void *p = NULL;
    enum fr_rc rc = cuda_work(q, cuda_blocks(T, ROWS) * (size_t)n * sizeof(float), &p, err);

    *parts = static_cast<float *>(p);
    return rc;
}

static struct cuda_grid parts_grid(int64_t T, int64_t n)
{
    return {dim3(cuda_blocks((n + CHUNK - 1) / CHUNK, COLUMNS), cuda_blocks(T, ROWS)), COLUMNS, 0};
}

static enum fr_rc add_parts(struct tr_queue *q, const struct tr_view &out, const float *parts,
                            int64_t T, struct fr_err *err)
{
    int64_t n = out.shape[0];

    struct cuda_grid g = {dim3(T > 0 ? cuda_blocks((n + CHUNK - 1) / CHUNK, COLUMNS) : 0), COLUMNS,
                          0};

    return cuda_launch(q, g, err, add_parts_kernel, static_cast<float *>(out.p), parts,
                       (int64_t)cuda_blocks(T, ROWS), n);
}

enum fr_rc tr_cuda_colsum(struct cuda *cuda, struct tr_queue *q, const struct tr_colsum *a,
                          struct fr_err *err)
{
    const struct tr_view *views[] = {&a->x};
    struct cuda_span s = cuda_span_of(false, views, 1);
    float *parts;
    enum fr_rc rc = parts_of(q, s.count, s.width, &parts, err);

    (void)cuda;
    if (rc == FR_OK)
        rc = cuda_float(a->x.dtype, [&](auto t) {
            using X = decltype(t);

            return cuda_launch(q, parts_grid(s.count, s.width), err, colsum_kernel<X>, parts,
                               cuda_rows<const X>(a->x), s.count, s.width);
        });
    return rc == FR_OK ? add_parts(q, a->out, parts, s.count, err) : rc;
}

template <class C, class DY>
static enum fr_rc gain_grad(struct tr_queue *q, const struct tr_rmsnorm_grad *a,
                            const struct norm_in<C, DY> &in, struct fr_err *err)
{
    int64_t T = a->x.shape[0];
    float *parts;
    enum fr_rc rc = parts_of(q, T, in.n, &parts, err);

    if (rc == FR_OK)
        rc = cuda_launch(q, parts_grid(T, in.n), err, dgain_kernel<C, DY>, parts, in, T);
    return rc == FR_OK ? add_parts(q, a->dgain, parts, T, err) : rc;
}

template <class DX, class C, class DY>
static enum fr_rc row_grad(struct tr_queue *q, const struct tr_rmsnorm_grad *a,
                           const struct norm_in<C, DY> &in, struct fr_err *err)
{
    struct cuda_grid g = {dim3((unsigned)a->x.shape[0]), cuda_row_threads(in.n),
                          (size_t)(in.n + 7) / 8 * 8 * sizeof(DY) + (size_t)in.n * sizeof(C)};

    if (g.shared > SHARED_MAX)
        return fr_fail(err, FR_UNSUPPORTED, "a row of %lld elements", (long long)in.n);
    return cuda_launch(q, g, err, rmsnorm_bwd_kernel<DX, C, DY>, cuda_rows<DX>(a->dx),
                       cuda_rows<const DX>(a->dres), in, cuda_any(a->gain));
}

/* dgain first: dx may overwrite dy. */
template <class C, class DY>
static enum fr_rc norm_grad(struct tr_queue *q, const struct tr_rmsnorm_grad *a, struct fr_err *err)
{
    struct norm_in<C, DY> in = {
        cuda_rows<const DY>(a->dy), cuda_rows<const C>(a->x),
            static_cast<const float *>(a->rrms.p), a->x.shape[1]
    };
    enum fr_rc rc = FR_OK;

    if (a->dgain.p != NULL)
        rc = gain_grad<C, DY>(q, a, in, err);
    if (rc != FR_OK || a->dx.p == NULL)
        return rc;
    return a->dx.dtype == TR_F32 ? row_grad<float, C, DY>(q, a, in, err)
                                 : row_grad<C, C, DY>(q, a, in, err);
}

enum fr_rc tr_cuda_rmsnorm_bwd(struct cuda *cuda, struct tr_queue *q,
                               const struct tr_rmsnorm_grad *a, struct fr_err *err)
{
    (void)cuda;
    return cuda_float(a->x.dtype, [&](auto t) {
        using C = decltype(t);

        return a->dy.dtype == TR_F32 ? norm_grad<C, float>(q, a, err) : norm_grad<C, C>(q, a, err);
    });
}
