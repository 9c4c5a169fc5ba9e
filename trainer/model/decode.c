#include "trainer/model/decode.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "trainer/backend/trace.h"

#include <string.h>

/* A tensor in a window; its scales, or -1 where it is copied. */
struct piece {
    int tensor, scale;
    size_t at; /* in its unit */
    int rank;
    int64_t shape[2];
};

struct decoded {
    size_t first, n; /* of the pieces; n 0: not the decoder's */
    size_t bytes;
    size_t at; /* in the window, while it is held */
};

struct tr_decoder {
    struct tr_decoder_opts o;
    struct piece *pieces;  /* owns */
    struct decoded *units; /* owns, by number in the shard */
    size_t npieces, pieces_cap, nunits, units_cap;
    size_t window; /* bytes of one */
    char *base;    /* owns: two windows */
    struct tr_queue *q;
    struct tr_event *ready[2], *free[2];
    unsigned uses;
};

enum fr_rc tr_decoder_create(const struct tr_decoder_opts *o, struct tr_decoder **out,
                             struct fr_err *err)
{
    struct tr_decoder *d = fr_sys.alloc(sizeof(*d));

    *out = d;
    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "a decoder");
    *d = (struct tr_decoder){.o = *o};
    return FR_OK;
}

void tr_decoder_destroy(struct tr_decoder *d)
{
    if (d == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        tr_event_destroy(d->o.be, d->ready[i]);
        tr_event_destroy(d->o.be, d->free[i]);
    }
    tr_mem_free(d->o.be, TR_MEM_DEVICE, d->base);
    tr_queue_destroy(d->o.be, d->q);
    fr_sys.free(d->pieces);
    fr_sys.free(d->units);
    fr_sys.free(d);
}

/* ---- units ---- */

static bool has_codes(const struct tr_unit_spec *spec)
{
    for (size_t i = 0; i < spec->n; i++)
        if (spec->tensors[i].dtype == TR_F8_E4M3)
            return true;
    return false;
}

static struct tr_view view_of(const struct tr_decoder *d, const struct piece *p, char *unit)
{
    return tr_view_of(unit != NULL ? unit + p->at : NULL, d->o.compute, p->rank, p->shape);
}

static void put(struct tr_decoder *d, struct decoded *u, const struct tr_unit_tensor *t, int i)
{
    struct piece p = {i, t->dtype == TR_F8_E4M3 ? i + 1 : -1, u->bytes, t->rank, {t->shape[0]}};

    p.shape[1] = t->shape[1];
    u->bytes = (u->bytes + tr_view_bytes(view_of(d, &p, NULL)) + 255) / 256 * 256;
    d->pieces[u->first + u->n++] = p;
}

enum fr_rc tr_decoder_add(struct tr_decoder *d, int unit, const struct tr_unit_spec *spec,
                          struct fr_err *err)
{
    struct decoded *units = fr_grow(d->units, (size_t)unit + 1, &d->units_cap, sizeof(*d->units));
    struct piece *pieces;
    struct decoded *u;

    if (units == NULL)
        return fr_fail(err, FR_NOMEM, "%d units to decode", unit);
    d->units = units;
    for (; d->nunits <= (size_t)unit; d->nunits++)
        units[d->nunits] = (struct decoded){.n = 0};
    if (!has_codes(spec))
        return FR_OK;
    pieces = fr_grow(d->pieces, d->npieces + spec->n, &d->pieces_cap, sizeof(*d->pieces));
    if (pieces == NULL)
        return fr_fail(err, FR_NOMEM, "%zu tensors to decode", d->npieces);
    d->pieces = pieces;
    u = &units[unit];
    u->first = d->npieces;
    for (size_t i = 0; i < spec->n; i++) {
        put(d, u, &spec->tensors[i], (int)i);
        i += spec->tensors[i].dtype == TR_F8_E4M3; /* its scales */
    }
    d->npieces += u->n;
    tr_decoder_plan(d, unit, 1);
    return FR_OK;
}

void tr_decoder_plan(struct tr_decoder *d, int first, int n)
{
    size_t bytes = 0;

    for (int i = first; i < first + n; i++)
        bytes += d->units[i].bytes;
    d->window = bytes > d->window ? bytes : d->window;
}

size_t tr_decoder_bytes(const struct tr_decoder *d)
{
    return 2 * d->window;
}

enum fr_rc tr_decoder_alloc(struct tr_decoder *d, struct fr_err *err)
{
    void *p = NULL;
    enum fr_rc rc = tr_queue_create(d->o.be, 0, &d->q, err);

    if (rc == FR_OK)
        tr_trace_queue(d->o.be, d->q, "decode");
    for (int i = 0; i < 2 && rc == FR_OK; i++)
        if ((rc = tr_event_create(d->o.be, &d->ready[i], err)) == FR_OK)
            rc = tr_event_create(d->o.be, &d->free[i], err);
    if (rc != FR_OK)
        return rc;
    if ((rc = tr_mem_alloc(d->o.be, TR_MEM_DEVICE, tr_decoder_bytes(d), &p, err)) != FR_OK)
        return fr_while(err, "decoded weights");
    d->base = p;
    return tr_zero(d->o.be, d->q, p, tr_decoder_bytes(d));
}

/* ---- use ---- */

static enum fr_rc decode(struct tr_decoder *d, int unit, const struct piece *p, char *to,
                         struct fr_err *err)
{
    struct tr_decode a = {.y = view_of(d, p, to)};

    a.w.w = tr_shard_view(d->o.shard, unit, p->tensor);
    if (p->scale < 0)
        return tr_copy(d->o.be, d->q, a.y.p, a.w.w.p, tr_view_bytes(a.y));
    a.w.scale = tr_shard_view(d->o.shard, unit, p->scale);
    a.w.block_rows = d->o.block_rows;
    a.w.block_cols = d->o.block_cols;
    return tr_decode(d->o.be, d->q, &a, err);
}

/* Decodes into the next window, after its last use. */
static enum fr_rc decode_all(struct tr_decoder *d, int first, int n, struct fr_err *err)
{
    size_t half = d->uses % 2, at = half * d->window;
    enum fr_rc rc = tr_event_wait(d->o.be, d->q, d->free[half]);

    if (rc != FR_OK)
        return fr_fail(err, rc, "waiting for a window of weights");
    for (int i = first; i < first + n && rc == FR_OK; i++) {
        struct decoded *u = &d->units[i];

        u->at = at;
        at += u->bytes;
        for (size_t k = 0; k < u->n && rc == FR_OK; k++)
            rc = decode(d, i, &d->pieces[u->first + k], d->base + u->at, err);
    }
    return rc == FR_OK ? tr_shard_release(d->o.shard, d->q, first, n, err) : rc;
}

enum fr_rc tr_decoder_gather(struct tr_decoder *d, struct tr_queue *q, int first, int n,
                             struct fr_err *err)
{
    struct tr_event *ready = d->ready[d->uses % 2];
    enum fr_rc rc = tr_shard_gather(d->o.shard, d->q, first, n, err);

    if (rc == FR_OK && d->units[first].n > 0)
        rc = decode_all(d, first, n, err);
    if (rc != FR_OK)
        return rc;
    if ((rc = tr_event_record(d->o.be, d->q, ready)) == FR_OK)
        rc = tr_event_wait(d->o.be, q, ready);
    return rc == FR_OK ? rc : fr_fail(err, rc, "waiting for weights");
}

enum fr_rc tr_decoder_release(struct tr_decoder *d, struct tr_queue *q, int first, int n,
                              struct fr_err *err)
{
    struct tr_event *done = d->free[d->uses++ % 2];
    enum fr_rc rc = tr_event_record(d->o.be, q, done);

    if (rc == FR_OK && d->units[first].n == 0) {
        if ((rc = tr_event_wait(d->o.be, d->q, done)) == FR_OK)
            return tr_shard_release(d->o.shard, d->q, first, n, err);
    }
    return rc == FR_OK ? rc : fr_fail(err, rc, "releasing weights");
}

struct tr_view tr_decoder_view(const struct tr_decoder *d, int unit, int tensor)
{
    const struct decoded *u = &d->units[unit];

    for (size_t k = 0; k < u->n; k++)
        if (d->pieces[u->first + k].tensor == tensor)
            return view_of(d, &d->pieces[u->first + k], d->base != NULL ? d->base + u->at : NULL);
    return tr_shard_view(d->o.shard, unit, tensor);
}
