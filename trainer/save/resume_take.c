#include "trainer/save/resume_private.h"

#include "engine/base/sys.h"

#include <string.h>

enum { PIECE = 1 << 21 /* elements read at once */, ROUND_BYTES = 64 << 20 };

struct taking {
    const struct resume_parts *s;
    struct tr_optim *o;
    const struct tr_grads_range *ranges;
    size_t n;
    char *host; /* owns: PIECE values */
};

/* Elements of one state in one entry. */
struct want {
    int64_t entry; /* -1: none */
    int64_t at;    /* in the entry */
    int64_t n;
    int64_t what;
    int64_t type; /* of its values */
};

/* Where a rank is in its ranges, on its way through those of parts that it sees, or through the
 * others. */
struct cursor {
    bool seen;
    int64_t most; /* elements of a want */
    size_t range;
    int64_t at; /* in the tensor */
    int what;
};

/* Where elements belong: memory of the device, or, without, this rank's states. */
struct place {
    char *window;
    struct tr_optim_part part;
};

/* The values of n elements of w, which begin at its element `done`. */
static struct tr_view values_of(const struct want *w, int64_t n, char *p)
{
    return tr_view1(p, (enum tr_dtype)w->type, tr_optim_values((enum tr_optim_what)w->what, n));
}

/* Bytes on their way between ranks. */
static size_t sent_bytes(const struct want *w)
{
    return (tr_view_bytes(values_of(w, w->n, NULL)) + 15) / 16 * 16;
}

/* Values that were read, of elements from `done` on. */
static enum fr_rc put(struct taking *t, const struct place *to, int64_t done,
                      const struct tr_view *values, struct fr_err *err)
{
    int64_t block = tr_optim_block(to->part.what), left = to->part.n - done;
    int64_t n = tr_view_count(*values) * block;
    struct tr_optim_part part = {to->part.what, to->part.at + done, n < left ? n : left};
    size_t at = (size_t)(done / block) * tr_dtype_bytes(values->dtype);
    enum fr_rc rc;

    if (to->window == NULL)
        return tr_optim_write(t->o, &part, *values, err);
    rc = tr_copy(t->o->be, t->o->q, to->window + at, values->p, tr_view_bytes(*values));
    return rc == FR_OK ? tr_sync(t->o->be, t->o->q, err) : rc;
}

/* Reads elements of a part that this rank sees. */
static enum fr_rc read_to(struct taking *t, const struct want *w, const struct place *to,
                          struct fr_err *err)
{
    const struct resume_entry *e = &t->s->entries[w->entry];
    struct tr_st *st = t->s->parts[e->part].st;
    struct fr_arena arena = {0};
    const char *key = resume_key(&arena, (enum tr_optim_what)w->what, e->name, e->first);
    const struct tr_st_tensor *tensor = key != NULL ? tr_st_find(st, key) : NULL;
    enum tr_st_type type = w->type == TR_U8 ? TR_ST_U8 : TR_ST_F32;
    int64_t size = (int64_t)tr_dtype_bytes((enum tr_dtype)w->type);
    int64_t block = tr_optim_block((enum tr_optim_what)w->what);
    enum fr_rc rc = tensor != NULL && tensor->type == type
                        ? FR_OK
                        : fr_fail(err, FR_CORRUPT, "%s of this type is not in %s", e->name,
                                  t->s->parts[e->part].path);

    for (int64_t done = 0, n; done < w->n && rc == FR_OK; done += n) {
        n = w->n - done < PIECE ? w->n - done : PIECE;
        struct tr_view values = values_of(w, n, t->host);

        rc = tr_st_read(st, tensor, (w->at + done) / block * size, values.p, tr_view_bytes(values),
                        err);
        if (rc == FR_OK)
            rc = put(t, to, done, &values, err);
    }
    fr_arena_finish(&arena);
    return rc;
}

/* The next elements that lie in one entry. *to: where they belong. false: there are none. */
static bool next(const struct taking *t, struct cursor *c, struct want *w, struct tr_optim_part *to)
{
    *w = (struct want){.entry = -1};
    while (c->range < t->n) {
        const struct tr_grads_range *r = &t->ranges[c->range];
        int64_t at = c->at > r->first ? c->at : r->first, end = r->first + r->n;
        enum tr_optim_what what = (enum tr_optim_what)c->what;
        enum tr_dtype type = tr_optim_type(t->o, c->range, what);
        const struct resume_entry *e =
            at < end && type != TR_NONE ? resume_entry_at(t->s, r->name, at) : NULL;
        int me = t->o->world->rank;

        if (e == NULL) {
            c->at = 0;
            c->what = (c->what + 1) % TR_OPTIM_WHATS;
            c->range += c->what == 0;
            continue;
        }
        end = end < e->first + e->n ? end : e->first + e->n;
        if ((resume_reader(t->s, me, e->part) == me) != c->seen) {
            c->at = end;
            continue;
        }
        *w = (struct want){e - t->s->entries, at - e->first, end - at, what, type};
        w->n = w->n < c->most ? w->n : c->most;
        *to = (struct tr_optim_part){what, r->at + at - r->first, w->n};
        c->at = at + w->n;
        return true;
    }
    return false;
}

static enum fr_rc take_seen(struct taking *t, struct fr_err *err)
{
    struct cursor c = {.seen = true, .most = INT64_MAX};
    struct want w;
    struct place to = {.window = NULL};
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && next(t, &c, &w, &to.part))
        rc = read_to(t, &w, &to, err);
    return rc;
}

/* Host arrays of a round, one element a rank. */
struct round {
    struct want *wants;
    size_t *in_at, *in_bytes, *out_at, *out_bytes;
};

/* One want of every rank: those who see the part send it. The room of gradients holds nothing yet:
 * it is the window of what is sent, and of what arrives. */
static enum fr_rc exchange(struct taking *t, const struct round *x, int64_t most,
                           const struct tr_optim_part *to, struct fr_err *err)
{
    const struct tr_comm *world = t->o->world;
    char *window = tr_grads_room(t->o->grads).p, *arrived = window + most * 4 * world->size;
    struct tr_alltoallv all = {.out = arrived,
                               .in = window,
                               .out_at = x->out_at,
                               .out_bytes = x->out_bytes,
                               .in_at = x->in_at,
                               .in_bytes = x->in_bytes,
                               .what = "parts of a resume state"};
    enum fr_rc rc = FR_OK;

    for (int k = 0; k < world->size && rc == FR_OK; k++) {
        const struct want *w = &x->wants[k];
        int part = w->entry >= 0 ? t->s->entries[w->entry].part : -1;
        int reader = part >= 0 ? resume_reader(t->s, k, part) : -1;

        x->in_at[k] = (size_t)(most * k) * 4;
        x->in_bytes[k] = reader == world->rank ? sent_bytes(w) : 0;
        if (reader == world->rank)
            rc = read_to(t, w,
                         &(struct place){.window = window + most * 4 * k,
                                         .part = {(enum tr_optim_what)w->what, 0, w->n}},
                         err);
        if (k == world->rank && reader >= 0)
            x->out_bytes[reader] = sent_bytes(w);
    }
    if (rc == FR_OK)
        rc = tr_comm_all_to_allv(t->o->comm, t->o->q, &all, err);
    if (rc == FR_OK)
        rc = tr_sync(t->o->be, t->o->q, err);
    return rc == FR_OK && to->n > 0
               ? tr_optim_write(t->o, to, values_of(&x->wants[world->rank], to->n, arrived), err)
               : rc;
}

static enum fr_rc take_unseen(struct taking *t, struct fr_err *err)
{
    struct tr_comm *world = t->o->world;
    size_t ranks = (size_t)world->size;
    int64_t room = tr_view_count(tr_grads_room(t->o->grads)), most, block;
    struct fr_arena arena = {0};
    struct round x = {.wants = fr_arena_array(&arena, ranks, sizeof(*x.wants))};
    size_t **const arrays[] = {&x.in_at, &x.in_bytes, &x.out_at, &x.out_bytes};
    struct cursor c = {0};
    bool any = true;
    enum fr_rc rc = FR_OK;

    room = room < ROUND_BYTES / 4 ? room : ROUND_BYTES / 4;
    block = tr_grads_block(t->o->grads) > 0 ? tr_grads_block(t->o->grads) : 16;
    c.most = most = room / (world->size + 1) / block * block;
    for (size_t i = 0; i < 4; i++)
        *arrays[i] = fr_arena_array(&arena, ranks, sizeof(size_t));
    if (x.wants == NULL || x.in_at == NULL || x.in_bytes == NULL || x.out_at == NULL ||
        x.out_bytes == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %zu ranks", ranks);
    else if (most == 0)
        rc =
            fr_fail(err, FR_UNSUPPORTED, "a model too small to send its state to %zu ranks", ranks);
    while (rc == FR_OK && any) {
        struct want mine;
        struct tr_optim_part to = {.n = 0};

        (void)next(t, &c, &mine, &to);
        rc = tr_comm_host_all_gather(world, x.wants, &mine, sizeof(mine), err);
        any = false;
        for (size_t k = 0; k < ranks && rc == FR_OK; k++) {
            any = any || x.wants[k].entry >= 0;
            x.out_at[k] = x.out_bytes[k] = 0;
        }
        if (rc == FR_OK && any)
            rc = exchange(t, &x, most, &to, err);
    }
    fr_arena_finish(&arena);
    return rc;
}

/* Whether every rank sees what it needs. */
static bool all_seen(const struct resume_parts *s)
{
    for (int i = 0; i < s->n * s->ranks; i++)
        if (s->needs[i] && s->sees[i] != RESUME_SEEN)
            return false;
    return true;
}

enum fr_rc resume_parts_take(const struct resume_parts *s, struct tr_optim *o, struct fr_err *err)
{
    struct taking t = {.s = s, .o = o, .host = fr_sys.alloc((size_t)PIECE * sizeof(float))};
    enum fr_rc rc = FR_OK;

    if (t.host == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read a resume state");
    t.ranges = tr_optim_ranges(o, &t.n);
    rc = take_seen(&t, err);
    if (rc == FR_OK && !all_seen(s))
        rc = take_unseen(&t, err);
    fr_sys.free(t.host);
    return rc == FR_OK ? tr_optim_round(o, err) : rc;
}
