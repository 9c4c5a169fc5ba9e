/*
 * mbarrier and the bulk tensor copies that end on it. A box is moved when a thread waits for its
 * barrier, or for the read of its store; until then the destination holds 0xff.
 */
#include "tests/cudasim/instructions.h"

/* The 8 bytes of a barrier. */
struct mbar {
    uint16_t count, pending;
    int32_t tx; /* bytes that are still to land, times 2, plus the phase's parity */
};

static struct mbar *bar_of(uint64_t *p, struct sim_site site)
{
    struct mbar *b = (struct mbar *)p;

    (void)sim_offset(p, sizeof *b, site);
    if ((uintptr_t)p % 8 != 0 || b->count == 0xffff)
        sim_fail("%s:%d: mbarrier was never initialised", site.file, site.line);
    return b;
}

static int32_t parity_of(const struct mbar *b)
{
    return b->tx & 1;
}

static void settle(struct mbar *b)
{
    if (b->pending != 0 || b->tx >> 1 != 0)
        return;
    b->pending = b->count;
    b->tx ^= 1;
    sim_changed();
}

void ptx_mbar_init(uint64_t *bar, int count, struct sim_site site)
{
    struct mbar b = {(uint16_t)count, (uint16_t)count, 0};

    sim_need_sm90(site);
    (void)sim_offset(bar, sizeof b, site);
    memcpy(bar, &b, sizeof b);
}

void ptx_mbar_expect(uint64_t *bar, uint32_t bytes, struct sim_site site)
{
    struct mbar *b = bar_of(bar, site);

    if (b->pending == 0)
        sim_fail("%s:%d: more arrivals than the mbarrier counts", site.file, site.line);
    b->tx += (int32_t)bytes * 2;
    b->pending--;
    settle(b);
}

void ptx_mbar_arrive(uint64_t *bar, struct sim_site site)
{
    ptx_mbar_expect(bar, 0, site);
}

/* Where byte `at` of the room is, once swizzled: by its address in shared memory. */
static char *swizzled(char *room, size_t at, enum ptx_swizzle s)
{
    size_t a = (size_t)(room - sim_now.room) + at;
    size_t bits = s == PTX_SWIZZLE_128 ? 7 : s == PTX_SWIZZLE_64 ? 3 : s == PTX_SWIZZLE_32 ? 1 : 0;

    return sim_now.room + (a ^ ((a >> 7 & bits) << 4));
}

/* Moves or poisons a box, an element at a time; returns its bytes. */
static size_t move(const struct sim_bulk *c, bool poison)
{
    const struct CUtensorMap *m = c->map;
    size_t n = 0;

    for (uint32_t z = 0; z < (m->rank > 2 ? m->box[2] : 1); z++)
        for (uint32_t y = 0; y < m->box[1]; y++)
            for (uint32_t x = 0; x < m->box[0]; x++, n += m->size) {
                int64_t i = c->at[0] + (int64_t)x, j = c->at[1] + (int64_t)y;
                int64_t k = c->at[2] + (int64_t)z;
                bool inside = i >= 0 && i < (int64_t)m->shape[0] && j >= 0 &&
                              j < (int64_t)m->shape[1] && k >= 0 &&
                              (m->rank < 3 ? k == 0 : k < (int64_t)m->shape[2]);
                char *s = swizzled(c->room, n, m->swizzle);
                char *g = m->p + (size_t)i * m->size + (size_t)j * m->stride[1] +
                          (m->rank > 2 ? (size_t)k * m->stride[2] : 0);

                if (poison)
                    memset(s, 0xff, m->size);
                else if (c->bar == nullptr && inside)
                    memcpy(g, s, m->size);
                else if (c->bar != nullptr && inside)
                    memcpy(s, g, m->size);
                else if (c->bar != nullptr)
                    memset(s, 0, m->size);
            }
    return n;
}

static void check_room(const void *room, const struct CUtensorMap *m, struct sim_site site)
{
    size_t n = (size_t)m->box[0] * m->box[1] * (m->rank > 2 ? m->box[2] : 1) * m->size;
    size_t align = m->swizzle == PTX_SWIZZLE_128 ? 1024 : m->swizzle == PTX_PLAIN ? 128 : 512;

    if (sim_offset(room, n, site) % align != 0)
        sim_fail("%s:%d: the box is not aligned to %zu bytes", site.file, site.line, align);
}

void ptx_bulk_load3(void *to, const CUtensorMap *map, int x, int y, int z, uint64_t *bar,
                    struct sim_site site)
{
    struct sim_bulk c = {map, (char *)to, {x, y, z}, bar};

    check_room(to, map, site);
    (void)bar_of(bar, site);
    (void)move(&c, true);
    sim_now.loads.push_back(c);
    sim_changed();
}

void ptx_bulk_load(void *to, const CUtensorMap *map, int x, int y, uint64_t *bar,
                   struct sim_site site)
{
    ptx_bulk_load3(to, map, x, y, 0, bar, site);
}

/* Lands what this barrier waits for. */
static void land(uint64_t *bar, struct mbar *b)
{
    std::vector<struct sim_bulk> rest;

    for (const struct sim_bulk &c : sim_now.loads)
        if (c.bar == bar)
            b->tx -= (int32_t)move(&c, false) * 2;
        else
            rest.push_back(c);
    sim_now.loads = rest;
}

void ptx_mbar_wait(uint64_t *bar, uint32_t parity, struct sim_site site)
{
    struct mbar *b = bar_of(bar, site);

    while (parity_of(b) == (int32_t)parity) {
        if (b->pending == 0) {
            land(bar, b);
            settle(b);
        }
        if (parity_of(b) == (int32_t)parity)
            sim_wait_change(site);
    }
}

void ptx_bulk_store(const CUtensorMap *map, const void *from, int x, int y, struct sim_site site)
{
    check_room(from, map, site);
    sim_me->stores.push_back({map, (char *)from, {x, y, 0}, nullptr});
}

void ptx_bulk_commit(void)
{
    sim_me->store_groups.push_back(std::move(sim_me->stores));
    sim_me->stores.clear();
}

void sim_bulk_wait(size_t open)
{
    while (sim_me->store_groups.size() > open) {
        for (const struct sim_bulk &c : sim_me->store_groups.front())
            (void)move(&c, false);
        sim_me->store_groups.erase(sim_me->store_groups.begin());
    }
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *m, CUtensorMapDataType type, cuuint32_t rank, void *p,
                                const cuuint64_t *shape, const cuuint64_t *stride,
                                const cuuint32_t *box, const cuuint32_t *step,
                                CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    static const enum ptx_swizzle kinds[] = {PTX_PLAIN, PTX_SWIZZLE_32, PTX_SWIZZLE_64,
                                             PTX_SWIZZLE_128};
    static const uint32_t widths[] = {1u << 31, 32, 64, 128};
    uint32_t size = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
    bool good = rank >= 2 && rank <= 3 && (uintptr_t)p % 16 == 0 &&
                box[0] * size <= widths[swizzle] && box[0] * size % 16 == 0;

    for (uint32_t i = 0; i < rank && good; i++)
        good = shape[i] > 0 && box[i] > 0 && box[i] <= 256 && step[i] == 1 &&
               (i == 0 || stride[i - 1] % 16 == 0);
    if (!good)
        return CUDA_ERROR_INVALID_VALUE;
    *m = {};
    m->p = (char *)p;
    m->rank = rank;
    m->size = size;
    m->swizzle = kinds[swizzle];
    for (uint32_t i = 0; i < rank; i++) {
        m->shape[i] = shape[i];
        m->stride[i] = i == 0 ? size : stride[i - 1];
        m->box[i] = box[i];
    }
    return CUDA_SUCCESS;
}
