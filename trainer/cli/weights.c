#include "trainer/cli/weights.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "trainer/config/untrained.h"
#include "trainer/tensor/convert.h"
#include "trainer/tensor/safetensors.h"

#include <string.h>

struct list {
    const struct tr_model_config *c;
    uint64_t seed;
    struct fr_arena arena;
    struct tr_st_item *items;
    size_t n, cap;
};

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct tr_untrained *u = arg;
    int64_t width = (int64_t)(tr_st_type_bits(item->type) / 8), first = at / width;

    (void)err;
    for (int64_t i = 0; i < (int64_t)n / width; i++) {
        float x = tr_untrained_at(u, first + i);
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

static enum fr_rc add(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    static const enum tr_st_type types[] = {TR_ST_BF16, TR_ST_F16, TR_ST_F32};
    struct list *l = arg;
    struct tr_untrained *u = fr_arena_alloc(&l->arena, sizeof(*u));
    char *name = fr_arena_dup(&l->arena, t->name);

    void *items = fr_grow(l->items, l->n + 1, &l->cap, sizeof(l->items[0]));

    if (items != NULL)
        l->items = items;
    if (items == NULL || u == NULL || name == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the list of tensors");
    *u = tr_untrained_of(l->c, t, l->seed);
    l->items[l->n++] = (struct tr_st_item){
        .name = name,
        .type = t->role == TR_ROLE_ROUTER_BIAS ? TR_ST_F32 : types[l->c->torch_dtype],
        .ndim = t->ndim,
        .shape = {t->shape[0], t->shape[1]},
        .fill = fill,
        .arg = u,
    };
    return FR_OK;
}

enum fr_rc tr_weights_write(const char *dir, const struct tr_model_config *c, uint64_t seed,
                            int64_t shard_bytes, struct fr_err *err)
{
    struct list l = {.c = c, .seed = seed};
    enum fr_rc rc;

    if (c->fp8)
        return fr_fail(err, FR_UNSUPPORTED,
                       "weights are written unquantised: take quantization_config out");
    rc = tr_model_tensors(c, add, &l, err);
    if (rc == FR_OK)
        rc = tr_st_write_model(dir, l.items, l.n, shard_bytes, err);
    fr_sys.free(l.items);
    fr_arena_finish(&l.arena);
    return rc;
}
