/* How the states of a tile lie in a disk's file: masters as floats in the flat order; m and v of
 * each range one behind another, as floats, or as codes in whole blocks and then a maximum a block;
 * matrices of Muon have no v. */
#include "trainer/optim/disk.h"
#include "trainer/optim/optim_private.h"

/* The part of a range that lies in a tile: elements [from, to) of the flat order. */
struct within {
    int64_t from, to;
};

static struct within within(const struct tr_grads_range *r, const struct tr_disk_tile *t)
{
    int64_t end = r->at + r->n, last = t->at + t->n;

    return (struct within){r->at > t->at ? r->at : t->at, end < last ? end : last};
}

static size_t bytes_of(const struct tr_optim_place *p, int state, int64_t n)
{
    if (n <= 0 || (state == TR_OPTIM_V && p->matrix))
        return 0;
    if (!p->coded)
        return (size_t)n * sizeof(float);
    return (size_t)tr_div_up(n, TR_CODED_BLOCK) * (TR_CODED_BLOCK + sizeof(float));
}

/* Bytes of m or v of the ranges of a tile that come before `end`. */
static size_t bytes_before(const struct tr_grads *g, const struct tr_disk_tile *t, int state,
                           const struct tr_grads_range *end)
{
    size_t n, bytes = 0;
    const struct tr_grads_range *last = tr_grads_ranges(g, &n) + n;

    for (const struct tr_grads_range *r = optim_range_of(g, t->at); r < last && r != end; r++) {
        struct within w = within(r, t);
        struct tr_optim_place p = optim_place_of(g, r);

        if (r->at >= t->at + t->n)
            break;
        bytes += bytes_of(&p, state, w.to - w.from);
    }
    return bytes;
}

static size_t tile_bytes(const void *self, int state, int64_t at, int64_t n)
{
    const struct tr_grads *g = self;
    struct tr_disk_tile t = {.at = at, .n = n};

    return state == TR_OPTIM_MASTER ? (size_t)n * sizeof(float) : bytes_before(g, &t, state, NULL);
}

void tr_optim_disk_shape(const struct tr_grads *g, struct tr_disk_shape *out)
{
    bool floats = tr_grads_block(g) == 0 && !tr_grads_muon(g);

    *out = (struct tr_disk_shape){.n = tr_grads_flat(g), .self = g};
    if (!floats)
        out->bytes = tile_bytes;
}

int optim_disk_state(enum tr_optim_what what)
{
    return what == TR_OPTIM_M_MAX ? TR_OPTIM_M : what == TR_OPTIM_V_MAX ? TR_OPTIM_V : (int)what;
}

struct tr_view optim_tile_state(const struct tr_optim *o, const struct tr_disk_tile *t,
                                enum tr_optim_what what, const struct optim_piece *p)
{
    int state = optim_disk_state(what);
    bool max = state != (int)what;
    struct tr_optim_place place;
    struct within w;
    int64_t at;
    char *begin;

    if (what == TR_OPTIM_MASTER || (tr_grads_block(o->grads) == 0 && !tr_grads_muon(o->grads)))
        return max ? (struct tr_view){0}
                   : tr_view1(t->state[state] + (p->at - t->at), TR_F32, p->n);
    place = optim_place_of(o->grads, p->r);
    if ((max && !place.coded) || (state == TR_OPTIM_V && place.matrix))
        return (struct tr_view){0};
    w = within(p->r, t);
    at = p->at - w.from;
    begin = (char *)t->state[state] + bytes_before(o->grads, t, state, p->r);
    if (!place.coded)
        return tr_view1((float *)(void *)begin + at, TR_F32, p->n);
    if (!max)
        return tr_view1(begin + at, TR_U8, p->n);
    begin += tr_div_up(w.to - w.from, TR_CODED_BLOCK) * TR_CODED_BLOCK;
    return tr_view1((float *)(void *)begin + at / TR_CODED_BLOCK, TR_F32,
                    tr_optim_values(what, p->n));
}
