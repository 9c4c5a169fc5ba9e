/* Where the moments of trained parameters lie in a checkpoint of DeepSpeed: they are cut as masters
 * are. */
#include "trainer/foreign/deepspeed_cut.h"

#include <math.h>

static enum fr_rc nomem(const struct tr_ds *d, struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory to read %s", d->files.dir);
}

/* ---- of ranks ---- */

/* The state_dict() of the optimizer that ZeRO wraps. */
static enum fr_rc read_adam(const struct tr_ds *d, struct tr_torch_file *f, struct tr_adam *out,
                            struct fr_err *err)
{
    const struct tr_pv *zero = tr_pv_get(f->root, "optimizer_state_dict", SIZE_MAX);
    const char *key = d->stage == 3 ? "optimizer_state_dict" : "base_optimizer_state";
    const struct tr_pv *dict = tr_pv_get(zero, key, SIZE_MAX);

    if (dict != NULL && dict->kind == TR_PV_LIST)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s was saved with elastic_checkpoint, whose moments are not read", f->path);
    return tr_adam_read(f, dict, out, err);
}

/* The number of flat group i: of all groups of parameters, one behind the other; -1: none. */
static int64_t number_of(const struct tr_adam *a, size_t i)
{
    for (size_t g = 0; g < a->n; g++) {
        if (i < a->groups[g].params->n)
            return a->groups[g].params->items[i]->number;
        i -= a->groups[g].params->n;
    }
    return -1;
}

static enum fr_rc read_rank(struct tr_ds *d, size_t rank, struct tr_torch_file *f,
                            struct tr_run *flats[TR_ADAM_MOMENTS], struct fr_err *err)
{
    struct tr_adam adam;
    enum fr_rc rc = read_adam(d, f, &adam, err);

    for (size_t g = 0; g < d->groups && rc == FR_OK; g++) {
        int64_t k = number_of(&adam, g);

        if (k < 0)
            return fr_fail(err, FR_CORRUPT, "%s has moments of fewer than its %zu groups", f->path,
                           d->groups);
        for (int m = 0; m < TR_ADAM_MOMENTS && rc == FR_OK; m++)
            rc = tr_adam_run(&adam, k, (enum tr_adam_moment)m, &flats[m][rank * d->groups + g],
                             NULL, err);
    }
    return rc;
}

static enum fr_rc read_ranks(struct tr_ds *d, struct tr_ds_optim *out, struct fr_err *err)
{
    struct tr_run *flats[TR_ADAM_MOMENTS];
    struct tr_adam adam;
    enum fr_rc rc = FR_OK;

    for (int m = 0; m < TR_ADAM_MOMENTS; m++)
        if ((flats[m] = fr_arena_array(&d->arena, d->files.noptim * d->groups + 1,
                                       sizeof(**flats))) == NULL)
            return nomem(d, err);
    for (size_t r = 0; r < d->files.noptim && rc == FR_OK; r++) {
        struct tr_torch_file f = {0};

        if (r > 0)
            rc = tr_torch_open(&f, d->files.optim[r], err);
        if (rc == FR_OK)
            rc = read_rank(d, r, r > 0 ? &f : &d->optim, flats, err);
        tr_torch_close(&f);
    }
    if (rc == FR_OK)
        rc = read_adam(d, &d->optim, &adam, err);
    if (rc == FR_OK && adam.n == 0)
        rc = fr_fail(err, FR_CORRUPT, "%s has no groups of parameters", d->optim.path);
    if (rc == FR_OK)
        rc = tr_adam_steps(&adam, &adam.groups[0], number_of(&adam, 0), &out->steps, err);
    for (int m = 0; m < TR_ADAM_MOMENTS && rc == FR_OK; m++) {
        d->flats = flats[m];
        d->to = &d->moments[m];
        rc = tr_ds_cut_trained(d, err);
    }
    if (rc == FR_OK)
        *out = (struct tr_ds_optim){adam.groups, adam.n, out->steps};
    return rc;
}

/* ---- universal ---- */

/* ds_to_universal.py leaves the groups of rank 0 in one file, of stage 3 with that rank's state. */
static enum fr_rc read_groups(struct tr_ds *d, struct tr_ds_optim *out, struct fr_err *err)
{
    const char *path = fr_arena_fmt(&d->arena, "%s/zero/optimizer_state.pt", d->files.dir);
    const struct tr_pv *root;
    struct tr_adam adam;
    enum fr_rc rc;

    if (path == NULL)
        return nomem(d, err);
    if ((rc = tr_torch_open(&d->groups_of, path, err)) != FR_OK)
        return rc;
    root = d->groups_of.root;
    if ((rc = tr_adam_groups(&d->groups_of, tr_pv_get(root, "param_groups", SIZE_MAX), &adam,
                             err)) == FR_OK)
        *out = (struct tr_ds_optim){adam.groups, adam.n, -1};
    return rc;
}

/* Of stages 1 and 2 each parameter has a file, of stage 3 none has: all have the same count. */
static enum fr_rc read_steps(struct tr_ds *d, int64_t *steps, struct fr_err *err)
{
    const struct tr_pv *dict = tr_pv_get(d->groups_of.root, "optimizer_state_dict", SIZE_MAX);
    const struct tr_ds_tensor *t = &d->tensors.p[d->trained];
    const char *path = fr_arena_fmt(&d->arena, "%s/zero/%s/step.pt", d->files.dir, t->name);
    struct tr_torch_file f = {0};
    struct tr_adam adam;
    enum fr_rc rc;

    if (dict != NULL) {
        rc = tr_adam_read(&d->groups_of, dict, &adam, err);
        return rc == FR_OK ? tr_adam_steps(&adam, &adam.groups[0], number_of(&adam, 0), steps, err)
                           : rc;
    }
    if (path == NULL)
        return nomem(d, err);
    if ((rc = tr_torch_open(&f, path, err)) != FR_OK)
        return rc;
    rc = tr_adam_count(&f, f.root, steps, err);
    tr_torch_close(&f);
    return rc;
}

static enum fr_rc read_files(struct tr_ds *d, struct tr_ds_optim *out, struct fr_err *err)
{
    static const char *const files[TR_ADAM_MOMENTS] = {"exp_avg.pt", "exp_avg_sq.pt"};
    enum fr_rc rc = read_groups(d, out, err);

    for (int m = 0; m < TR_ADAM_MOMENTS && rc == FR_OK; m++) {
        d->file = files[m];
        d->to = &d->moments[m];
        rc = tr_ds_cut_trained(d, err);
        for (size_t i = 0; i < d->to->n && rc == FR_OK; i++)
            if (d->to->p[i].type != TR_ST_F32)
                rc = fr_fail(err, FR_UNSUPPORTED,
                             "%s/zero/%s/%s is %s, expected F32: moments of other types are not "
                             "taken over",
                             d->files.dir, d->to->p[i].name, files[m],
                             tr_st_type_name(d->to->p[i].type));
    }
    return rc == FR_OK ? read_steps(d, &out->steps, err) : rc;
}

enum fr_rc tr_ds_open_optim(struct tr_ds *d, struct tr_ds_optim *out, struct fr_err *err)
{
    *out = (struct tr_ds_optim){.steps = -1};
    if (!d->files.universal && d->stage == 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s has no ZeRO stage: the moments of stages 1 to 3 and of universal "
                       "checkpoints are read",
                       d->files.dir);
    if (d->trained == d->tensors.n)
        return fr_fail(err, FR_UNSUPPORTED, "%s has no parameters that train", d->files.dir);
    return d->files.universal ? read_files(d, out, err) : read_ranks(d, out, err);
}

const struct tr_ds_tensor *tr_ds_moment(const struct tr_ds *d, size_t i, enum tr_adam_moment m)
{
    return &d->moments[m].p[i - d->trained];
}
