#include "trainer/shard/values.h"

enum { PIECE = 1024, BLOCK = 128 };

static bool floating(enum tr_dtype t)
{
    return t == TR_F64 || t == TR_F32 || t == TR_BF16 || t == TR_F16;
}

bool values_convert(enum tr_dtype from, enum tr_dtype to)
{
    return from == to || (floating(from) && floating(to));
}

static void widen(float *out, const void *in, enum tr_dtype t, size_t n)
{
    const uint16_t *h = in;
    const float *f = in;
    const double *d = in;

    for (size_t i = 0; i < n; i++)
        out[i] = t == TR_BF16  ? tr_bf16_to(h[i])
                 : t == TR_F16 ? tr_f16_to(h[i])
                 : t == TR_F64 ? (float)d[i]
                               : f[i];
}

static void narrow(void *out, const float *in, enum tr_dtype t, size_t n)
{
    uint16_t *h = out;
    float *f = out;
    double *d = out;

    for (size_t i = 0; i < n; i++)
        if (t == TR_BF16)
            h[i] = tr_bf16_of(in[i]);
        else if (t == TR_F16)
            h[i] = tr_f16_of(in[i]);
        else if (t == TR_F64)
            d[i] = (double)in[i];
        else
            f[i] = in[i];
}

void values_put(void *out, enum tr_dtype to, const void *in, enum tr_dtype from, size_t n)
{
    size_t step_in = tr_dtype_bytes(from), step_out = tr_dtype_bytes(to);
    float wide[PIECE];

    for (size_t i = 0; i < n; i += PIECE) {
        size_t m = n - i < PIECE ? n - i : PIECE;

        widen(wide, (const char *)in + i * step_in, from, m);
        narrow((char *)out + i * step_out, wide, to, m);
    }
}

/* Whether one of n numbers has all bits of the mask, of an exponent or a code. Blocks of a fixed
 * length vectorise. */
#define ANY_WITH(name, type)                                                                       \
    static bool name(const type *x, size_t n, type mask)                                           \
    {                                                                                              \
        size_t i = 0;                                                                              \
        type any = 0;                                                                              \
                                                                                                   \
        for (; i + BLOCK <= n && any == 0; i += BLOCK)                                             \
            for (size_t k = 0; k < BLOCK; k++)                                                     \
                any |= (type)((x[i + k] & mask) == mask);                                          \
        for (; i < n; i++)                                                                         \
            any |= (type)((x[i] & mask) == mask);                                                  \
        return any != 0;                                                                           \
    }

ANY_WITH(any_with8, uint8_t)
ANY_WITH(any_with16, uint16_t)
ANY_WITH(any_with32, uint32_t)

static bool not_finite(const void *p, enum tr_dtype t, size_t n)
{
    switch (t) {
    case TR_F8_E4M3: /* its only NaN codes; it has no infinity */
        return any_with8(p, n, 0x7f);
    case TR_BF16:
        return any_with16(p, n, 0x7f80);
    case TR_F16:
        return any_with16(p, n, 0x7c00);
    case TR_F32:
        return any_with32(p, n, 0x7f800000);
    default:
        return false;
    }
}

enum fr_rc values_not_finite(const struct tr_unit_tensor *t, struct fr_err *err)
{
    return fr_fail(err, FR_CORRUPT, "%s: holds a value that is not finite", t->name);
}

enum fr_rc values_finite(const struct tr_unit_tensor *t, const void *p, size_t n,
                         struct fr_err *err)
{
    return not_finite(p, t->dtype, n) ? values_not_finite(t, err) : FR_OK;
}

enum fr_rc values_positive(const struct tr_unit_tensor *t, const void *p, size_t n,
                           struct fr_err *err)
{
    const float *x = p;
    size_t bad = 0;

    for (size_t i = 0; i < n && t->positive; i++)
        bad += !(x[i] > 0);
    return bad == 0 ? FR_OK
                    : fr_fail(err, FR_CORRUPT, "%s: holds a scale of 0 or below, expected above 0",
                              t->name);
}
