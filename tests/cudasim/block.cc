#include "tests/cudasim/block.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/*
 * A coroutine's stack, and how control passes from one to another. On x86-64 the registers that a
 * call preserves are pushed and the stack pointer is exchanged; elsewhere ucontext does it. Under
 * AddressSanitizer each switch is announced, so that it knows which stack is in use.
 */
enum { STACK = 256 << 10, GUARD = 4096, GAP = 256 };

thread_local struct sim_block sim_now;
__thread struct sim_thread *sim_me;
__thread struct uint3 threadIdx, blockIdx, blockDim, gridDim;

static thread_local struct sim_thread host; /* the host's own stack, from which a block is begun */
#if defined(__SANITIZE_ADDRESS__)
static thread_local const void *host_bottom;
static thread_local size_t host_size;
#endif

void sim_fail(const char *fmt, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "cudasim: ");
    if (sim_me != nullptr)
        fprintf(stderr, "block (%u,%u,%u) thread %u: ", blockIdx.x, blockIdx.y, blockIdx.z,
                sim_me->linear);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n");
    fflush(stderr);
    abort();
}

#if defined(__x86_64__)
extern "C" void sim_swap(void **from, void *to);
asm(R"(
.text
.globl sim_swap
.hidden sim_swap
.type sim_swap,@function
sim_swap:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size sim_swap, .-sim_swap
)");

static void prepare(struct sim_thread *t, void (*entry)(void))
{
    void **sp = (void **)(t->stack + STACK) - 2;

    sp[1] = nullptr;
    sp[0] = (void *)entry;
    t->sp = sp - 6;
}

static void swap(struct sim_thread *from, struct sim_thread *to)
{
    sim_swap(&from->sp, to->sp);
}
#else
static void prepare(struct sim_thread *t, void (*entry)(void))
{
    ucontext_t *c = (ucontext_t *)(t->sp != nullptr ? t->sp : malloc(sizeof *c));

    getcontext(c);
    c->uc_stack.ss_sp = t->stack;
    c->uc_stack.ss_size = STACK;
    c->uc_link = nullptr;
    makecontext(c, entry, 0);
    t->sp = c;
}

static void swap(struct sim_thread *from, struct sim_thread *to)
{
    if (from->sp == nullptr)
        from->sp = malloc(sizeof(ucontext_t));
    swapcontext((ucontext_t *)from->sp, (ucontext_t *)to->sp);
}
#endif

/* Control arrived at this stack. */
static void arrived(struct sim_thread *t, bool from_host)
{
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom;
    size_t size;

    __sanitizer_finish_switch_fiber(t->fake, &bottom, &size);
    if (from_host && host_bottom == nullptr) {
        host_bottom = bottom;
        host_size = size;
    }
#else
    (void)t;
    (void)from_host;
#endif
}

static thread_local bool left_host; /* the switch under way began on the host's stack */

static void pass(struct sim_thread *from, struct sim_thread *to)
{
    left_host = from == &host;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(from->wait == SIM_DONE && from != &host ? nullptr : &from->fake,
                                   to == &host ? host_bottom : to->stack,
                                   to == &host ? host_size : (size_t)STACK);
#endif
    sim_me = to == &host ? nullptr : to;
    threadIdx = to->tid;
    swap(from, to);
    arrived(from, left_host);
}

static bool runs(const struct sim_thread *t)
{
    return t->wait == SIM_READY || (t->wait == SIM_AT_MEMORY && t->seen != sim_now.changes);
}

[[noreturn]] static void stuck(void)
{
    struct sim_block *b = &sim_now;
    static const char *const names[] = {"runs", "at a barrier", "at a warp operation",
                                        "waiting for memory", "ended"};
    unsigned shown = 0;

    for (unsigned i = 0; i < b->threads && shown < 8; i++) {
        const struct sim_thread *t = &b->thread[i];

        if (t->wait == SIM_DONE && shown != 0)
            continue;
        fprintf(stderr, "cudasim:   thread %u %s %s:%d\n", i, names[t->wait],
                t->site.file != nullptr ? t->site.file : "", t->site.line);
        shown++;
    }
    sim_fail("deadlock: %u of %u threads wait for what never comes (divergent barrier?)", b->alive,
             b->threads);
}

/* Gives control to the next thread that can run, in the order of the launch; to the host when all
 * have ended. Returns when the calling thread can run again. */
static void give_way(void)
{
    struct sim_block *b = &sim_now;
    struct sim_thread *me = sim_me;
    unsigned at = b->place[me->linear];

    for (unsigned i = 1; i <= b->threads; i++) {
        unsigned next = at + i < b->threads ? at + i : at + i - b->threads;
        struct sim_thread *t = &b->thread[b->order[next]];

        if (!runs(t))
            continue;
        t->wait = SIM_READY;
        if (t != me)
            pass(me, t);
        return;
    }
    if (b->alive > 0)
        stuck();
    pass(me, &host);
}

static void leave(void)
{
    struct sim_thread *me = sim_me;

    for (const std::vector<struct sim_copy> &g : me->groups)
        if (!g.empty())
            sim_fail("ended with copies that were never waited for");
    if (!me->open.empty())
        sim_fail("ended with copies that were never committed");
    if (!me->products.empty() || !me->asked.empty())
        sim_fail("ended with products that were never waited for");
    if (!me->held.empty())
        sim_fail("%s:%d: ended without ptx_wgmma_pin of this product's registers behind its wait",
                 me->held[0].site.file, me->held[0].site.line);
    me->wait = SIM_DONE;
    me->site = {nullptr, 0};
    me->warp->alive &= ~(1u << me->lane);
    sim_now.alive--;
    sim_now.changes++;
}

static void entry(void)
{
    arrived(sim_me, left_host);
    sim_now.launch->body();
    leave();
    give_way();
    abort();
}

void sim_changed(void)
{
    sim_now.changes++;
}

void sim_wait_change(struct sim_site site)
{
    sim_me->wait = SIM_AT_MEMORY;
    sim_me->seen = sim_now.changes;
    sim_me->site = site;
    give_way();
}

void sim_barrier_wait(unsigned id, unsigned threads, bool stay, bool same_site,
                      struct sim_site site)
{
    struct sim_block *b = &sim_now;
    struct sim_barrier *x = &b->bar[id];

    if (x->here == 0)
        x->site = site;
    if (same_site && (x->site.line != site.line || strcmp(x->site.file, site.file) != 0))
        sim_fail("divergent barrier: %s:%d, others wait at %s:%d", site.file, site.line,
                 x->site.file, x->site.line);
    if (same_site && b->alive < threads)
        sim_fail("divergent barrier: %s:%d, but %u threads have ended", site.file, site.line,
                 threads - b->alive);
    sim_me->site = site;
    if (++x->here < threads) {
        if (!stay)
            return;
        sim_me->wait = SIM_AT_BLOCK;
        sim_me->seen = id;
        give_way();
        return;
    }
    x->here = 0;
    for (unsigned i = 0; i < b->threads; i++)
        if (b->thread[i].wait == SIM_AT_BLOCK && b->thread[i].seen == id)
            b->thread[i].wait = SIM_READY;
}

static struct sim_meeting *meeting_of(struct sim_warp *w, unsigned mask, struct sim_site site)
{
    struct sim_meeting *spare = nullptr;

    for (int i = 0; i < SIM_MASKS; i++) {
        struct sim_meeting *m = &w->at[i];

        if (m->mask == mask)
            return m;
        if (m->here == 0 && spare == nullptr)
            spare = m;
    }
    if (spare == nullptr)
        sim_fail("too many masks at once at %s:%d", site.file, site.line);
    spare->mask = mask;
    return spare;
}

sim_slots sim_meet(unsigned mask, const void *in, size_t n, void (*last)(sim_slots, unsigned),
                   struct sim_site site)
{
    struct sim_thread *me = sim_me;
    struct sim_warp *w = me->warp;
    struct sim_meeting *m = meeting_of(w, mask, site);
    unsigned turn = m->turn & 1, bit = 1u << me->lane;
    sim_slots slots = m->slot[turn];

    if ((mask & bit) == 0)
        sim_fail("%s:%d: the mask %08x lacks this lane", site.file, site.line, mask);
    if ((mask & w->alive) != mask)
        sim_fail("%s:%d: lanes %08x of the mask have ended", site.file, site.line,
                 mask & ~w->alive);
    if (m->here == 0)
        m->site = site;
    else if (m->site.line != site.line || strcmp(m->site.file, site.file) != 0)
        sim_fail("divergent warp operation: %s:%d, others wait at %s:%d", site.file, site.line,
                 m->site.file, m->site.line);
    memcpy(slots[me->lane], in, n);
    me->site = site;
    m->here |= bit;
    if (m->here != mask) {
        me->wait = SIM_AT_WARP;
        me->seen = mask;
        give_way();
        return slots;
    }
    if (last != nullptr)
        last(slots, mask);
    m->here = 0;
    m->turn++;
    for (unsigned i = me->linear - me->lane; i < sim_now.threads && i <= me->linear - me->lane + 31;
         i++)
        if (sim_now.thread[i].wait == SIM_AT_WARP && sim_now.thread[i].seen == mask)
            sim_now.thread[i].wait = SIM_READY;
    return slots;
}

/* ---- shared memory ---- */

static void fresh(char *p, size_t n)
{
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(p, n);
#endif
    memset(p, 0xff, n);
    memset(sim_now.seen + (p - sim_now.room), 0xff, n);
}

void sim_fence_async(void)
{
    struct sim_block *b = &sim_now;

    memcpy(b->seen, b->room, b->launch->shared);
    for (const struct sim_static &s : b->statics)
        memcpy(b->seen + (s.p - b->room), s.p, s.bytes);
}

static void begin_shared(void)
{
    struct sim_block *b = &sim_now;
    size_t all = SIM_SHARED + 64 * GAP;

    if (b->room == nullptr) {
        b->room = (char *)aligned_alloc(1024, (all + 1023) / 1024 * 1024);
        b->seen = (char *)malloc(all);
    }
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(b->room, all);
#endif
    b->statics.clear();
    b->used = (b->launch->shared + 15) / 16 * 16 + GAP;
    fresh(b->room, b->launch->shared);
}

void *sim_shared(const void *key, size_t bytes, size_t align)
{
    struct sim_block *b = &sim_now;
    size_t all = b->launch->shared;
    char *p;

    for (const struct sim_static &s : b->statics)
        if (s.key == key)
            return s.p;
    b->used = (b->used + align - 1) / align * align;
    if (b->used + bytes > SIM_SHARED + 32 * GAP || b->statics.size() >= 32)
        sim_fail("%zu more bytes of static shared memory do not fit", bytes);
    p = b->room + b->used;
    fresh(p, bytes);
    b->used += (bytes + 15) / 16 * 16 + GAP;
    b->statics.push_back({key, p, bytes});
    for (const struct sim_static &s : b->statics)
        all += s.bytes;
    if (all > b->launch->room)
        sim_fail("%zu bytes of shared memory, of which the launch asked for %zu, are more than the "
                 "kernel may have: %zu",
                 all, b->launch->shared, b->launch->room);
    return p;
}

uint32_t sim_offset(const void *p, size_t bytes, struct sim_site site)
{
    ptrdiff_t at = (const char *)p - sim_now.room;

    if (at < 0 || (size_t)at + bytes > sim_now.used)
        sim_fail("%s:%d: not shared memory of this block", site.file, site.line);
    return (uint32_t)at;
}

/* ---- registers ---- */

enum { REGISTERS = 65536, WARPGROUP = 4 };

void sim_set_registers(unsigned n, bool take, struct sim_site site)
{
    struct sim_warp *w = sim_me->warp;
    unsigned turn = w->turns, had = w->regs;

    sim_need_sm90(site);
    if (take ? n < had : n > had)
        sim_fail("%s:%d: setmaxnreg.%s to %u registers of a thread that has %u", site.file,
                 site.line, take ? "inc" : "dec", n, had);
    sim_meet(0xffffffffu, "", 1, nullptr, site);
    while (w->turns == turn) {
        if (take && (n - had) * SIM_LANES > sim_now.regs) {
            sim_wait_change(site);
            continue;
        }
        sim_now.regs += (had - n) * SIM_LANES;
        w->regs = n;
        w->turns++;
        sim_changed();
    }
}

/* What all warps of a warpgroup do. */
static void check_warpgroups(void)
{
    struct sim_block *b = &sim_now;

    for (unsigned i = 0; i < b->threads / SIM_LANES; i++) {
        const struct sim_warp *w = &b->warp[i], *first = &b->warp[i / WARPGROUP * WARPGROUP];

        if (w->turns != first->turns || w->regs != first->regs)
            sim_fail("warps %u and %u of a warpgroup differ in setmaxnreg",
                     i / WARPGROUP * WARPGROUP, i);
        if (w->products != first->products)
            sim_fail("warps %u and %u of a warpgroup differ in wgmma", i / WARPGROUP * WARPGROUP,
                     i);
    }
}

/* ---- blocks ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u; /* SplitMix64, Steele, Lea & Flood 2014 */

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void permute(unsigned *x, unsigned n, struct sim_order o, uint64_t *state)
{
    for (unsigned i = 0; i < n; i++)
        x[i] = o.kind == 1 ? n - 1 - i : i;
    for (unsigned i = n; o.kind == 2 && i > 1; i--) {
        unsigned j = (unsigned)(next_random(state) % i), t = x[i - 1];

        x[i - 1] = x[j];
        x[j] = t;
    }
}

/* Warps in an order, and in each its lanes in an order. */
static void order_threads(uint64_t *state)
{
    struct sim_block *b = &sim_now;
    unsigned warps = (b->threads + SIM_LANES - 1) / SIM_LANES, n = 0;
    unsigned lane[SIM_LANES];
    std::vector<unsigned> warp(warps);

    b->order.resize(b->threads);
    b->place.resize(b->threads);
    permute(warp.data(), warps, b->launch->order, state);
    for (unsigned w = 0; w < warps; w++) {
        permute(lane, SIM_LANES, b->launch->order, state);
        for (unsigned l = 0; l < SIM_LANES; l++) {
            unsigned i = warp[w] * SIM_LANES + lane[l];

            if (i >= b->threads)
                continue;
            b->place[i] = n;
            b->order[n++] = i;
        }
    }
}

static void make_stack(struct sim_thread *t)
{
    char *p = (char *)mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED || mprotect(p, GUARD, PROT_NONE) != 0)
        sim_fail("no memory for a stack");
    t->stack = p + GUARD;
}

static void begin_thread(unsigned i)
{
    struct sim_block *b = &sim_now;
    struct sim_thread *t = &b->thread[i];
    dim3 d = b->launch->block;

    if (t->stack == nullptr)
        make_stack(t);
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(t->stack + STACK - 4096, 4096);
#endif
    t->linear = i;
    t->lane = i % SIM_LANES;
    t->tid = {i % d.x, i / d.x % d.y, i / (d.x * d.y)};
    t->warp = &b->warp[i / SIM_LANES];
    t->warp->alive |= 1u << t->lane;
    t->wait = SIM_READY;
    t->fake = nullptr;
    t->groups.clear();
    t->held.clear();
    t->pins.clear();
    t->fenced = false;
    prepare(t, entry);
}

static void run_block(uint64_t *state)
{
    struct sim_block *b = &sim_now;
    unsigned warps = (b->threads + SIM_LANES - 1) / SIM_LANES;

    b->alive = b->threads;
    if (b->thread.size() < b->threads)
        b->thread.resize(b->threads);
    if (b->warp.size() < warps)
        b->warp.resize(warps);
    for (unsigned w = 0; w < warps; w++) {
        b->warp[w].alive = b->warp[w].turns = b->warp[w].products = 0;
        b->warp[w].regs = std::min(REGISTERS / b->threads, 255u) / 8 * 8;
        for (struct sim_meeting &m : b->warp[w].at)
            m.here = m.mask = m.turn = 0;
    }
    memset(b->bar, 0, sizeof b->bar);
    begin_shared();
    order_threads(state);
    for (unsigned i = 0; i < b->threads; i++)
        begin_thread(i);
    b->loads.clear();
    b->mbars.clear();
    b->regs = 0;
    pass(&host, &b->thread[b->order[0]]);
    if (!b->loads.empty())
        sim_fail("a block ended while TMA may write its shared memory");
    check_warpgroups();
}

void sim_run(const struct sim_launch *l)
{
    size_t blocks = (size_t)l->grid.x * l->grid.y * l->grid.z;
    std::vector<unsigned> order(blocks);
    uint64_t state = l->order.seed;

    sim_now.launch = l;
    blockDim = {l->block.x, l->block.y, l->block.z};
    gridDim = {l->grid.x, l->grid.y, l->grid.z};
    sim_now.threads = l->block.x * l->block.y * l->block.z;
    permute(order.data(), (unsigned)blocks, l->order, &state);
    for (unsigned i : order) {
        blockIdx = {i % l->grid.x, i / l->grid.x % l->grid.y, i / (l->grid.x * l->grid.y)};
        run_block(&state);
    }
}
