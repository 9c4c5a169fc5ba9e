/*
 * Element-wise: fill, cast, sum. A thread owns a chunk of DEV_WIDE elements (of one where rows are
 * not aligned to 16 bytes); views that are contiguous are one long row. All outputs are written
 * ("="); each view is moved once, so the limit is the device's bandwidth: fill n bytes, cast and
 * sum the bytes of all their views. y may be any x: a chunk is read before it is written.
 */
#include "trainer/backend/cuda/cuda.h"

template <class T, int V>
__global__ void fill_kernel(struct rows<T> y, struct cuda_span s, float value)
{
    struct chunk c;
    float x[V];

    if (!chunk_of<V>(s, &c))
        return;
#pragma unroll
    for (int i = 0; i < V; i++)
        x[i] = value;
    store<V>(y.at(c.row, c.col), x);
}

template <class T>
__global__ void fill_integer_kernel(struct rows<T> y, struct cuda_span s, T value)
{
    struct chunk c;

    if (chunk_of<1>(s, &c))
        *y.at(c.row, c.col) = value;
}

enum fr_rc tr_cuda_fill(struct cuda *cuda, struct tr_queue *q, const struct tr_fill *a,
                        struct fr_err *err)
{
    const struct tr_view *views[] = {&a->y};
    struct cuda_span s = cuda_span_of(true, views, 1);

    (void)cuda;
    if (a->y.dtype == TR_I32)
        return cuda_launch(q, cuda_chunks(s, 1), err, fill_integer_kernel<int32_t>,
                           cuda_rows<int32_t>(a->y), s, (int32_t)a->value);
    if (a->y.dtype == TR_I64)
        return cuda_launch(q, cuda_chunks(s, 1), err, fill_integer_kernel<int64_t>,
                           cuda_rows<int64_t>(a->y), s, (int64_t)a->value);
    return cuda_float(a->y.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_wide(s.wide, [&](auto v) {
            constexpr int V = decltype(v)::value;

            return cuda_launch(q, cuda_chunks(s, V), err, fill_kernel<T, V>, cuda_rows<T>(a->y), s,
                               (float)a->value);
        });
    });
}

template <class Y, class X, int V>
__global__ void cast_kernel(struct rows<Y> y, struct rows<const X> x, struct cuda_span s)
{
    struct chunk c;
    float v[V];

    if (!chunk_of<V>(s, &c))
        return;
    load<V>(v, x.at(c.row, c.col));
    store<V>(y.at(c.row, c.col), v);
}

template <class T>
__global__ void copy_integer_kernel(struct rows<T> y, struct rows<const T> x, struct cuda_span s)
{
    struct chunk c;

    if (chunk_of<1>(s, &c))
        *y.at(c.row, c.col) = *x.at(c.row, c.col);
}

enum fr_rc tr_cuda_cast(struct cuda *cuda, struct tr_queue *q, const struct tr_cast *a,
                        struct fr_err *err)
{
    const struct tr_view *views[] = {&a->y, &a->x};
    struct cuda_span s = cuda_span_of(true, views, 2);

    (void)cuda;
    if (a->y.dtype == TR_I32)
        return cuda_launch(q, cuda_chunks(s, 1), err, copy_integer_kernel<int32_t>,
                           cuda_rows<int32_t>(a->y), cuda_rows<const int32_t>(a->x), s);
    if (a->y.dtype == TR_I64)
        return cuda_launch(q, cuda_chunks(s, 1), err, copy_integer_kernel<int64_t>,
                           cuda_rows<int64_t>(a->y), cuda_rows<const int64_t>(a->x), s);
    return cuda_float(a->y.dtype, [&](auto ty) {
        return cuda_float(a->x.dtype, [&](auto tx) {
            return cuda_wide(s.wide, [&](auto v) {
                using Y = decltype(ty);
                using X = decltype(tx);
                constexpr int V = decltype(v)::value;

                return cuda_launch(q, cuda_chunks(s, V), err, cast_kernel<Y, X, V>,
                                   cuda_rows<Y>(a->y), cuda_rows<const X>(a->x), s);
            });
        });
    });
}

/* The addends of a sum, each of its own type; the branch on it is the same for all threads. */
struct addends {
    const void *p[TR_SUM_MAX];
    int64_t ld[TR_SUM_MAX];
    enum tr_dtype dtype[TR_SUM_MAX];
    float alpha[TR_SUM_MAX];
    int n;
};

template <int V>
__device__ __forceinline__ void load_addend(float (&x)[V], const struct addends &a, int k,
                                            const struct chunk &c)
{
    int64_t at = c.row * a.ld[k] + c.col;

    if (a.dtype[k] == TR_BF16)
        load<V>(x, static_cast<const bf16 *>(a.p[k]) + at);
    else if (a.dtype[k] == TR_F16)
        load<V>(x, static_cast<const f16 *>(a.p[k]) + at);
    else
        load<V>(x, static_cast<const float *>(a.p[k]) + at);
}

template <class T, int V>
__global__ void sum_kernel(struct rows<T> y, struct addends a, struct cuda_span s)
{
    struct chunk c;
    float sum[V], x[V];

    if (!chunk_of<V>(s, &c))
        return;
#pragma unroll
    for (int i = 0; i < V; i++)
        sum[i] = 0;
#pragma unroll
    for (int k = 0; k < TR_SUM_MAX; k++) {
        if (k >= a.n)
            break;
        load_addend<V>(x, a, k, c);
#pragma unroll
        for (int i = 0; i < V; i++)
            sum[i] += a.alpha[k] * x[i];
    }
    store<V>(y.at(c.row, c.col), sum);
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
        x.p[k] = a->x[k].p;
        x.ld[k] = a->x[k].ld;
        x.dtype[k] = a->x[k].dtype;
        x.alpha[k] = a->alpha[k];
    }
    s = cuda_span_of(true, views, a->n + 1);
    return cuda_float(a->y.dtype, [&](auto t) {
        using T = decltype(t);

        return cuda_wide(s.wide, [&](auto v) {
            constexpr int V = decltype(v)::value;

            return cuda_launch(q, cuda_chunks(s, V), err, sum_kernel<T, V>, cuda_rows<T>(a->y), x,
                               s);
        });
    });
}
