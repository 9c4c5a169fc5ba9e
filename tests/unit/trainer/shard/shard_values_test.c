/* Which bits of each type are no number, wherever they lie; scales; conversions. */
#include "tests/unit/check.h"
#include "trainer/shard/values.h"

#include <math.h>

enum { N = 300 };

static const struct {
    const char *name;
    enum tr_dtype type;
    uint32_t bits;
    bool finite;
} rows[] = {
    {"f8, its NaN", TR_F8_E4M3, 0x7f, false},
    {"f8, its negative NaN", TR_F8_E4M3, 0xff, false},
    {"f8, 448", TR_F8_E4M3, 0x7e, true},
    {"f8, -448", TR_F8_E4M3, 0xfe, true},
    {"f8, -0", TR_F8_E4M3, 0x80, true},
    {"bf16, infinity", TR_BF16, 0x7f80, false},
    {"bf16, -infinity", TR_BF16, 0xff80, false},
    {"bf16, NaN", TR_BF16, 0x7fc0, false},
    {"bf16, NaN of the lowest bit", TR_BF16, 0xff81, false},
    {"bf16, the largest", TR_BF16, 0x7f7f, true},
    {"f16, infinity", TR_F16, 0x7c00, false},
    {"f16, -infinity", TR_F16, 0xfc00, false},
    {"f16, NaN", TR_F16, 0x7e00, false},
    {"f16, NaN of the lowest bit", TR_F16, 0x7c01, false},
    {"f16, the largest", TR_F16, 0x7bff, true},
    {"f16, the smallest", TR_F16, 0x8001, true},
    {"f32, infinity", TR_F32, 0x7f800000, false},
    {"f32, -infinity", TR_F32, 0xff800000, false},
    {"f32, NaN", TR_F32, 0x7fc00000, false},
    {"f32, NaN of the lowest bit", TR_F32, 0x7f800001, false},
    {"f32, the largest", TR_F32, 0x7f7fffff, true},
    {"whole numbers are all finite", TR_I32, 0x7fffffff, true},
};

static void put(void *all, enum tr_dtype type, int at, uint32_t bits)
{
    if (tr_dtype_bytes(type) == 1)
        ((uint8_t *)all)[at] = (uint8_t)bits;
    else if (tr_dtype_bytes(type) == 2)
        ((uint16_t *)all)[at] = (uint16_t)bits;
    else
        ((uint32_t *)all)[at] = bits;
}

static void test_finite(void)
{
    static const int places[] = {0, 1, 127, 128, 129, 255, 256, N - 1};
    static uint32_t all[N];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
            const struct tr_unit_tensor t = {.name = "w", .dtype = rows[i].type};
            size_t n = (size_t)places[k] + 1;
            struct fr_err err = {0};

            check_row(rows[i].name);
            memset(all, 0, sizeof(all));
            put(all, rows[i].type, places[k], rows[i].bits);
            CHECK_INT(values_finite(&t, all, N, &err), rows[i].finite ? FR_OK : FR_CORRUPT);
            CHECK_TEXT(err.msg, rows[i].finite ? "" : "w: holds a value that is not finite");
            CHECK_INT(values_finite(&t, all, n, NULL), rows[i].finite ? FR_OK : FR_CORRUPT);
            CHECK_INT(values_finite(&t, all, n - 1, NULL), FR_OK); /* it is behind the end */
        }
}

static void test_positive(void)
{
    static const struct {
        const char *name;
        float value;
        bool good;
    } scales[] = {{"small", 1e-30F, true},
                  {"zero", 0, false},
                  {"minus zero", -0.0F, false},
                  {"negative", -1, false},
                  {"NaN", NAN, false}};

    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
        for (int at = 0; at < 3; at++) {
            struct tr_unit_tensor t = {.name = "s", .dtype = TR_F32, .positive = true};
            float x[3] = {1, 2, 3};
            struct fr_err err = {0};

            check_row(scales[i].name);
            x[at] = scales[i].value;
            CHECK_INT(values_positive(&t, x, 3, &err), scales[i].good ? FR_OK : FR_CORRUPT);
            CHECK_TEXT(err.msg,
                       scales[i].good ? "" : "s: holds a scale of 0 or below, expected above 0");
            t.positive = false;
            CHECK_INT(values_positive(&t, x, 3, NULL), FR_OK);
        }
}

/* There and back through every pair of types, over more than a piece. */
static void test_convert(void)
{
    enum { MANY = 2500 };
    static const enum tr_dtype types[] = {TR_F64, TR_F32, TR_BF16, TR_F16};
    static double from[MANY], to[MANY];

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            struct tr_view a = tr_view1(from, types[i], MANY), b = tr_view1(to, types[k], MANY);
            int wrong = 0;

            check_row("conversions");
            for (int64_t x = 0; x < MANY; x++)
                tr_set(a, x, (double)(x % 100) - 50);
            memset(to, 0xff, sizeof(to));
            values_put(to, types[k], from, types[i], MANY);
            for (int64_t x = 0; x < MANY; x++)
                wrong += tr_get(b, x) != (double)(x % 100) - 50;
            CHECK_INT(wrong, 0);
            CHECK(values_convert(types[i], types[k]));
        }
    CHECK(values_convert(TR_I32, TR_I32) && values_convert(TR_F8_E4M3, TR_F8_E4M3));
    CHECK(!values_convert(TR_I32, TR_F32) && !values_convert(TR_F32, TR_F8_E4M3) &&
          !values_convert(TR_F8_E4M3, TR_BF16));
}

int main(void)
{
    test_finite();
    test_positive();
    test_convert();
    return check_done();
}
