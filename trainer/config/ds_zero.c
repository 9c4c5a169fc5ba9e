#include "trainer/config/ds_read.h"

#include "engine/base/sys.h"

#include <stdio.h>
#include <string.h>

enum kind { SIZE, FLAG, SKIP_FLAG, SKIP_SIZE, BLOCK };

#define AT(field) offsetof(struct tr_ds_config, field)

/* Reasons why a key has no effect. */
static const char once[] =
    "adapters' gradients are summed once a step, those of weights unit by unit";
static const char once_only[] = "adapters' gradients are summed once a step";
static const char inner[] = "settings of DeepSpeed's own machinery";
static const char resident[] =
    "norms and routers stay gathered, all other weights are partitioned, whatever their size";
static const char optimizer[] = "the optimizer is AdamW, and its states are with what is trained";
static const char tiles[] = "each rank steps over its slice at once, unless the host does";

/* Every key of zero_optimization. "auto" keeps the default but for those of resolve_auto. */
static const struct zero_row {
    const char *key, *alias; /* alias: an older or shorter name */
    enum kind kind;
    size_t at;
    const char *unused; /* reason why the key has no effect; NULL: it has */
} rows[] = {
    {"stage", NULL, BLOCK, 0, NULL},
    {"contiguous_gradients", NULL, SKIP_FLAG, 0, once},
    {"reduce_scatter", NULL, SKIP_FLAG, 0, once},
    {"reduce_bucket_size", NULL, SIZE, AT(reduce_bucket_size), once},
    {"allgather_partitions", NULL, SKIP_FLAG, 0, once},
    {"allgather_bucket_size", NULL, SIZE, AT(allgather_bucket_size), once},
    {"overlap_comm", NULL, FLAG, AT(overlap_comm), once_only},
    {"round_robin_gradients", NULL, FLAG, AT(round_robin_gradients), once},
    {"use_multi_rank_bucket_allreduce", NULL, SKIP_FLAG, 0, once},
    {"ignore_unused_parameters", NULL, SKIP_FLAG, 0, inner},
    {"load_from_fp32_weights", NULL, SKIP_FLAG, 0, inner},
    {"elastic_checkpoint", NULL, SKIP_FLAG, 0, inner},
    {"legacy_stage1", NULL, SKIP_FLAG, 0, inner},
    {"sub_group_size", NULL, SIZE, AT(sub_group_size), tiles},
    {"stage3_prefetch_bucket_size", "prefetch_bucket_size", SIZE, AT(prefetch_bucket_size), NULL},
    {"stage3_param_persistence_threshold", "param_persistence_threshold", SIZE,
     AT(persistence_threshold), resident},
    {"stage3_model_persistence_threshold", "model_persistence_threshold", SIZE,
     AT(model_persistence_threshold), resident},
    {"stage3_max_live_parameters", "max_live_parameters", SIZE, AT(max_live_parameters), NULL},
    {"stage3_max_reuse_distance", "max_reuse_distance", SIZE, AT(max_reuse_distance), NULL},
    {"stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save", FLAG,
     AT(gather_16bit_on_save), NULL},
    {"stage3_gather_fp16_weights_on_model_save", NULL, FLAG, AT(gather_16bit_on_save), NULL},
    {"stage3_module_granularity_threshold", "module_granularity_threshold", SKIP_SIZE, 0, inner},
    {"stage3_use_all_reduce_for_fetch_params", "use_all_reduce_for_fetch_params", SKIP_FLAG, 0,
     inner},
    {"stage3_allgather_sequential", "allgather_sequential", SKIP_FLAG, 0, inner},
    {"zero_hpz_partition_size", NULL, SIZE, AT(hpz_partition_size), NULL},
    {"zero_quantized_weights", NULL, FLAG, AT(quantized_weights), NULL},
    {"zero_quantized_nontrainable_weights", NULL, FLAG, AT(quantized_nontrainable), NULL},
    {"zero_quantized_gradients", NULL, FLAG, AT(quantized_gradients), NULL},
    {"mics_shard_size", NULL, BLOCK, 0, NULL},
    {"mics_hierarchical_params_gather", NULL, SKIP_FLAG, 0, inner},
    {"memory_efficient_linear", NULL, SKIP_FLAG, 0, inner},
    {"pipeline_loading_checkpoint", NULL, SKIP_FLAG, 0, inner},
    {"override_module_apply", NULL, SKIP_FLAG, 0, inner},
    {"compute_grad_norm", NULL, SKIP_FLAG, 0, inner},
    {"enable_sanity_checks", NULL, SKIP_FLAG, 0, inner},
    {"leaf_module", NULL, BLOCK, 0, inner},
    {"log_trace_cache_warnings", NULL, SKIP_FLAG, 0, inner},
    {"parameter_alignment", NULL, SKIP_FLAG, 0, inner},
    {"save_muon_momentum_buffer_in_memory", NULL, SKIP_FLAG, 0, optimizer},
    {"offload_optimizer", NULL, BLOCK, 0, NULL},
    {"offload_param", NULL, BLOCK, 0, NULL},
    {"cpu_offload", NULL, BLOCK, 0, NULL},
    {"cpu_offload_param", NULL, BLOCK, 0, NULL},
    {"cpu_offload_use_pin_memory", NULL, SKIP_FLAG, 0, inner},
    {"zenflow", NULL, BLOCK, 0, NULL},
};

enum { NROWS = sizeof(rows) / sizeof(rows[0]) };

static const struct zero_row *find(const char *key)
{
    for (size_t i = 0; i < NROWS; i++)
        if (strcmp(rows[i].key, key) == 0 ||
            (rows[i].alias != NULL && strcmp(rows[i].alias, key) == 0))
            return &rows[i];
    return NULL;
}

static enum fr_rc unknown(const struct tr_fields *f, const char *key, struct fr_err *err)
{
    const char *words[NROWS];

    for (size_t i = 0; i < NROWS; i++)
        words[i] = rows[i].key;
    return tr_ds_unknown(f, key, fr_suggest(key, words, NROWS), err);
}

static enum fr_rc read_row(struct tr_ds_read *r, const struct tr_fields *f,
                           const struct zero_row *row, const char *key, struct fr_err *err)
{
    void *at = (char *)r->out + row->at;
    int64_t skip_size = 0;
    bool skip = false;
    enum fr_rc rc;

    if (row->kind == BLOCK || tr_ds_auto(tr_field(f, key)))
        return FR_OK;
    if (row->kind == FLAG || row->kind == SKIP_FLAG)
        return tr_field_bool(f, key, row->kind == FLAG ? at : &skip, err);
    int64_t *size = row->kind == SIZE ? at : &skip_size;
    if ((rc = tr_field_i64(f, key, size, err)) != FR_OK)
        return rc;
    return *size < 0 ? tr_field_bad(f, key, "0 or more", err) : FR_OK;
}

static enum fr_rc read_stage(struct tr_ds_read *r, const struct tr_fields *f, struct fr_err *err)
{
    int64_t stage = 0, mics = -1;
    enum fr_rc rc;

    if ((rc = tr_field_i64(f, "stage", &stage, err)) != FR_OK ||
        (rc = tr_field_i64(f, "mics_shard_size", &mics, err)) != FR_OK)
        return rc;
    if (stage < 0 || stage > 3)
        return tr_field_bad(f, "stage", "0, 1, 2 or 3", err);
    if (mics > 0)
        return fr_fail(err, FR_UNSUPPORTED, "%s: mics_shard_size: MiCS is not done", f->where);
    if (tr_field(f, "zenflow") != NULL)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: zenflow: updates that lag behind the gradients are not done", f->where);
    r->out->stage = (int)stage;
    r->out->overlap_comm = stage == 3;
    return FR_OK;
}

/* The sizes that the Hugging Face Trainer derives from the hidden size. */
static void resolve_auto(const struct tr_ds_read *r, const struct tr_fields *f)
{
    double h = (double)r->flags->hidden_size;

    if (tr_ds_auto(tr_field(f, "reduce_bucket_size")))
        r->out->reduce_bucket_size = (int64_t)(h * h);
    if (r->out->stage != 3)
        return;
    r->out->prefetch_auto = tr_ds_auto(tr_field(f, "stage3_prefetch_bucket_size"));
    if (r->out->prefetch_auto)
        r->out->prefetch_bucket_size = (int64_t)(0.9 * h * h);
    if (tr_ds_auto(tr_field(f, "stage3_param_persistence_threshold")))
        r->out->persistence_threshold = (int64_t)(10 * h);
}

static void note_lossy(const struct tr_ds_read *r)
{
    const struct tr_ds_config *c = r->out;

    if (c->quantized_weights || c->quantized_gradients || c->quantized_nontrainable)
        tr_ds_note(r, "zero_quantized_*: weights and gradients travel exactly instead");
    if (c->hpz_partition_size > 1)
        tr_ds_note(r, "zero_hpz_partition_size %lld: no second copy of the shards is kept",
                   (long long)c->hpz_partition_size);
}

/* Adds one note per reason, which names all keys without effect for that reason. "auto" and false
 * are not noted. */
static void note_unused(const struct tr_ds_read *r, const struct tr_fields *f)
{
    static const char *const reasons[] = {once, once_only, resident, tiles, optimizer, inner};
    const char *key;
    json_t *v;

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        struct fr_buf keys = {0};
        bool used = tr_ds_weights_train(r) &&
                    (reasons[i] == once_only ||
                     (reasons[i] == tiles && r->out->offload_optimizer != TR_OFFLOAD_NONE));

        json_object_foreach((json_t *)f->object, key, v) if (find(key)->unused == reasons[i] &&
                                                             !used && !tr_ds_auto(v) &&
                                                             !json_is_false(v))
            fr_buf_fmt(&keys, "%s%s", keys.n > 0 ? ", " : "", key);
        if (keys.n > 0 && !keys.bad)
            tr_ds_note(r, "no effect of %s: %s", keys.p, reasons[i]);
        fr_buf_finish(&keys);
    }
}

/* Of trained weights no model is saved. */
static void note_gather(const struct tr_ds_read *r)
{
    const struct tr_args *a = r->flags->args;
    bool weights = a->finetuning_type != NULL && strcmp(a->finetuning_type, "lora") != 0;

    if (r->out->gather_16bit_on_save)
        return;
    if (weights && r->out->stage == 3)
        tr_ds_note(r,
                   "stage3_gather_16bit_weights_on_model_save is false: no model is saved, resume "
                   "states alone; flowtrain export --from %s/resume writes it",
                   a->output_dir != NULL ? a->output_dir : "OUTPUT_DIR");
    else
        tr_ds_note(r,
                   "no effect of stage3_gather_16bit_weights_on_model_save: adapters, and weights "
                   "below stage 3, are saved whole");
}

/* Notes on the stage and on offloading. */
static void note_stage(const struct tr_ds_read *r)
{
    static const char *const stages[] = {
        "stage 0: weights are whole on each rank; the optimizer's state is partitioned as in "
        "stage 1",
        NULL,
        "stage 2: as stage 1, adapters' gradients stay whole on each rank until the step ends",
        NULL,
    };
    const struct tr_ds_config *c = r->out;

    if (tr_ds_weights_train(r) && c->stage < 3)
        tr_ds_note(r,
                   "stages 0, 1 and 2 are alike: gradients and the optimizer's state are divided "
                   "over the ranks");
    else if (stages[c->stage] != NULL)
        tr_ds_note(r, "%s", stages[c->stage]);
    tr_ds_note_offload(r);
}

enum fr_rc tr_ds_zero(struct tr_ds_read *r, struct fr_err *err)
{
    char where[512];
    struct tr_fields top = {r->root, r->name};
    struct tr_fields f = {tr_field(&top, "zero_optimization"), where};
    struct tr_ds_config *c = r->out;
    const char *key;
    json_t *v;
    enum fr_rc rc;

    (void)snprintf(where, sizeof(where), "%.400s: zero_optimization", r->name);
    if (f.object == NULL)
        return fr_fail(err, FR_USAGE,
                       "%s: Please specify the ZeRO optimization config in the DeepSpeed config.",
                       r->name);
    if (json_is_boolean(f.object)) {
        c->stage = json_is_true(f.object) ? 1 : 0;
        note_stage(r);
        return FR_OK;
    }
    if (!json_is_object(f.object))
        return tr_field_bad(&top, "zero_optimization", "an object", err);
    if ((rc = read_stage(r, &f, err)) != FR_OK)
        return rc;
    json_object_foreach((json_t *)f.object, key, v)
    {
        const struct zero_row *row = find(key);
        if (row == NULL)
            return unknown(&f, key, err);
        if ((rc = read_row(r, &f, row, key, err)) != FR_OK)
            return rc;
    }
    c->overlap_asked = json_is_true(tr_field(&f, "overlap_comm"));
    resolve_auto(r, &f);
    if ((rc = tr_ds_offload(r, &f, err)) != FR_OK)
        return rc;
    note_stage(r);
    note_gather(r);
    note_lossy(r);
    note_unused(r, &f);
    return FR_OK;
}

void tr_ds_zero_markdown(struct fr_buf *out)
{
    static const char *const exact = "accepted; weights and gradients travel exactly instead";
    static const struct {
        const char *key, *what;
    } said[] = {
        {"mics_shard_size", "refused above 0: MiCS is not done"},
        {"zenflow", "refused: updates that lag behind the gradients are not done"},
        {"zero_quantized_weights", NULL},
        {"zero_quantized_nontrainable_weights", NULL},
        {"zero_quantized_gradients", NULL},
        {"zero_hpz_partition_size", "accepted; no second copy of the shards is kept"},
        {"stage3_gather_16bit_weights_on_model_save",
         "works; false at stage 3: no model of trained weights is saved, `flowtrain export --from "
         "OUTPUT_DIR/resume` writes it; absent: true"},
        {"stage3_gather_fp16_weights_on_model_save", "an older name of the one above"},
        {"cpu_offload", "an older name of offload_optimizer"},
        {"cpu_offload_param", "an older name of offload_param"},
        {"offload_optimizer", "works where weights train; adapters' states stay beside them"},
        {"overlap_comm", "works where weights train on GPUs: gradients are summed beside the "
                         "backward, in another window; absent: true at stage 3"},
        {"sub_group_size", "works with offload_optimizer: elements of a tile, at most"},
    };

    fr_buf_text(out, "\n## zero_optimization\n\n| key | |\n|---|---|\n");
    for (size_t i = 0; i < NROWS; i++) {
        const char *what = rows[i].unused != NULL ? rows[i].unused : "works";
        for (size_t k = 0; k < sizeof(said) / sizeof(said[0]); k++)
            if (strcmp(said[k].key, rows[i].key) == 0)
                what = said[k].what != NULL ? said[k].what : exact;
        fr_buf_fmt(out, "| `%s`", rows[i].key);
        if (rows[i].alias != NULL)
            fr_buf_fmt(out, ", `%s`", rows[i].alias);
        fr_buf_fmt(out, " | %s%s |\n", rows[i].unused == what ? "no effect: " : "", what);
    }
}
