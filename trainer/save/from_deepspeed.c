#include "trainer/save/from_deepspeed.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/config/folder.h"
#include "trainer/foreign/deepspeed.h"
#include "trainer/save/export.h"
#include "trainer/save/export_model.h"
#include "trainer/save/quantize.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 4096, CONFIG_MAX = 16 << 20 };

struct writing {
    const struct tr_from_deepspeed *o;
    struct tr_ds *ds;
    struct fr_arena arena;
    struct tr_st_item *items;
    struct source {
        struct writing *w;
        const struct tr_ds_tensor *t;
    } * sources;
    size_t n, tied;
    bool has_config, ties; /* the folder has a config.json; its model ties head and embedding */
};

static bool is_float(enum tr_st_type t)
{
    return t == TR_ST_F32 || t == TR_ST_BF16 || t == TR_ST_F16 || t == TR_ST_F64;
}

static enum fr_rc check_value(const struct source *s, double from, double to, int64_t i,
                              struct fr_err *err)
{
    if (s->t->part == TR_DS_BUFFER || isfinite(to))
        return FR_OK;
    return fr_fail(
        err, FR_CORRUPT, "%s holds %g at element %lld, which %s", s->t->name, from, (long long)i,
        isfinite(from) ? "f16 cannot: give --save_dtype bfloat16 or float32" : "is not finite");
}

static enum fr_rc convert_piece(const struct source *s, struct tr_view from, struct tr_view to,
                                int64_t first, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    tr_view_copy(to, from);
    if (tr_view_finite(to))
        return FR_OK;
    for (int64_t i = 0; i < tr_view_count(from) && rc == FR_OK; i++)
        rc = check_value(s, tr_get(from, i), tr_get(to, i), first + i, err);
    return rc;
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct source *s = arg;
    int64_t size = (int64_t)tr_st_type_bits(item->type) / 8, first = at / size;
    int64_t count = (int64_t)n / size;
    enum tr_dtype from, to;
    char raw[PIECE * sizeof(double)];
    enum fr_rc rc = FR_OK;

    if (s->t->type == item->type)
        rc = tr_ds_read(s->w->ds, s->t, first, count, dst, err);
    if (!is_float(s->t->type) || rc != FR_OK)
        return rc;
    (void)tr_st_dtype(s->t->type, &from, NULL);
    (void)tr_st_dtype(item->type, &to, NULL);
    if (from == to)
        return convert_piece(s, tr_view1(dst, to, count), tr_view1(dst, to, count), first, err);
    for (int64_t i = 0; i < count && rc == FR_OK; i += PIECE) {
        int64_t m = count - i < PIECE ? count - i : PIECE;

        rc = tr_ds_read(s->w->ds, s->t, first + i, m, raw, err);
        if (rc == FR_OK)
            rc = convert_piece(s, tr_view1(raw, from, m), tr_view1((char *)dst + i * size, to, m),
                               first + i, err);
    }
    return rc;
}

static enum fr_rc add(struct writing *w, const struct tr_ds_tensor *t, struct fr_err *err)
{
    struct tr_st_item *item = &w->items[w->n];

    if (fr_has_prefix(t->name, "base_model.model."))
        return fr_fail(err, FR_USAGE,
                       "%s is of an adapter of PEFT, which no model folder holds: take the "
                       "adapter_model.safetensors that stands beside the checkpoint",
                       t->name);
    if (t->same_as != NULL && w->ties) {
        w->tied++;
        return FR_OK;
    }
    w->sources[w->n] = (struct source){w, t};
    *item = (struct tr_st_item){.name = t->name,
                                .type = is_float(t->type) ? tr_st_type_of(w->o->type) : t->type,
                                .ndim = t->ndim,
                                .fill = fill,
                                .arg = &w->sources[w->n]};
    memcpy(item->shape, t->shape, sizeof(item->shape));
    w->n++;
    return FR_OK;
}

static enum fr_rc list_all(struct writing *w, struct fr_err *err)
{
    size_t n = tr_ds_count(w->ds);
    enum fr_rc rc = FR_OK;

    w->items = fr_arena_array(&w->arena, n + 1, sizeof(*w->items));
    w->sources = fr_arena_array(&w->arena, n + 1, sizeof(*w->sources));
    if (w->items == NULL || w->sources == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = add(w, tr_ds_at(w->ds, i), err);
    return rc;
}

/* Of models that do not say it the head is tied where DeepSpeed found it tied. */
static enum fr_rc read_config(struct writing *w, struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *config = NULL;
    enum fr_rc rc;

    if (snprintf(path, sizeof(path), "%s/config.json", w->o->checkpoint) >= (int)sizeof(path))
        return fr_fail(err, FR_USAGE, "a folder's name is too long: %s", w->o->checkpoint);
    if ((rc = fr_json_load(path, CONFIG_MAX, &config, err)) == FR_NOTFOUND)
        return FR_OK;
    w->has_config = rc == FR_OK;
    w->ties = rc == FR_OK && !json_is_false(json_object_get(config, "tie_word_embeddings"));
    json_decref(config);
    return rc;
}

static enum fr_rc check_other(const struct tr_from_deepspeed *o, struct fr_err *err)
{
    if (tr_folder_same(o->out_dir, o->checkpoint))
        return fr_fail(err, FR_USAGE, "--to %s is the checkpoint itself: give another folder",
                       o->out_dir);
    return FR_OK;
}

static enum fr_rc copy_files(const struct writing *w, const char *to, struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    if (fr_sys.list(w->o->checkpoint, &names, &n) != 0)
        return fr_fail_errno(err, errno, "cannot read %s", w->o->checkpoint);
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        if (tr_is_companion(names[i]) &&
            !fr_word_in("zero_to_fp32.py zero_to_torch.py trainer_state.json", names[i]))
            rc = tr_copy_file(w->o->checkpoint, to, names[i], false, err);
    fr_sys_names_free(names, n);
    return rc == FR_OK && w->has_config ? tr_export_model_type(to, w->o->type, err) : rc;
}

static void tell(const struct writing *w, struct fr_buf *said)
{
    const char *type = w->o->type == TR_F32   ? "float32"
                       : w->o->type == TR_F16 ? "float16"
                                              : "bfloat16";

    if (w->tied > 0)
        fr_buf_fmt(said, "%zu tied tensors stand under their other name alone\n", w->tied);
    if (!w->has_config)
        fr_buf_fmt(said, "note: %s has no config.json: add the model's to %s\n", w->o->checkpoint,
                   w->o->out_dir);
    fr_buf_fmt(said, "converted %zu tensors of %s to %s in %s\n", w->n, tr_ds_what(w->ds), type,
               w->o->out_dir);
}

/* All of it is written to a folder inside of out_dir, and then moved there. */
static enum fr_rc write_folder(struct writing *w, struct fr_err *err)
{
    char *temp = fr_arena_fmt(&w->arena, "%s/" TR_EXPORT_TMP "deepspeed", w->o->out_dir);
    enum fr_rc rc;

    if (temp == NULL)
        return fr_fail(err, FR_NOMEM, "no memory");
    if ((rc = fr_remove_tree(temp, err)) != FR_OK || (rc = fr_mkdirs(temp, 0755, err)) != FR_OK)
        return rc;
    rc = tr_st_write_model(temp, w->items, w->n, w->o->shard_bytes, err);
    if (rc == FR_OK)
        rc = copy_files(w, temp, err);
    if (rc == FR_OK)
        rc = tr_export_model_move(temp, w->o->out_dir, err);
    if (rc != FR_OK)
        (void)fr_remove_tree(temp, NULL);
    return rc;
}

enum fr_rc tr_from_deepspeed(const struct tr_from_deepspeed *o, struct fr_buf *said,
                             struct fr_err *err)
{
    struct writing w = {.o = o};
    enum fr_rc rc = check_other(o, err);

    if (rc == FR_OK)
        rc = tr_ds_open(o->checkpoint, true, &w.ds, err);
    if (rc == FR_OK)
        rc = read_config(&w, err);
    if (rc == FR_OK)
        rc = list_all(&w, err);
    if (rc == FR_OK)
        rc = write_folder(&w, err);
    if (rc == FR_OK)
        tell(&w, said);
    tr_ds_close(w.ds);
    fr_arena_finish(&w.arena);
    return rc;
}
