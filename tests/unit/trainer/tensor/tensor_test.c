#include "tests/unit/check.h"
#include "trainer/tensor/tensor.h"

#include <math.h>
#include <stdint.h>

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

int main(void)
{
    test_finite();
    return check_done();
}
