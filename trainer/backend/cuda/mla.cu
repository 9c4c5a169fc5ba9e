/*
 * Rotary positions and the heads of MLA; all outputs are written ("=").
 *
 * rope: the first dr channels of each head turned by the angles of the row's position, the others
 * copied. mla_assemble_fwd: Q = [q_nope, rope(q_pe)], K = [k_nope, rope(k_pe)] with one k_pe for
 * all heads, V = v. mla_assemble_bwd: the transposed map; dk_pe sums the heads: at most SLABS runs
 * of heads, each ascending, then the runs in order. A block owns a token. A thread copies chunks of
 * V channels, or turns V pairs (x, z) -> (x cos - z sin, z cos + x sin) in f32, rounded once; it
 * reads both of a pair before it writes, so y may be x. The row of dk_pe, one of hundreds, is
 * turned a pair a thread. Moves each view once (k_pe from the caches): forward and backward
 * T nh (4 dn + 3 dr + 2 dv) elements and the token's row of the tables. Limit: bandwidth.
 * Source: Su et al. 2021, section 3.4.2; DeepSeek-V2 2024, eq. 9-19.
 */
#include "trainer/backend/cuda/cuda.h"

enum { SLABS = 32 };

/* The angles of a token. */
struct turn {
    const float *cosines, *sines; /* whole tables, then the token's row */
    const int32_t *pos;
    int64_t half;
    float sign;
    bool interleave;
};

static struct turn turn_of(const struct tr_rope_table *t, float sign)
{
    return {static_cast<const float *>(t->cosines.p),
            static_cast<const float *>(t->sines.p),
            static_cast<const int32_t *>(t->pos.p),
            t->cosines.shape[1],
            sign,
            t->interleave};
}

/* Whether the pairs can be moved 16 bytes at a time. */
static bool wide_turn(const struct tr_rope_table *t)
{
    return t->cosines.shape[1] % DEV_WIDE == 0 && cuda_aligned(&t->cosines) &&
           cuda_aligned(&t->sines);
}

__device__ __forceinline__ struct turn at_token(struct turn t, int64_t token)
{
    int64_t row = t.pos[token] * t.half;

    t.cosines += row;
    t.sines += row;
    return t;
}

/* Pairs i .. i+V-1 of the head at p. */
template <int V, class T>
__device__ __forceinline__ void load_pairs(float (&x)[V], float (&z)[V], const T *p,
                                           const struct turn &t, int64_t i)
{
    if (!t.interleave) {
        load<V>(x, p + i);
        load<V>(z, p + i + t.half);
    } else if constexpr (V == 1) {
        x[0] = to_f32(p[2 * i]);
        z[0] = to_f32(p[2 * i + 1]);
    } else {
        float a[V], b[V];

        load<V>(a, p + 2 * i);
        load<V>(b, p + 2 * i + V);
#pragma unroll
        for (int k = 0; k < V / 2; k++) {
            x[k] = a[2 * k];
            z[k] = a[2 * k + 1];
            x[k + V / 2] = b[2 * k];
            z[k + V / 2] = b[2 * k + 1];
        }
    }
}

template <int V, class T>
__device__ __forceinline__ void store_pairs(T *p, const float (&x)[V], const float (&z)[V],
                                            const struct turn &t, int64_t i)
{
    if (!t.interleave) {
        store<V>(p + i, x);
        store<V>(p + i + t.half, z);
    } else if constexpr (V == 1) {
        p[2 * i] = from_f32<T>(x[0]);
        p[2 * i + 1] = from_f32<T>(z[0]);
    } else {
        float a[V], b[V];

#pragma unroll
        for (int k = 0; k < V / 2; k++) {
            a[2 * k] = x[k];
            a[2 * k + 1] = z[k];
            b[2 * k] = x[k + V / 2];
            b[2 * k + 1] = z[k + V / 2];
        }
        store<V>(p + 2 * i, a);
        store<V>(p + 2 * i + V, b);
    }
}

template <int V>
__device__ __forceinline__ void rotate(float (&x)[V], float (&z)[V], const struct turn &t,
                                       int64_t i)
{
    float c[V], s[V];

    load<V>(c, t.cosines + i);
    load<V>(s, t.sines + i);
#pragma unroll
    for (int k = 0; k < V; k++) {
        float a = x[k], b = z[k], sine = t.sign * s[k];

        x[k] = a * c[k] - b * sine;
        z[k] = b * c[k] + a * sine;
    }
}

/* One part of each of n heads: where the first one's begins, and from head to head. */
template <class T> struct part {
    T *p;
    int64_t step;
};

template <int V, class T>
__device__ __forceinline__ void copy_heads(struct part<T> to, struct part<const T> from, int heads,
                                           int64_t width)
{
    int across = (int)(width / V);

    for (int u = (int)threadIdx.x; u < heads * across; u += (int)blockDim.x) {
        int64_t h = u / across, j = (int64_t)(u % across) * V;
        float x[V];

        load<V>(x, from.p + h * from.step + j);
        store<V>(to.p + h * to.step + j, x);
    }
}

template <int V, class T>
__device__ __forceinline__ void turn_heads(struct part<T> to, struct part<const T> from, int heads,
                                           const struct turn &t)
{
    int across = (int)(t.half / V);

    for (int u = (int)threadIdx.x; u < heads * across; u += (int)blockDim.x) {
        int64_t h = u / across, i = (int64_t)(u % across) * V;
        float x[V], z[V];

        load_pairs<V>(x, z, from.p + h * from.step, t, i);
        rotate<V>(x, z, t, i);
        store_pairs<V>(to.p + h * to.step, x, z, t, i);
    }
}

/* ---- rope ---- */

template <class T, int V>
__global__ void rope_kernel(struct rows<T> y, struct rows<const T> x, struct turn turn, int heads,
                            int64_t hd)
{
    struct turn t = at_token(turn, blockIdx.x);
    int64_t dr = 2 * t.half;
    T *to = y.at(blockIdx.x, 0);
    const T *from = x.at(blockIdx.x, 0);

    turn_heads<V, T>({to, hd}, {from, hd}, heads, t);
    if (to != from)
        copy_heads<V, T>({to + dr, hd}, {from + dr, hd}, heads, hd - dr);
}

enum fr_rc tr_cuda_rope(struct cuda *cuda, struct tr_queue *q, const struct tr_rope *a,
                        struct fr_err *err)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1], hd = a->x.shape[2];
    bool wide = hd % DEV_WIDE == 0 && cuda_aligned(&a->x) && cuda_aligned(&a->y);
    struct turn turn = turn_of(&a->table, a->inverse ? -1 : 1);

    (void)cuda;
    return cuda_float(a->x.dtype, [&](auto t) {
        return cuda_wide(wide && wide_turn(&a->table), [&](auto v) {
            using C = decltype(t);
            constexpr int V = decltype(v)::value;
            struct cuda_grid g = {dim3((unsigned)T), cuda_row_threads((n * hd + V - 1) / V), 0};

            return cuda_launch(q, g, err, rope_kernel<C, V>, cuda_rows<C>(a->y),
                               cuda_rows<const C>(a->x), turn, (int)n, hd);
        });
    });
}

/* ---- mla ---- */

struct heads {
    int64_t dn, dr, dv;
    int n;
};

template <class T> struct mla_in {
    struct rows<const T> q, kv, k_pe;
};

template <class T, int V>
__global__ void mla_fwd_kernel(struct rows<T> Q, struct rows<T> K, struct rows<T> V_out,
                               struct mla_in<T> in, struct heads h, struct turn turn)
{
    int64_t row = blockIdx.x, dq = h.dn + h.dr, dkv = h.dn + h.dv;
    struct turn t = at_token(turn, row);
    const T *q = in.q.at(row, 0), *kv = in.kv.at(row, 0);

    copy_heads<V, T>({Q.at(row, 0), dq}, {q, dq}, h.n, h.dn);
    turn_heads<V, T>({Q.at(row, h.dn), dq}, {q + h.dn, dq}, h.n, t);
    copy_heads<V, T>({K.at(row, 0), dq}, {kv, dkv}, h.n, h.dn);
    turn_heads<V, T>({K.at(row, h.dn), dq}, {in.k_pe.at(row, 0), 0}, h.n, t);
    copy_heads<V, T>({V_out.at(row, 0), h.dv}, {kv + h.dn, dkv}, h.n, h.dv);
}

static bool wide_heads(const struct heads &h, const struct tr_rope_table *table,
                       const struct tr_view *const *views, int n)
{
    bool wide = h.dn % DEV_WIDE == 0 && h.dv % DEV_WIDE == 0 && wide_turn(table);

    for (int i = 0; i < n; i++)
        wide = wide && cuda_aligned(views[i]);
    return wide;
}

static struct cuda_grid head_grid(int64_t T, const struct heads &h, int V)
{
    return {dim3((unsigned)T), cuda_row_threads((h.n * (h.dn + h.dr) + V - 1) / V), 0};
}

enum fr_rc tr_cuda_mla_assemble_fwd(struct cuda *cuda, struct tr_queue *q, const struct tr_mla *a,
                                    struct fr_err *err)
{
    const struct tr_view *views[] = {&a->Q, &a->K, &a->V, &a->q, &a->kv, &a->k_pe};
    int64_t dr = a->k_pe.shape[1];
    struct heads h = {a->Q.shape[2] - dr, dr, a->V.shape[2], (int)a->Q.shape[1]};

    (void)cuda;
    return cuda_float(a->Q.dtype, [&](auto t) {
        return cuda_wide(wide_heads(h, &a->table, views, 6), [&](auto v) {
            using T = decltype(t);
            constexpr int V = decltype(v)::value;
            struct mla_in<T> in = {
                cuda_rows<const T>(a->q), cuda_rows<const T>(a->kv), cuda_rows<const T>(a->k_pe)
            };

            return cuda_launch(q, head_grid(a->Q.shape[0], h, V), err, mla_fwd_kernel<T, V>,
                               cuda_rows<T>(a->Q), cuda_rows<T>(a->K), cuda_rows<T>(a->V), in, h,
                               turn_of(&a->table, 1));
        });
    });
}

template <class T> struct mla_grads {
    struct rows<const T> dQ, dK, dV;
};

/* Sums of the turned channels of dK over the heads, into sums[SLABS][dr] and from there to row 0.
 */
template <int V, class T>
__device__ __forceinline__ void sum_heads(float *sums, const T *pe, const struct heads &h)
{
    int64_t dr = h.dr, dq = h.dn + h.dr;
    int run = (h.n + SLABS - 1) / SLABS, slabs = (h.n + run - 1) / run, across = (int)dr / V;

    for (int u = (int)threadIdx.x; u < slabs * across; u += (int)blockDim.x) {
        int first = u / across * run, end = min(first + run, h.n);
        const T *p = pe + u % across * V;
        float sum[V] = {}, x[V];

#pragma unroll 4
        for (int k = first; k < end; k++) {
            load<V>(x, p + k * dq);
#pragma unroll
            for (int i = 0; i < V; i++)
                sum[i] += x[i];
        }
        store<V>(sums + (int64_t)u * V, sum);
    }
    __syncthreads();
    for (int64_t j = threadIdx.x; j < dr; j += blockDim.x) {
        float sum = sums[j];

        for (int s = 1; s < slabs; s++)
            sum += sums[s * dr + j];
        sums[j] = sum;
    }
    __syncthreads();
}

template <class T, int V>
__global__ void mla_bwd_kernel(struct rows<T> dq_out, struct rows<T> dkv_out, struct rows<T> dk_pe,
                               struct mla_grads<T> in, struct heads h, struct turn turn)
{
    DEV_DYNAMIC(float, sums);
    int64_t row = blockIdx.x, dq = h.dn + h.dr, dkv = h.dn + h.dv;
    struct turn t = at_token(turn, row);
    const T *dQ = in.dQ.at(row, 0), *dK = in.dK.at(row, 0);

    copy_heads<V, T>({dq_out.at(row, 0), dq}, {dQ, dq}, h.n, h.dn);
    turn_heads<V, T>({dq_out.at(row, h.dn), dq}, {dQ + h.dn, dq}, h.n, t);
    copy_heads<V, T>({dkv_out.at(row, 0), dkv}, {dK, dq}, h.n, h.dn);
    copy_heads<V, T>({dkv_out.at(row, h.dn), dkv}, {in.dV.at(row, 0), h.dv}, h.n, h.dv);
    sum_heads<V>(sums, dK + h.dn, h);
    for (int64_t i = threadIdx.x; i < t.half; i += blockDim.x) {
        float x[1], z[1];

        load_pairs<1>(x, z, sums, t, i);
        rotate<1>(x, z, t, i);
        store_pairs<1>(dk_pe.at(row, 0), x, z, t, i);
    }
}

enum fr_rc tr_cuda_mla_assemble_bwd(struct cuda *cuda, struct tr_queue *q,
                                    const struct tr_mla_grad *a, struct fr_err *err)
{
    const struct tr_view *views[] = {&a->dq, &a->dkv, &a->dQ, &a->dK, &a->dV};
    int64_t dr = a->dk_pe.shape[1];
    struct heads h = {a->dQ.shape[2] - dr, dr, a->dV.shape[2], (int)a->dQ.shape[1]};

    (void)cuda;
    return cuda_float(a->dQ.dtype, [&](auto t) {
        return cuda_wide(wide_heads(h, &a->table, views, 5), [&](auto v) {
            using T = decltype(t);
            constexpr int V = decltype(v)::value;
            struct mla_grads<T> in = {
                cuda_rows<const T>(a->dQ), cuda_rows<const T>(a->dK), cuda_rows<const T>(a->dV)
            };
            struct cuda_grid g = head_grid(a->dQ.shape[0], h, V);

            g.shared = SLABS * (size_t)dr * sizeof(float);
            return cuda_launch(q, g, err, mla_bwd_kernel<T, V>, cuda_rows<T>(a->dq),
                               cuda_rows<T>(a->dkv), cuda_rows<T>(a->dk_pe), in, h,
                               turn_of(&a->table, -1));
        });
    });
}
