/*
 * AdamW with 8-bit moments beside bitsandbytes (tests/golden/coded.py): the maps, then weights,
 * codes and maxima of a tensor over some steps. Beyond it: a block of zeros, and a gradient of
 * zeros.
 *
 * Tolerances: this program fuses products and sums in f32 where torch rounds them apart, some
 * roundings of 2^-24 a step. A code may differ by one where a number lies that near to the middle
 * between two values, which happens to one in a hundred thousand.
 */
#include "tests/unit/check.h"
#include "trainer/backend/backend.h"
#include "trainer/tensor/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 5000, BLOCKS = (N + TR_CODED_BLOCK - 1) / TR_CODED_BLOCK, STEPS = 12 };

struct tensor {
    float p[N], g[N], m_max[BLOCKS], v_max[BLOCKS];
    uint8_t m[N], v[N];
};

/* In [-1, 1): the same in coded.py. */
static double number(int64_t i, int64_t step)
{
    uint32_t x = (uint32_t)(i * 2654435761 + step * 2246822519 + 374761393);

    return (double)(x * 3266489917u) / 0x1p31 - 1;
}

static void make_gradient(struct tensor *t, int64_t step)
{
    for (int64_t i = 0; i < N; i++) {
        double x = number(i, step);

        t->g[i] = (float)(x * x * x);
    }
}

static void step_of(struct tr_backend *be, struct tr_queue *q, struct tensor *t, int64_t step)
{
    struct tr_adamw a = {.p = tr_view1(t->p, TR_F32, N),
                         .m = tr_view1(t->m, TR_U8, N),
                         .v = tr_view1(t->v, TR_U8, N),
                         .m_max = tr_view1(t->m_max, TR_F32, BLOCKS),
                         .v_max = tr_view1(t->v_max, TR_F32, BLOCKS),
                         .g = tr_view1(t->g, TR_F32, N),
                         .lr = 1e-2f,
                         .wd = 0.1f,
                         .scale = 1,
                         .b1 = 0.9,
                         .b2 = 0.999,
                         .eps = 1e-8,
                         .step = step};
    struct fr_err err = {0};

    if (tr_adamw(be, q, &a, &err) != FR_OK || tr_sync(be, q, &err) != FR_OK)
        printf("   %s\n", err.msg);
    CHECK(err.rc == FR_OK);
}

static void load(struct tr_st *st, const char *name, int64_t step, void *out, size_t bytes)
{
    char key[32];
    const struct tr_st_tensor *t;
    struct fr_err err = {0};

    (void)snprintf(key, sizeof(key), "%s.%lld", name, (long long)step);
    t = tr_st_find(st, step > 0 ? key : name);
    if (CHECK(t != NULL) && CHECK((size_t)t->bytes == bytes))
        CHECK_INT(tr_st_read(st, t, 0, out, bytes, &err), FR_OK);
}

static void compare_floats(const float *got, const float *want, int n, double near)
{
    double worst = 0;
    int far = 0; /* a NaN is far, too */

    for (int i = 0; i < n; i++) {
        double away = fabs((double)got[i] - (double)want[i]) / (fabs((double)want[i]) + 1e-30);

        far += !(away <= near);
        worst = away > worst ? away : worst;
    }
    if (!CHECK_INT(far, 0))
        printf("   off by %g\n", worst);
}

static void compare_codes(const uint8_t *got, const uint8_t *want)
{
    int other = 0, most = 0;

    for (int i = 0; i < N; i++) {
        other += got[i] != want[i];
        most = abs(got[i] - want[i]) > most ? abs(got[i] - want[i]) : most;
    }
    if (!CHECK(other <= 1 && most <= 1))
        printf("   %d codes differ, by %d at most\n", other, most);
}

static void compare(struct tr_st *st, const struct tensor *t, int64_t step)
{
    static struct tensor want;
    char row[32];
    int far = 0;

    (void)snprintf(row, sizeof(row), "step %lld", (long long)step);
    check_row(row);
    load(st, "p", step, want.p, sizeof(want.p));
    load(st, "m", step, want.m, sizeof(want.m));
    load(st, "v", step, want.v, sizeof(want.v));
    load(st, "m_max", step, want.m_max, sizeof(want.m_max));
    load(st, "v_max", step, want.v_max, sizeof(want.v_max));
    compare_codes(t->m, want.m);
    compare_codes(t->v, want.v);
    compare_floats(t->m_max, want.m_max, BLOCKS, 1e-6);
    compare_floats(t->v_max, want.v_max, BLOCKS, 1e-6);
    for (int i = 0; i < N; i++) { /* weights are up to 1, a step moves them by some 1e-2 */
        double away = fabs((double)t->p[i] - (double)want.p[i]);

        far += away > 2e-6;
        CHECK(away < 1e-3);
    }
    CHECK(far <= 2); /* of elements with another code */
}

static void compare_map(struct tr_st *st, const char *name, int both_signs)
{
    struct tr_codes map;
    float got[256], want[256];

    check_row(name);
    tr_codes_make(&map, both_signs);
    for (int code = 0; code < 256; code++)
        got[code] = tr_codes_value(&map, code);
    load(st, name, 0, want, sizeof(want));
    compare_floats(got, want, 256, 2e-7); /* theirs are computed in f32 */
}

/* Zeros have the code of zero; moments of a zero gradient fade. */
static void try_zeros(struct tr_backend *be, struct tr_queue *q)
{
    static struct tensor t;

    check_row("zeros");
    memset(&t, 0, sizeof(t));
    for (int i = 256; i < N; i++)
        t.g[i] = (float)number(i, 1);
    step_of(be, q, &t, 1);
    for (int i = 0; i < 256; i++)
        if (t.p[i] != 0 || t.m[i] != 127 || t.v[i] != 0) {
            CHECK(!"an element of zeros changed");
            break;
        }
    CHECK(t.m_max[0] == 0 && t.v_max[0] == 0 && t.m_max[1] > 0 && t.v_max[1] > 0);
    float before = t.m_max[1];
    memset(t.g, 0, sizeof(t.g));
    step_of(be, q, &t, 2);
    before *= 0.9f; /* the largest negative value is 0.993 */
    CHECK(t.m_max[1] > 0.99f * before && t.m_max[1] < 1.00001f * before);
}

int main(void)
{
    static struct tensor t;
    struct tr_backend *be = NULL;
    struct tr_queue *q = NULL;
    struct tr_st *st = NULL;
    struct fr_err err = {0};

    if (!CHECK(tr_cpu_create(&be, &err) == FR_OK && tr_queue_create(be, 0, &q, &err) == FR_OK &&
               tr_st_open(SOURCE_ROOT "/tests/golden/coded.safetensors", &st, &err) == FR_OK)) {
        printf("   %s\n", err.msg);
        return check_done();
    }
    compare_map(st, "map.m", 1);
    compare_map(st, "map.v", 0);
    for (int i = 0; i < N; i++)
        t.p[i] = (float)number(i, 0);
    for (int64_t step = 1; step <= STEPS; step++) {
        make_gradient(&t, step);
        step_of(be, q, &t, step);
        if (step == 1 || step == 2 || step == 5 || step == STEPS)
            compare(st, &t, step);
    }
    try_zeros(be, q);
    tr_st_close(st);
    tr_queue_destroy(be, q);
    tr_backend_destroy(be);
    return check_done();
}
