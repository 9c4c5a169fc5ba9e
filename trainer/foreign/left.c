#include "trainer/foreign/left.h"

#include "engine/base/sys.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    const struct tr_left_param *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static enum fr_rc start(const struct tr_left_opts *o, struct tr_left *l, struct fr_err *err)
{
    l->o = *o;
    l->step = -1;
    l->params = fr_arena_array(&l->arena, o->n + 1, sizeof(*l->params));
    l->named = fr_arena_array(&l->arena, o->n + 1, sizeof(struct tr_left_param *));
    if (l->params == NULL || l->named == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu parameters", o->n);
    memset(l->params, 0, (o->n + 1) * sizeof(*l->params));
    for (size_t i = 0; i < o->n; i++) {
        l->params[i].name = o->wants[i].name;
        l->named[i] = &l->params[i];
    }
    if (o->n > 0)
        qsort(l->named, o->n, sizeof(*l->named), by_name);
    return FR_OK;
}

struct tr_left_param *tr_left_find(const struct tr_left *l, const char *name)
{
    const struct tr_left_param want = {.name = name}, *key = &want;
    struct tr_left_param **found =
        l->o.n > 0 ? bsearch(&key, l->named, l->o.n, sizeof(*l->named), by_name) : NULL;

    return found != NULL ? *found : NULL;
}

static bool same_shape(const struct tr_left_want *w, int ndim, const int64_t *shape)
{
    return ndim == w->ndim && memcmp(shape, w->shape, (size_t)ndim * sizeof(*shape)) == 0;
}

/* where: a file, or a folder. */
static enum fr_rc other_shape(const struct tr_left_want *w, const char *where, int ndim,
                              const int64_t *shape, struct fr_err *err)
{
    struct fr_buf there = {0}, here = {0};

    tr_st_shape_text(&there, ndim, shape);
    tr_st_shape_text(&here, w->ndim, w->shape);
    (void)fr_fail(err, FR_SHAPE, "%s has %s as %s, --model_name_or_path as %s: another model",
                  where, w->name, there.p, here.p);
    fr_buf_finish(&there);
    fr_buf_finish(&here);
    return FR_SHAPE;
}

/* ---- DeepSpeed ---- */

static enum fr_rc take_tensor(struct tr_left *l, size_t i, const struct tr_ds_optim *optim,
                              struct fr_err *err)
{
    const struct tr_ds_tensor *t = tr_ds_at(l->ds, i);
    struct tr_left_param *p = tr_left_find(l, t->name);
    const struct tr_left_want *w = p != NULL ? &l->o.wants[p - l->params] : NULL;

    if (w == NULL)
        return fr_fail(err, FR_USAGE,
                       "%s has moments of %s, which does not train here: it is of another model, "
                       "or of a run that trains other weights",
                       l->o.dir, t->name);
    if (!same_shape(w, t->ndim, t->shape))
        return other_shape(w, l->o.dir, t->ndim, t->shape, err);
    if (t->type != TR_ST_F32)
        return fr_fail(err, FR_UNSUPPORTED, "%s has the master of %s as %s, expected F32", l->o.dir,
                       t->name, tr_st_type_name(t->type));
    if (t->group >= optim->n)
        return fr_fail(err, FR_CORRUPT, "%s: %s is of group %zu of %zu", l->o.dir, t->name,
                       t->group, optim->n);
    p->group = &optim->groups[t->group];
    p->states[TR_LEFT_MASTER] = t->runs;
    p->states[TR_LEFT_M] = tr_ds_moment(l->ds, i, TR_ADAM_M)->runs;
    p->states[TR_LEFT_V] = tr_ds_moment(l->ds, i, TR_ADAM_V)->runs;
    return FR_OK;
}

static enum fr_rc take_tensors(struct tr_left *l, const struct tr_ds_optim *optim,
                               struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < tr_ds_count(l->ds) && rc == FR_OK; i++) {
        const struct tr_ds_tensor *t = tr_ds_at(l->ds, i);

        if (fr_has_prefix(t->name, "base_model.model."))
            return fr_fail(err, FR_USAGE,
                           "%s is of a run with adapters of PEFT: such states are not taken over",
                           l->o.dir);
        if (t->part == TR_DS_TRAINED && t->same_as == NULL)
            rc = take_tensor(l, i, optim, err);
    }
    for (size_t k = 0; k < l->o.n && rc == FR_OK; k++)
        if (l->params[k].group == NULL)
            rc = fr_fail(err, FR_USAGE,
                         "%s has no moments of %s, which trains here: it is of another model (one "
                         "whose experts lie together in one tensor, as transformers 5 has them, "
                         "counts as such), or of a run that trains other weights",
                         l->o.dir, l->params[k].name);
    return rc;
}

enum fr_rc tr_left_open_deepspeed(const struct tr_left_opts *o, struct tr_left *out,
                                  struct fr_err *err)
{
    struct tr_ds_optim optim = {.n = 0};
    enum fr_rc rc = start(o, out, err);

    if (rc == FR_OK)
        rc = tr_ds_open(o->dir, false, &out->ds, err);
    if (rc == FR_OK)
        rc = tr_ds_open_optim(out->ds, &optim, err);
    if (rc == FR_OK)
        rc = take_tensors(out, &optim, err);
    if (rc != FR_OK)
        return rc;
    out->what = tr_ds_what(out->ds);
    out->step = tr_ds_step(out->ds);
    out->updates = optim.steps;
    out->groups = optim.groups;
    out->n_groups = optim.n;
    return FR_OK;
}

/* ---- the Trainer of Hugging Face ---- */

/* In which of the groups parameters are, and where. */
struct numbering {
    const struct tr_adam *adam;
    const struct tr_adam_group *decay, *other; /* other NULL: all are in one group */
    size_t in_decay, in_other;                 /* of them that have a parameter */
};

static enum fr_rc choose_groups(const struct tr_left *l, struct numbering *n, struct fr_err *err)
{
    size_t decay = 0, all = 0, filled = 0;
    struct fr_buf sizes = {0};

    for (size_t i = 0; i < l->o.n; i++)
        decay += l->o.wants[i].decays;
    for (size_t g = 0; g < n->adam->n; g++) {
        const struct tr_adam_group *group = &n->adam->groups[g];

        all += group->params->n;
        fr_buf_fmt(&sizes, "%s%zu", g > 0 ? " and " : "", group->params->n);
        if (group->params->n == 0)
            continue;
        if (filled++ == 0)
            n->decay = group;
        else
            n->other = group;
    }
    bool good =
        all == l->o.n && filled <= 2 &&
        (filled < 2 || (n->decay->params->n == decay && n->other->params->n == all - decay));
    if (!good)
        (void)fr_fail(err, FR_USAGE,
                      "%s has groups of %s parameters, expected %zu that decay and %zu that do "
                      "not: it is of another model, or of a run that trains other weights",
                      l->optim_path, sizes.p != NULL ? sizes.p : "no", decay, l->o.n - decay);
    fr_buf_finish(&sizes);
    return good ? FR_OK : FR_USAGE;
}

static enum fr_rc take_moment(struct tr_left *l, const struct tr_adam *adam, int64_t number,
                              size_t i, enum tr_adam_moment m, struct fr_err *err)
{
    struct tr_run *run = fr_arena_alloc(&l->arena, sizeof(*run));
    const struct tr_left_want *w = &l->o.wants[i];
    const struct tr_pv *tensor;
    enum fr_rc rc;

    if (run == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu parameters", l->o.n);
    if ((rc = tr_adam_run(adam, number, m, run, &tensor, err)) != FR_OK)
        return rc;
    if (!same_shape(w, tensor->tensor->ndim, tensor->tensor->shape))
        return other_shape(w, l->optim_path, tensor->tensor->ndim, tensor->tensor->shape, err);
    l->params[i].states[TR_LEFT_M + m] = (struct tr_runs){run, 1};
    return FR_OK;
}

static enum fr_rc take_numbers(struct tr_left *l, const struct tr_adam *adam, struct fr_err *err)
{
    struct numbering n = {.adam = adam};
    enum fr_rc rc = choose_groups(l, &n, err);

    for (size_t i = 0; i < l->o.n && rc == FR_OK; i++) {
        bool first = n.other == NULL || l->o.wants[i].decays;
        const struct tr_adam_group *g = first ? n.decay : n.other;
        size_t at = first ? n.in_decay++ : n.in_other++;
        int64_t number = g->params->items[at]->number;

        l->params[i].group = g;
        for (int m = 0; m < TR_ADAM_MOMENTS && rc == FR_OK; m++)
            rc = take_moment(l, adam, number, i, (enum tr_adam_moment)m, err);
        if (rc == FR_OK && i == 0)
            rc = tr_adam_steps(adam, g, number, &l->updates, err);
    }
    return rc;
}

/* The files of the weights hold what trains as it is: f32. */
static enum fr_rc take_masters(struct tr_left *l, struct fr_err *err)
{
    for (size_t i = 0; i < l->o.n; i++) {
        const struct tr_left_want *w = &l->o.wants[i];
        const struct tr_st_tensor *t = tr_st_find(l->o.st, w->name);

        if (t == NULL)
            return fr_fail(err, FR_USAGE, "%s has no weights %s: it is of another model", l->o.dir,
                           w->name);
        if (!same_shape(w, t->ndim, t->shape))
            return other_shape(w, l->o.dir, t->ndim, t->shape, err);
        if (t->type != TR_ST_F32)
            return fr_fail(err, FR_UNSUPPORTED,
                           "%s/%s has %s as %s, expected F32: it was trained in that type, or "
                           "rounded when it was saved",
                           l->o.dir, tr_st_file_name(l->o.st, (size_t)t->file), w->name,
                           tr_st_type_name(t->type));
        l->params[i].master = t;
    }
    return FR_OK;
}

enum fr_rc tr_left_open_trainer(const struct tr_left_opts *o, struct tr_left *out,
                                struct fr_err *err)
{
    struct tr_adam adam = {.n = 0};
    enum fr_rc rc = start(o, out, err);

    if (rc != FR_OK)
        return rc;
    out->what = "the Hugging Face Trainer";
    if ((out->optim_path = fr_arena_fmt(&out->arena, "%s/optimizer.pt", o->dir)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read %s", o->dir);
    rc = tr_torch_open(&out->optim, out->optim_path, err);
    if (rc == FR_OK)
        rc = tr_adam_read(&out->optim, out->optim.root, &adam, err);
    if (rc == FR_OK)
        rc = take_numbers(out, &adam, err);
    if (rc == FR_OK)
        rc = take_masters(out, err);
    out->groups = adam.groups;
    out->n_groups = adam.n;
    return rc;
}

enum fr_rc tr_left_schedule(const char *dir, int64_t *steps, struct fr_err *err)
{
    struct tr_torch_file f = {0};
    struct fr_buf path = {0};
    enum fr_rc rc;

    fr_buf_fmt(&path, "%s/scheduler.pt", dir);
    if (path.bad)
        return fr_fail(err, FR_NOMEM, "no memory to read %s", dir);
    if ((rc = tr_torch_open(&f, path.p, err)) == FR_OK) {
        const struct tr_pv *last = tr_pv_get(f.root, "last_epoch", SIZE_MAX);

        if (last == NULL || last->kind != TR_PV_INT || last->number < 0)
            rc = fr_fail(err, FR_CORRUPT, "%s says no number of steps (last_epoch)", path.p);
        else
            *steps = last->number;
        tr_torch_close(&f);
    }
    fr_buf_finish(&path);
    return rc;
}

/* ---- all ---- */

void tr_left_close(struct tr_left *l)
{
    tr_runs_close(&l->reading);
    tr_ds_close(l->ds);
    tr_torch_close(&l->optim);
    fr_arena_finish(&l->arena);
    *l = (struct tr_left){.n_groups = 0};
}

enum fr_rc tr_left_read(struct tr_left *l, const struct tr_left_param *p, enum tr_left_state state,
                        const int64_t range[2], float *dst, struct fr_err *err)
{
    const int64_t size = sizeof(float);
    enum fr_rc rc;

    if (state == TR_LEFT_MASTER && p->master != NULL)
        return tr_st_read(l->o.st, p->master, range[0] * size, dst, (size_t)(range[1] * size), err);
    rc = tr_runs_read(&l->reading, &p->states[state], range, dst, err);
    return rc == FR_OK ? rc : fr_while(err, "%s", p->name);
}
