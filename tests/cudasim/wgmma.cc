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

static struct sim_pin *pin_at(const void *at)
{
    for (struct sim_pin &p : sim_me->pins)
        if (p.at == at)
            return &p;
    return nullptr;
}

template <class X> static void drop(std::vector<X> *all, X *one)
{
    all->erase(all->begin() + (one - all->data()));
}

/* Fails if registers were written while a product used them. */
static void check_untouched(const struct sim_held *h)
{
    for (size_t i = 0; i < h->bits.size(); i++) {
        uint32_t now;

        memcpy(&now, static_cast<char *>(h->at) + i * sizeof now, sizeof now);
        if (now != 0xffffffffu)
            sim_fail("%s:%d: registers of a product in flight were written", h->site.file,
                     h->site.line);
    }
}

/* Registers of finished products get their sums, or back what they held. */
void sim_wgmma_pin(void *at, size_t n, struct sim_site site)
{
    struct sim_held *h = held_at(sim_me, at);
    struct sim_pin *p = pin_at(at);

    (void)site;
    if (h != nullptr && h->open > 0)
        return;
    if (h != nullptr) {
        check_untouched(h);
        memcpy(at, h->bits.data(), n * sizeof(uint32_t));
        drop(&sim_me->held, h);
    }
    if (p == nullptr) {
        sim_me->pins.push_back({at, {}, false});
        p = &sim_me->pins.back();
    }
    p->fenced = false;
    p->bits.resize(n);
    memcpy(p->bits.data(), at, n * sizeof(uint32_t));
}

void ptx_wgmma_fence(struct sim_site site)
{
    sim_meet(0xffffffffu, "", 1, nullptr, site);
    sim_me->fenced = true;
    for (struct sim_pin &p : sim_me->pins)
        p.fenced = true;
}

/* Registers at `at` belong to one more product: n columns of sums, or 0: an operand. */
static void hold(void *at, size_t size, int n, struct sim_site site)
{
    struct sim_held *h = held_at(sim_me, at);
    struct sim_pin *p = pin_at(at);

    if (h != nullptr) {
        if (h->open == 0)
            sim_fail("%s:%d: no ptx_wgmma_pin of these registers since their last wait", site.file,
                     site.line);
        if (h->n != n)
            sim_fail("%s:%d: registers of a product of another shape in flight", site.file,
                     site.line);
        h->open++;
        return;
    }
    if (p == nullptr || !p->fenced)
        sim_fail("%s:%d: no ptx_wgmma_pin of these registers before ptx_wgmma_fence", site.file,
                 site.line);
    if (memcmp(p->bits.data(), at, size * sizeof(uint32_t)) != 0)
        sim_fail("%s:%d: registers were written behind ptx_wgmma_pin", site.file, site.line);
    sim_me->held.push_back({at, p->bits, n, 1, site});
    memset(at, 0xff, size * sizeof(uint32_t));
    drop(&sim_me->pins, p);
}

void sim_wgmma_put(const struct sim_wgmma *w, struct sim_site site)
{
    sim_need_sm90(site);
    if (!sim_me->fenced)
        sim_fail("%s:%d: no ptx_wgmma_fence before the first product", site.file, site.line);
    if (sim_now.threads % 128 != 0 && sim_me->linear / 128 == sim_now.threads / 128)
        sim_fail("%s:%d: a warpgroup has 4 warps", site.file, site.line);
    if (sim_me->lane == 0)
        sim_me->warp->products++;
    hold(w->d, (size_t)w->n / 2, w->n, site);
    if (w->regs != nullptr)
        hold(w->regs, 4, 0, site);
    sim_me->asked.push_back(*w);
}

void ptx_wgmma_commit(struct sim_site site)
{
    sim_meet(0xffffffffu, "", 1, nullptr, site);
    sim_me->products.push_back(std::move(sim_me->asked));
    sim_me->asked.clear();
    sim_me->fenced = false; /* the next batch has its own */
}

static struct isa_matrix matrix_of(uint64_t bits, bool mn_major)
{
    struct isa_matrix x;
    const char *wrong = isa_matrix_of(&x, bits, mn_major);

    if (wrong != nullptr)
        sim_fail("%s: %016llx", wrong, (unsigned long long)bits);
    return x;
}

static float widen(uint16_t bits, bool f16)
{
    return f16 ? tr_f16_to(bits) : tr_bf16_value(bits);
}

enum { K = 16, N_MAX = 256 };

/* Rows row0 .. row0+rows-1 of a matrix in shared memory: element (row, k) to
 * to[(row - row0) * step + k * across]. */
static void fetch(float *to, int step, int across, uint64_t bits, bool mn_major, bool f16,
                  unsigned row0, unsigned rows)
{
    struct isa_matrix x = matrix_of(bits, mn_major);
    uint32_t cols[K];

    for (unsigned k = 0; k < K; k++)
        cols[k] = isa_col(&x, mn_major, k);
    for (unsigned r = 0; r < rows; r++) {
        uint32_t from = x.start + isa_row(&x, mn_major, row0 + r);

        for (unsigned k = 0; k < K; k++) {
            uint32_t at = isa_swizzled(&x, from + cols[k]);
            uint16_t v;

            if (at + sizeof v > sim_now.used)
                sim_fail("a matrix descriptor reaches byte %u, outside the shared memory", at);
            sim_check_async(at, sizeof v);
            memcpy(&v, sim_now.room + at, sizeof v);
            to[(int)r * step + (int)k * across] = widen(v, f16);
        }
    }
}

/* The inner loops, on memory of this file alone. */
__attribute__((no_sanitize("address", "undefined"))) static void multiply(float *c, const float *a,
                                                                          const float *b, int n)
{
    for (int i = 0; i < 16 && sim_sums() != ISA_IN_ORDER; i++)
        for (int j = 0; j < n; j++)
            c[i * n + j] = isa_sum(sim_sums(), c[i * n + j], &a[i * K], &b[j], (size_t)n,
                                   (unsigned)(i * 7 + j));
    for (int i = 0; i < 16 && sim_sums() == ISA_IN_ORDER; i++)
        for (int k = 0; k < K; k++)
            for (int j = 0; j < n; j++)
                c[i * n + j] += a[i * K + k] * b[k * n + j];
}

static void load_a(float *a, struct sim_thread *lanes, size_t i, uint32_t row0)
{
    const struct sim_wgmma *w = &lanes[0].products.front()[i];

    if (w->regs == nullptr) {
        fetch(a, K, 1, w->a, w->trans_a, w->f16, row0, 16);
        return;
    }
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        const uint32_t *regs = held_at(&lanes[l], lanes[l].products.front()[i].regs)->bits.data();

        for (uint32_t e = 0; e < 8; e++) {
            struct isa_at at = isa_wgmma_a(row0 / 16 * SIM_LANES + l, e);

            a[(at.row - row0) * K + at.col] =
                widen((uint16_t)(regs[e / 2] >> 16 * (e % 2)), w->f16);
        }
    }
}

/* Product i of the oldest group, rows of one warp. */
static void execute(struct sim_thread *lanes, size_t i)
{
    static thread_local float a[16 * K], b[K * N_MAX], c[16 * N_MAX];
    const struct sim_wgmma *w = &lanes[0].products.front()[i];
    uint32_t warp = lanes[0].linear / SIM_LANES % 4, row0 = warp * 16;
    int n = w->n;

    load_a(a, lanes, i, row0);
    fetch(b, 1, n, w->b, w->trans_b, w->f16, 0, (unsigned)n);
    for (int turn = 0; turn < 2; turn++) { /* registers to the tile, then back */
        for (uint32_t l = 0; l < SIM_LANES; l++) {
            uint32_t *bits = held_at(&lanes[l], lanes[l].products.front()[i].d)->bits.data();

            for (uint32_t e = 0; e < (uint32_t)n / 2; e++) {
                struct isa_at at = isa_wgmma_d(warp * SIM_LANES + l, e);
                float *cell = &c[(at.row - row0) * (uint32_t)n + at.col];

                if (turn == 0)
                    *cell = w->add ? __uint_as_float(bits[e]) : 0;
                else
                    bits[e] = __float_as_uint(*cell);
            }
        }
        if (turn == 0)
            multiply(c, a, b, n);
    }
}

static void let_go(struct sim_thread *t, const void *at)
{
    struct sim_held *h = held_at(t, at);

    if (--h->open == 0)
        check_untouched(h);
}

/* Registers that no product in flight uses any more wait to be pinned. */
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
