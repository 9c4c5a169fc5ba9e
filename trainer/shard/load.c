/* Filling the base shard: byte ranges of tensors, from a checkpoint or from memory. */
#include "engine/base/sys.h"
#include "trainer/shard/state.h"

#include <string.h>

enum { BOUNCE = 1 << 20 }; /* bytes read at once when they must be converted or copied */

/* ---- from a checkpoint ---- */

struct from_st {
    const struct tr_st *st;
    char *raw;   /* BOUNCE bytes as on disk */
    float *wide; /* BOUNCE elements at most */
};

static void widen(float *out, const void *in, enum tr_dtype t, size_t n)
{
    const uint16_t *h = in;
    const float *f = in;
    const double *d = in;

    for (size_t i = 0; i < n; i++)
        out[i] = t == TR_BF16  ? tr_bf16_to(h[i])
                 : t == TR_F16 ? tr_f16_to(h[i])
                 : t == TR_F64 ? (float)d[i]
                               : f[i];
}

static void narrow(void *out, const float *in, enum tr_dtype t, size_t n)
{
    uint16_t *h = out;
    float *f = out;
    double *d = out;

    for (size_t i = 0; i < n; i++)
        if (t == TR_BF16)
            h[i] = tr_bf16_of(in[i]);
        else if (t == TR_F16)
            h[i] = tr_f16_of(in[i]);
        else if (t == TR_F64)
            d[i] = in[i];
        else
            f[i] = in[i];
}

static bool floating(enum tr_dtype t)
{
    return t == TR_F64 || t == TR_F32 || t == TR_BF16 || t == TR_F16;
}

/* Elements [at, at+n) of disk tensor d to dst, as dtype. */
struct piece {
    const struct tr_st_tensor *d;
    enum tr_dtype dtype;
    int64_t at;
    char *dst;
    size_t n;
};

static enum fr_rc convert(const struct from_st *f, const struct piece *t, struct fr_err *err)
{
    const struct tr_st_tensor *d = t->d;
    size_t n = t->n;
    size_t size = tr_dtype_bytes(t->dtype), chunk = BOUNCE / 8;
    enum tr_dtype disk;
    enum fr_rc rc = tr_st_dtype(d->type, &disk, err);

    if (rc != FR_OK)
        return rc;
    if (disk == t->dtype)
        return tr_st_read(f->st, d, t->at * (int64_t)size, t->dst, n * size, err);
    if (!floating(disk) || !floating(t->dtype))
        return fr_fail(err, FR_DTYPE, "is %s, %s is needed", tr_dtype_name(disk),
                       tr_dtype_name(t->dtype));
    for (size_t i = 0; i < n; i += chunk) {
        size_t m = n - i < chunk ? n - i : chunk;
        size_t raw = tr_dtype_bytes(disk);

        rc = tr_st_read(f->st, d, (t->at + (int64_t)i) * (int64_t)raw, f->raw, m * raw, err);
        if (rc != FR_OK)
            return rc;
        widen(f->wide, f->raw, disk, m);
        narrow(t->dst + i * size, f->wide, t->dtype, m);
    }
    return FR_OK;
}

static enum fr_rc fill_from_st(void *arg, const struct tr_unit_tensor *t,
                               const struct tr_fill_range *r, struct fr_err *err)
{
    const struct from_st *f = arg;
    const struct tr_st_tensor *d = tr_st_find(f->st, t->name);
    int64_t cols = t->rank == 2 ? t->shape[1] : 1;
    int64_t shape[2] = {t->disk_rows != 0 ? t->disk_rows : t->shape[0], cols};
    size_t size = tr_dtype_bytes(t->dtype);
    enum fr_rc rc;

    if (d == NULL)
        return fr_fail(err, FR_NOTFOUND, "%s: no such tensor in the checkpoint", t->name);
    if ((rc = tr_st_want_shape(d, t->rank, shape, err)) != FR_OK)
        return rc;
    rc = convert(f,
                 &(struct piece){.d = d,
                                 .dtype = t->dtype,
                                 .at = t->row0 * cols + (int64_t)(r->at / size),
                                 .dst = r->dst,
                                 .n = r->n / size},
                 err);
    return rc == FR_OK ? rc : fr_while(err, "%s", t->name);
}

/* ---- ranges ---- */

static bool all_finite(const void *p, enum tr_dtype t, size_t n)
{
    const uint16_t *h = p;
    const uint32_t *w = p;
    const uint8_t *b = p;
    size_t bad = 0;

    if (t == TR_F8_E4M3)
        for (size_t i = 0; i < n; i++)
            bad +=
                (b[i] & 0x7f) == 0x7f; /* its only codes that are no number; it has no infinity */
    else if (t == TR_BF16)
        for (size_t i = 0; i < n; i++)
            bad += (h[i] & 0x7f80) == 0x7f80;
    else if (t == TR_F16)
        for (size_t i = 0; i < n; i++)
            bad += (h[i] & 0x7c00) == 0x7c00;
    else if (t == TR_F32)
        for (size_t i = 0; i < n; i++)
            bad += (w[i] & 0x7f800000) == 0x7f800000;
    return bad == 0;
}

static bool all_positive(const float *x, size_t n)
{
    size_t bad = 0;

    for (size_t i = 0; i < n; i++)
        bad += !(x[i] > 0);
    return bad == 0;
}

/* What one filling goes through. */
struct filling {
    struct tr_shard *s;
    const struct tr_shard_source *src;
    char *bounce; /* for places on a device; NULL: all is the host's memory */
};

/* Bytes r of tensor t to device address r.dst. */
static enum fr_rc fill_piece(const struct filling *f, const struct tr_unit_tensor *t,
                             struct tr_fill_range r, struct fr_err *err)
{
    struct tr_shard *s = f->s;
    char *p = r.dst;
    bool direct =
        f->bounce == NULL || (shard_staged(s) && p >= s->base && p < s->base + s->base_bytes);
    enum fr_rc rc = FR_OK;

    if (f->src->on_device) {
        r.q = s->gq;
        return f->src->fill(f->src->arg, t, &r, err);
    }
    while (r.n > 0 && rc == FR_OK) {
        struct tr_fill_range one = {r.at, r.n < BOUNCE ? r.n : BOUNCE, direct ? r.dst : f->bounce,
                                    NULL};

        if ((rc = f->src->fill(f->src->arg, t, &one, err)) != FR_OK)
            break;
        if (!all_finite(one.dst, t->dtype, one.n / tr_dtype_bytes(t->dtype)))
            return fr_fail(err, FR_CORRUPT, "%s: holds a value that is not finite", t->name);
        if (t->positive && !all_positive(one.dst, one.n / sizeof(float)))
            return fr_fail(err, FR_CORRUPT, "%s: holds a scale of 0 or below, expected above 0",
                           t->name);
        if (!direct && (rc = tr_copy(s->o.be, s->gq, r.dst, one.dst, one.n)) == FR_OK)
            rc = tr_sync(s->o.be, s->gq, err);
        r.at += one.n;
        r.dst = (char *)r.dst + one.n;
        r.n -= one.n;
    }
    return rc;
}

/* This rank's bytes of a unit. */
static enum fr_rc fill_unit(const struct filling *f, const struct unit *u, struct fr_err *err)
{
    struct tr_shard *s = f->s;
    bool rows = u->kind == TR_UNIT_ROWS;
    size_t row = rows ? (size_t)u->tensors->shape[1] * tr_dtype_bytes(u->tensors->dtype) : 0;
    size_t step = rows ? (size_t)rows_per_rank(s, u) * row : u->slice;
    size_t lo = u->whole || shard_ways(s) == 1 ? 0 : step * (size_t)s->o.comm->rank;
    size_t hi = u->whole ? u->bytes : lo + step;
    char *base = (u->kind == TR_UNIT_PERSISTENT ? s->persistent : s->base) + u->base_at;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < u->n && rc == FR_OK; i++) {
        const struct tr_unit_tensor *t = &u->tensors[i];
        size_t count = (size_t)t->shape[0] * (size_t)(t->rank == 2 ? t->shape[1] : 1);
        size_t first = u->at[i], last = first + count * tr_dtype_bytes(t->dtype);
        size_t from = lo > first ? lo : first, to = hi < last ? hi : last;

        if (from < to)
            rc = fill_piece(
                f, t, (struct tr_fill_range){from - first, to - from, base + (from - lo), NULL},
                err);
    }
    return rc;
}

enum fr_rc tr_shard_fill(struct tr_shard *s, const struct tr_shard_source *src, struct fr_err *err)
{
    bool bounced = !src->on_device && !s->o.be->ops->host_memory;
    struct filling f = {.s = s, .src = src};
    enum fr_rc rc = shard_alloc(s, err);

    if (rc == FR_OK && bounced && (f.bounce = fr_sys.alloc(BOUNCE)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "a read buffer");
    for (size_t i = 0; i < s->nunits && rc == FR_OK; i++)
        rc = fill_unit(&f, &s->units[i], err);
    if (rc == FR_OK && src->on_device)
        rc = tr_sync(s->o.be, s->gq, err);
    fr_sys.free(f.bounce);
    return rc;
}

enum fr_rc tr_shard_load(struct tr_shard *s, const struct tr_st *st, struct fr_err *err)
{
    struct from_st f = {.st = st, .raw = fr_sys.alloc(BOUNCE)};
    struct tr_shard_source src = {.fill = fill_from_st, .arg = &f};
    enum fr_rc rc;

    f.wide = fr_sys.alloc(BOUNCE / 8 * sizeof(float));
    if (f.raw == NULL || f.wide == NULL)
        rc = fr_fail(err, FR_NOMEM, "a read buffer");
    else
        rc = tr_shard_fill(s, &src, err);
    fr_sys.free(f.raw);
    fr_sys.free(f.wide);
    return rc;
}
