/*
 * mbarrier and TMA's bulk tensor copies that end on it. A box is moved when a thread waits for its
 * barrier; until then the destination holds 0xff.
 */
#include "tests/cudasim/instructions.h"

/* The 8 bytes of a barrier. */
struct mbar {
    uint16_t count, pending;
    int32_t tx; /* bytes that are still to land, times 2, plus the phase's parity */
};

static struct sim_mbar *known(const uint64_t *p)
{
    for (struct sim_mbar &m : sim_now.mbars)
        if (m.bar == p)
            return &m;
    return nullptr;
}

/* The barrier at p, used by this thread, or by TMA. */
static struct mbar *bar_of(uint64_t *p, bool tma, struct sim_site site)
{
    struct mbar *b = (struct mbar *)p;
    const struct sim_mbar *m = known(p);

    (void)sim_offset(p, sizeof *b, site);
    if ((uintptr_t)p % 8 != 0 || m == nullptr)
        sim_fail("%s:%d: mbarrier was never initialised", site.file, site.line);
    if (!m->fenced && (tma || m->thread != sim_me->linear))
        sim_fail("%s:%d: mbarrier used without ptx_mbar_init_fence", site.file, site.line);
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
    known((const uint64_t *)b)->phase++;
    b->pending = b->count;
    b->tx ^= 1;
    sim_changed();
}

void ptx_mbar_init(uint64_t *bar, int count, struct sim_site site)
{
    struct mbar b = {(uint16_t)count, (uint16_t)count, 0};

    sim_need_sm90(site);
    (void)sim_offset(bar, sizeof b, site);
    if (known(bar) != nullptr)
        sim_fail("%s:%d: mbarrier initialised twice", site.file, site.line);
    memcpy(bar, &b, sizeof b);
    sim_now.mbars.push_back({bar, sim_me->linear, false, 0});
}

void ptx_mbar_init_fence(void)
{
    for (struct sim_mbar &m : sim_now.mbars)
        m.fenced = m.fenced || m.thread == sim_me->linear;
}

void ptx_mbar_expect(uint64_t *bar, uint32_t bytes, struct sim_site site)
{
    struct mbar *b = bar_of(bar, false, site);

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

/* Where byte `at` of the room is, by its address in shared memory: lines of eight 16-byte chunks,
 * chunk x of line y lies at chunk x ^ y%8. Source: CUDA C++ programming guide, "Swizzle modes",
 * CU_TENSOR_MAP_SWIZZLE_128B. */
static size_t swizzled(const char *room, size_t at)
{
    size_t a = (size_t)(room - sim_now.room) + at, line = a / 128, chunk = a / 16 % 8;

    return line * 128 + (chunk ^ line % 8) * 16 + a % 16;
}

/* Moves or poisons a box, an element at a time; returns its bytes. */
static size_t move(const struct sim_bulk *c, bool poison)
{
    const CUtensorMap *m = &c->map;
    size_t n = 0;

    for (uint32_t z = 0; z < (m->rank > 2 ? m->box[2] : 1); z++)
        for (uint32_t y = 0; y < m->box[1]; y++)
            for (uint32_t x = 0; x < m->box[0]; x++, n += m->size) {
                int64_t i = c->at[0] + (int64_t)x, j = c->at[1] + (int64_t)y;
                int64_t k = c->at[2] + (int64_t)z;
                bool inside = i >= 0 && i < (int64_t)m->shape[0] && j >= 0 &&
                              j < (int64_t)m->shape[1] && k >= 0 &&
                              (m->rank < 3 ? k == 0 : k < (int64_t)m->shape[2]);
                size_t to = swizzled(c->room, n);
                const char *g = m->p + (size_t)i * m->size + (size_t)j * m->stride[1] +
                                (m->rank > 2 ? (size_t)k * m->stride[2] : 0);

                if (!poison && inside)
                    memcpy(sim_now.room + to, g, m->size);
                else
                    memset(sim_now.room + to, poison ? 0xff : 0, m->size);
                memcpy(sim_now.seen + to, sim_now.room + to, m->size);
            }
    return n;
}

static void check_room(const void *room, const struct CUtensorMap *m, struct sim_site site)
{
    size_t n = (size_t)m->box[0] * m->box[1] * (m->rank > 2 ? m->box[2] : 1) * m->size;

    if (sim_offset(room, n, site) % 1024 != 0)
        sim_fail("%s:%d: the box is not aligned to 1024 bytes", site.file, site.line);
}

void ptx_bulk_load3(void *to, const CUtensorMap *map, int x, int y, int z, uint64_t *bar,
                    struct sim_site site)
{
    struct sim_bulk c = {*map, (char *)to, {x, y, z}, bar};

    check_room(to, map, site);
    (void)bar_of(bar, true, site);
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
    struct mbar *b = bar_of(bar, false, site);
    unsigned before = known(bar)->phase;

    while (parity_of(b) == (int32_t)parity) {
        if (b->pending == 0) {
            land(bar, b);
            settle(b);
        }
        if (parity_of(b) == (int32_t)parity)
            sim_wait_change(site);
    }
    if (known(bar)->phase > before + 1)
        sim_fail("%s:%d: two phases of the mbarrier ended during one wait", site.file, site.line);
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *m, CUtensorMapDataType type, cuuint32_t rank, void *p,
                                const cuuint64_t *shape, const cuuint64_t *stride,
                                const cuuint32_t *box, const cuuint32_t *step,
                                CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    uint32_t size = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
    bool good = rank >= 2 && rank <= 3 && (uintptr_t)p % 16 == 0 && box[0] * size <= 128 &&
                box[0] * size % 16 == 0 && swizzle == CU_TENSOR_MAP_SWIZZLE_128B;

    for (uint32_t i = 0; i < rank && good; i++)
        good = shape[i] > 0 && box[i] > 0 && box[i] <= 256 && step[i] == 1 &&
               (i == 0 || stride[i - 1] % 16 == 0);
    if (!good)
        return CUDA_ERROR_INVALID_VALUE;
    *m = {};
    m->p = (char *)p;
    m->rank = rank;
    m->size = size;
    for (uint32_t i = 0; i < rank; i++) {
        m->shape[i] = shape[i];
        m->stride[i] = i == 0 ? size : stride[i - 1];
        m->box[i] = box[i];
    }
    return CUDA_SUCCESS;
}
