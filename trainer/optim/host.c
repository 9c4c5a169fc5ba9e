/* Masters and moments of trained weights in the host's memory. */
#include "trainer/optim/disk.h"
#include "trainer/optim/optim_private.h"

/* Elements of a tile of g's states. */
static int64_t tile_of(const struct tr_grads *g)
{
    const struct tr_grads_host *h = tr_grads_host(g);

    return h->disk != NULL ? tr_disk_tile(h->disk, tr_grads_flat(g)) : tr_grads_tile(g);
}

/* Of the weights of a tile. */
static size_t tile_bytes(const struct tr_grads *g)
{
    size_t n;
    const struct tr_grads_range *r = tr_grads_ranges(g, &n);
    size_t size = n > 0 ? tr_dtype_bytes(r->weight.dtype) : 0;

    return (size_t)tile_of(g) * size;
}

void optim_host_bytes(const struct tr_grads *g, struct tr_optim_bytes *out)
{
    const struct tr_disk *disk = tr_grads_host(g)->disk;
    struct tr_disk_shape s;
    size_t n;
    const struct tr_grads_range *r = tr_grads_ranges(g, &n);

    tr_optim_disk_shape(g, &s);
    for (size_t i = 0; i < n && disk != NULL; i++)
        out->again += optim_place_of(g, &r[i]).matrix ? (size_t)r[i].n * 2 * sizeof(float) : 0;
    out->disk = disk != NULL ? (size_t)tr_disk_bytes(disk, &s) : 0;
    out->host = 2 * tile_bytes(g) + (disk != NULL ? tr_disk_pinned(disk, &s) : tr_optim_states(g));
}

enum fr_rc optim_host_create(struct tr_optim *o, struct fr_err *err)
{
    const struct tr_grads_host *h = tr_grads_host(o->grads);
    void *p = NULL;
    enum fr_rc rc;

    o->host = (struct tr_optim_host){.be = h->be, .disk = h->disk, .tile = tile_of(o->grads)};
    rc = tr_queue_create(o->host.be, 0, &o->host.q, err);
    if (rc == FR_OK && h->disk != NULL)
        rc = tr_disk_start(h->disk, o->be, err);
    if (rc == FR_OK && h->disk == NULL)
        rc = optim_take_states(o, TR_MEM_PINNED, err);
    for (int i = 0; i < 2 && rc == FR_OK; i++) {
        rc = tr_mem_alloc(o->be, TR_MEM_PINNED, tile_bytes(o->grads), &p, err);
        o->host.tiles[i] = rc == FR_OK ? p : NULL;
        if (rc == FR_OK)
            rc = tr_event_create(o->be, &o->host.sent[i], err);
    }
    return rc == FR_OK ? rc : fr_while(err, "optimizer states");
}

void optim_host_finish(struct tr_optim *o)
{
    for (int i = 0; i < 2; i++)
        tr_mem_free(o->be, TR_MEM_PINNED, o->host.tiles[i]);
    for (int i = 0; i < 2; i++)
        if (o->host.sent[i] != NULL)
            tr_event_destroy(o->be, o->host.sent[i]);
    tr_queue_destroy(o->host.be, o->host.q);
}

struct tr_grads_look optim_host_looks(const struct tr_optim *o, struct optim_found *found)
{
    return (struct tr_grads_look){.be = o->host.be,
                                  .q = o->host.q,
                                  .squares = tr_view1(found->limbs, TR_I64, TR_EXACT_LIMBS),
                                  .found = tr_view1(&found->count, TR_I64, 1)};
}

enum fr_rc optim_host_look(struct tr_optim *o, bool again, struct optim_found *found,
                           struct fr_err *err)
{
    struct tr_grads_look l = optim_host_looks(o, found);
    enum fr_rc rc = tr_grads_arrived(o->grads, o->q, err);

    return rc == FR_OK ? tr_grads_look(o->grads, &l, again, err) : rc;
}

/* ---- tiles of the flat order ---- */

static int64_t tiles_of(const struct tr_optim *o)
{
    if (o->host.disk != NULL)
        return tr_disk_tiles(o->host.disk);
    return (tr_grads_flat(o->grads) + o->host.tile - 1) / o->host.tile;
}

/* The elements of tile k, and with a disk where their states are. */
static enum fr_rc take_tile(struct tr_optim *o, int64_t k, struct tr_disk_tile *t,
                            struct fr_err *err)
{
    int64_t at = k * o->host.tile, left = tr_grads_flat(o->grads) - at;

    if (o->host.disk != NULL)
        return tr_disk_take(o->host.disk, k, t, err);
    *t = (struct tr_disk_tile){.at = at, .n = left < o->host.tile ? left : o->host.tile};
    return FR_OK;
}

static void give_tile(struct tr_optim *o, int64_t k)
{
    if (o->host.disk != NULL)
        tr_disk_give(o->host.disk, k);
}

/* A tile, and which of the two places its weights take on their way to the device or from there. */
struct stop {
    struct tr_disk_tile t;
    int slot;
};

/* The first range from *i on that has elements in the tile and is AdamW's, or any. *i: the next one
 * to look at. */
static bool next_piece(const struct tr_optim *o, const struct tr_disk_tile *t, bool any, size_t *i,
                       struct optim_piece *p)
{
    size_t n;
    const struct tr_grads_range *r = tr_grads_ranges(o->grads, &n);

    for (; *i < n && r[*i].at < t->at + t->n; ++*i) {
        int64_t from = r[*i].at > t->at ? r[*i].at : t->at, to = r[*i].at + r[*i].n;

        to = to < t->at + t->n ? to : t->at + t->n;
        *p = (struct optim_piece){&r[*i], from, to - from};
        if (from < to && (any || !o->places[*i].matrix)) {
            ++*i;
            return true;
        }
    }
    return false;
}

static struct tr_view weights_of(const struct optim_piece *p)
{
    return optim_part(p->r->weight, p->at - p->r->at, p->n);
}

/* The place of the piece's weights in the slot. */
static struct tr_view staged(const struct tr_optim *o, const struct stop *s,
                             const struct optim_piece *p)
{
    enum tr_dtype type = p->r->weight.dtype;

    return tr_view1(o->host.tiles[s->slot] + (size_t)(p->at - s->t.at) * tr_dtype_bytes(type), type,
                    p->n);
}

/* Masters of a tile that was never written: its weights, from the device. */
static enum fr_rc begin_tile(struct tr_optim *o, const struct stop *s, struct fr_err *err)
{
    struct optim_piece p;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && next_piece(o, &s->t, true, &i, &p);) {
        struct tr_view weights = weights_of(&p);
        struct tr_cast widen = {.y = optim_tile_state(o, &s->t, TR_OPTIM_MASTER, &p),
                                .x = staged(o, s, &p)};

        rc = tr_copy(o->be, o->q, widen.x.p, weights.p, tr_view_bytes(weights));
        if (rc == FR_OK)
            rc = tr_sync(o->be, o->q, err);
        if (rc == FR_OK)
            rc = tr_cast(o->host.be, o->host.q, &widen, err);
    }
    return rc;
}

static enum fr_rc step_tile(struct tr_optim *o, const struct tr_adamw *a, const struct stop *s,
                            struct fr_err *err)
{
    struct optim_piece p;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && next_piece(o, &s->t, false, &i, &p);) {
        struct tr_adamw x = optim_update(o, a, &p);

        if (o->host.disk != NULL) {
            x.p = optim_tile_state(o, &s->t, TR_OPTIM_MASTER, &p);
            x.m = optim_tile_state(o, &s->t, TR_OPTIM_M, &p);
            x.v = optim_tile_state(o, &s->t, TR_OPTIM_V, &p);
            x.m_max = optim_tile_state(o, &s->t, TR_OPTIM_M_MAX, &p);
            x.v_max = optim_tile_state(o, &s->t, TR_OPTIM_V_MAX, &p);
        }
        x.copy = staged(o, s, &p);
        rc = tr_adamw(o->host.be, o->host.q, &x, err);
        if (rc == FR_OK &&
            tr_copy(o->be, o->q, weights_of(&p).p, x.copy.p, tr_view_bytes(x.copy)) != FR_OK)
            rc = fr_fail(err, FR_IO, "cannot copy updated weights to the device");
    }
    if (rc == FR_OK && tr_event_record(o->be, o->q, o->host.sent[s->slot]) != FR_OK)
        rc = fr_fail(err, FR_IO, "cannot copy updated weights to the device");
    return rc;
}

/* a NULL: no step; what is new gets its masters. */
static enum fr_rc pass(struct tr_optim *o, const struct tr_adamw *a, struct fr_err *err)
{
    bool is_new = o->host.disk != NULL && tr_disk_is_new(o->host.disk);
    int64_t tiles = tiles_of(o);
    enum fr_rc rc = FR_OK;

    for (int64_t k = 0; k < tiles && rc == FR_OK; k++) {
        struct stop s = {.slot = (int)(k % 2)};

        rc = tr_event_wait(o->be, NULL, o->host.sent[s.slot]);
        if (rc == FR_OK)
            rc = take_tile(o, k, &s.t, err);
        if (rc == FR_OK && is_new)
            rc = begin_tile(o, &s, err);
        if (rc == FR_OK && a != NULL)
            rc = step_tile(o, a, &s, err);
        if (rc == FR_OK)
            give_tile(o, k);
    }
    return rc == FR_OK && o->host.disk != NULL ? tr_disk_settle(o->host.disk, err) : rc;
}

enum fr_rc optim_host_fill(struct tr_optim *o, struct fr_err *err)
{
    return pass(o, NULL, err);
}

enum fr_rc optim_host_update(struct tr_optim *o, const struct tr_adamw *a, struct fr_err *err)
{
    return pass(o, a, err);
}
