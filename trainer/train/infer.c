#include "trainer/train/infer.h"

#include "engine/base/sys.h"
#include "trainer/config/folder.h"
#include "trainer/config/lora_saves.h"
#include "trainer/save/export.h"
#include "trainer/save/files.h"
#include "trainer/train/groups.h"
#include "trainer/train/loading.h"

#include <string.h>

enum { MAX_LIVE = 1000000000, PREFETCH = 50000000 }; /* elements, DeepSpeed's defaults */

/* The adapter's f32 values, rounded, where the blocks read them. */
static enum fr_rc load_adapter(struct tr_infer *x, const struct tr_infer_opts *o,
                               struct fr_err *err)
{
    struct tr_params p;
    struct tr_view host;
    float *flat;
    char *rounded;
    enum fr_rc rc;

    tr_model_params(x->model, &p);
    flat = fr_sys.alloc((size_t)p.padded * sizeof(*flat) + 1);
    rounded = fr_sys.alloc((size_t)p.padded * tr_dtype_bytes(o->compute) + 1);
    if (flat == NULL || rounded == NULL) {
        rc = fr_fail(err, FR_NOMEM, "no memory for an adapter of %lld numbers",
                     (long long)p.elements);
        goto out;
    }
    memset(flat, 0, (size_t)p.padded * sizeof(*flat));
    if ((rc = tr_import_adapter(o->adapter_dir, &p, &x->lora, flat, err)) != FR_OK)
        goto out;
    host = tr_view1(rounded, o->compute, p.padded);
    tr_view_copy(host, tr_view1(flat, TR_F32, p.padded));
    if ((rc = tr_copy(o->be, tr_model_queue(x->model), p.work.p, rounded, tr_view_bytes(host))) ==
        FR_OK)
        rc = tr_sync(o->be, tr_model_queue(x->model), err);
out:
    fr_sys.free(flat);
    fr_sys.free(rounded);
    return rc;
}

static enum fr_rc make_groups(struct tr_infer *x, const struct tr_infer_opts *o, struct fr_err *err)
{
    const struct tr_groups_opts g = {.group = o->owners};

    if (x->config.n_routed_experts == 0)
        return fr_fail(err, FR_USAGE, "--experts: the model in %s has no routed experts",
                       o->model_dir);
    return tr_groups_make(o->comm, &g, &x->experts, &x->rest, err);
}

/* Weights in the form that products read, where half of this rank's share of the memory has room.
 */
static void prepack(const struct tr_infer *x, const struct tr_infer_opts *o)
{
    size_t room = tr_mem_room(o->be) / (size_t)o->comm->local_size / 2, n;
    struct tr_memory_row rows[TR_MEMORY_ROWS];

    n = tr_model_memory(x->model, rows);
    if (o->be->memory->is_host && room > rows[n - 1].bytes)
        (void)tr_model_prepack(x->model, room - rows[n - 1].bytes);
}

/* Reads the weights; rank 0 logs progress. */
static enum fr_rc load(struct tr_infer *x, const struct tr_infer_opts *o, struct fr_err *err)
{
    bool first = o->comm->rank == 0;
    struct tr_loading loading;
    enum fr_rc rc;

    prepack(x, o);
    tr_loading_begin(&loading);
    rc = tr_model_load(x->model, x->st, first ? &loading.tell : NULL, err);
    if (rc == FR_OK && first)
        tr_loading_end(&loading);
    return rc;
}

enum fr_rc tr_infer_open(struct tr_infer *x, const struct tr_infer_opts *o, struct fr_err *err)
{
    struct tr_model_opts m = {.be = o->be,
                              .comm = o->comm,
                              .config = &x->config,
                              .compute = o->compute,
                              .partition = o->comm->size > 1,
                              .limits = {.prefetch_bucket = PREFETCH,
                                         .prefetch_auto = true,
                                         .max_live = MAX_LIVE,
                                         .max_reuse = MAX_LIVE},
                              .tokens_max = o->tokens_max,
                              .samples_max = o->samples_max,
                              .cache_sequences = o->cache_sequences,
                              .cache_tokens = o->cache_tokens,
                              .score = o->score,
                              .logits = o->logits};
    const struct tr_folder f = {o->model_dir, o->adapter_dir, true};
    enum fr_rc rc = o->comm->rank == 0 ? tr_folder_load(&f, &x->config, &x->st, err)
                                       : tr_folder_open(&f, &x->config, &x->st, NULL, err);

    if (rc == FR_OK && o->adapter_dir != NULL) {
        m.lora = &x->lora;
        if ((rc = tr_lora_read(o->adapter_dir, &x->lora, err)) == FR_OK)
            rc = tr_lora_resolve(&x->lora, &x->config, err);
        if (rc == FR_OK)
            rc = tr_lora_settle(&x->lora, &x->config, x->st, err);
    }
    if (rc == FR_OK && o->stay)
        rc = make_groups(x, o, err);
    m.experts = x->experts;
    m.rest = x->rest;
    if (rc == FR_OK)
        rc = tr_model_create(&m, &x->model, NULL, err);
    if (rc == FR_OK)
        rc = tr_files_check(o->comm, x->model, x->st, err);
    if (rc == FR_OK)
        rc = load(x, o, err);
    return rc == FR_OK && o->adapter_dir != NULL ? load_adapter(x, o, err) : rc;
}

void tr_infer_finish(struct tr_infer *x)
{
    tr_model_destroy(x->model);
    tr_comm_destroy(x->experts);
    tr_comm_destroy(x->rest);
    tr_st_close(x->st);
    tr_lora_finish(&x->lora);
    *x = (struct tr_infer){.model = NULL};
}
