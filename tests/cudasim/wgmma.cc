/*
 * wgmma: products of a warpgroup. A warp's part is executed when all its lanes wait for the group.
 */
#include "tests/cudasim/instructions.h"

static struct sim_held *held_at(struct sim_thread *t, const void *at)
{
    for (struct sim_held &h : t->held)
        if (h.at == at)
            return &h;
    return nullptr;
}

void ptx_wgmma_fence(struct sim_site site)
{
    sim_meet(0xffffffffu, "", 1, nullptr, site);
    sim_me->fenced = true;
}

/* n registers belong to one more product: the first one that asks takes what they hold. */
static void hold(void *at, size_t n, struct sim_site site)
{
    struct sim_held *h = held_at(sim_me, at);

    if (h == nullptr) {
        sim_me->held.push_back({at, std::vector<uint32_t>(n), 0, site});
        h = &sim_me->held.back();
        memcpy(h->bits.data(), at, n * sizeof(uint32_t));
        memset(at, 0xff, n * sizeof(uint32_t));
    }
    h->open++;
}

void sim_wgmma_put(const struct sim_wgmma *w, struct sim_site site)
{
    sim_need_sm90(site);
    if (!sim_me->fenced)
        sim_fail("%s:%d: no ptx_wgmma_fence before the first product", site.file, site.line);
    if (sim_now.threads % 128 != 0 && sim_me->linear / 128 == sim_now.threads / 128)
        sim_fail("%s:%d: a warpgroup has 4 warps", site.file, site.line);
    hold(w->d, (size_t)w->n / 2, site);
    if (w->regs != nullptr)
        hold(w->regs, 4, site);
    sim_me->asked.push_back(*w);
}

void ptx_wgmma_commit(struct sim_site site)
{
    sim_meet(0xffffffffu, "", 1, nullptr, site);
    sim_me->products.push_back(std::move(sim_me->asked));
    sim_me->asked.clear();
    sim_me->fenced = false; /* the next batch has its own */
}

struct matrix {
    uint32_t start, lead, stride;
    unsigned swizzle;
};

static struct matrix matrix_of(uint64_t bits)
{
    return {(uint32_t)(bits & 0x3fff) << 4, (uint32_t)(bits >> 16 & 0x3fff) << 4,
            (uint32_t)(bits >> 32 & 0x3fff) << 4, (unsigned)(bits >> 62)};
}

/* Element (m, k), as ptx_matrix says. */
static uint16_t element(const struct matrix *x, bool trans, uint32_t m, uint32_t k)
{
    static const uint32_t widths[] = {16, 128, 64, 32}, masks[] = {0, 7, 3, 1};
    uint32_t W = widths[x->swizzle], at;
    uint16_t v;

    if (x->swizzle == PTX_PLAIN)
        at = (trans ? 2 * (m % 8) + k % 8 * 16 : m % 8 * 16 + 2 * (k % 8)) + m / 8 * x->stride +
             k / 8 * x->lead;
    else if (trans)
        at = 2 * (m % (W / 2)) + m / (W / 2) * x->lead + k % 8 * W + k / 8 * x->stride;
    else
        at = m % 8 * W + m / 8 * x->stride + 2 * k;
    at += x->start;
    at ^= (at >> 7 & masks[x->swizzle]) << 4;
    if (at + 2 > sim_now.used)
        sim_fail("a matrix descriptor reaches byte %u, outside the shared memory", at);
    memcpy(&v, sim_now.room + at, sizeof v);
    return v;
}

static float widen(uint16_t bits, bool f16)
{
    return f16 ? tr_f16_to(bits) : tr_bf16_value(bits);
}

enum { K = 16, N_MAX = 256 };

/* The inner loops, on memory of this file alone. */
__attribute__((no_sanitize("address", "undefined"))) static void multiply(float *c, const float *a,
                                                                          const float *b, int n)
{
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < K; k++)
            for (int j = 0; j < n; j++)
                c[i * n + j] += a[i * K + k] * b[k * n + j];
}

static void load_a(float *a, struct sim_thread *lanes, size_t i, uint32_t row0)
{
    const struct sim_wgmma *w = &lanes[0].products.front()[i];
    struct matrix x = matrix_of(w->a);

    for (uint32_t r = 0; r < 16 && w->regs == nullptr; r++)
        for (uint32_t k = 0; k < K; k++)
            a[r * K + k] = widen(element(&x, w->trans_a, row0 + r, k), w->f16);
    for (uint32_t l = 0; l < SIM_LANES && w->regs != nullptr; l++) {
        const uint32_t *regs = held_at(&lanes[l], lanes[l].products.front()[i].regs)->bits.data();

        for (uint32_t p = 0; p < 4; p++)
            for (uint32_t h = 0; h < 2; h++)
                a[(l / 4 + p % 2 * 8) * K + l % 4 * 2 + p / 2 * 8 + h] =
                    widen((uint16_t)(regs[p] >> 16 * h), w->f16);
    }
}

/* Product i of the oldest group, rows of one warp. */
static void execute(struct sim_thread *lanes, size_t i)
{
    static thread_local float a[16 * K], b[K * N_MAX], c[16 * N_MAX];
    const struct sim_wgmma *w = &lanes[0].products.front()[i];
    struct matrix x = matrix_of(w->b);
    int n = w->n;

    load_a(a, lanes, i, lanes[0].linear / SIM_LANES % 4 * 16);
    for (int j = 0; j < n; j++)
        for (int k = 0; k < K; k++)
            b[k * n + j] = widen(element(&x, w->trans_b, (uint32_t)j, (uint32_t)k), w->f16);
    for (int turn = 0; turn < 2; turn++) { /* registers to the tile, then back */
        for (int l = 0; l < SIM_LANES; l++) {
            uint32_t *bits = held_at(&lanes[l], lanes[l].products.front()[i].d)->bits.data();

            for (int r = 0; r < n / 2; r++) {
                float *cell = &c[(l / 4 + r / 2 % 2 * 8) * n + r / 4 * 8 + l % 4 * 2 + r % 2];

                if (turn == 0)
                    *cell = w->add ? __uint_as_float(bits[r]) : 0;
                else
                    bits[r] = __float_as_uint(*cell);
            }
        }
        if (turn == 0)
            multiply(c, a, b, n);
    }
}

static void let_go(struct sim_thread *t, const void *at)
{
    struct sim_held *h = held_at(t, at);

    if (--h->open > 0)
        return;
    for (size_t i = 0; i < h->bits.size(); i++) {
        uint32_t now;

        memcpy(&now, static_cast<char *>(h->at) + i * sizeof now, sizeof now);
        if (now != 0xffffffffu)
            sim_fail("%s:%d: registers of a product in flight were written", h->site.file,
                     h->site.line);
    }
    memcpy(h->at, h->bits.data(), h->bits.size() * sizeof(uint32_t));
    t->held.erase(t->held.begin() + (h - t->held.data()));
}

/* Registers get their sums, or back what they held, when no product in flight uses them. */
static void release(struct sim_thread *t)
{
    for (const struct sim_wgmma &w : t->products.front()) {
        let_go(t, w.d);
        if (w.regs != nullptr)
            let_go(t, w.regs);
    }
    t->products.erase(t->products.begin());
}

static void finish(sim_slots slots, unsigned)
{
    struct sim_thread *lanes = &sim_now.thread[sim_me->linear - sim_me->lane];
    size_t open;

    memcpy(&open, slots[0], sizeof open);
    while (lanes[0].products.size() > open) {
        size_t count = lanes[0].products.front().size();

        for (int l = 0; l < SIM_LANES; l++)
            if (lanes[l].products.size() != lanes[0].products.size() ||
                lanes[l].products.front().size() != count)
                sim_fail("lanes of a warp asked for different products");
        for (size_t i = 0; i < count; i++)
            execute(lanes, i);
        for (int l = 0; l < SIM_LANES; l++)
            release(&lanes[l]);
    }
}

void sim_wgmma_wait(size_t open, struct sim_site site)
{
    sim_meet(0xffffffffu, &open, sizeof open, finish, site);
}
