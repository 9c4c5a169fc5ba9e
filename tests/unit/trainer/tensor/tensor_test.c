#include "tests/unit/check.h"
#include "trainer/tensor/tensor.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { N = 37, AT = 29 };

/* Views of N ones, but for the value x at AT. */
static bool finite_with(enum tr_dtype type, double x)
{
    static double memory[N];
    struct tr_view v = tr_view1(memory, type, N);

    for (int64_t i = 0; i < N; i++)
        tr_set(v, i, 1);
    tr_set(v, AT, x);
    return tr_view_finite(v);
}

static void test_finite(void)
{
    const struct {
        enum tr_dtype type;
        double most, least; /* finite values of all bits but one of the exponent, and of none */
    } types[] = {{TR_F64, 1e308, 5e-324},
                 {TR_F32, 3.4e38, 1e-45},
                 {TR_BF16, 3.38e38, 1e-40},
                 {TR_F16, 65504, 6e-8}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        CHECK(finite_with(types[i].type, types[i].most));
        CHECK(finite_with(types[i].type, -types[i].most));
        CHECK(finite_with(types[i].type, types[i].least));
        CHECK(finite_with(types[i].type, 0));
        CHECK(!finite_with(types[i].type, INFINITY));
        CHECK(!finite_with(types[i].type, -INFINITY));
        CHECK(!finite_with(types[i].type, NAN));
    }
    CHECK(finite_with(TR_F8_E4M3, 448));
    CHECK(finite_with(TR_I32, 0x7f800000));
    CHECK(tr_view_finite(tr_view1(NULL, TR_F32, 0)));
}

/* A copy has the bits that one element after the other gets: of every sign, exponent and size, of
 * numbers half way between two of the other type, infinities and NaN. */
static void test_copy(void)
{
    static const enum tr_dtype types[] = {TR_F64, TR_F32, TR_BF16, TR_F16, TR_F8_E4M3, TR_I32};
    enum { MANY = 5000, TYPES = sizeof types / sizeof *types };
    static double from[MANY], whole[MANY], single[MANY];

    for (int t = 0; t < TYPES; t++) {
        struct tr_view x = tr_view1(from, types[t], MANY);

        for (int64_t i = 0; i < MANY; i++)
            tr_set(x, i,
                   i == 7   ? INFINITY
                   : i == 8 ? NAN
                            : ldexp((double)(i % 2 ? -i : i), (int)(i % 41) - 30));
        for (int u = 0; u < TYPES; u++) {
            struct tr_view y = tr_view1(whole, types[u], MANY),
                           z = tr_view1(single, types[u], MANY);

            if ((types[u] == TR_I32) != (types[t] == TR_I32))
                continue; /* infinity is no integer */
            tr_view_copy(y, x);
            for (int64_t i = 0; i < MANY; i++)
                tr_set(z, i, tr_get(x, i));
            check_row(tr_dtype_name(types[u]));
            CHECK(memcmp(whole, single, tr_view_bytes(y)) == 0);
        }
    }
}

int main(void)
{
    test_finite();
    test_copy();
    return check_done();
}
