#include "trainer/tensor/tensor.h"

#include "trainer/tensor/convert.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [TR_NONE] = {"none", 0}, [TR_F64] = {"f64", 8}, [TR_F32] = {"f32", 4},
    [TR_BF16] = {"bf16", 2}, [TR_F16] = {"f16", 2}, [TR_F8_E4M3] = {"f8_e4m3", 1},
    [TR_I64] = {"i64", 8},   [TR_I32] = {"i32", 4}, [TR_U8] = {"u8", 1},
};

size_t tr_dtype_bytes(enum tr_dtype t)
{
    return (unsigned)t < sizeof dtypes / sizeof dtypes[0] ? dtypes[t].bytes : 0;
}

const char *tr_dtype_name(enum tr_dtype t)
{
    return (unsigned)t < sizeof dtypes / sizeof dtypes[0] ? dtypes[t].name : "?";
}

struct tr_view tr_view_of(void *p, enum tr_dtype t, int rank, const int64_t *shape)
{
    struct tr_view v = {.p = p, .dtype = t, .rank = rank, .ld = 1};

    assert(rank >= 1 && rank <= TR_RANK_MAX);
    for (int i = 0; i < rank; i++) {
        v.shape[i] = shape[i];
        if (i > 0)
            v.ld *= shape[i];
    }
    return v;
}

struct tr_view tr_view1(void *p, enum tr_dtype t, int64_t n)
{
    return tr_view_of(p, t, 1, &n);
}

struct tr_view tr_view2(void *p, enum tr_dtype t, int64_t rows, int64_t cols)
{
    return tr_view_of(p, t, 2, (const int64_t[]){rows, cols});
}

/* v.p plus `elements`; NULL stays NULL. */
static void *advance(struct tr_view v, int64_t elements)
{
    if (v.p == NULL)
        return NULL;
    return (char *)v.p + elements * (int64_t)tr_dtype_bytes(v.dtype);
}

struct tr_view tr_view_rows(struct tr_view v, int64_t first, int64_t n)
{
    assert(v.rank >= 1 && first >= 0 && n >= 0 && first + n <= v.shape[0]);
    v.p = advance(v, first * v.ld);
    v.shape[0] = n;
    return v;
}

struct tr_view tr_view_cols(struct tr_view v, int64_t first, int64_t n)
{
    assert(v.rank == 2 && first >= 0 && n >= 0 && first + n <= v.shape[1]);
    v.p = advance(v, first);
    v.shape[1] = n;
    return v;
}

struct tr_view tr_view_heads(struct tr_view v, int64_t n, int64_t w)
{
    assert(v.rank == 2 && v.shape[1] == n * w);
    v.rank = 3;
    v.shape[1] = n;
    v.shape[2] = w;
    return v;
}

int64_t tr_view_count(struct tr_view v)
{
    int64_t n = v.rank > 0 ? 1 : 0;

    for (int i = 0; i < v.rank; i++)
        n *= v.shape[i];
    return n;
}

size_t tr_view_bytes(struct tr_view v)
{
    return (size_t)tr_view_count(v) * tr_dtype_bytes(v.dtype);
}

bool tr_view_contiguous(struct tr_view v)
{
    int64_t row = 1;

    for (int i = 1; i < v.rank; i++)
        row *= v.shape[i];
    return v.ld == row || v.rank == 0 || v.shape[0] <= 1;
}

bool tr_view_absent(struct tr_view v)
{
    return v.p == NULL;
}

void tr_view_show(struct tr_view v, char out[96])
{
    size_t at = 0;

    out[at++] = '(';
    for (int i = 0; i < v.rank && at < 80; i++) {
        int n = snprintf(out + at, 96 - at, i > 0 ? ", %" PRId64 : "%" PRId64, v.shape[i]);

        at += n > 0 ? (size_t)n : 0;
    }
    if (at < 96)
        snprintf(out + at, 96 - at, ") %s", tr_dtype_name(v.dtype));
}

static uint32_t bits_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

uint16_t tr_bf16_of(float x)
{
    return tr_bf16_bits(x);
}

float tr_bf16_to(uint16_t b)
{
    return tr_bf16_value(b);
}

uint16_t tr_f16_of(float x)
{
    uint32_t u = bits_of(x);
    uint32_t sign = u >> 16 & 0x8000u;
    uint32_t a = u & 0x7fffffffu;

    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (a >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) { /* subnormal: adding 0.5 rounds at 2^-24, the ulp of 0.5 in f32 */
        float r = float_of(a) + 0.5f;

        return (uint16_t)(sign | (bits_of(r) - 0x3f000000u));
    }
    a += 0xfffu + (a >> 13 & 1u);
    return (uint16_t)(sign | (a - 0x38000000u) >> 13);
}

float tr_f16_to(uint16_t b)
{
    uint32_t sign = (uint32_t)(b & 0x8000u) << 16;
    uint32_t e = b >> 10 & 0x1fu;
    uint32_t m = b & 0x3ffu;

    if (e == 31)
        return float_of(sign | 0x7f800000u | m << 13);
    if (e == 0) {
        float x = (float)m * 0x1p-24f;

        return sign ? -x : x;
    }
    return float_of(sign | (e + 112) << 23 | m << 13);
}

float tr_f8_e4m3_to(uint8_t b)
{
    int e = b >> 3 & 15;
    int m = b & 7;
    float x = e == 0 ? ldexpf((float)m, -9) : ldexpf((float)(8 + m), e - 10);

    if (e == 15 && m == 7)
        x = NAN;
    return b & 0x80 ? -x : x;
}

uint8_t tr_f8_e4m3_of(float x)
{
    uint8_t sign = signbit(x) ? 0x80 : 0;
    float a = fabsf(x);
    int e, q;

    if (isnan(x))
        return 0x7f | sign;
    if (a >= 448.0f)
        return 0x7e | sign;
    if (a < 0x1p-6f)
        return (uint8_t)(sign | (int)lrintf(a * 512.0f)); /* 8 of them is the first normal */
    frexpf(a, &e);
    q = (int)lrintf(ldexpf(a, 4 - e)); /* 8 .. 16 */
    return (uint8_t)(sign | (((e + 6) << 3) + q - 8));
}

/* Address of flat element i of a view whose rows may be strided. */
static void *element(struct tr_view v, int64_t i)
{
    int64_t row = 1;

    for (int d = 1; d < v.rank; d++)
        row *= v.shape[d];
    return advance(v, i / row * v.ld + i % row);
}

double tr_get(struct tr_view v, int64_t i)
{
    const void *p = element(v, i);

    switch (v.dtype) {
    case TR_F64:
        return *(const double *)p;
    case TR_F32:
        return (double)*(const float *)p;
    case TR_BF16:
        return (double)tr_bf16_to(*(const uint16_t *)p);
    case TR_F16:
        return (double)tr_f16_to(*(const uint16_t *)p);
    case TR_F8_E4M3:
        return (double)tr_f8_e4m3_to(*(const uint8_t *)p);
    case TR_I64:
        return (double)*(const int64_t *)p;
    case TR_I32:
        return (double)*(const int32_t *)p;
    case TR_U8:
        return (double)*(const uint8_t *)p;
    case TR_NONE:
        break;
    }
    return NAN;
}

void tr_set(struct tr_view v, int64_t i, double x)
{
    void *p = element(v, i);

    switch (v.dtype) {
    case TR_F64:
        *(double *)p = x;
        break;
    case TR_F32:
        *(float *)p = (float)x;
        break;
    case TR_BF16:
        *(uint16_t *)p = tr_bf16_of((float)x);
        break;
    case TR_F16:
        *(uint16_t *)p = tr_f16_of((float)x);
        break;
    case TR_F8_E4M3:
        *(uint8_t *)p = tr_f8_e4m3_of((float)x);
        break;
    case TR_I64:
        *(int64_t *)p = (int64_t)x;
        break;
    case TR_I32:
        *(int32_t *)p = (int32_t)x;
        break;
    case TR_U8:
        *(uint8_t *)p = (uint8_t)x;
        break;
    case TR_NONE:
        break;
    }
}
