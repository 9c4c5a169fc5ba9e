#include "trainer/foreign/adam.h"

#include <math.h>
#include <string.h>

static const char *const moments[TR_ADAM_MOMENTS] = {"exp_avg", "exp_avg_sq"};

double tr_adam_real(const struct tr_pv *v)
{
    if (v != NULL && v->kind == TR_PV_INT)
        return (double)v->number;
    return v != NULL && v->kind == TR_PV_FLOAT ? v->real : NAN;
}

static bool is_true(const struct tr_pv *v)
{
    return v != NULL && v->kind == TR_PV_BOOL && v->number != 0;
}

/* ---- groups ---- */

static enum fr_rc check_options(const struct tr_adam *a, const struct tr_pv *g, double decay,
                                struct fr_err *err)
{
    static const char *const refused[] = {"amsgrad", "maximize"};
    const struct tr_pv *apart = tr_pv_get(g, "decoupled_weight_decay", SIZE_MAX);

    for (size_t i = 0; i < 2; i++)
        if (is_true(tr_pv_get(g, refused[i], SIZE_MAX)))
            return fr_fail(err, FR_UNSUPPORTED, "%s is of an optimizer with %s, which is not done",
                           a->f->path, refused[i]);
    if (apart != NULL && !is_true(apart) && decay > 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s is of Adam with weight decay in the gradient: AdamW alone is done",
                       a->f->path);
    return FR_OK;
}

static enum fr_rc read_group(const struct tr_adam *a, const struct tr_pv *g,
                             struct tr_adam_group *out, struct fr_err *err)
{
    const struct tr_pv *betas = tr_pv_get(g, "betas", SIZE_MAX);
    const struct tr_pv *steps = tr_pv_get(g, "step", SIZE_MAX);
    bool two =
        betas != NULL && betas->n == 2 && (betas->kind == TR_PV_TUPLE || betas->kind == TR_PV_LIST);

    *out = (struct tr_adam_group){
        .lr = tr_adam_real(tr_pv_get(g, "lr", SIZE_MAX)),
        .initial_lr = tr_adam_real(tr_pv_get(g, "initial_lr", SIZE_MAX)),
        .beta1 = two ? tr_adam_real(betas->items[0]) : NAN,
        .beta2 = two ? tr_adam_real(betas->items[1]) : NAN,
        .eps = tr_adam_real(tr_pv_get(g, "eps", SIZE_MAX)),
        .weight_decay = tr_adam_real(tr_pv_get(g, "weight_decay", SIZE_MAX)),
        .steps = steps != NULL && steps->kind == TR_PV_INT ? steps->number : -1,
        .params = tr_pv_get(g, "params", SIZE_MAX)};
    if (out->params == NULL || out->params->kind != TR_PV_LIST)
        return fr_fail(err, FR_CORRUPT, "%s: a group of parameters has no list 'params'",
                       a->f->path);
    for (size_t i = 0; i < out->params->n; i++)
        if (out->params->items[i]->kind != TR_PV_INT)
            return fr_fail(err, FR_CORRUPT, "%s: a parameter of 'params' has no number",
                           a->f->path);
    return check_options(a, g, out->weight_decay, err);
}

static enum fr_rc no_state(const struct tr_torch_file *f, struct fr_err *err)
{
    return fr_fail(err, FR_CORRUPT,
                   "%s has no 'state' and 'param_groups': it is no state of an optimizer", f->path);
}

enum fr_rc tr_adam_groups(struct tr_torch_file *f, const struct tr_pv *groups, struct tr_adam *out,
                          struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *out = (struct tr_adam){.f = f};
    if (groups == NULL || groups->kind != TR_PV_LIST || groups->n == 0)
        return no_state(f, err);
    if ((out->groups = fr_arena_array(&f->arena, groups->n + 1, sizeof(*out->groups))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read %s", f->path);
    for (; out->n < groups->n && rc == FR_OK; out->n++)
        rc = read_group(out, groups->items[out->n], &out->groups[out->n], err);
    return rc;
}

enum fr_rc tr_adam_read(struct tr_torch_file *f, const struct tr_pv *dict, struct tr_adam *out,
                        struct fr_err *err)
{
    enum fr_rc rc = tr_adam_groups(f, tr_pv_get(dict, "param_groups", SIZE_MAX), out, err);

    out->state = tr_pv_get(dict, "state", SIZE_MAX);
    if (rc == FR_OK && (out->state == NULL || out->state->kind != TR_PV_DICT))
        rc = no_state(f, err);
    return rc;
}

/* ---- one parameter ---- */

/* Numbers mostly follow each other. */
static const struct tr_pv *state_of(const struct tr_adam *a, int64_t k)
{
    const struct tr_pv *d = a->state;

    if (k >= 0 && (uint64_t)k < d->n / 2 && d->items[2 * k]->kind == TR_PV_INT &&
        d->items[2 * k]->number == k)
        return d->items[2 * k + 1];
    for (size_t i = 0; i + 1 < d->n; i += 2)
        if (d->items[i]->kind == TR_PV_INT && d->items[i]->number == k)
            return d->items[i + 1];
    return NULL;
}

/* Another optimizer is known by its keys. */
static enum fr_rc other_keys(const struct tr_adam *a, const struct tr_pv *state, struct fr_err *err)
{
    struct fr_buf keys = {0};

    for (size_t i = 0; i + 1 < state->n && keys.n < 200; i += 2)
        if (state->items[i]->kind == TR_PV_TEXT)
            fr_buf_fmt(&keys, "%s%.40s", keys.n > 0 ? ", " : "", state->items[i]->text.p);
    (void)fr_fail(err, FR_UNSUPPORTED,
                  "%s is of another optimizer than AdamW with f32 moments: it keeps %s, not "
                  "exp_avg and exp_avg_sq",
                  a->f->path, keys.n > 0 ? keys.p : "nothing");
    fr_buf_finish(&keys);
    return FR_UNSUPPORTED;
}

enum fr_rc tr_adam_run(const struct tr_adam *a, int64_t k, enum tr_adam_moment m,
                       struct tr_run *out, const struct tr_pv **tensor, struct fr_err *err)
{
    const struct tr_pv *state = state_of(a, k), *found;
    enum fr_rc rc;

    if (state == NULL || state->kind != TR_PV_DICT)
        return fr_fail(err, FR_CORRUPT, "%s has no state of parameter %lld", a->f->path,
                       (long long)k);
    found = tr_pv_get(state, moments[m], SIZE_MAX);
    if (found == NULL || tr_pv_get(state, "max_exp_avg_sq", SIZE_MAX) != NULL)
        return other_keys(a, state, err);
    if (found->kind != TR_PV_TENSOR)
        return fr_fail(err, FR_CORRUPT, "%s: %s of parameter %lld is no tensor", a->f->path,
                       moments[m], (long long)k);
    if ((rc = tr_torch_run(a->f, found, out, err)) != FR_OK)
        return rc;
    if (tensor != NULL)
        *tensor = found;
    return out->type == TR_ST_F32
               ? FR_OK
               : fr_fail(err, FR_UNSUPPORTED,
                         "%s: %s of parameter %lld is %s, expected F32: moments of other types "
                         "are not taken over",
                         a->f->path, moments[m], (long long)k, tr_st_type_name(out->type));
}

/* The value of a tensor of one element. */
static enum fr_rc scalar(const struct tr_torch_file *f, const struct tr_pv *tensor, double *out,
                         struct fr_err *err)
{
    union {
        float f32;
        double f64;
        int64_t i64;
        int32_t i32;
    } x = {.i64 = 0};
    struct tr_run run;
    enum fr_rc rc = tr_torch_run(f, tensor, &run, err);

    *out = NAN;
    if (rc != FR_OK || run.n != 1)
        return rc;
    rc = tr_zip_read(f->zip, run.at, &x, tr_st_type_bits(run.type) / 8, err);
    if (rc == FR_OK)
        *out = run.type == TR_ST_F32   ? (double)x.f32
               : run.type == TR_ST_F64 ? x.f64
               : run.type == TR_ST_I64 ? (double)x.i64
               : run.type == TR_ST_I32 ? (double)x.i32
                                       : NAN;
    return rc;
}

enum fr_rc tr_adam_count(const struct tr_torch_file *f, const struct tr_pv *v, int64_t *out,
                         struct fr_err *err)
{
    double value = tr_adam_real(v);
    enum fr_rc rc = FR_OK;

    if (v != NULL && v->kind == TR_PV_TENSOR)
        rc = scalar(f, v, &value, err);
    if (rc == FR_OK && !(value >= 0 && value < 1e15))
        rc = fr_fail(err, FR_CORRUPT, "%s says no number of steps of the optimizer", f->path);
    *out = rc == FR_OK ? (int64_t)value : 0;
    return rc;
}

enum fr_rc tr_adam_steps(const struct tr_adam *a, const struct tr_adam_group *g, int64_t k,
                         int64_t *out, struct fr_err *err)
{
    const struct tr_pv *own = tr_pv_get(state_of(a, k), "step", SIZE_MAX);

    *out = g->steps;
    return own == NULL && g->steps >= 0 ? FR_OK : tr_adam_count(a->f, own, out, err);
}
