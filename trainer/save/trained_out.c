#include "trainer/save/trained_out.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "trainer/save/model_files.h"

#include <stdlib.h>
#include <string.h>

enum { DONE = -1, NONE = -2 };

struct tr_trained_set {
    const struct tr_trained_out *o;
    struct tr_grads *grads;
    const struct tr_grads_piece *pieces;
    size_t n;
    struct trained *trained; /* by name */
    size_t tensors;
    struct brought {
        char *bytes; /* owns */
        int part;
    } norms, last; /* norms lie between the tensors of every layer */
};

/* A trained tensor: its pieces. */
struct trained {
    struct tr_trained_set *w;
    const char *name;
    size_t first, n;
};

enum tr_dtype tr_trained_out_type(const struct tr_trained_out *o)
{
    return o->masters != NULL ? TR_F32 : o->type;
}

static enum tr_dtype saved_type(const struct tr_trained_set *w)
{
    return tr_trained_out_type(w->o);
}

static enum fr_rc read_masters(void *self, int64_t at, int64_t n, void *to, struct fr_err *err)
{
    return tr_optim_read(self, &(struct tr_optim_part){TR_OPTIM_MASTER, at, n}, to, err);
}

static enum fr_rc take(struct tr_trained_set *w, int part, char *host, struct fr_err *err)
{
    struct tr_queue *q = tr_model_queue(w->o->model);
    struct tr_grads_states s = {part, read_masters, w->o->masters, (float *)(void *)host};

    return w->o->masters != NULL ? tr_grads_whole_states(w->grads, q, &s, err)
                                 : tr_grads_whole(w->grads, q, part, host, err);
}

static enum fr_rc ask(struct tr_trained_set *w, int part, char *host, struct fr_err *err)
{
    int32_t number = part;
    enum fr_rc rc = tr_comm_host_broadcast(w->o->world, &number, sizeof(number), 0, err);

    if (rc != FR_OK || number == DONE)
        return rc;
    return take(w, number, host, err);
}

static size_t part_bytes(const struct tr_trained_set *w, int part)
{
    return tr_grads_part_bytes(w->grads, part) / tr_dtype_bytes(w->o->type) *
           tr_dtype_bytes(saved_type(w));
}

static enum fr_rc bring(struct tr_trained_set *w, struct brought *b, int part, struct fr_err *err)
{
    if (b->part == part)
        return FR_OK;
    fr_sys.free(b->bytes);
    b->part = NONE;
    if ((b->bytes = fr_sys.alloc(part_bytes(w, part))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a part of the weights");
    b->part = part;
    return ask(w, part, b->bytes, err);
}

static bool is_small(const struct tr_trained_set *w, int part)
{
    return part_bytes(w, part) <= TR_GRADS_SMALL;
}

static enum fr_rc fill_trained(void *arg, const struct tr_st_item *item, int64_t at, void *dst,
                               size_t n, struct fr_err *err)
{
    const struct trained *t = arg;
    int64_t size = (int64_t)tr_dtype_bytes(saved_type(t->w)), end = at + (int64_t)n;
    enum fr_rc rc = FR_OK;

    for (size_t i = t->first; i < t->first + t->n && rc == FR_OK; i++) {
        const struct tr_grads_piece *p = &t->w->pieces[i];
        struct brought *b = is_small(t->w, p->part) ? &t->w->norms : &t->w->last;
        int64_t first = p->first * size, last = first + p->n * size;
        int64_t from = at > first ? at : first, to = end < last ? end : last;

        if (from >= to)
            continue;
        if ((rc = bring(t->w, b, p->part, err)) == FR_OK)
            memcpy((char *)dst + (from - at), b->bytes + p->at * size + (from - first),
                   (size_t)(to - from));
    }
    if (rc == FR_OK)
        rc = tr_model_files_finite(tr_view1(dst, saved_type(t->w), (int64_t)n / size), item->name,
                                   err);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct trained *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Pieces of one tensor follow each other. */
static enum fr_rc index_pieces(struct tr_trained_set *w, struct fr_arena *arena, struct fr_err *err)
{
    struct trained *t;

    if ((w->trained = fr_arena_array(arena, w->n + 1, sizeof(*w->trained))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", w->n);
    for (size_t i = 0; i < w->n; i += t->n) {
        t = &w->trained[w->tensors++];
        *t = (struct trained){.w = w, .name = w->pieces[i].name, .first = i};
        while (i + t->n < w->n && strcmp(w->pieces[i + t->n].name, t->name) == 0)
            t->n++;
    }
    qsort(w->trained, w->tensors, sizeof(*w->trained), by_name);
    return FR_OK;
}

bool tr_trained_fill(struct tr_trained_set *set, struct tr_st_item *item)
{
    const struct trained want = {.name = item->name};
    struct trained *found = bsearch(&want, set->trained, set->tensors, sizeof(want), by_name);

    if (found == NULL)
        return false;
    item->fill = fill_trained;
    item->arg = found;
    return true;
}

const char *tr_trained_name(const struct tr_trained_set *set, size_t i)
{
    return i < set->tensors ? set->trained[i].name : NULL;
}

/* The other ranks: parts of the weights as rank 0 asks. */
static enum fr_rc serve(struct tr_trained_set *w, struct fr_err *err)
{
    int32_t part;
    enum fr_rc rc;

    while ((rc = tr_comm_host_broadcast(w->o->world, &part, sizeof(part), 0, err)) == FR_OK &&
           part != DONE)
        if ((rc = take(w, part, NULL, err)) != FR_OK)
            break;
    return rc;
}

static enum fr_rc run(struct tr_trained_set *set, tr_trained_write *write, void *arg,
                      struct fr_err *err)
{
    struct fr_arena arena = {0};
    enum fr_rc rc = index_pieces(set, &arena, err);

    if (rc == FR_OK)
        rc = write(arg, set, err);
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc tr_trained_out(const struct tr_trained_out *o, tr_trained_write *write, void *arg,
                          struct fr_err *err)
{
    struct tr_trained_set w = {
        .o = o, .grads = tr_model_grads(o->model), .norms = {.part = NONE}, .last = {.part = NONE}};
    struct fr_err result = {0};
    enum fr_rc rc = FR_OK, sent;

    w.pieces = tr_grads_pieces(w.grads, &w.n);
    if (o->world->rank == 0) {
        rc = run(&w, write, arg, &result);
        result.rc = rc;
        sent = ask(&w, DONE, NULL, err);
    } else {
        sent = serve(&w, err);
    }
    fr_sys.free(w.norms.bytes);
    fr_sys.free(w.last.bytes);
    if (sent == FR_OK)
        sent = tr_comm_host_broadcast(o->world, &result, sizeof(result), 0, err);
    if (sent != FR_OK)
        return sent;
    return result.rc != FR_OK ? fr_fail(err, result.rc, "%s", result.msg) : FR_OK;
}
