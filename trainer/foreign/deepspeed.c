#include "trainer/foreign/deepspeed.h"

#include "engine/base/sys.h"
#include "trainer/foreign/deepspeed_cut.h"

static enum fr_rc nomem(const struct tr_ds *d, struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory to read %s", d->files.dir);
}

/* ---- optimizer states ---- */

/* A number, or the largest one of a list, as partition_count is. */
static int64_t largest(const struct tr_pv *v)
{
    int64_t most = tr_ds_number(v);

    for (size_t i = 0; v != NULL && v->kind == TR_PV_LIST && i < v->n; i++)
        if (tr_ds_number(v->items[i]) > most)
            most = tr_ds_number(v->items[i]);
    return most;
}

static enum fr_rc check_optim(struct tr_ds *d, const struct tr_torch_file *f,
                              const struct tr_pv *state, struct fr_err *err)
{
    int64_t stage = tr_ds_number(tr_pv_get(state, "zero_stage", SIZE_MAX));
    int64_t ranks = largest(tr_pv_get(state, "partition_count", SIZE_MAX));

    if (stage < 1 || stage > 3)
        return fr_fail(err, FR_CORRUPT, "%s has no zero_stage of 1 to 3", f->path);
    if (d->stage != 0 && d->stage != stage)
        return fr_fail(err, FR_CORRUPT, "%s is of ZeRO stage %lld, that of rank 0 of stage %lld",
                       f->path, (long long)stage, (long long)d->stage);
    if (ranks != (int64_t)d->files.noptim)
        return fr_fail(err, FR_USAGE,
                       "%s is of a run of %lld ranks, but %s has the files of %zu: bring the files "
                       "of all ranks of one step together",
                       f->path, (long long)ranks, d->files.dir, d->files.noptim);
    d->stage = stage;
    return FR_OK;
}

/* The places of a rank's masters. */
static enum fr_rc read_flats(struct tr_ds *d, size_t rank, const struct tr_torch_file *f,
                             const struct tr_pv *state, struct fr_err *err)
{
    const char *key = d->stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
    const struct tr_pv *groups = tr_pv_get(state, key, SIZE_MAX);
    enum fr_rc rc = FR_OK;

    if (groups == NULL || groups->kind != TR_PV_LIST)
        return fr_fail(err, FR_CORRUPT, "%s has no %s", f->path, key);
    if (rank == 0) {
        d->groups = groups->n;
        d->flats = fr_arena_array(&d->arena, d->files.noptim * d->groups + 1, sizeof(*d->flats));
    }
    if (d->flats == NULL)
        return nomem(d, err);
    if (groups->n != d->groups)
        return fr_fail(err, FR_CORRUPT, "%s has %zu groups, that of rank 0 has %zu", f->path,
                       groups->n, d->groups);
    for (size_t g = 0; g < groups->n && rc == FR_OK; g++) {
        struct tr_run *run = &d->flats[rank * d->groups + g];
        int64_t first = d->flats[g].n;

        if (groups->items[g]->kind != TR_PV_TENSOR || groups->items[g]->tensor->ndim != 1)
            return fr_fail(err, FR_CORRUPT, "%s: %s[%zu] is no flat tensor", f->path, key, g);
        if ((rc = tr_torch_run(f, groups->items[g], run, err)) != FR_OK)
            return rc;
        if (run->type != TR_ST_F32 && run->type != TR_ST_BF16 && run->type != TR_ST_F16)
            return fr_fail(err, FR_DTYPE, "%s: %s[%zu] is %s, expected F32", f->path, key, g,
                           tr_st_type_name(run->type));
        if (rank > 0 && d->stage == 3 && run->n != first)
            return fr_fail(err, FR_CORRUPT, "%s: %s[%zu] has %lld elements, that of rank 0 %lld",
                           f->path, key, g, (long long)run->n, (long long)first);
    }
    return rc;
}

static enum fr_rc read_optim(struct tr_ds *d, size_t rank, struct fr_err *err)
{
    struct tr_torch_file f = {.check = d->check};
    const struct tr_pv *state;
    enum fr_rc rc = tr_torch_open(&f, d->files.optim[rank], err);

    if (rc != FR_OK)
        return rc;
    state = tr_pv_get(f.root, "optimizer_state_dict", SIZE_MAX);
    if ((rc = check_optim(d, &f, state, err)) == FR_OK)
        rc = read_flats(d, rank, &f, state, err);
    if (rank == 0)
        d->optim = f; /* its paddings are asked for later */
    else
        tr_torch_close(&f);
    return rc;
}

/* ---- states of the model ---- */

static enum fr_rc check_model(struct tr_ds *d, const struct tr_torch_file *f, struct fr_err *err)
{
    int64_t ranks = tr_ds_number(tr_pv_get(f->root, "dp_world_size", SIZE_MAX));
    int64_t step = tr_ds_number(tr_pv_get(f->root, "global_steps", SIZE_MAX));

    if (d->files.noptim > 0 && ranks >= 0 && ranks != (int64_t)d->files.noptim)
        return fr_fail(err, FR_USAGE, "%s is of a run of %lld ranks, but %s has the files of %zu",
                       f->path, (long long)ranks, d->files.dir, d->files.noptim);
    if (f != d->model && step != d->step)
        return fr_fail(err, FR_CORRUPT, "%s is of step %lld, that of rank 0 of step %lld", f->path,
                       (long long)step, (long long)d->step);
    d->step = step;
    return FR_OK;
}

static enum fr_rc read_models(struct tr_ds *d, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (d->stage == 3 && d->files.nmodel != d->files.noptim)
        return fr_fail(err, FR_NOTFOUND,
                       "%s has *_model_states.pt of %zu ranks and *_optim_states.pt of %zu",
                       d->files.dir, d->files.nmodel, d->files.noptim);
    d->model = fr_arena_array(&d->arena, d->files.nmodel + 1, sizeof(*d->model));
    if (d->model == NULL)
        return nomem(d, err);
    for (size_t r = 0; r < d->files.nmodel && rc == FR_OK; r++) {
        d->model[r].check = d->check;
        rc = tr_torch_open(&d->model[r], d->files.model[r], err);
        if (rc == FR_OK)
            rc = check_model(d, &d->model[r], err);
    }
    return rc;
}

/* ---- all ---- */

static enum fr_rc describe(struct tr_ds *d, struct fr_err *err)
{
    if (d->files.universal)
        d->what = fr_arena_fmt(&d->arena, "a universal checkpoint, step %lld", (long long)d->step);
    else if (d->stage == 0)
        d->what = fr_arena_fmt(&d->arena, "no ZeRO stage, step %lld", (long long)d->step);
    else
        d->what = fr_arena_fmt(&d->arena, "ZeRO stage %lld of %zu ranks, step %lld",
                               (long long)d->stage, d->files.noptim, (long long)d->step);
    return d->what != NULL ? FR_OK : nomem(d, err);
}

enum fr_rc tr_ds_open(const char *dir, bool check, struct tr_ds **out, struct fr_err *err)
{
    struct tr_ds *d = fr_sys.alloc(sizeof(*d));
    enum fr_rc rc;

    *out = NULL;
    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read %s", dir);
    *d = (struct tr_ds){.check = check};
    rc = tr_ds_files(dir, &d->arena, &d->files, err);
    for (size_t r = 0; r < d->files.noptim && rc == FR_OK; r++)
        rc = read_optim(d, r, err);
    if (rc == FR_OK)
        rc = read_models(d, err);
    if (rc == FR_OK)
        rc = tr_ds_cut(d, err);
    if (rc == FR_OK)
        rc = describe(d, err);
    if (rc != FR_OK) {
        tr_ds_close(d);
        return rc;
    }
    *out = d;
    return FR_OK;
}

void tr_ds_close(struct tr_ds *d)
{
    if (d == NULL)
        return;
    for (size_t r = 0; d->model != NULL && r < d->files.nmodel; r++)
        tr_torch_close(&d->model[r]);
    tr_torch_close(&d->groups_of);
    tr_torch_close(&d->optim);
    tr_runs_close(&d->reading);
    fr_sys.free(d->tensors.p);
    for (size_t m = 0; m < TR_ADAM_MOMENTS; m++)
        fr_sys.free(d->moments[m].p);
    fr_sys.free(d->runs);
    fr_arena_finish(&d->arena);
    fr_sys.free(d);
}

size_t tr_ds_count(const struct tr_ds *d)
{
    return d->tensors.n;
}

const struct tr_ds_tensor *tr_ds_at(const struct tr_ds *d, size_t i)
{
    return &d->tensors.p[i];
}

const char *tr_ds_what(const struct tr_ds *d)
{
    return d->what;
}

int64_t tr_ds_step(const struct tr_ds *d)
{
    return d->step;
}

/* ---- reading ---- */

enum fr_rc tr_ds_read(struct tr_ds *d, const struct tr_ds_tensor *t, int64_t first, int64_t n,
                      void *dst, struct fr_err *err)
{
    enum fr_rc rc = tr_runs_read(&d->reading, &t->runs, (int64_t[]){first, n}, dst, err);

    return rc == FR_OK ? rc : fr_while(err, "%s", t->name);
}
