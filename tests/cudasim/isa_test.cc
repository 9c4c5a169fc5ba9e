/*
 * The tables of isa.h against formulas and figures of the PTX ISA that are written down here anew.
 */
#include "tests/cudasim/isa.h"

#include <cmath>
#include <cstdio>
#include <cstring>

extern "C" {
#include "tests/unit/check.h"
}

/* ---- fragments: places that the ISA's figures show ---- */

struct place {
    unsigned who, i, row, col;
};

static void fragment(const char *name, struct isa_at (*at)(unsigned, unsigned),
                     const struct place *p, size_t n)
{
    check_row(name);
    for (size_t k = 0; k < n; k++) {
        struct isa_at got = at(p[k].who, p[k].i);

        CHECK_INT(got.row, p[k].row);
        CHECK_INT(got.col, p[k].col);
    }
}

#define FRAGMENT(name, at, places) fragment(name, at, places, sizeof places / sizeof places[0])

static const struct place mma_a[] = {
    {0, 0, 0, 0},  {0, 1, 0, 1},   {0, 2, 8, 0},   {0, 3, 8, 1},    {0, 4, 0, 8},
    {0, 5, 0, 9},  {0, 6, 8, 8},   {0, 7, 8, 9},   {3, 0, 0, 6},    {4, 0, 1, 0},
    {31, 0, 7, 6}, {31, 3, 15, 7}, {31, 5, 7, 15}, {31, 7, 15, 15},
};
static const struct place mma_b[] = {
    {0, 0, 0, 0},  {0, 1, 1, 0}, {0, 2, 8, 0},  {0, 3, 9, 0},   {1, 0, 2, 0},
    {3, 3, 15, 0}, {4, 0, 0, 1}, {28, 0, 0, 7}, {31, 3, 15, 7},
};
static const struct place mma_d[] = {
    {0, 0, 0, 0}, {0, 1, 0, 1}, {0, 2, 8, 0},   {0, 3, 8, 1},
    {1, 0, 0, 2}, {4, 0, 1, 0}, {31, 3, 15, 7},
};
static const struct place wgmma_d[] = {
    {0, 0, 0, 0},   {0, 1, 0, 1},    {0, 2, 8, 0},     {0, 3, 8, 1},       {0, 4, 0, 8},
    {0, 6, 8, 8},   {1, 0, 0, 2},    {4, 0, 1, 0},     {31, 3, 15, 7},     {32, 0, 16, 0},
    {64, 0, 32, 0}, {127, 3, 63, 7}, {127, 7, 63, 15}, {96, 124, 48, 248}, {127, 127, 63, 255},
};
static const struct place wgmma_a[] = {
    {0, 0, 0, 0}, {0, 2, 8, 0},   {0, 4, 0, 8},    {0, 6, 8, 8},
    {5, 1, 1, 3}, {32, 0, 16, 0}, {127, 0, 55, 6}, {127, 7, 63, 15},
};

/* ---- matrices in shared memory ---- */

/* Byte of element (m, k) before the swizzle, in words of the manual rather than by its table: a
 * line has `width` bytes; lead and stride are the descriptor's. */
static uint32_t plain_byte(unsigned width, bool mn_major, uint32_t lead, uint32_t stride,
                           unsigned m, unsigned k)
{
    if (mn_major && width == 16) /* 8x8 cells of 128 bytes, a line of a cell is one k */
        return m / 8 * stride + k / 8 * lead + k % 8 * 16 + m % 8 * 2;
    if (mn_major) { /* a line is one k; the next `width` bytes of m are `lead` away */
        unsigned per = width / 2;

        return m / per * lead + k / 8 * stride + k % 8 * width + m % per * 2;
    }
    if (width == 16) /* a line of a cell is one m */
        return m / 8 * stride + k / 8 * lead + m % 8 * 16 + k % 8 * 2;
    return m / 8 * stride + m % 8 * width + k * 2;
}

/* As TMA stores lines: 16-byte chunks exchanged by the line's number, in patterns of eight, four or
 * two lines of 128 bytes. */
static uint32_t swizzle(unsigned width, uint32_t at)
{
    uint32_t chunk = at / 16 % 8, line = at / 128;

    if (width == 128)
        chunk ^= line % 8;
    else if (width == 64)
        chunk = (chunk & 4u) | ((chunk ^ line) & 3u);
    else if (width == 32)
        chunk = (chunk & 6u) | ((chunk ^ line) & 1u);
    return line * 128 + chunk * 16 + at % 16;
}

struct words {
    uint32_t start, lead, stride, base, swizzle;
};

static uint64_t encode(struct words w)
{
    return (uint64_t)w.start / 16 + ((uint64_t)w.lead / 16 << 16) +
           ((uint64_t)w.stride / 16 << 32) + ((uint64_t)w.base << 49) + ((uint64_t)w.swizzle << 62);
}

/* Elements of (256, 16) that lie elsewhere than `want` says. -1: the descriptor is refused. */
static int elsewhere(uint64_t bits, bool mn_major, unsigned width, struct words want)
{
    struct isa_matrix x;
    int bad = 0;

    if (isa_matrix_of(&x, bits, mn_major) != NULL)
        return -1;
    for (unsigned m = 0; m < 256; m++)
        for (unsigned k = 0; k < 16; k++)
            bad += isa_element(&x, mn_major, m, k) !=
                   swizzle(width,
                           want.start + plain_byte(width, mn_major, want.lead, want.stride, m, k));
    return bad;
}

static void layouts(void)
{
    static const unsigned width[4] = {16, 128, 64, 32}; /* by the descriptor's code */

    for (uint32_t code = 0; code < 4; code++)
        for (int mn = 0; mn < 2; mn++) {
            bool uses_lead = mn != 0 || code == 0;
            struct words w = {4096, uses_lead ? 8192u + 16 * code : 16u, 1024u + 2048u * code, 0,
                              code};
            struct words wrong[] = {w, w, w, w, w};
            char row[64];

            snprintf(row, sizeof row, "%s-major, swizzle of %u bytes", mn != 0 ? "MN" : "K",
                     width[code]);
            check_row(row);
            CHECK_INT(elsewhere(encode(w), mn != 0, width[code], w), 0);
            wrong[0].start += 1024;
            wrong[1].lead += 16;
            wrong[2].stride += 16;
            wrong[3].base = 1;
            wrong[4].swizzle = (code + 1) % 4;
            for (const struct words &x : wrong)
                CHECK(elsewhere(encode(x), mn != 0, width[code], w) != 0);
        }
    check_row("bits outside the fields");
    for (int bit = 0; bit < 64; bit++) {
        bool field = bit < 14 || (bit >= 16 && bit < 30) || (bit >= 32 && bit < 46) ||
                     (bit >= 49 && bit < 52) || bit >= 62;
        struct isa_matrix x;
        uint64_t bits = encode({4096, 16, 1024, 0, 1});

        if (!field)
            CHECK(isa_matrix_of(&x, bits | 1ull << bit, false) != NULL);
    }
    check_row("starts along k");
    for (uint32_t by = 0; by < 1024; by += 16) {
        struct isa_matrix x;

        CHECK((isa_matrix_of(&x, encode({4096 + by, 16, 1024, 0, 1}), false) == NULL) ==
              (by < 128 && by % 32 == 0));
        CHECK((isa_matrix_of(&x, encode({4096 + by, 1024, 1024, 0, 1}), true) == NULL) ==
              (by == 0));
    }
}

/* ---- sums ---- */

static void sums(void)
{
    float a[16], b[16];

    for (int k = 0; k < 16; k++)
        a[k] = (float)(k % 5) - 1.5f, b[k] = 0.25f * (float)(k % 7) - 1;
    check_row("sums that are exact");
    for (int kind = 0; kind < 3; kind++)
        CHECK(isa_sum((enum isa_sums)kind, 3, a, b, 1, 5) == isa_sum(ISA_IN_ORDER, 3, a, b, 1, 0));

    check_row("small terms are cut off");
    for (int k = 0; k < 16; k++)
        a[k] = k == 0 ? 1.0f : 0x1.8p-25f, b[k] = 1;
    CHECK(isa_sum(ISA_TRUNCATED, 0, a, b, 1, 0) == 1.0f);
    CHECK(isa_sum(ISA_TRUNCATED, -1, a, b, 1, 0) == 0.0f);

    check_row("an order of its own for each element");
    for (int k = 0; k < 16; k++)
        a[k] = 1 + 0x1p-12f * (float)k, b[k] = 1 + 0x1p-11f * (float)(k * k);

    int differ = 0;

    for (unsigned salt = 0; salt < 128; salt++) {
        float x = isa_sum(ISA_SHUFFLED, 0.1f, a, b, 1, salt),
              y = isa_sum(ISA_IN_ORDER, 0.1f, a, b, 1, 0);

        CHECK(std::fabs(x - y) < 1e-4f);
        differ += x != y;
    }
    CHECK(differ > 16);

    check_row("infinities and NaN pass");
    a[3] = INFINITY;
    CHECK(isa_sum(ISA_TRUNCATED, 0, a, b, 1, 0) == INFINITY);
    a[4] = NAN;
    CHECK(std::isnan(isa_sum(ISA_TRUNCATED, 0, a, b, 1, 0)));
}

int main(void)
{
    FRAGMENT("mma a", isa_mma_a, mma_a);
    FRAGMENT("mma b", isa_mma_b, mma_b);
    FRAGMENT("mma d", isa_mma_d, mma_d);
    FRAGMENT("wgmma d", isa_wgmma_d, wgmma_d);
    FRAGMENT("wgmma a", isa_wgmma_a, wgmma_a);
    layouts();
    sums();
    return check_done();
}
