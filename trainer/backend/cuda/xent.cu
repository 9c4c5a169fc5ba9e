/*
 * Cross-entropy over chunks of the vocabulary. xent_chunk ("+="; "=" when first) takes some
 * hundreds of tokens at a time. Logits z = F Wc^T go to the workspace in f32 (never T x V), or, for
 * all tokens at once, to where the caller keeps them. A block owns a token: it finds the maximum,
 * the sum, and the target's logit and row, rescales acc, and writes p = exp(z - m) in the compute
 * type. Then acc += p Wc. xent_finish ("="; loss_sum "+="): dF = scale * (acc / l - row of the
 * target); a block owns a token and moves these three once; the limit is the bandwidth. loss = m +
 * log(l) - logit of the target. One block sums it in f64 with t in a fixed order, one token a
 * thread at a time (20 bytes of each). All are 0 for a token without a target. xent_bwd ("="): a
 * thread owns a chunk of dz and reads p once; the limit is the bandwidth. The target's logit, and
 * the last logits of a row whose length is no multiple of 8, move one by one.
 *
 * cuda_gemm computes the two products, 4*T*H*rows FLOP a chunk; their limit is the matrix rate. In
 * addition z (T, rows) f32 is written once and read twice, and p moves once each way: 16 bytes a
 * logit. acc (T, H) f32 moves once each way in the product, and once more if a token's maximum is
 * new: 8 to 16 bytes an element. At 165 FLOP a byte this is 660/H of the products' time for z and p
 * (a tenth at H = 7168), and 330/rows to 660/rows for acc (a twentieth to a tenth at the 6,912 rows
 * of trainer/model/assemble.c).
 * Source: Wijmans et al. 2024 (Cut Your Losses); the online sum, Milakov & Gimelshein 2018.
 */
#include "trainer/backend/cuda/lt.h"
#include "trainer/backend/cuda/product.h"

enum { LOGITS = 1 << 25, ROWS_MIN = 64 }; /* logits in the workspace; at least so many tokens */

struct softmax {
    struct tr_weight w;
    float *m, *l, *logit, *top; /* top: NULL unless p is kept */
    const int32_t *targets;
    int64_t rows, row0, H;
    bool first;
};

/* Decodes a part of the target's row of the weight. */
template <class T>
__device__ __forceinline__ void load_weight(float (&x)[CHUNK], const struct tr_weight &w,
                                            int64_t row, int64_t col, int64_t n)
{
    const float *scale = static_cast<const float *>(w.scale.p);
    int64_t at = row * w.w.ld + col;

    if (w.w.dtype != TR_F8_E4M3) {
        load(x, static_cast<const T *>(w.w.p) + at, n);
        return;
    }
    load_f8(x, static_cast<const uint8_t *>(w.w.p) + at, n);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        if (i < n)
            x[i] *= scale[(w.row0 + row) / w.block_rows * w.scale.ld + (col + i) / w.block_cols];
}

/* Updates the state of token t: rescales it if the maximum is new, and starts it when first. */
template <class T>
__device__ void keep_token(const struct softmax &a, struct rows<float> acc,
                           struct rows<T> target_row, int64_t t, float keep)
{
    int64_t target = a.targets[t], at = target - a.row0;
    bool here = target >= 0 && at >= 0 && at < a.rows;

    for (int64_t k = (int64_t)threadIdx.x * CHUNK; k < a.H; k += blockDim.x * CHUNK) {
        float sum[CHUNK] = {}, w[CHUNK] = {};

        if (!a.first && keep != 1)
            load(sum, acc.at(t, k), a.H - k);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum[i] *= keep;
        if (a.first || keep != 1)
            store(acc.at(t, k), sum, a.H - k);
        if (here)
            load_weight<T>(w, a.w, at, k, a.H - k);
        if (here || a.first)
            store(target_row.at(t, k), w, a.H - k);
    }
}

/* Loads n logits of a chunk; the rest become -inf, which adds nothing. */
__device__ __forceinline__ void load_logits(float (&x)[CHUNK], const float *z, int64_t n)
{
    load(x, z, n);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] = i < n ? x[i] : -INFINITY;
}

template <class T, class P>
__global__ void __launch_bounds__(CUDA_THREADS)
    xent_softmax_kernel(const __grid_constant__ struct softmax a, struct rows<const float> z,
                        struct rows<P> p, struct rows<float> acc, struct rows<T> target_row)
{
    DEV_SHARED(float, part, [32]);
    DEV_SHARED(float, parts, [32]);
    int64_t t = blockIdx.x, at = (int64_t)a.targets[t] - a.row0;
    float old = a.first ? -INFINITY : a.m[t], max = old, sum = 0, keep;

    for (int64_t v = (int64_t)threadIdx.x * CHUNK; v < a.rows; v += blockDim.x * CHUNK) {
        float x[CHUNK];

        load_logits(x, z.at(t, v), a.rows - v);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            max = fmaxf(max, x[i]);
    }
    max = warp_max(max);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = max;
    __syncthreads();
    max = warp_max(threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : -INFINITY);
    keep = a.first ? 0 : expf(old - max);
    for (int64_t v = (int64_t)threadIdx.x * CHUNK; v < a.rows; v += blockDim.x * CHUNK) {
        float x[CHUNK];

        load_logits(x, z.at(t, v), a.rows - v);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            x[i] = expf(x[i] - max);
            sum += x[i];
        }
        if (p.p != NULL)
            store(p.at(t, v), x, a.rows - v);
    }
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0) {
        a.l[t] = (a.first ? 0 : a.l[t] * keep) + sum;
        a.m[t] = max;
        if (a.top != NULL)
            a.top[t] = max;
        if (a.targets[t] >= 0 && at >= 0 && at < a.rows)
            a.logit[t] = *z.at(t, at);
        else if (a.first)
            a.logit[t] = 0;
    }
    if (acc.p != NULL)
        keep_token<T>(a, acc, target_row, t, keep);
}

/* Some tokens of a call, z in the workspace, and p: there too, or where the caller keeps it. */
struct part {
    int64_t begin, n;
    struct tr_view z, p;
};

/* acc and row: the state's, or nothing. */
template <class T, class P>
static enum fr_rc softmax_rows(struct tr_queue *q, const struct softmax &s, const struct part *x,
                               const struct tr_view (&state)[2], struct fr_err *err)
{
    return cuda_launch(q, {dim3((unsigned)x->n), CUDA_THREADS, 0}, err, xent_softmax_kernel<T, P>,
                       s, cuda_rows<const float>(x->z), cuda_rows<P>(x->p),
                       cuda_rows<float>(state[0]), cuda_rows<T>(state[1]));
}

static enum fr_rc some_tokens(struct cuda *cuda, struct tr_queue *q, const struct tr_xent *a,
                              const struct part *x, struct fr_err *err)
{
    bool grad = a->state.acc.p != NULL;
    const struct tr_view state[2] = {
        grad ? tr_view_rows(a->state.acc, x->begin, x->n) : tr_view{},
        grad ? tr_view_rows(a->state.target_row, x->begin, x->n) : tr_view{}};
    struct softmax s = {a->w,
                        static_cast<float *>(a->state.m.p) + x->begin,
                        static_cast<float *>(a->state.l.p) + x->begin,
                        static_cast<float *>(a->state.target_logit.p) + x->begin,
                        a->top.p != NULL ? static_cast<float *>(a->top.p) + x->begin : NULL,
                        static_cast<const int32_t *>(a->targets.p) + x->begin,
                        a->w.w.shape[0],
                        a->row0,
                        a->F.shape[1],
                        a->first};
    struct tr_gemm g = {};
    enum fr_rc rc;

    g.c = x->z;
    g.a = tr_view_rows(a->F, x->begin, x->n);
    g.b = a->w;
    g.trans_b = true;
    g.alpha = 1;
    if ((rc = cuda_gemm(cuda, q, &g, err)) != FR_OK)
        return rc;
    rc = cuda_float(a->F.dtype, [&](auto t) {
        using T = decltype(t);

        return x->p.dtype == TR_F32 ? softmax_rows<T, float>(q, s, x, state, err)
                                    : softmax_rows<T, T>(q, s, x, state, err);
    });
    if (rc != FR_OK || !grad)
        return rc;
    g.c = state[0];
    g.a = x->p;
    g.trans_b = false;
    g.beta = 1;
    return cuda_gemm(cuda, q, &g, err);
}

/* A view of n rows, with an ld that aligns the rows to 16 bytes. */
static struct tr_view table(char *p, enum tr_dtype type, int64_t n, int64_t cols)
{
    struct tr_view v = tr_view2(p, type, n, cols);

    v.ld = (cols + 7) / 8 * 8;
    return v;
}

enum fr_rc tr_cuda_xent_chunk(struct cuda *cuda, struct tr_queue *q, const struct tr_xent *a,
                              struct fr_err *err)
{
    const int64_t least = ROWS_MIN;
    int64_t rows = a->w.w.shape[0], T = a->F.shape[0], step, wide = (rows + 7) / 8 * 8;
    size_t z, p;
    void *work;
    enum fr_rc rc;

    if (rows == 0)
        return fr_fail(err, FR_SHAPE, "a chunk without rows");
    if (T == 0)
        return FR_OK;
    step = LOGITS / rows > least ? LOGITS / rows : least;
    step = step < T ? step : T;
    z = ((size_t)(step * wide) * sizeof(float) + 255) / 256 * 256;
    p = a->state.acc.p != NULL ? (size_t)(step * wide) * tr_dtype_bytes(a->F.dtype) : 0;
    rc = cuda_work(q, LT_WORKSPACE + z + p, &work, err);
    for (int64_t t = 0; t < T && rc == FR_OK; t += step) {
        int64_t n = T - t < step ? T - t : step;
        char *room = static_cast<char *>(work) + LT_WORKSPACE;
        struct part x = {t, n, table(room, TR_F32, n, rows), {}};

        if (a->p.p != NULL)
            x.p = tr_view_rows(a->p, t, n);
        else if (p > 0)
            x.p = table(room + z, a->F.dtype, n, rows);
        rc = some_tokens(cuda, q, a, &x, err);
    }
    return rc;
}

struct finish {
    const float *m, *l, *logit;
    const int32_t *targets;
    float *loss;
    double *loss_sum, scale;
    int64_t T, H;
};

template <class D, class T>
__global__ void __launch_bounds__(CUDA_THREADS)
    xent_finish_kernel(struct finish a, struct rows<D> dF, struct rows<const float> acc,
                       struct rows<const T> target_row)
{
    int64_t t = blockIdx.x;
    bool scored = a.targets[t] >= 0;
    float l = a.l[t], scale = (float)a.scale;

    for (int64_t k = (int64_t)threadIdx.x * CHUNK; k < a.H; k += blockDim.x * CHUNK) {
        float x[CHUNK] = {}, w[CHUNK];

        if (scored) {
            load(x, acc.at(t, k), a.H - k);
            load(w, target_row.at(t, k), a.H - k);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                x[i] = scale * (x[i] / l - w[i]);
        }
        store(dF.at(t, k), x, a.H - k);
    }
}

template <class D, class T>
static enum fr_rc finish_rows(struct tr_queue *q, const struct tr_xent_finish *a,
                              const struct finish &f, struct fr_err *err)
{

    return cuda_launch(q, {dim3((unsigned)f.T), CUDA_THREADS, 0}, err, xent_finish_kernel<D, T>, f,
                       cuda_rows<D>(a->dF), cuda_rows<const float>(a->state.acc),
                       cuda_rows<const T>(a->state.target_row));
}

/* One block computes the losses and their sum in double. */
__global__ void __launch_bounds__(CUDA_THREADS) xent_loss_kernel(struct finish a)
{
    DEV_SHARED(double, part, [32]);
    double sum = 0;

    for (int64_t t = threadIdx.x; t < a.T; t += blockDim.x) {
        double loss =
            a.targets[t] < 0 ? 0 : (double)a.m[t] + log((double)a.l[t]) - (double)a.logit[t];

        sum += loss;
        if (a.loss != NULL)
            a.loss[t] = (float)loss;
    }
    sum = block_sum(sum, part);
    if (threadIdx.x == 0)
        *a.loss_sum += sum;
}

enum fr_rc tr_cuda_xent_finish(struct cuda *cuda, struct tr_queue *q,
                               const struct tr_xent_finish *a, struct fr_err *err)
{
    struct finish f = {static_cast<const float *>(a->state.m.p),
                       static_cast<const float *>(a->state.l.p),
                       static_cast<const float *>(a->state.target_logit.p),
                       static_cast<const int32_t *>(a->targets.p),
                       static_cast<float *>(a->loss.p),
                       static_cast<double *>(a->loss_sum.p),
                       a->scale,
                       a->targets.shape[0],
                       a->dF.shape[1]};
    enum fr_rc rc;

    (void)cuda;
    if (f.T == 0)
        return FR_OK;
    rc = cuda_launch(q, {dim3(1), CUDA_THREADS, 0}, err, xent_loss_kernel, f);
    if (rc != FR_OK || a->dF.p == NULL)
        return rc;
    return cuda_float(a->state.target_row.dtype, [&](auto t) {
        using T = decltype(t);

        return a->dF.dtype == TR_F32 ? finish_rows<float, T>(q, a, f, err)
                                     : finish_rows<T, T>(q, a, f, err);
    });
}

/* Of a chunk's tokens. */
struct whole {
    const float *top, *m, *l;
    const int32_t *targets;
    int64_t row0;
    double scale;
};

template <class T, class P>
__global__ void xent_bwd_kernel(struct rows<T> dz, struct rows<const P> p, struct whole a,
                                struct cuda_span s)
{
    struct chunk c;
    float x[CHUNK], scale = (float)a.scale, factor;
    int64_t target;

    if (!chunk_of(s, &c))
        return;
    target = a.targets[c.row];
    factor = (float)(a.scale * expf(a.top[c.row] - a.m[c.row]) / a.l[c.row]);
    load(x, p.at(c.row, c.col), c.n);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] = target < 0 ? 0 : x[i] * factor - (target == a.row0 + c.col + i ? scale : 0.0f);
    store(dz.at(c.row, c.col), x, c.n);
}

enum fr_rc tr_cuda_xent_bwd(struct cuda *cuda, struct tr_queue *q, const struct tr_xent_grad *a,
                            struct fr_err *err)
{
    const struct tr_view *views[] = {&a->dz, &a->p};
    struct cuda_span s = cuda_span_of(false, views, 2);
    struct whole w = {static_cast<const float *>(a->top.p),
                      static_cast<const float *>(a->m.p),
                      static_cast<const float *>(a->l.p),
                      static_cast<const int32_t *>(a->targets.p),
                      a->row0,
                      a->scale};

    (void)cuda;
    return cuda_float(a->dz.dtype, [&](auto t) {
        using T = decltype(t);

        if (a->p.dtype == TR_F32)
            return cuda_launch(q, cuda_chunks(s), err, xent_bwd_kernel<T, float>,
                               cuda_rows<T>(a->dz), cuda_rows<const float>(a->p), w, s);
        return cuda_launch(q, cuda_chunks(s), err, xent_bwd_kernel<T, T>, cuda_rows<T>(a->dz),
                           cuda_rows<const T>(a->p), w, s);
    });
}
