/* Masters and moments of trained weights, wherever they are. */
#include "trainer/optim/disk.h"
#include "trainer/optim/optim_private.h"

static const struct tr_view *state_of(const struct tr_optim *o, int state)
{
    return state == TR_OPTIM_MASTER ? &o->weights.master
           : state == TR_OPTIM_M    ? &o->weights.m
                                    : &o->weights.v;
}

/* Elements of s->state from s->at on, as many as lie together; in memory all do. */
static enum fr_rc span(struct tr_optim *o, struct tr_disk_span *s, int64_t n, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

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
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}
