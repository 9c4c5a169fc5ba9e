/* Exact sums: the same digits in any order and any parts, and the value of the sum. */
#include "tests/unit/check.h"
#include "trainer/backend/exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES = 2000, VALUES = 300, PARTS = 5 };

static uint64_t state = 1;

static uint64_t draw(void)
{
    state += 0x9E3779B97F4A7C15u;
    return tr_draw_mix(state);
}

/* A square of a float of any size: denormal, ordinary, or near the largest. */
static double square(int kind)
{
    double u = (double)(draw() >> 11) * 0x1p-53;
    float x = kind == 0   ? (float)(u * 0x1p-126)
              : kind == 1 ? (float)(u * 3e38)
                          : (float)ldexp(u, (int)(draw() % 200) - 100);

    return (double)x * (double)x;
}

static void add(int64_t *limbs, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    tr_exact_add(limbs, tr_exact_of(bits));
}

/* A float of 128 bits, which AArch64's long double is. */
#ifdef __SIZEOF_FLOAT128__
typedef __float128 quad;
#else
typedef long double quad;
#endif

static void try_table(int kind)
{
    int64_t one[TR_EXACT_LIMBS] = {0}, parts[PARTS][TR_EXACT_LIMBS] = {{0}};
    int64_t sum[TR_EXACT_LIMBS] = {0};
    double x[VALUES];
    quad want = 0;

    for (int i = 0; i < VALUES; i++) {
        x[i] = square(kind == 3 ? i % 3 : kind);
        add(one, x[i]);
    }
    tr_exact_carry(one);
    for (int i = VALUES - 1; i > 0; i--) {
        int k = (int)(draw() % (uint64_t)(i + 1));
        double keep = x[i];

        x[i] = x[k];
        x[k] = keep;
    }
    for (int i = 0; i < VALUES; i++)
        add(parts[draw() % PARTS], x[i]);
    for (int p = 0; p < PARTS; p++) {
        tr_exact_carry(parts[p]);
        for (int i = 0; i < TR_EXACT_LIMBS; i++)
            sum[i] += parts[p][i];
    }
    tr_exact_carry(sum);
    CHECK(memcmp(one, sum, sizeof(one)) == 0);
    for (int i = 0; i < VALUES; i++)
        want += (quad)x[i]; /* 113 bits: exact but for what is 2^60 below */
    CHECK(fabs(tr_exact_value(one) - (double)want) <= 0x1p-52 * (double)want);
}

int main(void)
{
    int64_t limbs[TR_EXACT_LIMBS] = {0};

    for (int i = 0; i < TABLES; i++)
        try_table(i % 4);
    add(limbs, 0x1p-298); /* the smallest square, beside the largest sum of a block */
    add(limbs, 64 * 0x1p256);
    add(limbs, 0x1p-298);
    tr_exact_carry(limbs);
    CHECK_INT(limbs[0], (int64_t)1 << 23);
    CHECK(tr_exact_value(limbs) == 64 * 0x1p256);
    return check_done();
}
