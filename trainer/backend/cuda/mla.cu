/*
 * Rotary positions and the heads of MLA; all outputs are written ("=").
 *
 * rope: rotates the first dr channels of each head by the angles of the row's position, and copies
 * the others. mla_assemble_fwd: Q = [q_nope, rope(q_pe)], K = [k_nope, rope(k_pe)] with one k_pe
 * for all heads, V = v. mla_assemble_bwd: the transposed map. dk_pe sums the heads: at most SLABS
 * runs of heads, each ascending, then the runs in order. A block owns a token. A thread copies
 * chunks of CHUNK channels, or rotates CHUNK pairs (x, z) -> (x cos - z sin, z cos + x sin) in f32,
 * rounded once. It reads both elements of a pair before it writes, so y may be x. Moves each view
 * once (k_pe from the caches): forward and backward T nh (4 dn + 3 dr + 2 dv) elements and the
 * token's row of the tables. The limit is the bandwidth.
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

__device__ __forceinline__ struct turn at_token(struct turn t, int64_t token)
{
    int64_t row = t.pos[token] * t.half;

    t.cosines += row;
    t.sines += row;
    return t;
}

/* Pairs i .. i+CHUNK-1 of the head at p; there are t.half of them. */
template <class T>
__device__ __forceinline__ void load_pairs(float (&x)[CHUNK], float (&z)[CHUNK], const T *p,
                                           const struct turn &t, int64_t i)
{
    if (!t.interleave) {
        load(x, p + i, t.half - i);
        load(z, p + i + t.half, t.half - i);
    } else {
        float a[CHUNK], b[CHUNK];

        load(a, p + 2 * i, 2 * (t.half - i));
        load(b, p + 2 * i + CHUNK, 2 * (t.half - i) - CHUNK);
#pragma unroll
        for (int k = 0; k < CHUNK / 2; k++) {
            x[k] = a[2 * k];
            z[k] = a[2 * k + 1];
            x[k + CHUNK / 2] = b[2 * k];
            z[k + CHUNK / 2] = b[2 * k + 1];
        }
    }
}

template <class T>
__device__ __forceinline__ void store_pairs(T *p, const float (&x)[CHUNK], const float (&z)[CHUNK],
                                            const struct turn &t, int64_t i)
{
    if (!t.interleave) {
        store(p + i, x, t.half - i);
        store(p + i + t.half, z, t.half - i);
    } else {
        float a[CHUNK], b[CHUNK];

#pragma unroll
        for (int k = 0; k < CHUNK / 2; k++) {
            a[2 * k] = x[k];
            a[2 * k + 1] = z[k];
            b[2 * k] = x[k + CHUNK / 2];
            b[2 * k + 1] = z[k + CHUNK / 2];
        }
        store(p + 2 * i, a, 2 * (t.half - i));
        store(p + 2 * i + CHUNK, b, 2 * (t.half - i) - CHUNK);
    }
}

__device__ __forceinline__ void rotate(float (&x)[CHUNK], float (&z)[CHUNK], const struct turn &t,
                                       int64_t i)
{
    float c[CHUNK], s[CHUNK];

    load(c, t.cosines + i, t.half - i);
    load(s, t.sines + i, t.half - i);
#pragma unroll
    for (int k = 0; k < CHUNK; k++) {
        float a = x[k], b = z[k], sine = t.sign * s[k];

        x[k] = a * c[k] - b * sine;
        z[k] = b * c[k] + a * sine;
    }
}

/* One part of each of n heads: the start in the first head, and the stride of a head. */
template <class T> struct part {
    T *p;
    int64_t step;
};

/*
 * Calls f(j, h, step) for the chunk at channel j of TURNS heads h, h + step, ...; the last of them
 * may not exist. A thread keeps its chunk, so that it has loads of several heads in flight and
 * finds the next head without a division.
 */
template <int TURNS, class F>
__device__ __forceinline__ void each_chunk(int heads, int64_t width, F f)
{
    int across = (int)((width + CHUNK - 1) / CHUNK), threads = (int)blockDim.x;
    int lanes = min(across, threads), step = lanes > 0 ? threads / lanes : 0;
    int first = lanes > 0 ? (int)threadIdx.x / lanes : 0;

    if (first >= step)
        return;
    for (int j = (int)threadIdx.x % lanes; j < across; j += lanes)
        for (int h = first; h < heads; h += TURNS * step)
            f((int64_t)j * CHUNK, h, step);
}

template <class T>
__device__ __forceinline__ void copy_heads(struct part<T> to, struct part<const T> from, int heads,
                                           int64_t width)
{
    constexpr int TURNS = 4;
    bool wide = ((uintptr_t)to.p | (uintptr_t)from.p | (size_t)(to.step * (int64_t)sizeof(T)) |
                 (size_t)(from.step * (int64_t)sizeof(T))) %
                    16 ==
                0;

    each_chunk<TURNS>(heads, width, [&](int64_t j, int first, int step) {
        if (wide && width - j >= CHUNK) {
            struct dev_chunk<T> x[TURNS];

#pragma unroll
            for (int k = 0; k < TURNS; k++)
                if (first + k * step < heads)
                    x[k] = dev_chunk_at(from.p + (first + k * step) * from.step + j);
#pragma unroll
            for (int k = 0; k < TURNS; k++)
                if (first + k * step < heads)
                    dev_chunk_at(to.p + (first + k * step) * to.step + j) = x[k];
            return;
        }
        for (int h = first; h < heads && h < first + TURNS * step; h += step) {
            float x[CHUNK];

            load(x, from.p + h * from.step + j, width - j);
            store(to.p + h * to.step + j, x, width - j);
        }
    });
}

template <class T>
__device__ __forceinline__ void turn_heads(struct part<T> to, struct part<const T> from, int heads,
                                           const struct turn &t)
{
    constexpr int TURNS = 2;

    each_chunk<TURNS>(heads, t.half, [&](int64_t i, int first, int step) {
        float x[TURNS][CHUNK], z[TURNS][CHUNK];

#pragma unroll
        for (int k = 0; k < TURNS; k++)
            if (first + k * step < heads)
                load_pairs(x[k], z[k], from.p + (first + k * step) * from.step, t, i);
#pragma unroll
        for (int k = 0; k < TURNS; k++)
            if (first + k * step < heads) {
                rotate(x[k], z[k], t, i);
                store_pairs(to.p + (first + k * step) * to.step, x[k], z[k], t, i);
            }
    });
}

/* ---- rope ---- */

template <class T>
__global__ void rope_kernel(struct rows<T> y, struct rows<const T> x, struct turn turn, int heads,
                            int64_t hd)
{
    struct turn t = at_token(turn, blockIdx.x);
    int64_t dr = 2 * t.half;
    T *to = y.at(blockIdx.x, 0);
    const T *from = x.at(blockIdx.x, 0);

    turn_heads<T>({to, hd}, {from, hd}, heads, t);
    if (to != from)
        copy_heads<T>({to + dr, hd}, {from + dr, hd}, heads, hd - dr);
}

enum fr_rc tr_cuda_rope(struct cuda *cuda, struct tr_queue *q, const struct tr_rope *a,
                        struct fr_err *err)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1], hd = a->x.shape[2];
    struct turn turn = turn_of(&a->table, a->inverse ? -1 : 1);

    (void)cuda;
    return cuda_float(a->x.dtype, [&](auto t) {
        using C = decltype(t);
        struct cuda_grid g = cuda_row_grid(T, n * hd, 0);

        return cuda_launch(q, g, err, rope_kernel<C>, cuda_rows<C>(a->y), cuda_rows<const C>(a->x),
                           turn, (int)n, hd);
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

template <class T>
__global__ void mla_fwd_kernel(struct rows<T> Q, struct rows<T> K, struct rows<T> V_out,
                               struct mla_in<T> in, struct heads h, struct turn turn)
{
    int64_t row = blockIdx.x, dq = h.dn + h.dr, dkv = h.dn + h.dv;
    struct turn t = at_token(turn, row);
    const T *q = in.q.at(row, 0), *kv = in.kv.at(row, 0);

    copy_heads<T>({Q.at(row, 0), dq}, {q, dq}, h.n, h.dn);
    turn_heads<T>({Q.at(row, h.dn), dq}, {q + h.dn, dq}, h.n, t);
    copy_heads<T>({K.at(row, 0), dq}, {kv, dkv}, h.n, h.dn);
    turn_heads<T>({K.at(row, h.dn), dq}, {in.k_pe.at(row, 0), 0}, h.n, t);
    copy_heads<T>({V_out.at(row, 0), h.dv}, {kv + h.dn, dkv}, h.n, h.dv);
}

enum fr_rc tr_cuda_mla_assemble_fwd(struct cuda *cuda, struct tr_queue *q, const struct tr_mla *a,
                                    struct fr_err *err)
{
    int64_t dr = a->k_pe.shape[1];
    struct heads h = {a->Q.shape[2] - dr, dr, a->V.shape[2], (int)a->Q.shape[1]};

    (void)cuda;
    return cuda_float(a->Q.dtype, [&](auto t) {
        using T = decltype(t);
        struct mla_in<T> in = {
            cuda_rows<const T>(a->q), cuda_rows<const T>(a->kv), cuda_rows<const T>(a->k_pe)
        };

        return cuda_launch(q, cuda_row_grid(a->Q.shape[0], h.n * (h.dn + h.dr), 0), err,
                           mla_fwd_kernel<T>, cuda_rows<T>(a->Q), cuda_rows<T>(a->K),
                           cuda_rows<T>(a->V), in, h, turn_of(&a->table, 1));
    });
}

template <class T> struct mla_grads {
    struct rows<const T> dQ, dK, dV;
};

/* Sums the rotated channels of dK over the heads into sums[SLABS][dr], and those into row 0. */
template <class T>
__device__ __forceinline__ void sum_heads(float *sums, const T *pe, const struct heads &h)
{
    int64_t dr = h.dr, dq = h.dn + h.dr;
    int run = (h.n + SLABS - 1) / SLABS, slabs = (h.n + run - 1) / run;
    int across = (int)((dr + CHUNK - 1) / CHUNK);

    for (int u = (int)threadIdx.x; u < slabs * across; u += (int)blockDim.x) {
        int slab = u / across, first = slab * run, end = min(first + run, h.n);
        int64_t j = (int64_t)(u % across) * CHUNK;
        float sum[CHUNK] = {}, x[CHUNK];

#pragma unroll 4
        for (int k = first; k < end; k++) {
            load(x, pe + k * dq + j, dr - j);
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                sum[i] += x[i];
        }
        store(sums + slab * dr + j, sum, dr - j);
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

template <class T>
__global__ void mla_bwd_kernel(struct rows<T> dq_out, struct rows<T> dkv_out, struct rows<T> dk_pe,
                               struct mla_grads<T> in, struct heads h, struct turn turn)
{
    DEV_DYNAMIC(float, sums);
    int64_t row = blockIdx.x, dq = h.dn + h.dr, dkv = h.dn + h.dv;
    struct turn t = at_token(turn, row);
    const T *dQ = in.dQ.at(row, 0), *dK = in.dK.at(row, 0);

    copy_heads<T>({dq_out.at(row, 0), dq}, {dQ, dq}, h.n, h.dn);
    turn_heads<T>({dq_out.at(row, h.dn), dq}, {dQ + h.dn, dq}, h.n, t);
    copy_heads<T>({dkv_out.at(row, 0), dkv}, {dK, dq}, h.n, h.dn);
    copy_heads<T>({dkv_out.at(row, h.dn), dkv}, {in.dV.at(row, 0), h.dv}, h.n, h.dv);
    sum_heads(sums, dK + h.dn, h);
    for (int64_t i = (int64_t)threadIdx.x * CHUNK; i < t.half; i += blockDim.x * CHUNK) {
        float x[CHUNK], z[CHUNK];

        load_pairs(x, z, sums, t, i);
        rotate(x, z, t, i);
        store_pairs(dk_pe.at(row, 0), x, z, t, i);
    }
}

enum fr_rc tr_cuda_mla_assemble_bwd(struct cuda *cuda, struct tr_queue *q,
                                    const struct tr_mla_grad *a, struct fr_err *err)
{
    int64_t dr = a->dk_pe.shape[1];
    struct heads h = {a->dQ.shape[2] - dr, dr, a->dV.shape[2], (int)a->dQ.shape[1]};

    (void)cuda;
    return cuda_float(a->dQ.dtype, [&](auto t) {
        using T = decltype(t);
        struct mla_grads<T> in = {
            cuda_rows<const T>(a->dQ), cuda_rows<const T>(a->dK), cuda_rows<const T>(a->dV)
        };
        struct cuda_grid g =
            cuda_row_grid(a->dQ.shape[0], h.n * (h.dn + h.dr), SLABS * (size_t)dr * sizeof(float));
        return cuda_launch(q, g, err, mla_bwd_kernel<T>, cuda_rows<T>(a->dq), cuda_rows<T>(a->dkv),
                           cuda_rows<T>(a->dk_pe), in, h, turn_of(&a->table, -1));
    });
}
