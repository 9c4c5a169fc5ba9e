#include "trainer/foreign/deepspeed_cut.h"

#include <stdlib.h>
#include <string.h>

int64_t tr_ds_number(const struct tr_pv *v)
{
    if (v != NULL && v->kind == TR_PV_OPAQUE && v->n == 1)
        v = v->items[0];
    return v != NULL && v->kind == TR_PV_INT ? v->number : -1;
}

static enum fr_rc nomem(const struct tr_ds *d, struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory to read %s", d->files.dir);
}

/* ---- one tensor ---- */

static enum fr_rc add_run(struct tr_ds *d, struct tr_run run, int64_t first, int64_t n,
                          struct fr_err *err)
{
    void *grown;

    if (n <= 0)
        return FR_OK;
    if ((grown = fr_grow(d->runs, d->nruns + 1, &d->runs_cap, sizeof(*d->runs))) == NULL)
        return nomem(d, err);
    d->runs = grown;
    run.at += first * (int64_t)(tr_st_type_bits(run.type) / 8);
    run.n = n;
    d->runs[d->nruns++] = run;
    return FR_OK;
}

/* Elements [first, first+n) of n_flats groups one behind the other, with step flats between. */
static enum fr_rc add_range(struct tr_ds *d, const struct tr_run *flats, size_t step,
                            size_t n_flats, const int64_t range[2], struct fr_err *err)
{
    int64_t at = 0, first = range[0], end = range[0] + range[1];
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < n_flats && at < end && rc == FR_OK; i++) {
        const struct tr_run *run = &flats[i * step];
        int64_t from = first > at ? first : at, to = end < at + run->n ? end : at + run->n;

        rc = add_run(d, *run, from - at, to - from, err);
        at += run->n;
    }
    return rc;
}

/* The elements of a shape, a tuple of numbers. */
static enum fr_rc count_of(const struct tr_torch_file *f, const struct tr_ds_tensor *t,
                           const struct tr_pv *shape, int64_t *count, struct fr_err *err)
{
    bool good = shape->kind == TR_PV_TUPLE && shape->n <= TR_ST_DIMS;

    *count = 1;
    for (size_t i = 0; good && i < shape->n; i++)
        good = shape->items[i]->kind == TR_PV_INT && shape->items[i]->number >= 0 &&
               !__builtin_mul_overflow(*count, shape->items[i]->number, count) &&
               *count < INT64_MAX / 64;
    return good ? FR_OK : fr_fail(err, FR_CORRUPT, "%s: the shape of %s is none", f->path, t->name);
}

/* A further tensor, of the runs that were added since the last. */
static enum fr_rc finish(struct tr_ds *d, const struct tr_ds_tensor *like,
                         const struct tr_pv *shape, struct fr_err *err)
{
    struct tr_ds_list *to = d->to;
    void *grown = fr_grow(to->p, to->n + 1, &to->cap, sizeof(*to->p));
    struct tr_run *runs = fr_arena_array(&d->arena, d->nruns + 1, sizeof(*runs));
    int64_t have = 0;
    struct tr_ds_tensor *t;

    if (grown == NULL || runs == NULL)
        return nomem(d, err);
    to->p = grown;
    t = &to->p[to->n];
    *t = *like;
    t->elements = 1;
    t->ndim = (int)shape->n;
    for (int i = 0; i < t->ndim; i++)
        t->elements *= t->shape[i] = shape->items[i]->number;
    t->type = d->nruns > 0 ? d->runs[0].type : TR_ST_F32;
    for (size_t i = 0; i < d->nruns; i++) {
        if (d->runs[i].type != t->type)
            return fr_fail(err, FR_CORRUPT, "%s: %s is %s there, %s in %s", d->runs[i].path,
                           t->name, tr_st_type_name(d->runs[i].type), tr_st_type_name(t->type),
                           d->runs[0].path);
        runs[i] = d->runs[i];
        have += runs[i].n;
    }
    if (have != t->elements)
        return fr_fail(err, FR_CORRUPT, "%s: %s has %lld elements, its shape has %lld",
                       d->nruns > 0 ? d->runs[0].path : d->files.dir, t->name, (long long)have,
                       (long long)t->elements);
    t->runs = (struct tr_runs){runs, d->nruns};
    d->nruns = 0;
    to->n++;
    return FR_OK;
}

static enum fr_rc name_of(const struct tr_torch_file *f, const struct tr_pv *key, const char **name,
                          struct fr_err *err)
{
    if (key->kind != TR_PV_TEXT || key->text.n == 0 || strlen(key->text.p) != key->text.n ||
        !fr_utf8_valid(key->text.p, key->text.n))
        return fr_fail(err, FR_CORRUPT, "%s: a parameter without a name", f->path);
    *name = key->text.p;
    return FR_OK;
}

/* ---- tensors of the model's files ---- */

static const struct tr_pv *shape_of(struct tr_ds *d, const struct tr_pv *tensor)
{
    const struct tr_pv_tensor *t = tensor->tensor;
    struct tr_pv *shape = fr_arena_alloc(&d->arena, sizeof(*shape));
    struct tr_pv *sizes = fr_arena_array(&d->arena, (size_t)t->ndim + 1, sizeof(*sizes));

    if (shape == NULL || sizes == NULL ||
        (shape->items = fr_arena_array(&d->arena, (size_t)t->ndim + 1, sizeof(*shape->items))) ==
            NULL)
        return NULL;
    shape->kind = TR_PV_TUPLE;
    shape->n = (size_t)t->ndim;
    for (int i = 0; i < t->ndim; i++) {
        sizes[i] = (struct tr_pv){.kind = TR_PV_INT, .number = t->shape[i]};
        shape->items[i] = &sizes[i];
    }
    return shape;
}

/* A whole tensor of the module. */
static enum fr_rc add_whole(struct tr_ds *d, const struct tr_pv *key, const struct tr_pv *tensor,
                            enum tr_ds_part part, struct fr_err *err)
{
    struct tr_ds_tensor t = {.part = part};
    const struct tr_pv *shape;
    struct tr_run run;
    enum fr_rc rc = name_of(d->model, key, &t.name, err);

    if (rc != FR_OK)
        return rc;
    if (tensor == NULL || tensor->kind != TR_PV_TENSOR)
        return fr_fail(err, FR_CORRUPT, "%s: %s is no tensor", d->model->path, t.name);
    if ((rc = tr_torch_run(d->model, tensor, &run, err)) != FR_OK)
        return rc;
    if ((shape = shape_of(d, tensor)) == NULL)
        return nomem(d, err);
    if ((rc = add_run(d, run, 0, run.n, err)) != FR_OK)
        return rc;
    if ((rc = finish(d, &t, shape, err)) == FR_OK)
        d->to->p[d->to->n - 1].type = run.type;
    return rc;
}

/* Whether a list has the name, or a dict this key. */
static bool has_name(const struct tr_pv *names, const struct tr_pv *key)
{
    size_t step = names != NULL && names->kind == TR_PV_DICT ? 2 : 1;

    for (size_t i = 0; names != NULL && i < names->n; i += step)
        if (names->items[i]->kind == TR_PV_TEXT && key->kind == TR_PV_TEXT &&
            fr_str_eq(names->items[i]->text, key->text))
            return true;
    return false;
}

/* Stage 1 does not say which parameters are frozen: what the module has beside the trained ones.
 * zero_to_fp32.py leaves them out. A tied name is one of them until cut_tied. */
static bool is_untold(const struct tr_ds *d, const struct tr_pv *key)
{
    const struct tr_pv *root = d->model->root, *shapes = tr_pv_get(root, "param_shapes", SIZE_MAX);
    const struct tr_pv *frozen = tr_pv_get(root, "frozen_param_shapes", SIZE_MAX);

    if (d->stage > 2 || (d->stage == 0 && !d->files.universal) || key->kind != TR_PV_TEXT ||
        (frozen != NULL && frozen->kind == TR_PV_DICT) || shapes == NULL ||
        shapes->kind != TR_PV_LIST)
        return false;
    for (size_t g = 0; g < shapes->n; g++)
        if (has_name(shapes->items[g], key))
            return false;
    return true;
}

/* Buffers; of stage 0 all tensors of the module, of stage 1 frozen parameters. */
static enum fr_rc cut_module(struct tr_ds *d, struct fr_err *err)
{
    const struct tr_pv *module = tr_pv_get(d->model->root, "module", SIZE_MAX);
    const struct tr_pv *names = tr_pv_get(d->model->root, "buffer_names", SIZE_MAX);
    enum fr_rc rc = FR_OK;

    if (module == NULL || module->kind != TR_PV_DICT || names == NULL || names->kind != TR_PV_LIST)
        return fr_fail(err, FR_CORRUPT, "%s has no module and buffer_names", d->model->path);
    for (size_t i = 0; i + 1 < module->n && rc == FR_OK; i += 2) {
        const struct tr_pv *name = module->items[i], *tensor = module->items[i + 1];

        if (has_name(names, name))
            rc = add_whole(d, name, tensor, TR_DS_BUFFER, err);
        else if (d->stage == 0 && !d->files.universal)
            rc = add_whole(d, name, tensor, TR_DS_TRAINED, err);
        else if (is_untold(d, name))
            rc = add_whole(d, name, tensor, TR_DS_FROZEN, err);
    }
    return rc;
}

/* One frozen parameter: of stage 3 each rank has a fragment, else one is whole. */
static enum fr_rc cut_frozen(struct tr_ds *d, const struct tr_pv *shapes, size_t k,
                             struct fr_err *err)
{
    struct tr_ds_tensor t = {.part = TR_DS_FROZEN};
    int64_t left = 0;
    enum fr_rc rc = name_of(d->model, shapes->items[2 * k], &t.name, err);

    if (rc == FR_OK)
        rc = count_of(d->model, &t, shapes->items[2 * k + 1], &left, err);
    for (size_t r = 0; r < d->files.nmodel && rc == FR_OK && left > 0; r++) {
        const struct tr_torch_file *f = &d->model[r];
        const struct tr_pv *all = tr_pv_get(f->root, "frozen_param_fragments", SIZE_MAX);
        const struct tr_pv *part = tr_pv_get(all, t.name, k);
        struct tr_run run;

        if (part == NULL || part->kind != TR_PV_TENSOR)
            return fr_fail(err, FR_CORRUPT, "%s: its frozen_param_fragments lack %s", f->path,
                           t.name);
        if ((rc = tr_torch_run(f, part, &run, err)) == FR_OK)
            rc = add_run(d, run, 0, run.n < left ? run.n : left, err);
        left -= run.n < left ? run.n : left;
    }
    return rc == FR_OK ? finish(d, &t, shapes->items[2 * k + 1], err) : rc;
}

/* ---- trained parameters ---- */

static int64_t up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* Stages 1, 2: all ranks' parts of a group one behind the other hold its parameters. */
static enum fr_rc cut_group(struct tr_ds *d, const struct tr_pv *shapes, size_t g,
                            struct fr_err *err)
{
    const struct tr_pv *pads = tr_pv_get(tr_pv_get(d->optim.root, "optimizer_state_dict", SIZE_MAX),
                                         "param_alignment_paddings", SIZE_MAX);
    int64_t at = 0, have = 0, n = 0, step = 2 * (int64_t)d->files.noptim;
    enum fr_rc rc = FR_OK;

    pads = pads != NULL && pads->kind == TR_PV_LIST && g < pads->n ? pads->items[g] : NULL;
    for (size_t r = 0; r < d->files.noptim; r++)
        have += d->flats[r * d->groups + g].n;
    for (size_t k = 0; 2 * k < shapes->n && rc == FR_OK; k++) {
        struct tr_ds_tensor t = {.part = TR_DS_TRAINED, .group = g};

        if ((rc = name_of(d->model, shapes->items[2 * k], &t.name, err)) != FR_OK ||
            (rc = count_of(d->model, &t, shapes->items[2 * k + 1], &n, err)) != FR_OK)
            return rc;
        if (n > have - at)
            return fr_fail(err, FR_CORRUPT,
                           "%s: %s ends at element %lld of group %zu, the %zu ranks have %lld",
                           d->files.dir, t.name, (long long)(at + n), g, d->files.noptim,
                           (long long)have);
        rc = add_range(d, d->flats + g, d->groups, d->files.noptim, (int64_t[]){at, n}, err);
        if (rc == FR_OK)
            rc = finish(d, &t, shapes->items[2 * k + 1], err);
        at += n;
        if (pads != NULL && pads->kind == TR_PV_LIST && k < pads->n &&
            (n = tr_ds_number(pads->items[k])) > 0)
            at += n < have - at ? n : have - at;
    }
    if (rc == FR_OK && up(at, step) != up(have, step))
        rc = fr_fail(err, FR_CORRUPT,
                     "%s: the %zu ranks have %lld elements of group %zu, its parameters have %lld",
                     d->files.dir, d->files.noptim, (long long)have, g, (long long)at);
    return rc;
}

/* Stage 3: elements of one rank. */
static int64_t elements_of(const struct tr_ds *d)
{
    int64_t n = 0;

    for (size_t g = 0; g < d->groups; g++)
        n += d->flats[g].n;
    return n;
}

/* Stage 3: of each parameter of n elements every rank has ceil(n / ranks); *at: where, in a rank */
static enum fr_rc cut_shared(struct tr_ds *d, const struct tr_pv *shapes, size_t g, int64_t *at,
                             struct fr_err *err)
{
    int64_t ranks = (int64_t)d->files.noptim, n = 0, have = elements_of(d);
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; 2 * k < shapes->n && rc == FR_OK; k++) {
        struct tr_ds_tensor t = {.part = TR_DS_TRAINED, .group = g};

        if ((rc = name_of(d->model, shapes->items[2 * k], &t.name, err)) != FR_OK ||
            (rc = count_of(d->model, &t, shapes->items[2 * k + 1], &n, err)) != FR_OK)
            return rc;
        int64_t part = (n + ranks - 1) / ranks;

        if (part > have - *at)
            return fr_fail(err, FR_CORRUPT,
                           "%s: %s ends at element %lld of each rank's fp32_flat_groups, which "
                           "have %lld",
                           d->files.dir, t.name, (long long)(*at + part), (long long)have);
        for (int64_t r = 0; r < ranks && rc == FR_OK; r++) {
            int64_t left = n - r * part, mine = left < part ? left : part;

            rc = add_range(d, d->flats + (size_t)r * d->groups, 1, d->groups,
                           (int64_t[]){*at, mine > 0 ? mine : 0}, err);
        }
        if (rc == FR_OK)
            rc = finish(d, &t, shapes->items[2 * k + 1], err);
        *at += part;
    }
    return rc;
}

/* Universal: a file a parameter. */
static enum fr_rc cut_files(struct tr_ds *d, const struct tr_pv *shapes, size_t g,
                            struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    int64_t n;

    for (size_t k = 0; 2 * k < shapes->n && rc == FR_OK; k++) {
        struct tr_ds_tensor t = {.part = TR_DS_TRAINED, .group = g};
        struct tr_torch_file f = {.check = d->check};
        const struct tr_pv *param;
        struct tr_run run;
        const char *path;

        if ((rc = name_of(d->model, shapes->items[2 * k], &t.name, err)) != FR_OK ||
            (rc = count_of(d->model, &t, shapes->items[2 * k + 1], &n, err)) != FR_OK)
            return rc;
        if (strchr(t.name, '/') != NULL || t.name[0] == '.')
            return fr_fail(err, FR_CORRUPT, "%s: parameter '%s' names no folder", d->model->path,
                           t.name);
        path = fr_arena_fmt(&d->arena, "%s/zero/%s/%s", d->files.dir, t.name, d->file);
        if (path == NULL)
            return nomem(d, err);
        if ((rc = tr_torch_open(&f, path, err)) != FR_OK)
            return rc;
        /* of stage 3 the file is the tensor itself, flat */
        param = f.root->kind == TR_PV_TENSOR ? f.root : tr_pv_get(f.root, "param", SIZE_MAX);
        if (param == NULL || param->kind != TR_PV_TENSOR)
            rc = fr_fail(err, FR_CORRUPT, "%s has no tensor 'param'", path);
        if (rc == FR_OK && (rc = tr_torch_run(&f, param, &run, err)) == FR_OK)
            rc = add_run(d, run, 0, run.n, err);
        if (rc == FR_OK)
            rc = finish(d, &t, shapes->items[2 * k + 1], err);
        tr_torch_close(&f);
    }
    return rc;
}

enum fr_rc tr_ds_cut_trained(struct tr_ds *d, struct fr_err *err)
{
    const struct tr_pv *groups = tr_pv_get(d->model->root, "param_shapes", SIZE_MAX);
    int64_t at = 0;
    enum fr_rc rc = FR_OK;

    if (groups == NULL || groups->kind != TR_PV_LIST)
        return fr_fail(err, FR_CORRUPT, "%s has no param_shapes", d->model->path);
    if (!d->files.universal && d->stage < 3 && groups->n != d->groups)
        return fr_fail(err, FR_CORRUPT, "%s has %zu groups of parameters, %s has %zu",
                       d->model->path, groups->n, d->optim.path, d->groups);
    for (size_t g = 0; g < groups->n && rc == FR_OK; g++) {
        const struct tr_pv *shapes = groups->items[g];

        if (shapes->kind != TR_PV_DICT)
            return fr_fail(err, FR_CORRUPT, "%s has no param_shapes", d->model->path);
        rc = d->files.universal ? cut_files(d, shapes, g, err)
             : d->stage == 3    ? cut_shared(d, shapes, g, &at, err)
                                : cut_group(d, shapes, g, err);
    }
    if (rc == FR_OK && !d->files.universal && d->stage == 3 && at != elements_of(d))
        rc = fr_fail(err, FR_CORRUPT,
                     "%s: its fp32_flat_groups have %lld elements, the parameters take %lld",
                     d->optim.path, (long long)elements_of(d), (long long)at);
    return rc;
}

/* ---- names ---- */

static struct tr_ds_tensor *find(struct tr_ds *d, struct fr_str name)
{
    for (size_t i = 0; i < d->tensors.n; i++)
        if (fr_str_is(name, d->tensors.p[i].name))
            return &d->tensors.p[i];
    return NULL;
}

/* Tied parameters: {name: the name that has the values}. */
static enum fr_rc cut_tied(struct tr_ds *d, struct fr_err *err)
{
    const struct tr_pv *tied = tr_pv_get(d->model->root, "shared_params", SIZE_MAX);
    struct tr_ds_tensor *t;
    const char *name;
    void *grown;
    enum fr_rc rc;

    for (size_t i = 0; tied != NULL && tied->kind == TR_PV_DICT && i + 1 < tied->n; i += 2) {
        const struct tr_pv *from = tied->items[i + 1];

        if ((rc = name_of(d->model, tied->items[i], &name, err)) != FR_OK)
            return rc;
        if (from->kind != TR_PV_TEXT || find(d, from->text) == NULL)
            continue;
        if ((t = find(d, tied->items[i]->text)) == NULL) {
            if ((grown = fr_grow(d->tensors.p, d->tensors.n + 1, &d->tensors.cap, sizeof(*t))) ==
                NULL)
                return nomem(d, err);
            d->tensors.p = grown;
            t = &d->tensors.p[d->tensors.n++];
            *t = *find(d, from->text);
            t->name = name;
        }
        t->same_as = find(d, from->text)->name;
    }
    return FR_OK;
}

static enum fr_rc check_names(struct tr_ds *d, struct fr_err *err)
{
    size_t n = d->tensors.n;
    const char **names = fr_arena_array(&d->arena, n + 1, sizeof(*names));

    if (names == NULL)
        return nomem(d, err);
    for (size_t i = 0; i < n; i++)
        names[i] = d->tensors.p[i].name;
    if (n > 0)
        qsort(names, n, sizeof(*names), fr_by_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return fr_fail(err, FR_CORRUPT, "%s has two tensors %s", d->files.dir, names[i]);
    return n > 0 ? FR_OK : fr_fail(err, FR_CORRUPT, "%s has no tensors", d->files.dir);
}

enum fr_rc tr_ds_cut(struct tr_ds *d, struct fr_err *err)
{
    const struct tr_pv *frozen = tr_pv_get(d->model->root, "frozen_param_shapes", SIZE_MAX);
    enum fr_rc rc;

    d->to = &d->tensors;
    d->file = "fp32.pt";
    rc = cut_module(d, err);
    if (frozen != NULL && frozen->kind == TR_PV_DICT && (d->stage > 0 || d->files.universal))
        for (size_t k = 0; 2 * k < frozen->n && rc == FR_OK; k++)
            rc = cut_frozen(d, frozen, k, err);
    d->trained = d->tensors.n;
    if (rc == FR_OK && (d->stage > 0 || d->files.universal))
        rc = tr_ds_cut_trained(d, err);
    if (rc == FR_OK)
        rc = cut_tied(d, err);
    return rc == FR_OK ? check_names(d, err) : rc;
}
