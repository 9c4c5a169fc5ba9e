#include "trainer/save/import_model.h"

#include "engine/base/sys.h"
#include "trainer/config/lora_saves.h"
#include "trainer/tensor/safetensors.h"

#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 64 << 20 };

struct reading {
    struct tr_st *st; /* owns, on rank 0 */
    struct tr_optim *o;
    bool adapter;
    enum tr_dtype type;
    char *host;   /* owns, on rank 0: room bytes */
    int64_t room; /* bytes of one broadcast */
    int64_t most; /* elements of the type in it */
};

/* A tensor by its name in the base. */
static const struct tr_st_tensor *find(const struct reading *x, const char *name)
{
    char whole[TR_NAME_MAX + sizeof(TR_PEFT_PREFIX)];

    (void)snprintf(whole, sizeof(whole), "%s%s", x->adapter ? TR_PEFT_PREFIX : "", name);
    return tr_st_find(x->st, whole);
}

static enum fr_rc check_tensors(struct reading *x, const char *dir, struct fr_err *err)
{
    const struct tr_grads_piece *p;
    const struct tr_st_tensor *first;
    size_t n;

    p = tr_grads_pieces(x->o->grads, &n);
    first = find(x, p->name);
    if (first == NULL || tr_st_dtype(first->type, &x->type, err) != FR_OK)
        return fr_fail(err, FR_CORRUPT, "%s has no whole %s", dir, p->name);
    for (size_t i = 0; i < n; i++) {
        const struct tr_st_tensor *t = find(x, p[i].name);

        if (t == NULL || t->absent || t->type != tr_st_type_of(x->type) ||
            t->elements < p[i].first + p[i].n)
            return fr_fail(err, FR_CORRUPT, "%s has no whole %s in %s", dir, p[i].name,
                           tr_st_type_name(tr_st_type_of(x->type)));
    }
    return FR_OK;
}

/* Rank 0 opens the folder; the reason why it cannot is told to all. */
static enum fr_rc open_folder(struct reading *x, const char *dir, struct fr_err *err)
{
    struct tr_comm *world = x->o->world;
    struct fr_err why = {0};
    int32_t type;
    enum fr_rc rc;

    if (world->rank == 0) {
        why.rc = x->adapter ? tr_lora_weights(dir, &x->st, &why)
                            : tr_st_open_folder(dir, false, NULL, &x->st, &why);
        if (why.rc == FR_OK)
            why.rc = check_tensors(x, dir, &why);
        x->host = fr_sys.alloc((size_t)x->room + 1);
        if (why.rc == FR_OK && x->host == NULL)
            why.rc = fr_fail(&why, FR_NOMEM, "no memory to read %s", dir);
    }
    type = x->type;
    if ((rc = tr_comm_host_broadcast(world, &why, sizeof(why), 0, err)) != FR_OK ||
        (rc = tr_comm_host_broadcast(world, &type, sizeof(type), 0, err)) != FR_OK)
        return rc;
    x->type = (enum tr_dtype)type;
    x->most = x->room / (int64_t)tr_dtype_bytes(x->type) / 2 * 2;
    return why.rc == FR_OK ? FR_OK : fr_fail(err, FR_NOTFOUND, "%s", why.msg);
}

/* Elements [begin, begin+n) of a tensor, from rank 0 to all, and to the masters of r (NULL: this
 * rank has none). The room of gradients is the window. */
static enum fr_rc take(struct reading *x, const char *name, int64_t begin, int64_t n,
                       const struct tr_grads_range *r, struct fr_err *err)
{
    struct tr_optim *o = x->o;
    int64_t size = (int64_t)tr_dtype_bytes(x->type), from = begin, to = begin + n;
    char *window = tr_grads_room(o->grads).p;
    struct tr_broadcast all = {
        .p = window, .bytes = (size_t)((n * size + 3) / 4 * 4), .what = name};
    enum fr_rc rc = FR_OK;

    if (o->world->rank == 0) {
        rc = tr_st_read(x->st, find(x, name), begin * size, x->host, (size_t)(n * size), err);
        if (rc == FR_OK)
            rc = tr_copy(o->be, o->q, window, x->host, (size_t)(n * size));
    }
    if (rc == FR_OK)
        rc = tr_comm_broadcast(o->comm, o->q, &all, err);
    if (r != NULL) {
        from = from > r->first ? from : r->first;
        to = to < r->first + r->n ? to : r->first + r->n;
    }
    if (rc == FR_OK && r != NULL && from < to) {
        struct tr_optim_part part = {TR_OPTIM_MASTER, r->at + from - r->first, to - from};

        rc = tr_optim_write(o, &part, tr_view1(window + (from - begin) * size, x->type, to - from),
                            err);
    }
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}

/* Ranges follow each other as pieces do, one of a piece at most. */
static enum fr_rc take_all(struct reading *x, struct fr_err *err)
{
    const struct tr_grads_piece *p;
    const struct tr_grads_range *r;
    size_t n, nranges, k = 0;
    enum fr_rc rc = FR_OK;

    p = tr_grads_pieces(x->o->grads, &n);
    r = tr_grads_ranges(x->o->grads, &nranges);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        bool mine = k < nranges && strcmp(r[k].name, p[i].name) == 0 && r[k].first >= p[i].first &&
                    r[k].first < p[i].first + p[i].n;

        for (int64_t done = 0, part; done < p[i].n && rc == FR_OK; done += part) {
            part = p[i].n - done < x->most ? p[i].n - done : x->most;
            rc = take(x, p[i].name, p[i].first + done, part, mine ? &r[k] : NULL, err);
        }
        k += mine;
    }
    if (rc == FR_OK && k < nranges)
        rc = fr_fail(err, FR_BUG, "%s is not among what was read", r[k].name);
    return rc == FR_OK ? tr_optim_round(x->o, err) : rc;
}

enum fr_rc tr_import_model(const char *dir, bool adapter, struct tr_optim *o, struct fr_err *err)
{
    int64_t room = (int64_t)tr_view_bytes(tr_grads_room(o->grads));
    struct reading x = {.o = o,
                        .adapter = adapter,
                        .type = TR_F32,
                        .room = room < PIECE_BYTES ? room : PIECE_BYTES};
    enum fr_rc rc;

    rc = open_folder(&x, dir, err);
    if (rc == FR_OK)
        rc = take_all(&x, err);
    tr_st_close(x.st);
    fr_sys.free(x.host);
    return rc;
}
