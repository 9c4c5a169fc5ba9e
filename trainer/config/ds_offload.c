/* The blocks that say where optimizer and weights wait: offload_optimizer, offload_param, aio. */
#include "trainer/config/ds_read.h"

#include <stdio.h>
#include <string.h>

#define OFF "offload_optimizer"

bool tr_ds_weights_train(const struct tr_ds_read *r)
{
    const char *type = r->flags->args->finetuning_type;

    return r->flags->weights || (type != NULL && strcmp(type, "lora") != 0);
}

bool tr_ds_adapters_train(const struct tr_ds_read *r)
{
    const char *type = r->flags->args->finetuning_type;

    return type == NULL || strcmp(type, "lora") == 0;
}

struct offload {
    enum tr_offload *device;
    char *path; /* TR_DS_PATH bytes */
    bool *pin;
    bool param;
};

static enum fr_rc read_offload(struct tr_ds_read *r, const struct tr_fields *zero, const char *key,
                               struct offload *o, struct fr_err *err)
{
    char where[512];
    struct tr_fields f = {tr_field(zero, key), where};
    const char *device = "none", *path = NULL;
    enum fr_rc rc;

    if (f.object == NULL)
        return FR_OK;
    if (!json_is_object(f.object))
        return tr_field_bad(zero, key, "an object", err);
    (void)snprintf(where, sizeof(where), "%.300s: %s", zero->where, key);
    if ((rc = tr_ds_keys(r, &f, key, err)) != FR_OK ||
        (rc = tr_field_text(&f, "device", &device, err)) != FR_OK ||
        (rc = tr_field_text(&f, "nvme_path", &path, err)) != FR_OK)
        return rc;
    if (!tr_ds_auto(tr_field(&f, "pin_memory")) &&
        (rc = tr_field_bool(&f, "pin_memory", o->pin, err)) != FR_OK)
        return rc;
    if (strcmp(device, "cpu") == 0)
        *o->device = TR_OFFLOAD_CPU;
    else if (strcmp(device, "nvme") == 0)
        *o->device = TR_OFFLOAD_NVME;
    else if (strcmp(device, "auto") == 0)
        tr_ds_note(r,
                   "%s: device auto is none, as accelerate has it; write cpu to keep them in host "
                   "memory",
                   key);
    else if (strcmp(device, "none") != 0)
        return tr_field_bad(&f, "device", "none, cpu or nvme", err);
    if (*o->device == TR_OFFLOAD_NVME && path == NULL)
        return fr_fail(err, FR_USAGE, "%s: nvme needs nvme_path", where);
    if (path != NULL && strlen(path) >= TR_DS_PATH)
        return tr_field_bad(&f, "nvme_path", "a shorter path", err);
    if (path != NULL)
        memcpy(o->path, path, strlen(path) + 1);
    if (o->param && *o->device != TR_OFFLOAD_NONE && r->out->stage != 3)
        return fr_fail(err, FR_USAGE, "%s needs stage 3, this is stage %d", where, r->out->stage);
    return FR_OK;
}

/* The deprecated spellings of the offload blocks. */
static enum fr_rc read_old_offload(const struct tr_fields *f, const char *key, const char *now,
                                   enum tr_offload *device, struct fr_err *err)
{
    bool on = false;
    enum fr_rc rc = tr_field_bool(f, key, &on, err);

    if (rc != FR_OK || !on)
        return rc;
    if (tr_field(f, now) != NULL)
        return fr_fail(err, FR_USAGE, "%s: both %s and %s are given", f->where, key, now);
    *device = TR_OFFLOAD_CPU;
    return FR_OK;
}

/* A number of a block that is 1 or more; "auto" and absent: 0. */
static enum fr_rc read_count(const struct tr_fields *f, const char *key, int64_t *out,
                             struct fr_err *err)
{
    enum fr_rc rc;

    if (tr_field(f, key) == NULL || tr_ds_auto(tr_field(f, key)))
        return FR_OK;
    if ((rc = tr_field_i64(f, key, out, err)) != FR_OK)
        return rc;
    return *out >= 1 ? FR_OK : tr_field_bad(f, key, "1 or more", err);
}

/* How tiles of the optimizer's state are read and written. */
static enum fr_rc read_tiles(struct tr_ds_read *r, const struct tr_fields *zero, struct fr_err *err)
{
    char where[512], where_aio[512];
    struct tr_fields f = {tr_field(zero, OFF), where}, aio;
    struct tr_ds_config *c = r->out;
    bool on = true;
    enum fr_rc rc;

    (void)snprintf(where, sizeof(where), "%.300s: %s", zero->where, OFF);
    if ((rc = tr_ds_block(r, "aio", &aio, where_aio, err)) != FR_OK ||
        (aio.object != NULL &&
         ((rc = tr_ds_keys(r, &aio, "aio", err)) != FR_OK ||
          (rc = read_count(&aio, "thread_count", &c->aio_threads, err)) != FR_OK ||
          (rc = read_count(&aio, "block_size", &c->aio_block, err)) != FR_OK)))
        return rc;
    if (f.object != NULL && (rc = read_count(&f, "buffer_count", &c->offload_tiles, err)) != FR_OK)
        return rc;
    for (size_t i = 0; i < 3 && f.object != NULL; i++) {
        const char *key =
            ((const char *const[]){"pipeline_read", "pipeline_write", "fast_init"})[i];

        if ((rc = tr_field_bool(&f, key, &on, err)) != FR_OK)
            return rc;
        c->offload_waits |= i < 2 && tr_field(&f, key) != NULL && !on;
        c->offload_asks |= tr_field(&f, key) != NULL && on;
    }
    return FR_OK;
}

enum fr_rc tr_ds_offload(struct tr_ds_read *r, const struct tr_fields *zero, struct fr_err *err)
{
    struct tr_ds_config *c = r->out;
    struct offload param = {&c->offload_param, c->offload_param_path, &c->offload_param_pin, true};
    struct offload opt = {&c->offload_optimizer, c->offload_optimizer_path,
                          &c->offload_optimizer_pin, false};
    enum fr_rc rc;

    if ((rc = read_offload(r, zero, "offload_param", &param, err)) != FR_OK ||
        (rc = read_offload(r, zero, OFF, &opt, err)) != FR_OK ||
        (rc = read_old_offload(zero, "cpu_offload", OFF, opt.device, err)) != FR_OK ||
        (rc = read_old_offload(zero, "cpu_offload_param", "offload_param", param.device, err)) !=
            FR_OK)
        return rc;
    return read_tiles(r, zero, err);
}

static void note_tiles(const struct tr_ds_read *r, bool disk)
{
    const struct tr_ds_config *c = r->out;

    if (disk && c->offload_waits)
        tr_ds_note(r, OFF ": tiles are read and written beside the step, whatever pipeline_read "
                          "and pipeline_write say");
    if (disk && c->aio_threads > 0 && (c->aio_threads < 4 || c->aio_threads > 16))
        tr_ds_note(r, "aio: thread_count %lld: %d threads read and write tiles",
                   (long long)c->aio_threads, c->aio_threads < 4 ? 4 : 16);
    if (disk && c->offload_tiles > 0 && (c->offload_tiles < 3 || c->offload_tiles > 16))
        tr_ds_note(r, OFF ": buffer_count %lld: %d tiles are in memory at once",
                   (long long)c->offload_tiles, c->offload_tiles < 3 ? 3 : 16);
    if (disk && c->aio_block > 8 << 20)
        tr_ds_note(r, "aio: block_size %lld: 8388608 bytes are read or written at once",
                   (long long)c->aio_block);
    if (!disk && c->offload_optimizer != TR_OFFLOAD_NONE &&
        (c->offload_asks || c->offload_tiles > 1))
        tr_ds_note(r, OFF ": buffer_count, pipeline_read, pipeline_write and fast_init have effect "
                          "with nvme alone");
    if (!disk && (c->aio_threads > 0 || c->aio_block > 0))
        tr_ds_note(r, "aio has effect with offload_optimizer to nvme alone");
}

void tr_ds_note_offload(const struct tr_ds_read *r)
{
    const struct tr_ds_config *c = r->out;
    bool weights = tr_ds_weights_train(r), states = c->offload_optimizer != TR_OFFLOAD_NONE;

    if (states && !weights)
        tr_ds_note(r, OFF " has no effect: the optimizer's state of adapters stays beside them");
    if (states && weights && !c->offload_optimizer_pin)
        tr_ds_note(r, OFF ": states on the host are pinned whatever pin_memory says");
    note_tiles(r, weights && c->offload_optimizer == TR_OFFLOAD_NVME);
    if (c->offload_param != TR_OFFLOAD_NONE && !c->offload_param_pin)
        tr_ds_note(r, "offload_param: weights on the host are pinned whatever pin_memory says");
    if (c->offload_param == TR_OFFLOAD_NVME)
        tr_ds_note(r, "offload_param to nvme: base weights stay in host memory");
}
