#include "trainer/cli/weights.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "trainer/config/untrained.h"
#include "trainer/tensor/convert.h"
#include "trainer/tensor/safetensors.h"

#include <string.h>

static const float F8_MAX = 448, DRAWN_MAX = 3.5F; /* of tr_draw_normal, in deviations */

struct list {
    const struct tr_model_config *c;
    uint64_t seed;
    struct fr_arena arena;
    struct tr_st_item *items;
    size_t n, cap;
};

/* A tensor; with FP8 its codes and the multipliers of its blocks. */
struct drawn {
    struct tr_untrained u;
    struct tr_draw scales;
    float unit; /* of a multiplier */
    int64_t cols, across, block_rows, block_cols;
};

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct drawn *d = arg;
    int64_t width = (int64_t)(tr_st_type_bits(item->type) / 8), first = at / width;

    (void)err;
#pragma omp parallel for
    for (int64_t i = 0; i < (int64_t)n / width; i++) {
        float x = tr_untrained_at(&d->u, first + i);
        uint16_t half = item->type == TR_ST_BF16 ? tr_bf16_bits(x) : 0;

        if (item->type == TR_ST_F16)
            half = tr_f16_of(x);
        if (item->type == TR_ST_F32)
            memcpy((char *)dst + i * 4, &x, 4);
        else
            memcpy((char *)dst + i * 2, &half, 2);
    }
    return FR_OK;
}

/* From one to two units, so that blocks differ; the largest value drawn fits the least. */
static float scale_at(const struct drawn *d, int64_t block)
{
    return d->unit * (1 + tr_draw_uniform(d->scales, (uint64_t)block));
}

static enum fr_rc fill_codes(void *arg, const struct tr_st_item *item, int64_t at, void *dst,
                             size_t n, struct fr_err *err)
{
    const struct drawn *d = arg;
    uint8_t *codes = dst;

    (void)item;
    (void)err;
#pragma omp parallel for
    for (int64_t i = 0; i < (int64_t)n; i++) {
        int64_t row = (at + i) / d->cols, col = (at + i) % d->cols;
        int64_t block = row / d->block_rows * d->across + col / d->block_cols;

        codes[i] = tr_f8_e4m3_of(tr_untrained_at(&d->u, at + i) / scale_at(d, block));
    }
    return FR_OK;
}

static enum fr_rc fill_scales(void *arg, const struct tr_st_item *item, int64_t at, void *dst,
                              size_t n, struct fr_err *err)
{
    const struct drawn *d = arg;

    (void)item;
    (void)err;
    for (size_t i = 0; i < n / sizeof(float); i++) {
        float x = scale_at(d, at / (int64_t)sizeof(float) + (int64_t)i);

        memcpy((char *)dst + i * sizeof(x), &x, sizeof(x));
    }
    return FR_OK;
}

static enum fr_rc put(struct list *l, const struct tr_st_item *item, struct fr_err *err)
{
    void *items = fr_grow(l->items, l->n + 1, &l->cap, sizeof(l->items[0]));

    if (items != NULL)
        l->items = items;
    if (items == NULL || item->name == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the list of tensors");
    l->items[l->n++] = *item;
    return FR_OK;
}

/* A linear's codes, and their multipliers beside them. */
static enum fr_rc put_f8(struct list *l, const struct tr_model_tensor *t, struct drawn *d,
                         struct fr_err *err)
{
    const struct tr_model_config *c = l->c;
    struct tr_st_item codes = {.name = fr_arena_dup(&l->arena, t->name),
                               .type = TR_ST_F8_E4M3,
                               .ndim = 2,
                               .shape = {t->shape[0], t->shape[1]},
                               .fill = fill_codes,
                               .arg = d};
    struct tr_st_item scales = {.name = fr_arena_fmt(&l->arena, "%s_scale_inv", t->name),
                                .type = TR_ST_F32,
                                .ndim = 2,
                                .fill = fill_scales,
                                .arg = d};
    enum fr_rc rc = put(l, &codes, err);

    d->cols = t->shape[1];
    d->block_rows = c->fp8_block_rows;
    d->block_cols = c->fp8_block_cols;
    d->across = (t->shape[1] + d->block_cols - 1) / d->block_cols;
    d->unit = DRAWN_MAX * d->u.scale / F8_MAX;
    scales.shape[0] = (t->shape[0] + d->block_rows - 1) / d->block_rows;
    scales.shape[1] = d->across;
    if (scales.name != NULL)
        d->scales = tr_draw_of(l->seed, scales.name);
    return rc == FR_OK ? put(l, &scales, err) : rc;
}

static enum fr_rc add(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    static const enum tr_st_type types[] = {TR_ST_BF16, TR_ST_F16, TR_ST_F32};
    struct list *l = arg;
    struct drawn *d = fr_arena_alloc(&l->arena, sizeof(*d));

    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the list of tensors");
    *d = (struct drawn){.u = tr_untrained_of(l->c, t, l->seed)};
    if (l->c->fp8 && t->role == TR_ROLE_LINEAR)
        return put_f8(l, t, d, err);
    return put(l,
               &(struct tr_st_item){
                   .name = fr_arena_dup(&l->arena, t->name),
                   .type = t->role == TR_ROLE_ROUTER_BIAS ? TR_ST_F32 : types[l->c->torch_dtype],
                   .ndim = t->ndim,
                   .shape = {t->shape[0], t->shape[1]},
                   .fill = fill,
                   .arg = d,
               },
               err);
}

enum fr_rc tr_weights_write(const char *dir, const struct tr_model_config *c, uint64_t seed,
                            int64_t shard_bytes, struct fr_err *err)
{
    struct list l = {.c = c, .seed = seed};
    enum fr_rc rc = tr_model_tensors(c, add, &l, err);

    if (rc == FR_OK)
        rc = tr_st_write_model(dir, l.items, l.n, shard_bytes, err);
    fr_sys.free(l.items);
    fr_arena_finish(&l.arena);
    return rc;
}
