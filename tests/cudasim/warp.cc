/*
 * Instructions of a warp: ldmatrix, mma.sync; and cp.async of a thread.
 */
#include "tests/cudasim/instructions.h"

/* The eight rows of a matrix are read at once: each from banks of its own, 16 bytes wide. */
static void check_banks(sim_slots slots, unsigned matrix, struct sim_site site)
{
    enum { ROWS = 8, WIDTH = 16 };
    const char *at[ROWS] = {};

    for (unsigned i = 0; i < ROWS; i++) {
        const char *p;
        unsigned bank;

        memcpy(&p, slots[ROWS * matrix + i], sizeof p);
        bank = sim_offset(p, WIDTH, site) / WIDTH % ROWS;
        if (at[bank] != nullptr && at[bank] != p)
            sim_fail("%s:%d: ldmatrix reads two rows of a matrix from the same banks", site.file,
                     site.line);
        at[bank] = p;
    }
}

void sim_ldmatrix(uint32_t *r, int n, const void *row, bool trans, struct sim_site site)
{
    unsigned lane = sim_me->lane;
    sim_slots slots;

    if (lane < 8u * (unsigned)n) {
        (void)sim_offset(row, 16, site);
        if ((uintptr_t)row % 16 != 0)
            sim_fail("%s:%d: ldmatrix row is not aligned to 16 bytes", site.file, site.line);
    }
    slots = sim_meet(0xffffffffu, &row, sizeof row, nullptr, site);
    for (int m = 0; m < n; m++) {
        uint16_t x[2];

        if (lane == 0)
            check_banks(slots, (unsigned)m, site);
        for (unsigned j = 0; j < 2; j++) {
            unsigned line = trans ? 2 * (lane % 4) + j : lane / 4;
            unsigned col = trans ? lane / 4 : 2 * (lane % 4) + j;
            const uint16_t *p;

            memcpy(&p, slots[8 * (unsigned)m + line], sizeof p);
            x[j] = p[col];
        }
        r[m] = (uint32_t)x[0] | (uint32_t)x[1] << 16;
    }
}

/* A lane's operands of mma, and its result d. */
struct fragment {
    float d[4];
    uint32_t a[4], b[2];
};

static float widen(uint32_t pair, int half, bool f16)
{
    uint16_t bits = (uint16_t)(pair >> 16 * half);

    return f16 ? tr_f16_to(bits) : tr_bf16_value(bits);
}

template <bool F16>
__attribute__((no_sanitize("address", "undefined"))) static void product(sim_slots slots, unsigned)
{
    float a[16][16], b[16][8], d[16][8];

    for (unsigned l = 0; l < SIM_LANES; l++) {
        struct fragment f;
        struct isa_at at;

        memcpy(&f, slots[l], sizeof f);
        for (unsigned i = 0; i < 4; i++) {
            at = isa_mma_d(l, i);
            d[at.row][at.col] = f.d[i];
            at = isa_mma_b(l, i);
            b[at.row][at.col] = widen(f.b[i / 2], (int)i % 2, F16);
        }
        for (unsigned i = 0; i < 8; i++) {
            at = isa_mma_a(l, i);
            a[at.row][at.col] = widen(f.a[i / 2], (int)i % 2, F16);
        }
    }
    for (unsigned i = 0; i < 16 && sim_sums() != ISA_IN_ORDER; i++)
        for (unsigned j = 0; j < 8; j++)
            d[i][j] = isa_sum(sim_sums(), d[i][j], a[i], &b[0][j], 8, i * 7 + j);
    for (int i = 0; i < 16 && sim_sums() == ISA_IN_ORDER; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++)
                d[i][j] += a[i][k] * b[k][j];
    for (unsigned l = 0; l < SIM_LANES; l++) {
        float out[4];

        for (unsigned i = 0; i < 4; i++) {
            struct isa_at at = isa_mma_d(l, i);

            out[i] = d[at.row][at.col];
        }
        memcpy(slots[l], out, sizeof out);
    }
}

static void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                void (*last)(sim_slots, unsigned), struct sim_site site)
{
    struct fragment f;
    sim_slots slots;

    memcpy(f.d, d, sizeof f.d);
    memcpy(f.a, a, sizeof f.a);
    memcpy(f.b, b, sizeof f.b);
    slots = sim_meet(0xffffffffu, &f, sizeof f, last, site);
    memcpy(d, slots[sim_me->lane], sizeof d);
}

void ptx_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __nv_bfloat16,
             struct sim_site site)
{
    mma(d, a, b, product<false>, site);
}

void ptx_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __half,
             struct sim_site site)
{
    mma(d, a, b, product<true>, site);
}

void ptx_copy16(void *to, const void *from, int valid, struct sim_site site)
{
    (void)sim_offset(to, 16, site);
    if ((uintptr_t)to % 16 != 0 || (valid > 0 && (uintptr_t)from % 16 != 0) || valid < 0 ||
        valid > 16)
        sim_fail("%s:%d: cp.async not aligned to 16 bytes", site.file, site.line);
    memset(to, 0xff, 16);
    sim_me->open.push_back({to, from, 16, (size_t)valid});
}

void ptx_copy_commit(void)
{
    sim_me->groups.push_back(std::move(sim_me->open));
    sim_me->open.clear();
}

void sim_copy_wait(size_t open)
{
    std::vector<std::vector<struct sim_copy>> *groups = &sim_me->groups;

    while (groups->size() > open) {
        for (const struct sim_copy &c : groups->front()) {
            if (c.valid > 0)
                memcpy(c.to, c.from, c.valid);
            memset((char *)c.to + c.valid, 0, c.bytes - c.valid);
        }
        groups->erase(groups->begin());
    }
}
