#include "trainer/save/export_model.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/save/export.h"
#include "trainer/save/model_files.h"
#include "trainer/save/quantize.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Rank 0 writes a folder. */
struct writing {
    const char *dir;
    const struct tr_export_model *o;
    enum tr_dtype type; /* of the files */
    struct tr_trained_set *set;
};

static bool set_trained(void *self, struct tr_st_item *item)
{
    return tr_trained_fill(((const struct writing *)self)->set, item);
}

enum fr_rc tr_export_config(const char *dir, const char *key, json_t *value, struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *config = NULL;
    enum fr_rc rc;

    snprintf(path, sizeof(path), "%.4000s/config.json", dir);
    if ((rc = fr_json_load(path, 1 << 24, &config, err)) != FR_OK) {
        json_decref(value);
        return rc;
    }
    rc = json_object_set_new(config, key, value) == 0
             ? fr_json_save(config, path, JSON_INDENT(2), 0644, err)
             : fr_fail(err, FR_NOMEM, "no memory for %s", path);
    json_decref(config);
    return rc;
}

enum fr_rc tr_export_model_type(const char *dir, enum tr_dtype type, struct fr_err *err)
{
    const char *name = type == TR_BF16 ? "bfloat16" : type == TR_F16 ? "float16" : "float32";
    const char *key = "dtype", *old;
    char path[PATH_MAX];
    json_t *config = NULL;
    enum fr_rc rc;

    snprintf(path, sizeof(path), "%s/config.json", dir);
    if ((rc = fr_json_load(path, 1 << 24, &config, err)) != FR_OK)
        return rc;
    if (json_object_get(config, key) == NULL)
        key = "torch_dtype";
    old = json_string_value(json_object_get(config, key));
    if (old == NULL || strcmp(old, name) != 0) {
        json_object_set_new(config, key, json_string(name));
        rc = fr_json_save(config, path, JSON_INDENT(2), 0644, err);
    }
    json_decref(config);
    return rc;
}

static enum fr_rc write_folder(void *arg, struct tr_trained_set *set, struct fr_err *err)
{
    struct writing *w = arg;
    struct tr_model_files files = {.st = w->o->st,
                                   .type = w->type,
                                   .shard_bytes = w->o->shard_bytes,
                                   .tied = w->o->tied,
                                   .trained = set_trained,
                                   .self = w};
    enum fr_rc rc = fr_mkdirs(w->dir, 0755, err);

    w->set = set;
    if (rc == FR_OK)
        rc = tr_model_files_write(w->dir, &files, err);
    if (rc == FR_OK)
        rc = tr_copy_companions(w->o->args->model_name_or_path, w->dir, err);
    if (rc == FR_OK)
        rc = tr_export_model_type(w->dir, w->type, err);
    if (rc == FR_OK && w->o->rows > 0)
        rc = tr_export_config(w->dir, "vocab_size", json_integer(w->o->rows), err);
    return rc == FR_OK ? tr_export_args(w->dir, w->o->args, err) : rc;
}

enum fr_rc tr_export_model(const char *dir, const struct tr_export_model *o, struct fr_err *err)
{
    struct writing w = {.dir = dir, .o = o, .type = tr_trained_out_type(&o->out)};
    enum fr_rc rc = tr_trained_out(&o->out, write_folder, &w, err);

    return rc == FR_OK ? rc : fr_while(err, "saving the model to %s", dir);
}

/* ---- into the output folder ---- */

static const char index_name[] = "model.safetensors.index.json";

static bool is_weights(const char *name)
{
    size_t n = strlen(name), end = sizeof(".safetensors") - 1;

    /* transformers would put an adapter that was there on the model */
    return strcmp(name, index_name) == 0 || strcmp(name, "adapter_config.json") == 0 ||
           ((strncmp(name, "model", 5) == 0 || strncmp(name, "adapter_model", 13) == 0) &&
            n > end && strcmp(name + n - end, ".safetensors") == 0);
}

enum move { REMOVE_INDEX, REMOVE_WEIGHTS, MOVE, MOVE_INDEX };

static enum fr_rc each(enum move move, const char *from, const char *to, struct fr_err *err)
{
    const char *dir = move == REMOVE_INDEX || move == REMOVE_WEIGHTS ? to : from;
    char **names = NULL, a[PATH_MAX], b[PATH_MAX];
    enum fr_rc rc = FR_OK;
    size_t n = 0;

    if (fr_sys.list(dir, &names, &n) != 0)
        return fr_fail(err, FR_IO, "cannot read the folder %s", dir);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        bool index = strcmp(names[i], index_name) == 0;

        snprintf(a, sizeof(a), "%s/%s", dir, names[i]);
        snprintf(b, sizeof(b), "%s/%s", to, names[i]);
        if (move == REMOVE_INDEX ? index : move == REMOVE_WEIGHTS && is_weights(names[i])) {
            if (fr_sys.unlink(b) != 0)
                rc = fr_fail(err, FR_IO, "cannot remove %s", b);
        } else if ((move == MOVE && !index) || (move == MOVE_INDEX && index)) {
            if (fr_sys.rename(a, b) != 0)
                rc = fr_fail(err, FR_IO, "cannot rename %s to %s", a, b);
        }
    }
    fr_sys_names_free(names, n);
    return rc == FR_OK ? fr_sync_dir(to, err) : rc;
}

enum fr_rc tr_export_model_move(const char *dir, const char *output_dir, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int m = REMOVE_INDEX; m <= MOVE_INDEX && rc == FR_OK; m++)
        rc = each(m, dir, output_dir, err);
    return rc == FR_OK ? fr_remove_tree(dir, err) : rc;
}

enum fr_rc tr_export_model_clear(const char *output_dir, struct fr_err *err)
{
    enum fr_rc rc = each(REMOVE_INDEX, NULL, output_dir, err);

    return rc == FR_OK ? each(REMOVE_WEIGHTS, NULL, output_dir, err) : rc;
}
