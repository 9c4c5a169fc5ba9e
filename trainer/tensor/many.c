/* Many elements of a view at once (tensor.h). */
#include "trainer/tensor/convert.h"
#include "trainer/tensor/tensor.h"

#include <math.h>
#include <string.h>

/* Whether no value has all bits of its exponent set. */
static bool finite32(const uint32_t *x, int64_t n, uint32_t exponent)
{
    uint32_t bad = 0;

    for (int64_t i = 0; i < n; i++)
        bad |= (x[i] & exponent) == exponent;
    return bad == 0;
}

static bool finite16(const uint16_t *x, int64_t n, uint16_t exponent)
{
    uint32_t bad = 0;

    for (int64_t i = 0; i < n; i++)
        bad |= (x[i] & exponent) == exponent;
    return bad == 0;
}

bool tr_view_finite(struct tr_view v)
{
    int64_t n = tr_view_count(v);

    if (v.dtype == TR_F32)
        return finite32(v.p, n, 0x7f800000);
    if (v.dtype == TR_BF16)
        return finite16(v.p, n, 0x7f80);
    if (v.dtype == TR_F16)
        return finite16(v.p, n, 0x7c00);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(tr_get(v, i)))
            return false;
    return true;
}

static bool by_f32(enum tr_dtype t)
{
    return t == TR_F32 || t == TR_BF16 || t == TR_F16 || t == TR_F8_E4M3;
}

static void take_floats(float *y, struct tr_view x, int64_t at, int64_t n)
{
    const uint16_t *half = (const uint16_t *)x.p + at;

    if (x.dtype == TR_F32)
        memcpy(y, (const float *)x.p + at, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n && x.dtype == TR_BF16; i++)
        y[i] = tr_bf16_value(half[i]);
    for (int64_t i = 0; i < n && x.dtype == TR_F16; i++)
        y[i] = tr_f16_to(half[i]);
    for (int64_t i = 0; i < n && x.dtype == TR_F8_E4M3; i++)
        y[i] = tr_f8_e4m3_to(((const uint8_t *)x.p)[at + i]);
}

static void put_floats(struct tr_view y, int64_t at, const float *x, int64_t n)
{
    uint16_t *half = (uint16_t *)y.p + at;

    if (y.dtype == TR_F32)
        memcpy((float *)y.p + at, x, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n && y.dtype == TR_BF16; i++)
        half[i] = tr_bf16_bits(x[i]);
    for (int64_t i = 0; i < n && y.dtype == TR_F16; i++)
        half[i] = tr_f16_of(x[i]);
    for (int64_t i = 0; i < n && y.dtype == TR_F8_E4M3; i++)
        ((uint8_t *)y.p)[at + i] = tr_f8_e4m3_of(x[i]);
}

void tr_view_copy(struct tr_view y, struct tr_view x)
{
    enum { SOME = 1024 };
    int64_t n = tr_view_count(x);
    bool fast = by_f32(x.dtype) && by_f32(y.dtype);
    float some[SOME];

    if (x.dtype == y.dtype) {
        memcpy(y.p, x.p, tr_view_bytes(x));
        return;
    }
    for (int64_t i = 0, m; fast && i < n; i += m) {
        m = n - i < SOME ? n - i : SOME;
        take_floats(some, x, i, m);
        put_floats(y, i, some, m);
    }
    for (int64_t i = 0; !fast && i < n; i++)
        tr_set(y, i, tr_get(x, i));
}
