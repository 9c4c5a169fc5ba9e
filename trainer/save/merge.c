#include "trainer/save/merge.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/save/export.h"
#include "trainer/save/export_model.h"
#include "trainer/save/quantize.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A tensor of the base on its way: copied, or a weight or its scales, merged, or rounded. */
struct part {
    const struct tr_merge_opts *o;
    const struct tr_st_tensor *from;
    enum tr_st_type type;                      /* as it is written */
    const struct tr_adapter *adapter;          /* NULL: none */
    const struct tr_st_tensor *weight, *scale; /* NULL: copied; scale NULL: no FP8 */
    char *bytes; /* owns: the whole result, from its first byte to its last */
};

/* w += scale * B A, rows by themselves. */
static void add_adapter(const struct tr_adapter *a, const float *flat, float *w)
{
    const float *A = flat + a->a_at, *B = flat + a->b_at;

#pragma omp parallel for
    for (int64_t i = 0; i < a->out; i++)
        for (int64_t k = 0; k < a->r; k++) {
            float b = a->scale * B[i * a->r + k];

            for (int64_t j = 0; j < a->in; j++)
                w[i * a->in + j] += b * A[k * a->in + j];
        }
}

static enum fr_rc check_values(const struct part *p, const float *w, struct fr_err *err)
{
    int64_t n = p->weight->elements;
    bool half = p->type == TR_ST_F16;

    for (int64_t i = 0; i < n; i++)
        if (!isfinite(w[i]) || (half && fabsf(w[i]) > 65504))
            return fr_fail(err, FR_CORRUPT, "%s would hold %g at element %lld, which %s",
                           p->weight->name, (double)w[i], (long long)i,
                           half ? "f16 cannot" : "is not finite");
    return FR_OK;
}

static struct tr_blocks blocks_of(const struct part *p)
{
    return (struct tr_blocks){p->weight->shape[0], p->weight->shape[1],
                              p->o->config->fp8_block_rows, p->o->config->fp8_block_cols};
}

/* The scales of w's blocks, or w coded by them. */
static void code(struct part *p, const float *w)
{
    struct tr_blocks b = blocks_of(p);

    if (p->from == p->scale)
        tr_fp8_scales(&b, w, (float *)(void *)p->bytes);
    else
        tr_fp8_codes(&b, w, (uint8_t *)p->bytes);
}

static size_t part_bytes(const struct part *p)
{
    return (size_t)p->from->elements * tr_st_type_bits(p->type) / 8;
}

static enum fr_rc make_bytes(struct part *p, struct fr_err *err)
{
    const struct tr_weight_source from = {
        p->o->st, p->weight, p->scale, p->o->config->fp8_block_rows, p->o->config->fp8_block_cols};
    float *w = fr_sys.alloc((size_t)p->weight->elements * sizeof(*w) + 1);
    enum tr_dtype type;
    enum fr_rc rc = tr_st_dtype(p->type, &type, err);

    p->bytes = fr_sys.alloc(part_bytes(p) + 1);
    if (rc == FR_OK && (w == NULL || p->bytes == NULL))
        rc = fr_fail(err, FR_NOMEM, "no memory for %s", p->from->name);
    if (rc == FR_OK && (rc = tr_weight_read(&from, w, err)) == FR_OK) {
        if (p->adapter != NULL)
            add_adapter(p->adapter, p->o->flat, w);
        rc = check_values(p, w, err);
    }
    if (rc == FR_OK && p->scale != NULL)
        code(p, w);
    if (rc == FR_OK && p->scale == NULL)
        tr_view_copy(tr_view1(p->bytes, type, p->from->elements),
                     tr_view1(w, TR_F32, p->from->elements));
    fr_sys.free(w);
    return rc;
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    struct part *p = arg;
    enum fr_rc rc = FR_OK;

    (void)item;
    if (p->weight == NULL)
        return tr_st_read(p->o->st, p->from, at, dst, n, err);
    if (p->bytes == NULL)
        rc = make_bytes(p, err);
    if (rc == FR_OK)
        memcpy(dst, p->bytes + at, n);
    if (rc != FR_OK || (size_t)at + n == part_bytes(p)) {
        fr_sys.free(p->bytes);
        p->bytes = NULL;
    }
    return rc;
}

/* The adapter of a tensor "MODULE.weight" or "MODULE.weight_scale_inv". */
static const struct tr_adapter *adapter_of(const struct tr_params *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++) {
        size_t n = strlen(p->adapters[i].module);

        if (strncmp(name, p->adapters[i].module, n) == 0 &&
            (strcmp(name + n, ".weight") == 0 || strcmp(name + n, ".weight_scale_inv") == 0))
            return &p->adapters[i];
    }
    return NULL;
}

static enum fr_rc describe(struct part *p, struct fr_err *err)
{
    const struct tr_adapter *a =
        p->o->params != NULL ? adapter_of(p->o->params, p->from->name) : NULL;
    char name[512];

    p->type = p->from->type;
    if (p->from->over && p->from->under != p->type) {
        p->type = p->from->under;
        p->weight = p->from;
    }
    if (a == NULL)
        return FR_OK;
    p->adapter = a;
    snprintf(name, sizeof(name), "%s.weight", a->module);
    if ((p->weight = tr_st_find(p->o->st, name)) == NULL)
        return fr_fail(err, FR_CORRUPT, "the base has no %s", name);
    if (p->weight->type != TR_ST_F8_E4M3)
        return tr_st_want_shape(p->weight, 2, (int64_t[]){a->out, a->in}, err);
    snprintf(name, sizeof(name), "%s.weight_scale_inv", a->module);
    if ((p->scale = tr_st_find(p->o->st, name)) == NULL || p->scale->type != TR_ST_F32)
        return fr_fail(err, FR_CORRUPT, "the base has no %s in f32", name);
    return tr_st_want_shape(p->weight, 2, (int64_t[]){a->out, a->in}, err);
}

/* Weights that were in the folder are gone once the new ones have come. */
static enum fr_rc write_folder(const struct tr_merge_opts *o, const struct tr_st_item *items,
                               size_t n, struct fr_err *err)
{
    char temp[PATH_MAX];
    enum fr_rc rc;

    if (snprintf(temp, sizeof(temp), "%s/" TR_EXPORT_TMP "model", o->out_dir) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", o->out_dir);
    if ((rc = fr_remove_tree(temp, err)) != FR_OK || (rc = fr_mkdirs(temp, 0755, err)) != FR_OK)
        return rc;
    rc = tr_st_write_model(temp, items, n, o->shard_bytes, err);
    if (rc == FR_OK)
        rc = tr_copy_companions(o->model_dir, temp, err);
    if (rc == FR_OK && o->untied)
        rc = tr_export_config(temp, "tie_word_embeddings", json_false(), err);
    if (rc == FR_OK && o->rows > 0)
        rc = tr_export_config(temp, "vocab_size", json_integer(o->rows), err);
    if (rc == FR_OK)
        rc = tr_export_model_move(temp, o->out_dir, err);
    if (rc != FR_OK)
        (void)fr_remove_tree(temp, NULL);
    return rc;
}

/* Of a tied model transformers saves no head. */
static bool is_left_out(const struct tr_merge_opts *o, const struct tr_st_tensor *t)
{
    return o->params == NULL && o->config->tie_word_embeddings &&
           strcmp(t->name, "lm_head.weight") == 0;
}

enum fr_rc tr_merge(const struct tr_merge_opts *o, int64_t *merged, struct fr_err *err)
{
    size_t n = tr_st_count(o->st), count = 0;
    struct fr_arena arena = {0};
    struct tr_st_item *items = fr_arena_array(&arena, n + 1, sizeof(*items));
    struct part *parts = fr_arena_array(&arena, n + 1, sizeof(*parts));
    enum fr_rc rc = FR_OK;

    *merged = 0;
    if (items == NULL || parts == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        const struct tr_st_tensor *t = tr_st_at(o->st, i);

        if (is_left_out(o, t))
            continue;
        parts[count] = (struct part){.o = o, .from = t};
        rc = describe(&parts[count], err);
        *merged += parts[count].adapter != NULL && parts[count].weight == t;
        items[count] = (struct tr_st_item){.name = t->name,
                                           .type = parts[count].type,
                                           .ndim = t->ndim,
                                           .fill = fill,
                                           .arg = &parts[count]};
        memcpy(items[count++].shape, t->shape, sizeof(t->shape));
    }
    if (o->params == NULL)
        *merged = (int64_t)count;
    else if (rc == FR_OK && *merged != (int64_t)o->params->n)
        rc = fr_fail(err, FR_CORRUPT, "the base has %lld of the %zu adapted weights",
                     (long long)*merged, o->params->n);
    if (rc == FR_OK)
        rc = write_folder(o, items, count, err);
    for (size_t i = 0; parts != NULL && i < count; i++)
        fr_sys.free(parts[i].bytes);
    fr_arena_finish(&arena);
    return rc == FR_OK ? rc : fr_while(err, "merging into %s", o->out_dir);
}
