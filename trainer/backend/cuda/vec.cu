/*
 * Element-wise; all outputs are written ("="):
 *   fill y = value; cast y = x; sum y = sum of alpha[k] x[k], k ascending, in f32;
 *   noise y[i] = scale * draw(key, first + i), normal or uniform in [-1, 1) (tensor/draw.h);
 *   decode y[i,j] = w[i,j] * scale[(row0+i) / block_rows, j / block_cols], w as f8_value of dev.h.
 * A thread owns a chunk of CHUNK elements; contiguous views count as one long row. Each view moves
 * once, so that the limit is the bandwidth: fill and noise move the bytes of y, cast and sum those
 * of all their views, decode 1 + sizeof(y) bytes a weight. A thread reads a chunk before it writes
 * it, so y may be any x.
 */
#include "trainer/backend/cuda/cuda.h"

extern "C" {
#include "trainer/tensor/draw.h"
}

template <class T> __global__ void fill_kernel(struct rows<T> y, struct cuda_span s, float value)
{
    struct chunk c;
    float x[CHUNK];

    if (!chunk_of(s, &c))
        return;
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        x[i] = value;
    store(y.at(c.row, c.col), x, c.n);
}

template <class T>
__global__ void noise_kernel(T *y, struct tr_draw d, int64_t first, float scale, bool uniform,
                             struct cuda_span s)
{
    struct chunk c;
    float x[CHUNK];

    if (!chunk_of(s, &c))
        return;
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        uint64_t k = (uint64_t)(first + c.col + i);

        x[i] = scale * (uniform ? 2 * tr_draw_uniform(d, k) - 1 : tr_draw_normal(d, k));
    }
    store(y + c.col, x, c.n);
}

enum fr_rc tr_cuda_noise(struct cuda *cuda, struct tr_queue *q, const struct tr_noise *a,
                         struct fr_err *err)
{
    const struct tr_view *views[] = {&a->y};
    struct cuda_span s = cuda_span_of(true, views, 1);
    struct tr_draw d = {a->key};

    (void)cuda;
    return cuda_float(a->y.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, noise_kernel<T>, static_cast<T *>(a->y.p), d,
                           a->first, a->scale, a->uniform, s);
    });
}

template <class T>
__global__ void fill_integer_kernel(struct rows<T> y, struct cuda_span s, T value)
{
    struct chunk c;

    if (chunk_of(s, &c))
        for (int i = 0; i < CHUNK && i < c.n; i++)
            *y.at(c.row, c.col + i) = value;
}

enum fr_rc tr_cuda_fill(struct cuda *cuda, struct tr_queue *q, const struct tr_fill *a,
                        struct fr_err *err)
{
    const struct tr_view *views[] = {&a->y};
    struct cuda_span s = cuda_span_of(true, views, 1);

    (void)cuda;
    if (a->y.dtype == TR_I32)
        return cuda_launch(q, cuda_chunks(s), err, fill_integer_kernel<int32_t>,
                           cuda_rows<int32_t>(a->y), s, (int32_t)a->value);
    if (a->y.dtype == TR_I64)
        return cuda_launch(q, cuda_chunks(s), err, fill_integer_kernel<int64_t>,
                           cuda_rows<int64_t>(a->y), s, (int64_t)a->value);
    return cuda_float(a->y.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, fill_kernel<T>, cuda_rows<T>(a->y), s,
                           (float)a->value);
    });
}

template <class Y, class X>
__global__ void cast_kernel(struct rows<Y> y, struct rows<const X> x, struct cuda_span s)
{
    struct chunk c;
    float v[CHUNK];

    if (!chunk_of(s, &c))
        return;
    load(v, x.at(c.row, c.col), c.n);
    store(y.at(c.row, c.col), v, c.n);
}

template <class T>
__global__ void copy_integer_kernel(struct rows<T> y, struct rows<const T> x, struct cuda_span s)
{
    struct chunk c;

    if (chunk_of(s, &c))
        for (int i = 0; i < CHUNK && i < c.n; i++)
            *y.at(c.row, c.col + i) = *x.at(c.row, c.col + i);
}

enum fr_rc tr_cuda_cast(struct cuda *cuda, struct tr_queue *q, const struct tr_cast *a,
                        struct fr_err *err)
{
    const struct tr_view *views[] = {&a->y, &a->x};
    struct cuda_span s = cuda_span_of(true, views, 2);

    (void)cuda;
    if (a->y.dtype == TR_I32)
        return cuda_launch(q, cuda_chunks(s), err, copy_integer_kernel<int32_t>,
                           cuda_rows<int32_t>(a->y), cuda_rows<const int32_t>(a->x), s);
    if (a->y.dtype == TR_I64)
        return cuda_launch(q, cuda_chunks(s), err, copy_integer_kernel<int64_t>,
                           cuda_rows<int64_t>(a->y), cuda_rows<const int64_t>(a->x), s);
    return cuda_float(a->y.dtype, [&](auto ty) {
        return cuda_float(a->x.dtype, [&](auto tx) {
            using Y = decltype(ty);
            using X = decltype(tx);

            return cuda_launch(q, cuda_chunks(s), err, cast_kernel<Y, X>, cuda_rows<Y>(a->y),
                               cuda_rows<const X>(a->x), s);
        });
    });
}

struct addends {
    struct any x[TR_SUM_MAX];
    float alpha[TR_SUM_MAX];
    int n;
};

template <class T>
__global__ void sum_kernel(struct rows<T> y, struct addends a, struct cuda_span s)
{
    struct chunk c;
    float sum[CHUNK], x[CHUNK];

    if (!chunk_of(s, &c))
        return;
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        sum[i] = 0;
#pragma unroll
    for (int k = 0; k < TR_SUM_MAX; k++) {
        if (k >= a.n)
            break;
        load_any(x, a.x[k], c.row, c.col, c.n);
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum[i] += a.alpha[k] * x[i];
    }
    store(y.at(c.row, c.col), sum, c.n);
}

enum fr_rc tr_cuda_sum(struct cuda *cuda, struct tr_queue *q, const struct tr_sum *a,
                       struct fr_err *err)
{
    const struct tr_view *views[TR_SUM_MAX + 1] = {&a->y};
    struct addends x = {};
    struct cuda_span s;

    (void)cuda;
    x.n = a->n;
    for (int k = 0; k < a->n; k++) {
        views[k + 1] = &a->x[k];
        x.x[k] = cuda_any(a->x[k]);
        x.alpha[k] = a->alpha[k];
    }
    s = cuda_span_of(true, views, a->n + 1);
    return cuda_float(a->y.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, sum_kernel<T>, cuda_rows<T>(a->y), x, s);
    });
}

/* The FP8 blocks of a weight. */
struct blocks {
    const uint8_t *p;
    int64_t ld;
    const float *scale;
    int64_t scale_ld, row0;
    int rows, cols;
};

template <class T>
__global__ void decode_kernel(struct rows<T> y, struct blocks w, struct cuda_span s)
{
    struct chunk c;
    float x[CHUNK];

    if (!chunk_of(s, &c))
        return;
    load_f8(x, w.p + c.row * w.ld + c.col, c.n);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        if (i < c.n)
            x[i] *= w.scale[(w.row0 + c.row) / w.rows * w.scale_ld + (c.col + i) / w.cols];
    store(y.at(c.row, c.col), x, c.n);
}

enum fr_rc tr_cuda_decode(struct cuda *cuda, struct tr_queue *q, const struct tr_decode *a,
                          struct fr_err *err)
{
    const struct tr_view *views[] = {&a->y, &a->w.w};
    struct cuda_span s = cuda_span_of(false, views, 2);
    struct blocks w = {static_cast<const uint8_t *>(a->w.w.p),
                       a->w.w.ld,
                       static_cast<const float *>(a->w.scale.p),
                       a->w.scale.ld,
                       a->w.row0,
                       a->w.block_rows,
                       a->w.block_cols};

    (void)cuda;
    return cuda_float(a->y.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_launch(q, cuda_chunks(s), err, decode_kernel<T>, cuda_rows<T>(a->y), w, s);
    });
}
