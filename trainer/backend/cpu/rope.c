#include "trainer/backend/cpu/cpu.h"

#include "trainer/backend/philox.h"

#include <string.h>

/* Rotates 2*half channels by the angles of a position; sign -1: by the negative angles. */
struct turn {
    const float *cosines, *sines;
    int64_t half;
    float sign;
    bool interleave;
};

static struct turn turn_of(const struct tr_rope_table *table, int64_t t, float sign)
{
    int64_t half = table->cosines.shape[1], at = cpu_int(&table->pos, t, 0) * half;

    return (struct turn){(const float *)table->cosines.p + at, (const float *)table->sines.p + at,
                         half, sign, table->interleave};
}

CPU_KERNEL static void rotate(const struct turn *r, float *x)
{
    int64_t step = r->interleave ? 2 : 1, apart = r->interleave ? 1 : r->half;

    for (int64_t i = 0; i < r->half; i++) {
        float *p = x + i * step, *s = p + apart;
        float c = r->cosines[i], z = r->sign * r->sines[i], a = *p, b = *s;

        *p = a * c - b * z;
        *s = b * c + a * z;
    }
}

static void rope_row(const void *args, int64_t t, float *x)
{
    const struct tr_rope *a = args;
    int64_t n = a->x.shape[1], hd = a->x.shape[2];
    struct turn turn = turn_of(&a->table, t, a->inverse ? -1 : 1);

    cpu_load(x, &a->x, t, 0, n * hd);
    for (int64_t h = 0; h < n; h++)
        rotate(&turn, x + h * hd);
    cpu_store(&a->y, t, 0, x, n * hd);
}

enum fr_rc tr_cpu_rope(void *self, struct tr_queue *q, const struct tr_rope *a, struct fr_err *err)
{
    int64_t T = a->x.shape[0], n = a->x.shape[1] * a->x.shape[2];

    return cpu_each_row(
        self, q,
        &(struct cpu_loop){.rows = {0, T}, .n = n, .floats = n, .row = rope_row, .args = a}, err);
}

/* dst's columns [at, at+n) = src's columns [from, from+n) of token t; one type, no rounding. */
struct place {
    const struct tr_view *v;
    int64_t col;
};

static void copy_cols(int64_t t, int64_t n, struct place dst, struct place src)
{
    size_t size = tr_dtype_bytes(dst.v->dtype);

    cpu_copy_row((char *)dst.v->p + (size_t)(t * dst.v->ld + dst.col) * size,
                 (const char *)src.v->p + (size_t)(t * src.v->ld + src.col) * size,
                 (size_t)n * size);
}

static void assemble(const void *args, int64_t t, float *pe)
{
    const struct tr_mla *a = args;
    int64_t nh = a->Q.shape[1], dq = a->Q.shape[2], dr = a->k_pe.shape[1], dn = dq - dr;
    int64_t dv = a->V.shape[2];
    struct turn turn = turn_of(&a->table, t, 1);
    float *key = pe + dr;

    cpu_load(key, &a->k_pe, t, 0, dr);
    rotate(&turn, key);
    for (int64_t h = 0; h < nh; h++) {
        copy_cols(t, dn, (struct place){&a->Q, h * dq}, (struct place){&a->q, h * dq});
        cpu_load(pe, &a->q, t, h * dq + dn, dr);
        rotate(&turn, pe);
        cpu_store(&a->Q, t, h * dq + dn, pe, dr);
        copy_cols(t, dn, (struct place){&a->K, h * dq}, (struct place){&a->kv, h * (dn + dv)});
        cpu_store(&a->K, t, h * dq + dn, key, dr);
        copy_cols(t, dv, (struct place){&a->V, h * dv}, (struct place){&a->kv, h * (dn + dv) + dn});
    }
}

enum fr_rc tr_cpu_mla_assemble_fwd(void *self, struct tr_queue *q, const struct tr_mla *a,
                                   struct fr_err *err)
{
    return cpu_each_row(self, q,
                        &(struct cpu_loop){.rows = {0, a->Q.shape[0]},
                                           .n = a->Q.shape[1] * a->Q.shape[2],
                                           .floats = 2 * a->k_pe.shape[1],
                                           .row = assemble,
                                           .args = a},
                        err);
}

static void take_apart(const void *args, int64_t t, float *pe)
{
    const struct tr_mla_grad *a = args;
    int64_t nh = a->dQ.shape[1], dq = a->dQ.shape[2], dr = a->dk_pe.shape[1], dn = dq - dr;
    int64_t dv = a->dV.shape[2];
    struct turn back = turn_of(&a->table, t, -1);
    float *sum = pe + dr;

    memset(sum, 0, (size_t)dr * sizeof *sum);
    for (int64_t h = 0; h < nh; h++) {
        copy_cols(t, dn, (struct place){&a->dq, h * dq}, (struct place){&a->dQ, h * dq});
        cpu_load(pe, &a->dQ, t, h * dq + dn, dr);
        rotate(&back, pe);
        cpu_store(&a->dq, t, h * dq + dn, pe, dr);
        copy_cols(t, dn, (struct place){&a->dkv, h * (dn + dv)}, (struct place){&a->dK, h * dq});
        copy_cols(t, dv, (struct place){&a->dkv, h * (dn + dv) + dn},
                  (struct place){&a->dV, h * dv});
        cpu_load(pe, &a->dK, t, h * dq + dn, dr);
        cpu_axpy(sum, 1, pe, dr);
    }
    rotate(&back, sum);
    cpu_store(&a->dk_pe, t, 0, sum, dr);
}

enum fr_rc tr_cpu_mla_assemble_bwd(void *self, struct tr_queue *q, const struct tr_mla_grad *a,
                                   struct fr_err *err)
{
    return cpu_each_row(self, q,
                        &(struct cpu_loop){.rows = {0, a->dQ.shape[0]},
                                           .n = a->dQ.shape[1] * a->dQ.shape[2],
                                           .floats = 2 * a->dk_pe.shape[1],
                                           .row = take_apart,
                                           .args = a},
                        err);
}

/* keep[4*quad + i] = 0 or `kept`, for n channels. */
struct mask {
    uint64_t key;
    int64_t place;
    int32_t pos;
    uint32_t below;
    float kept;
};

CPU_KERNEL static void draw(const struct mask *m, float *keep, int64_t n)
{
    for (int64_t quad = 0; quad < n / 4; quad++) {
        struct tr_philox bits = tr_dropout_bits(m->key, m->place, m->pos, (uint32_t)quad);

        for (int i = 0; i < 4; i++)
            keep[4 * quad + i] = bits.v[i] < m->below ? 0 : m->kept;
    }
    if (n % 4 != 0) {
        struct tr_philox bits = tr_dropout_bits(m->key, m->place, m->pos, (uint32_t)(n / 4));

        for (int64_t i = 0; i < n % 4; i++)
            keep[n / 4 * 4 + i] = bits.v[i] < m->below ? 0 : m->kept;
    }
}

/* The routed group that row i lies in. */
static uint64_t group_of(const struct tr_view *groups, int64_t i)
{
    int64_t low = 0, high = groups->shape[0] - 1; /* the answer is in [low, high) */

    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;

        if (cpu_int(groups, mid, 0) <= i)
            low = mid;
        else
            high = mid;
    }
    return (uint64_t)low;
}

static void dropout_row(const void *args, int64_t i, float *x)
{
    const struct tr_dropout *a = args;
    int64_t n = a->x.shape[1],
            t = tr_view_absent(a->slot_of) ? i : cpu_int(&a->slot_of, i, 0) / a->K;
    uint64_t module = a->module + (tr_view_absent(a->groups) ? 0 : group_of(&a->groups, i));
    struct mask m = {tr_dropout_key(a->seed, module, a->epoch), cpu_int(&a->place, t, 0),
                     (int32_t)cpu_int(&a->pos, t, 0), tr_dropout_threshold(a->p), 1 / (1 - a->p)};

    draw(&m, x + n, n);
    cpu_load(x, &a->x, i, 0, n);
    cpu_mul(x, x + n, n);
    cpu_store(&a->y, i, 0, x, n);
}

enum fr_rc tr_cpu_dropout(void *self, struct tr_queue *q, const struct tr_dropout *a,
                          struct fr_err *err)
{
    int64_t n = a->x.shape[1];

    return cpu_each_row(self, q,
                        &(struct cpu_loop){.rows = cpu_rows(&a->rows, a->x.shape[0]),
                                           .n = n,
                                           .floats = 2 * n,
                                           .row = dropout_row,
                                           .args = a},
                        err);
}
