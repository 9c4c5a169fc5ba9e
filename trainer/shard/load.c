/* Fills the base shard: byte ranges of tensors, from a checkpoint or from memory. */
#include "engine/base/sys.h"
#include "trainer/shard/read.h"
#include "trainer/shard/private.h"
#include "trainer/shard/values.h"

#include <string.h>

enum { BOUNCE = 1 << 20 }; /* bytes copied to a device at once */

/* ---- this rank's bytes ---- */

/* Bytes [at, at+n) of a tensor and their destination, in host or device memory. */
struct range {
    const struct unit *u;
    const struct tr_unit_tensor *t;
    size_t at, n;
    char *dst;
};

typedef enum fr_rc range_fn(void *arg, const struct range *r, struct fr_err *err);

static enum fr_rc each_of_unit(const struct tr_shard *s, const struct unit *u, range_fn *each,
                               void *arg, struct fr_err *err)
{
    bool rows = u->kind == TR_UNIT_ROWS;
    size_t row = rows ? (size_t)u->tensors->shape[1] * tr_dtype_bytes(u->tensors->dtype) : 0;
    size_t step = rows ? (size_t)rows_per_rank(s, u) * row : u->slice;
    size_t lo = u->whole || shard_ways(s) == 1 ? 0 : step * (size_t)s->o.comm->rank;
    size_t hi = u->whole ? u->bytes : lo + step;
    uintptr_t base = (uintptr_t)shard_home(s, u) + u->base_at;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < u->n && rc == FR_OK; i++) {
        const struct tr_unit_tensor *t = &u->tensors[i];
        size_t count = (size_t)t->shape[0] * (size_t)(t->rank == 2 ? t->shape[1] : 1);
        size_t first = u->at[i], last = first + count * tr_dtype_bytes(t->dtype);
        size_t from = lo > first ? lo : first, to = hi < last ? hi : last;

        if (from < to)
            rc = each(arg,
                      &(struct range){u, t, from - first, to - from, (char *)(base + (from - lo))},
                      err);
    }
    return rc;
}

static enum fr_rc each_range(const struct tr_shard *s, range_fn *each, void *arg,
                             struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < s->nunits && rc == FR_OK; i++)
        rc = each_of_unit(s, &s->units[i], each, arg, err);
    return rc;
}

/* ---- padding ---- */

/* All bytes of a unit before `at` are written. */
struct clearing {
    char *at;
};

static enum fr_rc clear_before(void *arg, const struct range *r, struct fr_err *err)
{
    struct clearing *c = arg;

    (void)err;
    memset(c->at, 0, (size_t)(r->dst - c->at));
    c->at = r->dst + r->n;
    return FR_OK;
}

/* Zeroes the padding between and after tensors of the base. */
static void clear_padding(const struct tr_shard *s)
{
    for (size_t i = 0; i < s->nunits && shard_base_is_hosts(s); i++) {
        const struct unit *u = &s->units[i];
        struct clearing c = {s->base + u->base_at};
        const char *end = c.at + u->reserved;

        if (u->kind == TR_UNIT_PERSISTENT)
            continue;
        (void)each_of_unit(s, u, clear_before, &c, NULL);
        memset(c.at, 0, (size_t)(end - c.at));
    }
}

static enum fr_rc make_room(struct tr_shard *s, struct fr_err *err)
{
    enum fr_rc rc = shard_alloc(s, err);

    if (rc == FR_OK)
        clear_padding(s);
    return rc;
}

/* ---- from memory ---- */

struct filling {
    struct tr_shard *s;
    const struct tr_shard_source *src;
    char *bounce; /* for destinations on a device; NULL: all are in host memory */
};

static bool in_host_memory(const struct tr_shard *s, const struct range *r)
{
    return r->u->kind == TR_UNIT_PERSISTENT ? s->o.be->memory->is_host : shard_base_is_hosts(s);
}

static enum fr_rc fill_range(void *arg, const struct range *r, struct fr_err *err)
{
    const struct filling *f = arg;
    struct tr_shard *s = f->s;
    struct tr_fill_range left = {r->at, r->n, r->dst, s->gq};
    bool direct = in_host_memory(s, r);
    enum fr_rc rc = FR_OK;

    if (f->src->on_device)
        return f->src->fill(f->src->arg, r->t, &left, err);
    while (left.n > 0 && rc == FR_OK) {
        struct tr_fill_range one = {left.at, left.n < BOUNCE ? left.n : BOUNCE,
                                    direct ? left.dst : f->bounce, NULL};
        size_t n = one.n / tr_dtype_bytes(r->t->dtype);

        if ((rc = f->src->fill(f->src->arg, r->t, &one, err)) != FR_OK ||
            (rc = values_finite(r->t, one.dst, n, err)) != FR_OK ||
            (rc = values_positive(r->t, one.dst, n, err)) != FR_OK)
            break;
        if (!direct && (rc = tr_copy(s->o.be, s->gq, left.dst, one.dst, one.n)) == FR_OK)
            rc = tr_sync(s->o.be, s->gq, err);
        left.at += one.n;
        left.dst = (char *)left.dst + one.n;
        left.n -= one.n;
    }
    return rc;
}

enum fr_rc tr_shard_fill(struct tr_shard *s, const struct tr_shard_source *src, struct fr_err *err)
{
    bool bounced = !src->on_device && !s->o.be->memory->is_host;
    struct filling f = {.s = s, .src = src};
    enum fr_rc rc = make_room(s, err);

    if (rc == FR_OK && bounced && (f.bounce = fr_sys.alloc(BOUNCE)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "a read buffer");
    if (rc == FR_OK)
        rc = each_range(s, fill_range, &f, err);
    if (rc == FR_OK && src->on_device)
        rc = tr_sync(s->o.be, s->gq, err);
    fr_sys.free(f.bounce);
    return rc == FR_OK ? shard_prepack(s, err) : rc;
}

/* ---- from a checkpoint ---- */

struct listing {
    const struct tr_shard *s;
    const struct tr_st *st;
    struct read_parts parts;
};

/* Whether another rank of this machine reads the same bytes. */
static bool read_by_others(const struct tr_shard *s, const struct unit *u)
{
    if (tr_comm_world(s->o.comm)->local_size <= 1)
        return false;
    return u->kind == TR_UNIT_OWNED ? s->o.owned_twice
                                    : u->kind == TR_UNIT_PERSISTENT || shard_ways(s) == 1;
}

static enum fr_rc find(const struct listing *l, const struct tr_unit_tensor *t,
                       struct read_part *out, struct fr_err *err)
{
    int64_t cols = t->rank == 2 ? t->shape[1] : 1;
    int64_t shape[2] = {t->disk_rows != 0 ? t->disk_rows : t->shape[0], cols};
    enum fr_rc rc;

    if ((out->d = tr_st_find(l->st, t->name)) == NULL)
        return fr_fail(err, FR_NOTFOUND, "%s: no such tensor in the checkpoint", t->name);
    if (out->d->absent)
        return fr_fail(err, FR_NOTFOUND, "%s: %s is not there", t->name,
                       tr_st_file_name(l->st, (size_t)out->d->file));
    if ((rc = tr_st_want_shape(out->d, t->rank, shape, err)) != FR_OK)
        return rc;
    rc = tr_st_dtype(out->d->type, &out->disk, err);
    return rc == FR_OK ? rc : fr_while(err, "%s", t->name);
}

static enum fr_rc list_range(void *arg, const struct range *r, struct fr_err *err)
{
    struct listing *l = arg;
    size_t size = tr_dtype_bytes(r->t->dtype);
    struct read_part part = {.t = r->t,
                             .n = r->n / size,
                             .dst = r->dst,
                             .host = in_host_memory(l->s, r),
                             .shared = read_by_others(l->s, r->u)};
    enum fr_rc rc = find(l, r->t, &part, err);

    part.at = r->t->row0 * (r->t->rank == 2 ? r->t->shape[1] : 1) + (int64_t)(r->at / size);
    return rc == FR_OK ? read_add(&l->parts, &part, err) : rc;
}

struct lacking {
    const struct tr_st *st;
    unsigned char *files;
};

static enum fr_rc note_absent(void *arg, const struct range *r, struct fr_err *err)
{
    const struct lacking *l = arg;
    const struct tr_st_tensor *d = tr_st_find(l->st, r->t->name);

    (void)err;
    if (d != NULL && d->absent)
        l->files[d->file] = 1;
    return FR_OK;
}

void tr_shard_lacks(const struct tr_shard *s, const struct tr_st *st, unsigned char *files)
{
    struct lacking l = {st, files};

    (void)each_range(s, note_absent, &l, NULL);
}

enum fr_rc tr_shard_load(struct tr_shard *s, const struct tr_st *st,
                         const struct tr_shard_tell *tell, struct fr_err *err)
{
    struct read_opts o = {
        .be = s->o.be, .st = st, .tell = tell, .local_size = s->o.comm->local_size};
    struct listing l = {.s = s, .st = st};
    struct read_late *late = fr_sys.alloc(sizeof(*late));
    enum fr_rc rc = late != NULL ? make_room(s, err) : fr_fail(err, FR_NOMEM, "a list of pieces");

    o.q = s->gq;
    if (rc == FR_OK) {
        memset(late, 0, sizeof(*late));
        rc = each_range(s, list_range, &l, err);
    }
    if (rc == FR_OK)
        rc = read_all(&l.parts, &o, late, err);
    if (rc == FR_OK)
        rc = tr_st_unchanged(st, err);
    if (rc == FR_OK && tr_comm_world(s->o.comm)->size > 1)
        rc = tr_comm_host_barrier(tr_comm_world(s->o.comm), err);
    if (rc == FR_OK)
        read_drop(&l.parts, st, late);
    read_finish(&l.parts);
    fr_sys.free(late);
    return rc == FR_OK ? shard_prepack(s, err) : rc;
}
