#include "trainer/shard/grads.h"

#include "engine/base/sys.h"
#include "trainer/shard/grads_private.h"

#include <string.h>

/* ---- the parts ---- */

bool grads_is_norm(const struct unit *u)
{
    return u->trained && u->kind == TR_UNIT_PERSISTENT;
}

int64_t grads_elements_of(const struct unit *u, size_t bytes)
{
    return (int64_t)(bytes / tr_dtype_bytes(u->tensors->dtype));
}

static void add_part(struct tr_grads *g, int unit, int64_t n)
{
    size_t size = tr_dtype_bytes(g->o.sum);

    g->parts[g->nparts] = (struct grads_part){.unit = unit, .n = n, .at = g->flat, .fresh = true};
    g->flat += (int64_t)(shard_round((size_t)n * size, shard_grain(g->o.shard, size)) / size);
    if (unit >= 0)
        g->part_of[unit] = (int)g->nparts;
    g->nparts++;
}

/* The most elements of a unit that is reduced whole. */
static void raise_window(struct tr_grads *g, int64_t share)
{
    int64_t n = share * g->ranks;

    g->window_elements = n > g->window_elements ? n : g->window_elements;
}

static void raise_share(struct tr_grads *g, int64_t share)
{
    g->most_share = share > g->most_share ? share : g->most_share;
}

static void list_parts(struct tr_grads *g)
{
    const struct tr_shard *s = g->o.shard;

    for (size_t i = 0; i < s->nunits; i++) {
        const struct unit *u = &s->units[i];

        g->part_of[i] = -1;
        if (!u->trained || grads_is_norm(u))
            continue;
        add_part(g, (int)i, grads_elements_of(u, u->share));
        if (rows_has(u))
            g->cols = u->tensors->shape[1] > g->cols ? u->tensors->shape[1] : g->cols;
        if (u->kind != TR_UNIT_ROWS) {
            raise_window(g, grads_elements_of(u, u->share));
            raise_share(g, grads_elements_of(u, u->share));
        }
    }
    for (size_t i = 0; i < s->nunits && g->norms < 0; i++)
        if (grads_is_norm(&s->units[i])) {
            g->norms = (int)g->nparts;
            add_part(g, -1, grads_elements_of(&s->units[i], shard_norms_share(s)));
            raise_share(g, g->parts[g->norms].n);
        }
}

/* ---- ranges ---- */

/* Adds what this rank's share [lo, hi) of a part has of each trained tensor of unit u, whose bytes
 * begin at `begin` of the part. */
static void add_ranges(struct tr_grads *g, const struct grads_part *p, const struct unit *u,
                       size_t begin)
{
    size_t c = tr_dtype_bytes(u->tensors->dtype);
    size_t lo = (size_t)p->n * c * (size_t)g->me, hi = lo + (size_t)p->n * c;

    for (size_t i = 0; i < u->n; i++) {
        const struct tr_unit_tensor *t = &u->tensors[i];
        int64_t cols = t->rank == 2 ? t->shape[1] : 1;
        size_t first = begin + u->at[i], last = first + (size_t)(t->shape[0] * cols) * c;
        size_t from = lo > first ? lo : first, to = hi < last ? hi : last;

        if (!t->trained)
            continue;
        g->elements += t->shape[0] * cols;
        g->pieces[g->npieces++] = (struct tr_grads_piece){
            .name = t->name,
            .part = (int)(p - g->parts),
            .rank = t->rank,
            .shape = {t->disk_rows != 0 ? t->disk_rows : t->shape[0], t->rank == 2 ? cols : 0},
            .first = t->row0 * cols,
            .n = t->shape[0] * cols,
            .at = (int64_t)(first / c),
        };
        if (from >= to)
            continue;
        g->ranges[g->nranges] = (struct tr_grads_range){
            .name = t->name,
            .rank = t->rank,
            .shape = {t->disk_rows != 0 ? t->disk_rows : t->shape[0], t->rank == 2 ? cols : 0},
            .first = t->row0 * cols + (int64_t)((from - first) / c),
            .n = (int64_t)((to - from) / c),
            .cols = rows_has(u) ? cols : 0,
            .at = p->at + (int64_t)((from - lo) / c),
            .weight = {.dtype = u->tensors->dtype},
        };
        g->homes[g->nranges++] = (struct grads_home){u, from, lo};
    }
}

static void list_ranges(struct tr_grads *g)
{
    const struct tr_shard *s = g->o.shard;

    for (size_t k = 0; k < g->nparts; k++) {
        struct grads_part *p = &g->parts[k];

        p->range = g->nranges;
        if (p->unit >= 0)
            add_ranges(g, p, &s->units[p->unit], 0);
        for (size_t i = 0; i < s->nunits && p->unit < 0; i++)
            if (grads_is_norm(&s->units[i]))
                add_ranges(g, p, &s->units[i], s->units[i].base_at);
        p->ranges = g->nranges - p->range;
    }
}

/* Weights have addresses once they are loaded. */
static void place_ranges(struct tr_grads *g)
{
    for (size_t i = 0; i < g->nranges; i++) {
        const struct grads_home *h = &g->homes[i];
        const struct unit *u = h->unit;
        char *p = shard_home(g->o.shard, u);

        if (u->kind == TR_UNIT_PERSISTENT)
            p += h->from;
        else
            p += u->base_at + (u->whole ? h->from : h->from - h->share);
        g->ranges[i].weight = tr_view1(p, u->tensors->dtype, g->ranges[i].n);
    }
}

static size_t trained_tensors(const struct tr_shard *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->nunits; i++)
        n += s->units[i].trained ? s->units[i].n : 0;
    return n;
}

enum fr_rc tr_grads_create(const struct tr_grads_opts *o, struct tr_grads **out, struct fr_err *err)
{
    size_t units = o->shard->nunits, n = trained_tensors(o->shard);
    struct tr_grads *g;

    *out = NULL;
    if (n == 0)
        return FR_OK;
    if (o->comm != NULL && o->comm->size != o->shard->o.comm->size)
        return fr_fail(err, FR_UNSUPPORTED,
                       "weights that train have to be sharded over all ranks, but the moe block "
                       "shards them inside nodes: leave the moe block out");
    if (shard_staged(o->shard) && o->host.be == NULL)
        return fr_fail(
            err, FR_UNSUPPORTED,
            "weights that train wait in the host's memory beside their optimizer alone: "
            "set zero_optimization.offload_optimizer.device to cpu as well, or leave out "
            "offload_param");
    if ((g = fr_sys.alloc(sizeof(*g))) == NULL)
        return fr_fail(err, FR_NOMEM, "gradients");
    *g = (struct tr_grads){.o = *o, .norms = -1, .ranks = 1};
    if (o->comm != NULL) {
        g->ranks = o->comm->size;
        g->me = o->comm->rank;
    }
    g->wire = o->sum;
    if (g->ranks > 1 && o->sum == TR_F32 && (o->wire == TR_BF16 || o->wire == TR_F16))
        g->wire = o->wire;
    g->part_of = fr_arena_array(&g->arena, units, sizeof(*g->part_of));
    g->parts = fr_arena_array(&g->arena, units + 1, sizeof(*g->parts));
    g->ranges = fr_arena_array(&g->arena, n, sizeof(*g->ranges));
    g->homes = fr_arena_array(&g->arena, n, sizeof(*g->homes));
    g->pieces = fr_arena_array(&g->arena, n, sizeof(*g->pieces));
    g->items = fr_arena_array(&g->arena, units + 1, sizeof(*g->items));
    *out = g;
    if (g->part_of == NULL || g->parts == NULL || g->ranges == NULL || g->homes == NULL ||
        g->pieces == NULL || g->items == NULL ||
        (g->cursor = fr_arena_array(&g->arena, (size_t)g->ranks, sizeof(*g->cursor))) == NULL ||
        (g->lists = fr_arena_array(&g->arena, 4 * (size_t)g->ranks, sizeof(*g->lists))) == NULL)
        return fr_fail(err, FR_NOMEM, "gradients of %zu tensors", n);
    list_parts(g);
    list_ranges(g);
    grads_choose_way(g);
    return FR_OK;
}

void tr_grads_destroy(struct tr_grads *g)
{
    if (g == NULL)
        return;
    grads_beside_free(g);
    grads_rows_free(g);
    grads_host_free(g);
    tr_mem_free(g->o.be, TR_MEM_DEVICE, g->buffer);
    fr_arena_finish(&g->arena);
    fr_sys.free(g);
}

/* ---- memory ---- */

enum { SUMS, WINDOW, SECOND, ARRIVED, NORMS, LANDING, ROUNDED, PASSED, BUFFERS };

struct buffer {
    enum tr_dtype type;
    int64_t n; /* elements */
};

static size_t bytes_of(struct buffer b)
{
    return (size_t)b.n * tr_dtype_bytes(b.type);
}

static void list_buffers(const struct tr_grads *g, struct buffer out[BUFFERS])
{
    int64_t norms = g->norms >= 0 ? g->parts[g->norms].n * g->ranks : 0;
    int64_t most = g->window_elements > norms ? g->window_elements : norms;
    int64_t rows = g->cols * g->o.tokens_max;

    out[SUMS] = (struct buffer){g->o.sum, g->flat};
    out[WINDOW] =
        (struct buffer){g->o.sum, grads_sums_alone(g) && g->o.once ? 0 : g->window_elements};
    out[SECOND] =
        (struct buffer){g->o.sum, grads_beside(g) && !grads_rounds(g) ? g->window_elements : 0};
    out[ARRIVED] = (struct buffer){g->wire, grads_arrived(g, most / g->ranks)};
    out[NORMS] = (struct buffer){g->o.sum, norms};
    out[LANDING] = (struct buffer){g->o.sum, grads_hosted(g) ? g->most_share : 0};
    out[ROUNDED] = (struct buffer){g->wire, 0};
    if (grads_rounds(g))
        out[ROUNDED].n = most > rows ? most : rows;
    out[PASSED] = (struct buffer){g->o.sum, grads_passed(g, most / g->ranks)};
}

/* Bytes of the largest part of at most so many. */
static size_t largest_part(const struct tr_grads *g, size_t most)
{
    size_t best = 0;

    for (size_t k = 0; k < g->nparts; k++) {
        size_t bytes = tr_grads_part_bytes(g, (int)k);

        best = bytes > best && bytes <= most ? bytes : best;
    }
    return best;
}

void tr_grads_bytes(const struct tr_grads *g, struct tr_grads_bytes *out)
{
    struct buffer b[BUFFERS];

    list_buffers(g, b);
    out->sums = bytes_of(b[SUMS]);
    out->windows = grads_rows_bytes(g);
    for (int i = WINDOW; i < BUFFERS; i++)
        out->windows += bytes_of(b[i]);
    out->saved = g->me == 0 ? largest_part(g, SIZE_MAX) : 0;
    if (out->saved > TR_GRADS_SMALL)
        out->saved += largest_part(g, TR_GRADS_SMALL);
}

enum fr_rc tr_grads_alloc(struct tr_grads *g, struct tr_queue *q, struct fr_err *err)
{
    struct tr_view *const views[BUFFERS] = {&g->sums,        &g->window,  &g->second,  &g->arrived,
                                            &g->norm_window, &g->landing, &g->rounded, &g->passed};
    struct buffer b[BUFFERS];
    size_t bytes = 0;
    void *p = NULL;
    enum fr_rc rc;

    list_buffers(g, b);
    if (grads_hosted(g)) {
        if ((rc = grads_host_alloc(g, err)) != FR_OK)
            return rc;
        b[SUMS].n = 0;
    }
    for (int i = 0; i < BUFFERS; i++)
        bytes += round_256(bytes_of(b[i]));
    if ((rc = tr_mem_alloc(g->o.be, TR_MEM_DEVICE, bytes, &p, err)) == FR_OK)
        rc = tr_zero(g->o.be, q, p, bytes);
    g->buffer = p;
    for (int i = grads_hosted(g) ? WINDOW : SUMS; i < BUFFERS && rc == FR_OK; i++) {
        *views[i] = tr_view1(p, b[i].type, b[i].n);
        p = (char *)p + round_256(bytes_of(b[i]));
    }
    if (rc == FR_OK)
        rc = grads_rows_alloc(g, err);
    if (rc == FR_OK && grads_beside(g))
        rc = grads_beside_alloc(g, err);
    if (rc != FR_OK)
        return fr_while(err, "gradients");
    place_ranges(g);
    grads_say_way(g);
    return FR_OK;
}

struct tr_view grads_sums_of(const struct tr_grads *g, const struct grads_part *p)
{
    return tr_view1((char *)g->sums.p + (size_t)p->at * tr_dtype_bytes(g->o.sum), g->o.sum, p->n);
}

/* ---- the optimizer's side ---- */

const struct tr_grads_range *tr_grads_ranges(const struct tr_grads *g, size_t *n)
{
    *n = g->nranges;
    return g->ranges;
}

int64_t tr_grads_flat(const struct tr_grads *g)
{
    return g->flat;
}

struct tr_view tr_grads_sums(const struct tr_grads *g)
{
    return g->sums;
}

int64_t tr_grads_block(const struct tr_grads *g)
{
    return g->o.shard->o.block;
}

int64_t tr_grads_elements(const struct tr_grads *g)
{
    return g->elements;
}

struct tr_gather_item grads_item_of(const struct tr_grads *g, const struct grads_part *p)
{
    const struct tr_shard *s = g->o.shard;
    const struct unit *u = p->unit >= 0 ? &s->units[p->unit] : NULL;
    size_t bytes = u != NULL ? u->share : shard_norms_share(s);
    char *all = u != NULL ? shard_home(s, u) + u->base_at : s->trained;

    return (struct tr_gather_item){all, all + bytes * (size_t)g->me, bytes};
}

bool grads_part_whole(const struct tr_grads *g, const struct grads_part *p)
{
    return p->unit < 0 || g->o.shard->units[p->unit].whole;
}

enum fr_rc tr_grads_updated(struct tr_grads *g, struct tr_queue *q, struct fr_err *err)
{
    struct tr_allgather x = {.items = g->items, .what = "trained weights"};
    size_t before[TR_LINK_CLASSES];
    enum fr_rc rc = tr_shard_changed(g->o.shard, q, err);

    if (rc != FR_OK || g->ranks == 1)
        return rc;
    for (size_t k = 0; k < g->nparts; k++) {
        const struct grads_part *p = &g->parts[k];

        if (grads_part_whole(g, p))
            g->items[x.n++] = grads_item_of(g, p);
    }
    if (x.n == 0) /* at stage 3 */
        return FR_OK;
    memcpy(before, g->o.comm->class_bytes, sizeof(before));
    rc = tr_comm_all_gather(g->o.comm, q, &x, err);
    grads_count(g->o.comm, before, g->moved.updated);
    return rc;
}
