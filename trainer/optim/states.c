/* Masters and moments of trained weights, wherever they are, and of adapters beside them. */
#include "trainer/optim/disk.h"
#include "trainer/optim/optim_private.h"

#include <string.h>

static const struct tr_view *state_of(const struct tr_optim *o, int state)
{
    return state == TR_OPTIM_MASTER ? &o->weights.master
           : state == TR_OPTIM_M    ? &o->weights.m
                                    : &o->weights.v;
}

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

/* Elements of s->state from s->at on, as many as lie together; in memory all do. */
static enum fr_rc span(struct tr_optim *o, struct tr_disk_span *s, int64_t n, struct fr_err *err)
{
    int64_t flat = tr_grads_flat(o->grads);
    enum fr_rc rc = FR_OK;

    if (s->at >= flat) { /* of an adapter */
        const struct tr_view *const all[] = {&o->master, &o->m, &o->v};

        s->p = (float *)all[s->state]->p + (s->at - flat);
        s->n = n;
        return FR_OK;
    }

    if (o->host.disk == NULL) {
        s->p = (float *)state_of(o, s->state)->p + s->at;
        s->n = n;
        return FR_OK;
    }
    if (!s->write && tr_disk_is_new(o->host.disk))
        rc = optim_host_fill(o, err);
    if (rc == FR_OK)
        rc = tr_disk_span(o->host.disk, s, err);
    s->n = s->n < n ? s->n : n;
    return rc;
}

enum fr_rc tr_optim_read(struct tr_optim *o, const struct tr_optim_part *p, float *to,
                         struct fr_err *err)
{
    struct tr_disk_span s = {.state = (int)p->what, .at = p->at};
    enum fr_rc rc = FR_OK;

    for (int64_t done = 0; done < p->n && rc == FR_OK; done += s.n) {
        s.at = p->at + done;
        rc = span(o, &s, p->n - done, err);
        if (rc == FR_OK)
            rc = tr_copy(o->be, o->q, to + done, s.p, (size_t)s.n * sizeof(float));
        if (rc == FR_OK)
            rc = tr_sync(o->be, o->q, err);
    }
    return rc;
}

enum fr_rc tr_optim_write(struct tr_optim *o, const struct tr_optim_part *p, struct tr_view from,
                          struct fr_err *err)
{
    struct tr_disk_span s = {.state = (int)p->what, .write = true};
    enum fr_rc rc = FR_OK;

    for (int64_t done = 0; done < p->n && rc == FR_OK; done += s.n) {
        struct tr_cast widen = {.y = {.p = NULL}};

        s.at = p->at + done;
        if ((rc = span(o, &s, p->n - done, err)) != FR_OK)
            break;
        widen = (struct tr_cast){tr_view1(s.p, TR_F32, s.n), optim_part(from, done, s.n)};
        rc = from.dtype == TR_F32
                 ? tr_copy(o->be, o->q, s.p, widen.x.p, (size_t)s.n * sizeof(float))
                 : tr_cast(o->be, o->q, &widen, err);
        if (rc == FR_OK)
            rc = tr_sync(o->be, o->q, err);
    }
    return rc;
}

enum fr_rc tr_optim_begin(struct tr_optim *o, struct fr_err *err)
{
    const struct tr_grads_range *r;
    enum fr_rc rc = FR_OK;
    size_t n = 0;

    r = o->grads != NULL && o->host.disk == NULL ? tr_grads_ranges(o->grads, &n) : NULL;
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
    struct tr_disk_span s = {.state = TR_OPTIM_MASTER};
    enum fr_rc rc = FR_OK;

    for (int64_t done = 0; done < r->n && rc == FR_OK; done += s.n) {
        s.at = r->at + done;
        if ((rc = span(o, &s, r->n - done, err)) != FR_OK)
            break;
        struct tr_cast cast = {.y = optim_part(r->weight, done, s.n),
                               .x = tr_view1(s.p, TR_F32, s.n)};

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

    r = o->grads != NULL ? tr_grads_ranges(o->grads, &n) : NULL;
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = round_range(o, &r[i], err);
    if (rc == FR_OK)
        rc = tr_grads_updated(o->grads, o->q, err);
    if (rc == FR_OK)
        rc = optim_round_adapters(o, err);
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}
