/*
 * Rows and gates: embedding, dropout, SwiGLU.
 *
 * embed_fwd ("="): y[t] = table[ids[t] - row0]; a thread owns a chunk of y; 2 T H elements move.
 * embed_bwd: dtable[ids[t] - row0] += dy[t]. The block of a token owns the row of its id if no
 * earlier token has the id. It adds the rows of all later tokens with the id in order, which it
 * finds 32 ids at a time; T^2/32 words of ids come from the caches. dropout ("="): y = x / (1 - p)
 * if a word of Philox is at least p 2^32, else 0. The key is made of (seed, module, epoch), the
 * counter of (place, pos, channel), see philox.h. A thread owns a chunk; 2 R n elements move. Two
 * calls of Philox for 8 channels take about as long as their 32 bytes. swiglu_fwd ("="): h = g s u,
 * s = 1/(1 + exp(-g)); a thread owns a chunk; 3 R I elements move. swiglu_bwd ("="): dg = w dh u s
 * (1 + g (1-s)), du = w dh g s, dweight = sum over a row of dh g s u. A block owns a row because of
 * that sum; 5 R I elements move. A thread reads a chunk before it writes it, so that outputs may be
 * inputs as ops.h allows. The limit of all is the bandwidth.
 */
#include "trainer/backend/cuda/cuda.h"

#include "trainer/backend/philox.h"

template <class T>
__global__ void embed_fwd_kernel(struct rows<T> y, struct rows<const T> table, const int32_t *ids,
                                 int64_t row0, int64_t count, struct cuda_span s)
{
    struct chunk c;
    float x[CHUNK];
    int64_t row;

    if (!chunk_of(s, &c))
        return;
    row = ids[c.row] - row0;
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] = 0;
    if (row >= 0 && row < count)
        load(x, table.at(row, c.col), c.n);
    store(y.at(c.row, c.col), x, c.n);
}

enum fr_rc tr_cuda_embed_fwd(struct cuda *cuda, struct tr_queue *q, const struct tr_embed *a,
                             struct fr_err *err)
{
    const struct tr_view *views[] = {&a->y};
    struct cuda_span s = cuda_span_of(false, views, 1);

    (void)cuda;
    return cuda_float(a->y.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, embed_fwd_kernel<T>, cuda_rows<T>(a->y),
                           cuda_rows<const T>(a->table), static_cast<const int32_t *>(a->ids.p),
                           a->row0, a->table.shape[0], s);
    });
}

/* A bit for each of tokens t .. t+31 that has this id. All lanes of a warp call. */
__device__ __forceinline__ unsigned same_id(const int32_t *ids, int64_t t, int64_t T, int32_t id)
{
    int64_t mine = t + threadIdx.x % 32;

    return __ballot_sync(0xffffffffu, mine < T && ids[mine < T ? mine : 0] == id);
}

template <class T>
__global__ void embed_bwd_kernel(struct rows<float> dtable, struct rows<const T> dy,
                                 const int32_t *ids, int64_t row0, int64_t count,
                                 struct cuda_span s)
{
    int64_t t = blockIdx.x, row = ids[t] - row0;
    int32_t id = ids[t];

    if (row < 0 || row >= count)
        return;
    for (int64_t at = 0; at < t; at += 32)
        if (same_id(ids, at, t, id) != 0)
            return;
    for (int64_t first = 0; first < s.width; first += blockDim.x * CHUNK) {
        int64_t j = first + threadIdx.x * CHUNK;
        bool mine = j < s.width;
        float sum[CHUNK] = {}, x[CHUNK];

        if (mine)
            load(sum, dtable.at(row, j), s.width - j);
        for (int64_t at = t; at < s.count; at += 32) /* every lane votes */
            for (unsigned hits = same_id(ids, at, s.count, id); hits != 0; hits &= hits - 1) {
                if (!mine)
                    continue;
                load(x, dy.at(at + __ffs((int)hits) - 1, j), s.width - j);
#pragma unroll
                for (int i = 0; i < CHUNK; i++)
                    sum[i] += x[i];
            }
        if (mine)
            store(dtable.at(row, j), sum, s.width - j);
    }
}

enum fr_rc tr_cuda_embed_bwd(struct cuda *cuda, struct tr_queue *q, const struct tr_embed *a,
                             struct fr_err *err)
{
    const struct tr_view *views[] = {&a->dy};
    struct cuda_span s = cuda_span_of(false, views, 1);

    (void)cuda;
    return cuda_float(a->dy.dtype, [&](auto t) {
        using T = decltype(t);
        struct cuda_grid g = {dim3((unsigned)s.count), cuda_row_threads(s.width), 0};

        return cuda_launch(q, g, err, embed_bwd_kernel<T>, cuda_rows<float>(a->dtable),
                           cuda_rows<const T>(a->dy), static_cast<const int32_t *>(a->ids.p),
                           a->row0, a->dtable.shape[0], s);
    });
}

/* The source of a row's mask. */
struct mask {
    const int64_t *place;
    const int32_t *pos, *slot_of, *groups; /* the last two may be NULL */
    int64_t K, experts;
    uint64_t seed, module;
    uint32_t epoch, below;
    float keep;
    struct window rows;
};

/* The routed group of row i: the last whose rows begin at or before it. */
__device__ __forceinline__ uint64_t group_of(const struct mask &m, int64_t i)
{
    int64_t low = 0, high = m.experts - 1;

    while (low < high) {
        int64_t mid = (low + high + 1) / 2;

        if (m.groups[mid] <= i)
            low = mid;
        else
            high = mid - 1;
    }
    return (uint64_t)low;
}

template <class T>
__global__ void dropout_kernel(struct rows<T> y, struct rows<const T> x, struct mask m,
                               struct cuda_span s)
{
    struct chunk c;
    float v[CHUNK];
    int64_t t;
    uint64_t key;

    if (!chunk_of(s, &c) || !within(m.rows, c.row))
        return;
    t = m.slot_of != NULL ? m.slot_of[c.row] / m.K : c.row;
    key = tr_dropout_key(m.seed, m.module + (m.groups != NULL ? group_of(m, c.row) : 0), m.epoch);
    load(v, x.at(c.row, c.col), c.n);
#pragma unroll
    for (int i = 0; i < CHUNK; i += 4) {
        struct tr_philox bits =
            tr_dropout_bits(key, m.place[t], m.pos[t], (uint32_t)((c.col + i) / 4));

#pragma unroll
        for (int k = 0; k < 4; k++)
            v[i + k] *= bits.v[k] < m.below ? 0 : m.keep;
    }
    store(y.at(c.row, c.col), v, c.n);
}

enum fr_rc tr_cuda_dropout(struct cuda *cuda, struct tr_queue *q, const struct tr_dropout *a,
                           struct fr_err *err)
{
    const struct tr_view *views[] = {&a->y, &a->x};
    struct cuda_span s = cuda_span_of(false, views, 2);
    struct mask m = {static_cast<const int64_t *>(a->place.p),
                     static_cast<const int32_t *>(a->pos.p),
                     static_cast<const int32_t *>(a->slot_of.p),
                     static_cast<const int32_t *>(a->groups.p),
                     a->K,
                     a->groups.shape[0] - 1,
                     a->seed,
                     a->module,
                     a->epoch,
                     tr_dropout_threshold(a->p),
                     (float)(1 / (1 - (double)a->p)),
                     cuda_window(a->rows)};

    (void)cuda;
    return cuda_float(a->y.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, dropout_kernel<T>, cuda_rows<T>(a->y),
                           cuda_rows<const T>(a->x), m, s);
    });
}

__device__ __forceinline__ float sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + expf(-x));
}

template <class T>
__global__ void swiglu_fwd_kernel(struct rows<T> h, struct rows<const T> g, struct rows<const T> u,
                                  struct window rows, struct cuda_span s)
{
    struct chunk c;
    float x[CHUNK], z[CHUNK];

    if (!chunk_of(s, &c) || !within(rows, c.row))
        return;
    load(x, g.at(c.row, c.col), c.n);
    load(z, u.at(c.row, c.col), c.n);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] = x[i] * sigmoid(x[i]) * z[i];
    store(h.at(c.row, c.col), x, c.n);
}

enum fr_rc tr_cuda_swiglu_fwd(struct cuda *cuda, struct tr_queue *q, const struct tr_swiglu *a,
                              struct fr_err *err)
{
    const struct tr_view *views[] = {&a->h, &a->g, &a->u};
    struct cuda_span s = cuda_span_of(a->rows.offsets.p == NULL, views, 3);

    (void)cuda;
    return cuda_float(a->h.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, swiglu_fwd_kernel<T>, cuda_rows<T>(a->h),
                           cuda_rows<const T>(a->g), cuda_rows<const T>(a->u), cuda_window(a->rows),
                           s);
    });
}

/* The routing weights of the rows; each may be NULL. */
struct routed {
    const float *weight;
    float *dweight;
    const int32_t *slot_of;
    struct window rows;
};

template <class T> struct gate_in {
    struct rows<const T> dh, g, u;
    int64_t n;
};

template <class T>
__global__ void swiglu_bwd_kernel(struct rows<T> dg, struct rows<T> du, struct gate_in<T> in,
                                  struct routed r)
{
    DEV_SHARED(float, part, [32]);
    int64_t row = blockIdx.x;
    float w = 1, dot = 0;

    if (!within(r.rows, row))
        return;
    if (r.weight != NULL)
        w = r.weight[r.slot_of[row]];
    for (int64_t j = (int64_t)threadIdx.x * CHUNK; j < in.n; j += blockDim.x * CHUNK) {
        float dh[CHUNK], g[CHUNK], u[CHUNK];

        load(dh, in.dh.at(row, j), in.n - j);
        load(g, in.g.at(row, j), in.n - j);
        load(u, in.u.at(row, j), in.n - j);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            float s = sigmoid(g[i]), silu = g[i] * s, e = w * dh[i];

            dot += dh[i] * silu * u[i];
            g[i] = e * u[i] * s * (1 + g[i] * (1 - s));
            u[i] = e * silu;
        }
        store(dg.at(row, j), g, in.n - j);
        store(du.at(row, j), u, in.n - j);
    }
    if (r.dweight == NULL)
        return;
    dot = block_sum(dot, part);
    if (threadIdx.x == 0)
        r.dweight[r.slot_of[row]] = dot;
}

enum fr_rc tr_cuda_swiglu_bwd(struct cuda *cuda, struct tr_queue *q, const struct tr_swiglu_grad *a,
                              struct fr_err *err)
{
    const struct tr_view *views[] = {&a->dg, &a->du, &a->dh, &a->g, &a->u};
    struct cuda_span s = cuda_span_of(false, views, 5);
    struct routed r = {static_cast<const float *>(a->weight.p), static_cast<float *>(a->dweight.p),
                       static_cast<const int32_t *>(a->slot_of.p), cuda_window(a->rows)};

    (void)cuda;
    return cuda_float(a->g.dtype, [&](auto t) {
        using T = decltype(t);
        struct gate_in<T> in = {
            cuda_rows<const T>(a->dh), cuda_rows<const T>(a->g), cuda_rows<const T>(a->u), s.width
        };
        struct cuda_grid g = {dim3((unsigned)s.count), cuda_row_threads(s.width), 0};

        return cuda_launch(q, g, err, swiglu_bwd_kernel<T>, cuda_rows<T>(a->dg),
                           cuda_rows<T>(a->du), in, r);
    });
}
