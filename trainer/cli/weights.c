#include "trainer/cli/weights.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "trainer/tensor/convert.h"
#include "trainer/tensor/draw.h"
#include "trainer/tensor/safetensors.h"

#include <math.h>
#include <string.h>

static const float ROUTER_BIAS_SPAN = 0.05f;

enum how { NORMAL, ONES, ZEROS, UNIFORM };

struct source {
    struct tr_draw draw;
    enum how how;
    float scale;
};

struct list {
    const struct tr_model_config *c;
    uint64_t seed;
    struct fr_arena arena;
    struct tr_st_item *items;
    size_t n, cap;
};

static float value_at(const struct source *s, int64_t i)
{
    switch (s->how) {
    case ONES:
        return 1;
    case NORMAL:
        return s->scale * tr_draw_normal(s->draw, (uint64_t)i);
    case UNIFORM:
        return s->scale * (2 * tr_draw_uniform(s->draw, (uint64_t)i) - 1);
    case ZEROS:
        break;
    }
    return 0;
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct source *s = arg;
    int64_t width = (int64_t)(tr_st_type_bits(item->type) / 8), first = at / width;

    (void)err;
    for (int64_t i = 0; i < (int64_t)n / width; i++) {
        float x = value_at(s, first + i);
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

static void choose(const struct list *l, const struct tr_model_tensor *t, struct source *s)
{
    bool to_residual = t->kind == TR_LIN_O || t->kind == TR_LIN_DOWN;

    s->draw = tr_draw_of(l->seed, t->name);
    switch (t->role) {
    case TR_ROLE_NORM:
        s->how = ONES;
        break;
    case TR_ROLE_BIAS:
        s->how = ZEROS;
        break;
    case TR_ROLE_ROUTER_BIAS:
        s->how = UNIFORM;
        s->scale = ROUTER_BIAS_SPAN;
        break;
    case TR_ROLE_EMBED:
    case TR_ROLE_HEAD:
    case TR_ROLE_ROUTER:
    case TR_ROLE_LINEAR:
        s->how = NORMAL;
        s->scale = fmaxf((float)l->c->initializer_range, 1 / sqrtf((float)t->shape[1]));
        if (t->role == TR_ROLE_LINEAR && to_residual)
            s->scale /= sqrtf(2 * (float)l->c->num_hidden_layers);
        break;
    }
}

static enum fr_rc add(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    static const enum tr_st_type types[] = {TR_ST_BF16, TR_ST_F16, TR_ST_F32};
    struct list *l = arg;
    struct source *s = fr_arena_alloc(&l->arena, sizeof(*s));
    char *name = fr_arena_dup(&l->arena, t->name);

    if (l->n == l->cap) {
        size_t cap = l->cap * 2 + 1024;
        void *p = fr_sys.realloc(l->items, cap * sizeof(l->items[0]));
        if (p == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the list of tensors");
        l->items = p;
        l->cap = cap;
    }
    if (s == NULL || name == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the list of tensors");
    choose(l, t, s);
    l->items[l->n++] = (struct tr_st_item){
        .name = name,
        .type = t->role == TR_ROLE_ROUTER_BIAS ? TR_ST_F32 : types[l->c->torch_dtype],
        .ndim = t->ndim,
        .shape = {t->shape[0], t->shape[1]},
        .fill = fill,
        .arg = s,
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
