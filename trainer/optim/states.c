/* Masters and moments of trained weights, wherever they are, and of adapters beside them. */
#include "engine/base/sys.h"
#include "trainer/optim/disk.h"
#include "trainer/optim/optim_private.h"

#include <assert.h>
#include <string.h>

enum { WORDS = 64 /* f32 states of a range begin at multiples of so many elements */ };

static size_t round_256(size_t n)
{
    return (n + 255) / 256 * 256;
}

/* ---- where they are ---- */

/* A range of whole rows is of the embedding. */
static bool is_coded(const struct tr_grads_range *r)
{
    return r->cols == 0 && r->shape[0] * (r->rank == 2 ? r->shape[1] : 1) >= TR_CODED_LEAST;
}

struct tr_optim_place optim_place_of(const struct tr_grads *g, const struct tr_grads_range *r)
{
    return (struct tr_optim_place){
        .coded = tr_grads_block(g) > 0 && is_coded(r),
        .matrix = tr_grads_muon(g) && tr_muon_takes(r->name, r->rank),
    };
}

void optim_places(const struct tr_grads *g, struct tr_optim_place *places, struct optim_sizes *out)
{
    int64_t block = tr_grads_block(g);
    const struct tr_grads_range *r;
    size_t n;

    bool flat = block == 0 && !tr_grads_muon(g); /* all have both, in the order of the masters */

    *out = (struct optim_sizes){.m = flat ? tr_grads_flat(g) : 0, .v = flat ? tr_grads_flat(g) : 0};
    r = tr_grads_ranges(g, &n);
    for (size_t i = 0; i < n; i++) {
        struct tr_optim_place p = optim_place_of(g, &r[i]);
        int64_t words = tr_div_up(r[i].n, WORDS) * WORDS;

        p.at = flat ? r[i].at : out->m;
        p.v_at = flat ? r[i].at : out->v;
        if (p.coded) {
            p.at = p.v_at = out->coded;
            out->coded += tr_div_up(r[i].n, block) * block;
        } else if (!flat) {
            out->m += words;
            out->v += p.matrix ? 0 : words;
        }
        if (places != NULL)
            places[i] = p;
    }
}

enum fr_rc optim_check_states(const struct tr_grads *g, struct fr_err *err)
{
    if (g == NULL)
        return FR_OK;
    if (tr_grads_block(g) > 0 && tr_grads_muon(g))
        return fr_fail(err, FR_UNSUPPORTED, "Muon has f32 states, not 8-bit ones");
    return FR_OK;
}

/* Whether all weights are f32 on the device, as masters would be there. */
static bool are_masters(const struct tr_grads *g)
{
    size_t n;
    const struct tr_grads_range *r = tr_grads_ranges(g, &n);

    for (size_t i = 0; i < n; i++)
        if (r[i].weight.dtype != TR_F32)
            return false;
    return tr_grads_host(g)->be == NULL;
}

/* The views of all states, and how many values of which type each has. */
struct row {
    struct tr_view *view;
    enum tr_dtype type;
    int64_t n;
};
enum { ROWS = 7 };

static void list_rows(struct tr_optim_weights *w, const struct tr_grads *g, struct row rows[ROWS])
{
    struct optim_sizes z;

    optim_places(g, NULL, &z);
    const struct row all[ROWS] = {{&w->master, TR_F32, are_masters(g) ? 0 : tr_grads_flat(g)},
                                  {&w->m, TR_F32, z.m},
                                  {&w->v, TR_F32, z.v},
                                  {&w->m_codes, TR_U8, z.coded},
                                  {&w->v_codes, TR_U8, z.coded},
                                  {&w->m_max, TR_F32, z.coded / TR_CODED_BLOCK},
                                  {&w->v_max, TR_F32, z.coded / TR_CODED_BLOCK}};
    for (int i = 0; i < ROWS; i++)
        rows[i] = all[i];
}

size_t tr_optim_states(const struct tr_grads *g)
{
    struct tr_optim_weights none;
    struct row rows[ROWS];
    size_t bytes = 0;

    list_rows(&none, g, rows);
    for (int i = 0; i < ROWS; i++)
        bytes += round_256((size_t)rows[i].n * tr_dtype_bytes(rows[i].type));
    return bytes;
}

enum fr_rc optim_take_states(struct tr_optim *o, enum tr_mem kind, struct fr_err *err)
{
    struct tr_backend *be = kind == TR_MEM_PINNED ? o->host.be : o->be;
    struct tr_queue *q = kind == TR_MEM_PINNED ? o->host.q : o->q;
    struct row rows[ROWS];
    enum fr_rc rc = FR_OK;

    list_rows(&o->weights, o->grads, rows);
    o->weights.are_masters = are_masters(o->grads);
    for (int i = 0; i < ROWS && rc == FR_OK; i++) {
        size_t bytes = (size_t)rows[i].n * tr_dtype_bytes(rows[i].type);
        void *p = NULL;

        if (bytes == 0)
            continue;
        rc = tr_mem_alloc(o->be, kind, bytes, &p, err);
        if (rc == FR_OK)
            rc = tr_zero(be, q, p, bytes);
        *rows[i].view = tr_view1(p, rows[i].type, rows[i].n);
    }
    return rc;
}

void optim_free_states(struct tr_optim *o)
{
    enum tr_mem kind = o->host.be != NULL ? TR_MEM_PINNED : TR_MEM_DEVICE;
    struct row rows[ROWS];

    if (o->grads == NULL)
        return;
    list_rows(&o->weights, o->grads, rows);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].view->p != NULL)
            tr_mem_free(o->be, kind, rows[i].view->p);
    fr_sys.free(o->places);
    o->weights = (struct tr_optim_weights){0};
    o->places = NULL;
}

enum tr_dtype tr_optim_type(const struct tr_optim *o, size_t range, enum tr_optim_what what)
{
    size_t n;
    bool own = tr_grads_ranges(o->grads, &n) != NULL && range < n;
    bool coded = own && o->places[range].coded;

    if (what == TR_OPTIM_V && own && o->places[range].matrix)
        return TR_NONE;
    if (what == TR_OPTIM_M_MAX || what == TR_OPTIM_V_MAX)
        return coded ? TR_F32 : TR_NONE;
    return coded && what != TR_OPTIM_MASTER ? TR_U8 : TR_F32;
}

int64_t tr_optim_block(enum tr_optim_what what)
{
    return what == TR_OPTIM_M_MAX || what == TR_OPTIM_V_MAX ? TR_CODED_BLOCK : 1;
}

int64_t tr_optim_values(enum tr_optim_what what, int64_t n)
{
    return tr_div_up(n, tr_optim_block(what));
}

struct tr_view optim_state(const struct tr_optim *o, enum tr_optim_what what,
                           const struct optim_piece *p)
{
    const struct tr_optim_weights *w = &o->weights;
    const struct tr_optim_place *place;
    int64_t at;
    size_t n;

    if (what == TR_OPTIM_MASTER && w->are_masters) {
        assert(p->at + p->n <= p->r->at + p->r->n);
        return optim_part(p->r->weight, p->at - p->r->at, p->n);
    }
    if (what == TR_OPTIM_MASTER) /* also gaps between ranges */
        return optim_part(w->master, p->at, p->n);
    place = &o->places[p->r - tr_grads_ranges(o->grads, &n)];
    at = place->at + p->at - p->r->at;
    if (what == TR_OPTIM_M || what == TR_OPTIM_V) {
        bool m = what == TR_OPTIM_M;

        if (!m && place->matrix)
            return (struct tr_view){0};
        if (!m)
            at = place->v_at + p->at - p->r->at;
        return optim_part(place->coded ? m ? w->m_codes : w->v_codes : m ? w->m : w->v, at, p->n);
    }
    if (!place->coded)
        return (struct tr_view){0};
    return optim_part(what == TR_OPTIM_M_MAX ? w->m_max : w->v_max, at / TR_CODED_BLOCK,
                      tr_optim_values(what, p->n));
}

const struct tr_grads_range *optim_range_of(const struct tr_grads *g, int64_t at)
{
    const struct tr_grads_range *r;
    size_t low = 0, high;

    r = tr_grads_ranges(g, &high);
    while (high > low + 1) {
        size_t mid = low + (high - low) / 2;

        if (r[mid].at <= at)
            low = mid;
        else
            high = mid;
    }
    return &r[low];
}

/* ---- ranges ---- */

/* What the slice of this rank has of an adapter's tensor [at, at+n) of the flat order. */
static void add_range(struct tr_optim *o, const char *name, int64_t at, const int64_t shape[2])
{
    int64_t mine = (int64_t)o->comm->rank * o->n, end = at + shape[0] * shape[1];
    int64_t from = at > mine ? at : mine, to = end < mine + o->n ? end : mine + o->n;

    if (from < to)
        o->ranges[o->nranges++] = (struct tr_grads_range){
            .name = name,
            .rank = 2,
            .shape = {shape[0], shape[1]},
            .first = from - at,
            .n = to - from,
            .at = tr_grads_flat(o->grads) + from - mine,
        };
}

enum fr_rc optim_list_ranges(struct tr_optim *o, struct fr_err *err)
{
    const struct tr_grads_range *of_weights;
    size_t n;

    if (o->grads == NULL || o->params.n == 0)
        return FR_OK;
    of_weights = tr_grads_ranges(o->grads, &n);
    o->ranges = fr_arena_array(&o->arena, n + 2 * o->params.n, sizeof(*o->ranges));
    if (o->ranges == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu adapters", o->params.n);
    memcpy(o->ranges, of_weights, n * sizeof(*of_weights));
    o->nranges = n;
    for (size_t i = 0; i < o->params.n; i++) {
        const struct tr_adapter *a = &o->params.adapters[i];
        const char *name_a = fr_arena_fmt(&o->arena, "%s.lora_A.weight", a->module);
        const char *name_b = fr_arena_fmt(&o->arena, "%s.lora_B.weight", a->module);

        if (name_a == NULL || name_b == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for %zu adapters", o->params.n);
        add_range(o, name_a, a->a_at, (int64_t[]){a->r, a->in});
        add_range(o, name_b, a->b_at, (int64_t[]){a->out, a->r});
    }
    return FR_OK;
}

const struct tr_grads_range *tr_optim_ranges(const struct tr_optim *o, size_t *n)
{
    if (o->ranges == NULL)
        return tr_grads_ranges(o->grads, n);
    *n = o->nranges;
    return o->ranges;
}

/* ---- reading and writing ---- */

/* Elements of a part, from its element `done` on, as many as lie together; in memory all do. */
struct span {
    const struct tr_optim_part *part;
    int64_t done;
    bool write;
    struct tr_view values; /* out */
    int64_t n;             /* out: elements */
};

static enum fr_rc take_span(struct tr_optim *o, struct span *s, struct fr_err *err)
{
    struct tr_disk_span d = {.state = optim_disk_state(s->part->what), .write = s->write};
    struct optim_piece piece = {.at = s->part->at + s->done, .n = s->part->n - s->done};
    struct tr_disk_tile t;
    enum fr_rc rc = FR_OK;

    s->n = piece.n;
    if (piece.at >= tr_grads_flat(o->grads)) { /* of an adapter */
        const struct tr_view *const all[] = {&o->master, &o->m, &o->v};

        s->values = optim_part(*all[s->part->what], piece.at - tr_grads_flat(o->grads), piece.n);
        return FR_OK;
    }
    if (o->host.disk == NULL) {
        piece.r = optim_range_at(o, piece.at);
        s->values = optim_state(o, s->part->what, &piece);
        return FR_OK;
    }
    d.at = piece.at;
    if (!s->write && tr_disk_is_new(o->host.disk))
        rc = optim_host_fill(o, err);
    if (rc == FR_OK)
        rc = tr_disk_span(o->host.disk, &d, err);
    s->n = d.n < s->n ? d.n : s->n;
    t = (struct tr_disk_tile){.at = piece.at - d.from, .n = d.from + d.n};
    t.state[d.state] = d.p;
    piece.r = optim_range_at(o, piece.at);
    piece.n = s->n;
    s->values = optim_tile_state(o, &t, s->part->what, &piece);
    return rc;
}

enum fr_rc tr_optim_read(struct tr_optim *o, const struct tr_optim_part *p, void *to,
                         struct fr_err *err)
{
    struct span s = {.part = p};
    char *at = to;
    enum fr_rc rc = FR_OK;

    for (; s.done < p->n && rc == FR_OK; s.done += s.n) {
        rc = take_span(o, &s, err);
        if (rc == FR_OK)
            rc = tr_copy(o->be, o->q, at, s.values.p, tr_view_bytes(s.values));
        if (rc == FR_OK)
            rc = tr_sync(o->be, o->q, err);
        at += rc == FR_OK ? tr_view_bytes(s.values) : 0;
    }
    return rc;
}

enum fr_rc tr_optim_write(struct tr_optim *o, const struct tr_optim_part *p, struct tr_view from,
                          struct fr_err *err)
{
    struct span s = {.part = p, .write = true};
    int64_t at = 0;
    enum fr_rc rc = FR_OK;

    for (; s.done < p->n && rc == FR_OK; s.done += s.n) {
        if ((rc = take_span(o, &s, err)) != FR_OK)
            break;
        struct tr_cast widen = {s.values, optim_part(from, at, tr_view_count(s.values))};

        rc = from.dtype == s.values.dtype
                 ? tr_copy(o->be, o->q, s.values.p, widen.x.p, tr_view_bytes(s.values))
                 : tr_cast(o->be, o->q, &widen, err);
        if (rc == FR_OK)
            rc = tr_sync(o->be, o->q, err);
        at += tr_view_count(s.values);
    }
    return rc;
}

enum fr_rc tr_optim_begin(struct tr_optim *o, struct fr_err *err)
{
    const struct tr_grads_range *r;
    enum fr_rc rc = FR_OK;
    size_t n = 0;

    bool copies = o->grads != NULL && o->host.disk == NULL && !o->weights.are_masters;

    r = copies ? tr_grads_ranges(o->grads, &n) : NULL;
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        struct tr_cast cast = {.y = optim_part(o->weights.master, r[i].at, r[i].n),
                               .x = r[i].weight};

        rc = tr_cast(o->be, o->q, &cast, err);
    }
    return rc;
}

/* Masters of a range to its weights. */
static enum fr_rc round_range(struct tr_optim *o, const struct tr_grads_range *r,
                              struct fr_err *err)
{
    const struct tr_optim_part part = {TR_OPTIM_MASTER, r->at, r->n};
    struct span s = {.part = &part};
    enum fr_rc rc = FR_OK;

    for (; s.done < r->n && rc == FR_OK; s.done += s.n) {
        if ((rc = take_span(o, &s, err)) != FR_OK)
            break;
        struct tr_cast cast = {.y = optim_part(r->weight, s.done, s.n), .x = s.values};

        rc = tr_cast(o->be, o->q, &cast, err);
        if (rc == FR_OK && o->host.disk != NULL) /* the next tile takes its place */
            rc = tr_sync(o->be, o->q, err);
    }
    return rc;
}

enum fr_rc tr_optim_round(struct tr_optim *o, struct fr_err *err)
{
    const struct tr_grads_range *r;
    enum fr_rc rc = FR_OK;
    size_t n = 0;

    bool rounds = o->grads != NULL && !o->weights.are_masters;

    r = rounds ? tr_grads_ranges(o->grads, &n) : NULL;
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = round_range(o, &r[i], err);
    if (rc == FR_OK)
        rc = tr_grads_updated(o->grads, o->q, err);
    if (rc == FR_OK)
        rc = optim_round_adapters(o, err);
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}
