#include "trainer/foreign/pickle.h"

#include <string.h>

#define STORAGE(word, t)                                                                           \
    {                                                                                              \
        "torch", word "Storage", TR_ROLE_STORAGE, TR_ST_##t                                        \
    }

static const struct tr_pickle_name names[] = {
    {"collections", "OrderedDict", TR_ROLE_DICT, TR_ST_BOOL},
    {"torch", "Size", TR_ROLE_SIZE, TR_ST_BOOL},
    {"torch._utils", "_rebuild_tensor_v2", TR_ROLE_TENSOR, TR_ST_BOOL},
    {"torch._utils", "_rebuild_parameter", TR_ROLE_PARAMETER, TR_ST_BOOL},
    {"torch._tensor", "_rebuild_from_type_v2", TR_ROLE_TYPED_TENSOR, TR_ST_BOOL},
    {"torch", "Tensor", TR_ROLE_OPAQUE, TR_ST_BOOL},
    {"torch.nn.parameter", "Parameter", TR_ROLE_OPAQUE, TR_ST_BOOL},
    {"deepspeed.runtime.fp16.loss_scaler", "LossScaler", TR_ROLE_OPAQUE, TR_ST_BOOL},
    {"deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler", TR_ROLE_OPAQUE, TR_ST_BOOL},
    {"deepspeed.runtime.zero.config", "ZeroStageEnum", TR_ROLE_OPAQUE, TR_ST_BOOL},
    {"deepspeed.utils.tensor_fragment", "fragment_address", TR_ROLE_OPAQUE, TR_ST_BOOL},
    STORAGE("Float", F32),
    STORAGE("BFloat16", BF16),
    STORAGE("Half", F16),
    STORAGE("Double", F64),
    STORAGE("Long", I64),
    STORAGE("Int", I32),
    STORAGE("Short", I16),
    STORAGE("Char", I8),
    STORAGE("Byte", U8),
    STORAGE("Bool", BOOL),
};

const struct tr_pickle_name *tr_pickle_name_find(struct fr_str module, struct fr_str name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (fr_str_is(module, names[i].module) && fr_str_is(name, names[i].name))
            return &names[i];
    return NULL;
}

enum fr_rc tr_pickle_storage(const struct tr_pv *id, struct tr_pv *out, struct fr_err *err)
{
    if (id->kind != TR_PV_TUPLE || id->n != 5 || id->items[0]->kind != TR_PV_TEXT ||
        !fr_str_is(id->items[0]->text, "storage") || id->items[1]->kind != TR_PV_NAME ||
        id->items[1]->name->role != TR_ROLE_STORAGE || id->items[2]->kind != TR_PV_TEXT ||
        id->items[4]->kind != TR_PV_INT || id->items[4]->number < 0)
        return fr_fail(err, FR_CORRUPT, "a persistent id that is no storage");
    *out = (struct tr_pv){.kind = TR_PV_STORAGE,
                          .name = id->items[1]->name,
                          .text = id->items[2]->text,
                          .number = id->items[4]->number};
    return FR_OK;
}

/* Numbers of a tuple, at most TR_ST_DIMS. */
static bool numbers(const struct tr_pv *v, int64_t *out)
{
    if (v->kind != TR_PV_TUPLE || v->n > TR_ST_DIMS)
        return false;
    for (size_t i = 0; i < v->n; i++) {
        if (v->items[i]->kind != TR_PV_INT || v->items[i]->number < 0)
            return false;
        out[i] = v->items[i]->number;
    }
    return true;
}

/* Whether rows follow each other; *count: the elements. */
static bool dense(const struct tr_pv_tensor *t, const int64_t *strides, int64_t *count)
{
    bool good = true;

    *count = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        good = good && (t->shape[i] <= 1 || strides[i] == *count);
        if (__builtin_mul_overflow(*count, t->shape[i], count))
            return false;
    }
    return good || *count == 0;
}

/* (storage, first, shape, strides, …) */
static enum fr_rc rebuild(const struct tr_pickle *p, const struct tr_pv *args, struct tr_pv *out,
                          struct fr_err *err)
{
    int64_t strides[TR_ST_DIMS] = {0}, count;
    struct tr_pv_tensor *t = fr_arena_alloc(p->arena, sizeof(*t));

    if (t == NULL)
        return fr_fail(err, FR_NOMEM, "no memory");
    if (args->n < 4 || args->items[0]->kind != TR_PV_STORAGE || args->items[1]->kind != TR_PV_INT ||
        args->items[1]->number < 0 || !numbers(args->items[2], t->shape) ||
        !numbers(args->items[3], strides) || args->items[2]->n != args->items[3]->n)
        return fr_fail(err, FR_CORRUPT, "a tensor that is none");
    t->storage = args->items[0];
    t->first = args->items[1]->number;
    t->ndim = (int)args->items[2]->n;
    if (!dense(t, strides, &count))
        return fr_fail(err, FR_UNSUPPORTED, "a tensor whose rows do not follow each other");
    if (t->first > t->storage->number || count > t->storage->number - t->first)
        return fr_fail(err, FR_CORRUPT, "a tensor of %lld elements at %lld of a storage of %lld",
                       (long long)count, (long long)t->first, (long long)t->storage->number);
    *out = (struct tr_pv){.kind = TR_PV_TENSOR, .tensor = t};
    return FR_OK;
}

static enum fr_rc call_dict(const struct tr_pickle *p, const struct tr_pv *args, struct tr_pv *out,
                            struct fr_err *err)
{
    const struct tr_pv *pairs = args->n == 1 ? args->items[0] : NULL;

    *out = (struct tr_pv){.kind = TR_PV_DICT};
    if (args->n == 0)
        return FR_OK;
    if (pairs == NULL || pairs->kind != TR_PV_LIST)
        return fr_fail(err, FR_CORRUPT, "an OrderedDict that is none");
    if ((out->items = fr_arena_array(p->arena, 2 * pairs->n + 1, sizeof(*out->items))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory");
    for (size_t i = 0; i < pairs->n; i++) {
        const struct tr_pv *pair = pairs->items[i];

        if ((pair->kind != TR_PV_LIST && pair->kind != TR_PV_TUPLE) || pair->n != 2)
            return fr_fail(err, FR_CORRUPT, "an OrderedDict that is none");
        out->items[out->n++] = pair->items[0];
        out->items[out->n++] = pair->items[1];
    }
    return FR_OK;
}

enum fr_rc tr_pickle_call(const struct tr_pickle *p, const struct tr_pickle_name *name,
                          const struct tr_pv *args, struct tr_pv *out, struct fr_err *err)
{
    const struct tr_pv *inner;

    switch (name->role) {
    case TR_ROLE_DICT:
        return call_dict(p, args, out, err);
    case TR_ROLE_SIZE:
        if (args->n != 1 || args->items[0]->kind != TR_PV_TUPLE)
            return fr_fail(err, FR_CORRUPT, "a torch.Size that is none");
        *out = *args->items[0];
        return FR_OK;
    case TR_ROLE_TENSOR:
        return rebuild(p, args, out, err);
    case TR_ROLE_TYPED_TENSOR: /* (function, type, arguments, state) */
        if (args->n < 3 || args->items[0]->kind != TR_PV_NAME ||
            args->items[0]->name->role != TR_ROLE_TENSOR || args->items[2]->kind != TR_PV_TUPLE)
            return fr_fail(err, FR_CORRUPT, "a tensor of a type that is none");
        return rebuild(p, args->items[2], out, err);
    case TR_ROLE_PARAMETER: /* (tensor, requires_grad, hooks) */
        inner = args->n > 0 ? args->items[0] : NULL;
        if (inner == NULL || inner->kind != TR_PV_TENSOR)
            return fr_fail(err, FR_CORRUPT, "a parameter that is none");
        *out = *inner;
        return FR_OK;
    case TR_ROLE_STORAGE:
        return fr_fail(err, FR_CORRUPT, "%s.%s is called", name->module, name->name);
    case TR_ROLE_OPAQUE:
        break;
    }
    *out = (struct tr_pv){.kind = TR_PV_OPAQUE, .name = name, .items = args->items, .n = args->n};
    return FR_OK;
}

static bool is_pair(const struct tr_pv *d, size_t i, struct fr_str key)
{
    return d->items[2 * i]->kind == TR_PV_TEXT && fr_str_eq(d->items[2 * i]->text, key);
}

const struct tr_pv *tr_pv_get(const struct tr_pv *d, const char *key, size_t hint)
{
    struct fr_str want = fr_str_of(key);

    if (d == NULL || d->kind != TR_PV_DICT)
        return NULL;
    if (hint < d->n / 2 && is_pair(d, hint, want))
        return d->items[2 * hint + 1];
    for (size_t i = d->n / 2; i-- > 0;)
        if (is_pair(d, i, want))
            return d->items[2 * i + 1];
    return NULL;
}
