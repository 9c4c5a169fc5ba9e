#include "tests/cudasim/isa.h"

#include <algorithm>
#include <cmath>
#include <cstring>

/* ---- fragments. groupID and threadID_in_group are the ISA's own names. ---- */

struct isa_at isa_mma_a(unsigned lane, unsigned i)
{
    unsigned groupID = lane >> 2, threadID_in_group = lane % 4;
    bool upper = i < 2 || (4 <= i && i < 6);

    return {upper ? groupID : groupID + 8, threadID_in_group * 2 + (i & 1) + (i < 4 ? 0u : 8u)};
}

struct isa_at isa_mma_b(unsigned lane, unsigned i)
{
    unsigned groupID = lane >> 2, threadID_in_group = lane % 4;

    return {threadID_in_group * 2 + (i & 1) + (i < 2 ? 0u : 8u), groupID};
}

struct isa_at isa_mma_d(unsigned lane, unsigned i)
{
    unsigned groupID = lane >> 2, threadID_in_group = lane % 4;

    return {i < 2 ? groupID : groupID + 8, threadID_in_group * 2 + (i & 1)};
}

/* Warp w of the group holds rows 16w .. 16w+15. */
struct isa_at isa_wgmma_d(unsigned thread, unsigned i)
{
    static const unsigned rows[4] = {0, 0, 8, 8}, cols[4] = {0, 1, 0, 1};
    unsigned lane = thread % 32;

    return {thread / 32 * 16 + lane / 4 + rows[i % 4], i / 4 * 8 + lane % 4 * 2 + cols[i % 4]};
}

struct isa_at isa_wgmma_a(unsigned thread, unsigned i)
{
    static const unsigned rows[8] = {0, 0, 8, 8, 0, 0, 8, 8}, cols[8] = {0, 1, 0, 1, 8, 9, 8, 9};
    unsigned lane = thread % 32;

    return {thread / 32 * 16 + lane / 4 + rows[i], lane % 4 * 2 + cols[i]};
}

/* ---- matrices in shared memory ---- */

/* A step that the table takes from the descriptor. */
enum field { NONE, LBO, SBO };

/*
 * One line of the table of canonical layouts, ((r0, r1, m), (c0, k)) : ((s0, s1, sm), (t0, tk)),
 * in elements; sm and tk may be a field of the descriptor. r1 = 1 where the line has two sizes.
 */
struct canonical {
    unsigned r0, r1, s0, s1;
    enum field sm;
    unsigned c0, t0;
    enum field tk;
    unsigned tk_step;   /* where tk is NONE */
    unsigned swizzle_b; /* Swizzle<B, 4, 3> */
};

enum { T = 8 }; /* 128 bits in elements of 16 */

static const struct canonical table[2][4] = {
    /* K-major: none, 128 B, 64 B, 32 B */
    {{8, 1, 1 * T, 0, SBO, T, 1, LBO, 0, 0},
     {8, 1, 8 * T, 0, SBO, T, 1, NONE, T, 3},
     {8, 1, 4 * T, 0, SBO, T, 1, NONE, T, 2},
     {8, 1, 2 * T, 0, SBO, T, 1, NONE, T, 1}},
    /* MN-major */
    {{T, 1, 1, T, SBO, 8, 1 * T, LBO, 0, 0},
     {T, 8, 1, T, LBO, 8, 8 * T, SBO, 0, 3},
     {T, 4, 1, T, LBO, 8, 4 * T, SBO, 0, 2},
     {T, 2, 1, T, LBO, 8, 2 * T, SBO, 0, 1}},
};

const char *isa_matrix_of(struct isa_matrix *out, uint64_t bits, bool mn_major)
{
    static const uint64_t used =
        0x3fffull | 0x3fffull << 16 | 0x3fffull << 32 | 7ull << 49 | 3ull << 62;
    static const uint32_t widths[4] = {16, 128, 64, 32};
    uint32_t width, inside;

    *out = {(uint32_t)(bits & 0x3fff) * 16, (uint32_t)(bits >> 16 & 0x3fff) * 16,
            (uint32_t)(bits >> 32 & 0x3fff) * 16, (unsigned)(bits >> 49 & 7),
            (unsigned)(bits >> 62)};
    if ((bits & ~used) != 0)
        return "a matrix descriptor has bits outside its fields";
    if (out->swizzle == 0)
        return out->base != 0 ? "a matrix descriptor has a base offset without a swizzle" : NULL;
    width = widths[out->swizzle];
    inside = out->start % (8 * width);
    if (out->base != 0)
        return "a matrix descriptor has a base offset: patterns begin at their own alignment here";
    if (mn_major ? inside != 0 : inside >= width || inside % 32 != 0)
        return "a matrix descriptor starts inside the pattern of its swizzle";
    if (!mn_major && out->lead > 16)
        return "a matrix descriptor has a leading offset that its layout does not use";
    return NULL;
}

static unsigned step_of(const struct isa_matrix *x, enum field f, unsigned otherwise)
{
    return f == LBO ? x->lead / 2 : f == SBO ? x->stride / 2 : otherwise;
}

uint32_t isa_row(const struct isa_matrix *x, bool mn_major, unsigned row)
{
    const struct canonical *c = &table[mn_major][x->swizzle];

    return 2 * (row % c->r0 * c->s0 + row / c->r0 % c->r1 * c->s1 +
                row / (c->r0 * c->r1) * step_of(x, c->sm, 0));
}

uint32_t isa_col(const struct isa_matrix *x, bool mn_major, unsigned col)
{
    const struct canonical *c = &table[mn_major][x->swizzle];

    return 2 * (col % c->c0 * c->t0 + col / c->c0 * step_of(x, c->tk, c->tk_step));
}

/* Swizzle<B, 4, 3>: the same B for both kinds. */
uint32_t isa_swizzled(const struct isa_matrix *x, uint32_t byte)
{
    return byte ^ (byte >> 3 & (((1u << table[0][x->swizzle].swizzle_b) - 1) << 4));
}

uint32_t isa_element(const struct isa_matrix *x, bool mn_major, unsigned row, unsigned col)
{
    return isa_swizzled(x, x->start + isa_row(x, mn_major, row) + isa_col(x, mn_major, col));
}

/* ---- sums ---- */

enum { TERMS = 16, FRACTION = 24, BIAS = 1023, MOST = 2047 };

/* The biased exponent of x: 0 for zero, MOST for what is no number. */
static int exponent(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 52 & MOST);
}

static double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + BIAS) << 52;
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* All terms in units of 2^(e - FRACTION), e the exponent of the largest, each cut toward zero. */
static float truncated(float c, const float *a, const float *b, size_t step)
{
    double term[TERMS + 1], exact;
    int64_t sum = 0;
    int most = 0;

    for (int k = 0; k <= TERMS; k++) {
        term[k] = k == TERMS ? (double)c : (double)a[k] * (double)b[(size_t)k * step];
        most = std::max(most, exponent(term[k]));
    }
    if (most == MOST)
        return isa_sum(ISA_IN_ORDER, c, a, b, step, 0);
    if (most == 0)
        return c;
    for (int k = 0; k <= TERMS; k++)
        sum += (int64_t)(term[k] * power_of_two(FRACTION - (most - BIAS)));
    exact = (double)sum * power_of_two(most - BIAS - FRACTION);

    float near = (float)exact;

    return std::fabs((double)near) > std::fabs(exact) ? std::nextafterf(near, 0.0f) : near;
}

static float shuffled(float c, const float *a, const float *b, size_t step, unsigned salt)
{
    unsigned by = 2 * (salt % 8) + 1, from = salt / 8 % TERMS; /* odd: reaches all 16 terms */
    float sum = 0;

    for (unsigned i = 0; i <= TERMS; i++) {
        unsigned k = (from + (i - (i > TERMS / 2)) * by) % TERMS;

        if (i == TERMS / 2)
            sum += c;
        else
            sum += a[k] * b[(size_t)k * step];
    }
    return sum;
}

float isa_sum(enum isa_sums kind, float c, const float *a, const float *b, size_t step,
              unsigned salt)
{
    if (kind == ISA_TRUNCATED)
        return truncated(c, a, b, step);
    if (kind == ISA_SHUFFLED)
        return shuffled(c, a, b, step, salt);
    for (size_t k = 0; k < TERMS; k++)
        c += a[k] * b[k * step];
    return c;
}
