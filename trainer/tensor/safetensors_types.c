#include "trainer/tensor/safetensors.h"

#include "engine/base/str.h"

#include <inttypes.h>

static const struct {
    const char *name;
    unsigned bits;
    enum tr_dtype dtype; /* TR_NONE: known by size only */
} types[TR_ST_TYPES] = {
    [TR_ST_BOOL] = {"BOOL", 8, TR_U8},
    [TR_ST_F4] = {"F4", 4, TR_NONE},
    [TR_ST_F6_E2M3] = {"F6_E2M3", 6, TR_NONE},
    [TR_ST_F6_E3M2] = {"F6_E3M2", 6, TR_NONE},
    [TR_ST_U8] = {"U8", 8, TR_U8},
    [TR_ST_I8] = {"I8", 8, TR_NONE},
    [TR_ST_F8_E5M2] = {"F8_E5M2", 8, TR_NONE},
    [TR_ST_F8_E4M3] = {"F8_E4M3", 8, TR_F8_E4M3},
    [TR_ST_F8_E8M0] = {"F8_E8M0", 8, TR_NONE},
    [TR_ST_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, TR_NONE},
    [TR_ST_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, TR_NONE},
    [TR_ST_I16] = {"I16", 16, TR_NONE},
    [TR_ST_U16] = {"U16", 16, TR_NONE},
    [TR_ST_F16] = {"F16", 16, TR_F16},
    [TR_ST_BF16] = {"BF16", 16, TR_BF16},
    [TR_ST_I32] = {"I32", 32, TR_I32},
    [TR_ST_U32] = {"U32", 32, TR_NONE},
    [TR_ST_F32] = {"F32", 32, TR_F32},
    [TR_ST_C64] = {"C64", 64, TR_NONE},
    [TR_ST_F64] = {"F64", 64, TR_F64},
    [TR_ST_I64] = {"I64", 64, TR_I64},
    [TR_ST_U64] = {"U64", 64, TR_NONE},
};

const char *tr_st_type_name(enum tr_st_type type)
{
    return types[type].name;
}

unsigned tr_st_type_bits(enum tr_st_type type)
{
    return types[type].bits;
}

enum fr_rc tr_st_dtype(enum tr_st_type type, enum tr_dtype *out, struct fr_err *err)
{
    *out = types[type].dtype;
    if (*out == TR_NONE)
        return fr_fail(err, FR_DTYPE, "cannot compute with type %s", types[type].name);
    return FR_OK;
}

enum tr_st_type tr_st_type_of(enum tr_dtype dtype)
{
    for (int i = TR_ST_U8; i < TR_ST_TYPES; i++)
        if (types[i].dtype == dtype)
            return (enum tr_st_type)i;
    return TR_ST_U8;
}

void tr_st_shape_text(struct fr_buf *b, int ndim, const int64_t *shape)
{
    fr_buf_text(b, "[");
    for (int i = 0; i < ndim; i++)
        fr_buf_fmt(b, "%s%" PRId64, i > 0 ? ", " : "", shape[i]);
    fr_buf_text(b, "]");
}

enum fr_rc tr_st_want_shape(const struct tr_st_tensor *t, int ndim, const int64_t *shape,
                            struct fr_err *err)
{
    bool same = t->ndim == ndim;
    struct fr_buf got = {0}, want = {0};

    for (int i = 0; same && i < ndim; i++)
        same = t->shape[i] == shape[i];
    if (same)
        return FR_OK;
    tr_st_shape_text(&got, t->ndim, t->shape);
    tr_st_shape_text(&want, ndim, shape);
    fr_fail(err, FR_SHAPE, "tensor '%s' has shape %s, expected %s", t->name,
            got.p != NULL ? got.p : "?", want.p != NULL ? want.p : "?");
    fr_buf_finish(&got);
    fr_buf_finish(&want);
    return FR_SHAPE;
}
