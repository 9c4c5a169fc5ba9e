/* A checkpoint in bf16 as FP8 in blocks, and back. */
#include "trainer/save/quantize.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/config/arch.h"
#include "trainer/tensor/tensor.h"
#include "trainer/text/text.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALE "_scale_inv"
enum { BLOCK = 128, CONFIG_MAX = 16 << 20 };

/* A tensor that is written: copied, a weight in its new type, or the scales of one. */
struct part {
    const struct tr_convert_opts *o;
    const struct tr_st_tensor *from, *scale; /* scale: of an FP8 weight that becomes bf16 */
    bool codes, scales;                      /* from is coded: they, or the scales beside them */
    enum tr_dtype type;                      /* as it is written, where it changes */
    char *bytes;                             /* owns: the whole result while it is written */
};

static struct tr_blocks blocks_of(const struct tr_st_tensor *t)
{
    return (struct tr_blocks){t->shape[0], t->shape[1], BLOCK, BLOCK};
}

static enum fr_rc check_values(const struct part *p, const float *w, struct fr_err *err)
{
    for (int64_t i = 0; i < p->from->elements; i++)
        if (!isfinite(w[i]))
            return fr_fail(err, FR_CORRUPT, "%s holds %g at element %lld", p->from->name,
                           (double)w[i], (long long)i);
    return FR_OK;
}

static void put(struct part *p, float *w)
{
    struct tr_blocks b = blocks_of(p->from);

    if (p->codes) {
        tr_fp8_codes(&b, w, (uint8_t *)p->bytes);
    } else if (p->scales) {
        tr_fp8_scales(&b, w, (float *)(void *)p->bytes);
    } else {
        tr_view_copy(tr_view1(p->bytes, p->type, p->from->elements),
                     tr_view1(w, TR_F32, p->from->elements));
    }
}

static enum fr_rc make_bytes(struct part *p, size_t bytes, struct fr_err *err)
{
    const struct tr_weight_source from = {p->o->st, p->from, p->scale, p->o->config->fp8_block_rows,
                                          p->o->config->fp8_block_cols};
    float *w = fr_sys.alloc((size_t)p->from->elements * sizeof(*w) + 1);
    enum fr_rc rc = FR_OK;

    p->bytes = fr_sys.alloc(bytes + 1);
    if (w == NULL || p->bytes == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %s", p->from->name);
    if (rc == FR_OK && (rc = tr_weight_read(&from, w, err)) == FR_OK)
        rc = check_values(p, w, err);
    if (rc == FR_OK)
        put(p, w);
    fr_sys.free(w);
    return rc;
}

static size_t bytes_of(const struct tr_st_item *item)
{
    size_t n = tr_st_type_bits(item->type) / 8;

    for (int i = 0; i < item->ndim; i++)
        n *= (size_t)item->shape[i];
    return n;
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    struct part *p = arg;
    size_t all = bytes_of(item);
    enum fr_rc rc = FR_OK;

    if (p->bytes == NULL)
        rc = make_bytes(p, all, err);
    if (rc == FR_OK)
        memcpy(dst, p->bytes + at, n);
    if (rc != FR_OK || (size_t)at + n == all) {
        fr_sys.free(p->bytes);
        p->bytes = NULL;
    }
    return rc;
}

static enum fr_rc copy(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct part *p = arg;

    (void)item;
    return tr_st_read(p->o->st, p->from, at, dst, n, err);
}

/* ---- which ---- */

struct converting {
    const struct tr_convert_opts *o;
    struct fr_arena arena;
    struct tr_st_item *items;
    struct part *parts;
    size_t n;
    int64_t converted;
};

static void add(struct converting *c, const char *name, enum tr_dtype type, const struct part *p)
{
    struct part *mine = &c->parts[c->n];
    struct tr_st_item *item = &c->items[c->n++];
    struct tr_blocks b = blocks_of(p->from);

    *mine = *p;
    mine->o = c->o;
    mine->type = type;
    *item = (struct tr_st_item){.name = name,
                                .type = tr_st_type_of(type),
                                .ndim = p->from->ndim,
                                .fill = fill,
                                .arg = mine};
    memcpy(item->shape, p->from->shape, sizeof(item->shape));
    if (p->scales) {
        item->shape[0] = tr_blocks_down(&b);
        item->shape[1] = tr_blocks_across(&b);
    }
}

static void add_copy(struct converting *c, const struct tr_st_tensor *t)
{
    add(c, t->name, TR_BF16, &(struct part){.from = t});
    c->items[c->n - 1].type = t->type;
    c->items[c->n - 1].fill = copy;
}

static enum fr_rc to_fp8(struct converting *c, const struct tr_st_tensor *t, struct fr_err *err)
{
    char *scale, module[TR_NAME_MAX];

    if (t->ndim != 2 || !tr_model_module(t->name, module) ||
        tr_names_linear(tr_names_of(c->o->config), module) < 0) {
        add_copy(c, t);
        return FR_OK;
    }
    if ((scale = fr_arena_fmt(&c->arena, "%s" SCALE, t->name)) == NULL)
        return fr_fail(err, FR_NOMEM, "a name");
    add(c, t->name, TR_F8_E4M3, &(struct part){.from = t, .codes = true});
    add(c, scale, TR_F32, &(struct part){.from = t, .scales = true});
    c->converted++;
    return FR_OK;
}

static enum fr_rc to_bf16(struct converting *c, const struct tr_st_tensor *t, struct fr_err *err)
{
    char name[1024];
    const struct tr_st_tensor *scale;

    if (tr_ends(t->name, SCALE))
        return FR_OK;
    if (t->type != TR_ST_F8_E4M3) {
        add_copy(c, t);
        return FR_OK;
    }
    (void)snprintf(name, sizeof(name), "%s" SCALE, t->name);
    if (t->ndim != 2 || (scale = tr_st_find(c->o->st, name)) == NULL)
        return fr_fail(err, FR_CORRUPT, "the checkpoint has no %s", name);
    add(c, t->name, TR_BF16, &(struct part){.from = t, .scale = scale});
    c->converted++;
    return FR_OK;
}

static enum fr_rc list_all(struct converting *c, struct fr_err *err)
{
    size_t n = tr_st_count(c->o->st);
    enum fr_rc rc = FR_OK;

    c->items = fr_arena_array(&c->arena, 2 * n + 1, sizeof(*c->items));
    c->parts = fr_arena_array(&c->arena, 2 * n + 1, sizeof(*c->parts));
    if (c->items == NULL || c->parts == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = c->o->fp8 ? to_fp8(c, tr_st_at(c->o->st, i), err)
                       : to_bf16(c, tr_st_at(c->o->st, i), err);
    return rc;
}

/* ---- config.json ---- */

json_t *tr_fp8_config(void)
{
    return json_pack("{s:s, s:s, s:s, s:[i, i]}", "activation_scheme", "dynamic", "fmt", "e4m3",
                     "quant_method", "fp8", "weight_block_size", BLOCK, BLOCK);
}

static enum fr_rc write_config(const struct tr_convert_opts *o, struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *root = NULL;
    char *text = NULL;
    enum fr_rc rc;

    (void)snprintf(path, sizeof(path), "%s/config.json", o->model_dir);
    if ((rc = fr_json_load(path, CONFIG_MAX, &root, err)) != FR_OK)
        return rc;
    if (o->fp8)
        (void)json_object_set_new(root, "quantization_config", tr_fp8_config());
    else
        (void)json_object_del(root, "quantization_config");
    (void)snprintf(path, sizeof(path), "%s/config.json", o->out_dir);
    if ((text = json_dumps(root, JSON_INDENT(2))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %s", path);
    else
        rc = fr_file_write(path, text, strlen(text), 0644, err);
    free(text);
    json_decref(root);
    return rc;
}

enum fr_rc tr_convert(const struct tr_convert_opts *o, int64_t *converted, struct fr_err *err)
{
    struct converting c = {.o = o};
    enum fr_rc rc;

    *converted = 0;
    if (o->config->fp8 == o->fp8)
        return fr_fail(err, FR_USAGE, "%s is %s already", o->model_dir,
                       o->fp8 ? "in FP8" : "without FP8");
    rc = list_all(&c, err);
    if (rc == FR_OK)
        rc = fr_mkdirs(o->out_dir, 0755, err);
    if (rc == FR_OK)
        rc = tr_st_write_model(o->out_dir, c.items, c.n, o->shard_bytes, err);
    if (rc == FR_OK)
        rc = tr_copy_companions(o->model_dir, o->out_dir, err);
    if (rc == FR_OK)
        rc = write_config(o, err);
    for (size_t i = 0; i < c.n; i++)
        fr_sys.free(c.parts[i].bytes);
    *converted = c.converted;
    fr_arena_finish(&c.arena);
    return rc == FR_OK ? rc : fr_while(err, "converting into %s", o->out_dir);
}
