#include "trainer/save/resume_private.h"

#include "engine/base/sys.h"

#include <string.h>

enum { PIECE = 1 << 21 /* elements read at once */, ROUND_BYTES = 64 << 20 };

struct taking {
    const struct resume_parts *s;
    struct tr_optim *o;
    const struct tr_grads_range *ranges;
    size_t n;
    float *host; /* owns: PIECE elements */
};

/* Elements of one state in one entry. */
struct want {
    int64_t entry; /* -1: none */
    int64_t at;    /* in the entry */
    int64_t n;
    int64_t state;
};

/* Where a rank is in its ranges, on its way through those of parts that it sees, or through the
 * others. */
struct cursor {
    bool seen;
    int64_t most; /* elements of a want */
    size_t range;
    int64_t at; /* in the tensor */
    int state;
};

/* Where elements belong: memory of the device, or, without, this rank's states. */
struct place {
    float *window;
    struct tr_optim_part part;
};

static enum fr_rc put(struct taking *t, const struct place *to, int64_t done, int64_t n,
                      struct fr_err *err)
{
    struct tr_optim_part part = {to->part.what, to->part.at + done, n};
    enum fr_rc rc;

    if (to->window == NULL)
        return tr_optim_write(t->o, &part, tr_view1(t->host, TR_F32, n), err);
    rc = tr_copy(t->o->be, t->o->q, to->window + done, t->host, (size_t)n * 4);
    return rc == FR_OK ? tr_sync(t->o->be, t->o->q, err) : rc;
}

/* Reads elements of a part that this rank sees. */
static enum fr_rc read_to(struct taking *t, const struct want *w, const struct place *to,
                          struct fr_err *err)
{
    const struct resume_entry *e = &t->s->entries[w->entry];
    struct tr_st *st = t->s->parts[e->part].st;
    struct fr_arena arena = {0};
    const char *key = resume_key(&arena, (int)w->state, e->name, e->first);
    const struct tr_st_tensor *tensor = key != NULL ? tr_st_find(st, key) : NULL;
    enum fr_rc rc = tensor != NULL ? FR_OK
                                   : fr_fail(err, FR_CORRUPT, "%s is gone from %s", e->name,
                                             t->s->parts[e->part].path);

    for (int64_t done = 0, n; done < w->n && rc == FR_OK; done += n) {
        n = w->n - done < PIECE ? w->n - done : PIECE;
        rc = tr_st_read(st, tensor, (w->at + done) * 4, t->host, (size_t)n * 4, err);
        if (rc == FR_OK)
            rc = put(t, to, done, n, err);
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
        const struct resume_entry *e = at < end ? resume_entry_at(t->s, r->name, at) : NULL;
        int me = t->o->world->rank;

        if (e == NULL) {
            c->at = 0;
            c->state = (c->state + 1) % RESUME_STATES;
            c->range += c->state == 0;
            continue;
        }
        end = end < e->first + e->n ? end : e->first + e->n;
        if ((resume_reader(t->s, me, e->part) == me) != c->seen) {
            c->at = end;
            continue;
        }
        *w = (struct want){e - t->s->entries, at - e->first, end - at, c->state};
        w->n = w->n < c->most ? w->n : c->most;
        *to = (struct tr_optim_part){(enum tr_optim_what)c->state, r->at + at - r->first, w->n};
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
    float *window = tr_grads_room(t->o->grads).p, *arrived = window + most * world->size;
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
        x->in_bytes[k] = reader == world->rank ? (size_t)w->n * 4 : 0;
        if (reader == world->rank)
            rc = read_to(t, w, &(struct place){.window = window + most * k}, err);
        if (k == world->rank && reader >= 0)
            x->out_bytes[reader] = (size_t)w->n * 4;
    }
    if (rc == FR_OK)
        rc = tr_comm_all_to_allv(t->o->comm, t->o->q, &all, err);
    if (rc == FR_OK)
        rc = tr_sync(t->o->be, t->o->q, err);
    return rc == FR_OK && to->n > 0
               ? tr_optim_write(t->o, to, tr_view1(arrived, TR_F32, to->n), err)
               : rc;
}

static enum fr_rc take_unseen(struct taking *t, struct fr_err *err)
{
    struct tr_comm *world = t->o->world;
    size_t ranks = (size_t)world->size;
    int64_t room = tr_view_count(tr_grads_room(t->o->grads)), most;
    struct fr_arena arena = {0};
    struct round x = {.wants = fr_arena_array(&arena, ranks, sizeof(*x.wants))};
    size_t **const arrays[] = {&x.in_at, &x.in_bytes, &x.out_at, &x.out_bytes};
    struct cursor c = {0};
    bool any = true;
    enum fr_rc rc = FR_OK;

    room = room < ROUND_BYTES / 4 ? room : ROUND_BYTES / 4;
    c.most = most = room / (world->size + 1) / 16 * 16;
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
