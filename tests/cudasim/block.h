/*
 * Inside the simulator: the block that runs now, its threads as coroutines, and the places where
 * they meet. One block runs at a time on a host thread; its threads run one after another, each
 * until it has to wait, in the order that the queue asks for.
 *
 * What it finds, each by a line on stderr that names block, thread and source line, and an
 * abort: a __syncthreads that not all threads of the block reach at the same place, a warp
 * operation that not all lanes of its mask reach, a thread that ended while others wait, copies
 * never waited for, registers of a product written before its wait, shared memory beyond the
 * launch's. Shared memory is filled with 0xff (NaN, -1)
 * when a block begins and red zones lie between its variables, so under AddressSanitizer every
 * access out of bounds is found, and what was never written is seen.
 */
#ifndef TESTS_CUDASIM_BLOCK_H
#define TESTS_CUDASIM_BLOCK_H

#include "tests/cudasim/types.h"

#include <cstddef>
#include <functional>
#include <vector>

struct sim_site {
    const char *file;
    int line;
};
#define SIM_HERE struct sim_site site = {__builtin_FILE(), __builtin_LINE()}

enum sim_wait { SIM_READY, SIM_AT_BLOCK, SIM_AT_WARP, SIM_AT_MEMORY, SIM_DONE };
enum { SIM_LANES = 32, SIM_SLOT = 64, SIM_MASKS = 8, SIM_BARRIERS = 16, SIM_SHARED = 227 << 10 };

/* An asynchronous copy of one thread, not yet made. */
struct sim_copy {
    void *to;
    const void *from;
    size_t bytes, valid; /* behind valid: zeros */
};

/* A product of a warpgroup as one thread asked for it. */
struct sim_wgmma {
    float *d;
    uint32_t *regs; /* of a; NULL: a is in shared memory */
    int n;
    uint64_t a, b;
    bool trans_a, trans_b, add, f16;
};

/* Registers of products in flight, sums or operands: what they hold is kept here meanwhile. */
struct sim_held {
    void *at;
    std::vector<uint32_t> bits;
    int open; /* products that use them */
    struct sim_site site;
};

/* A box that the copy engine moves: into shared memory when bar is given, else out of it. */
struct sim_bulk {
    const struct CUtensorMap *map;
    char *room;
    int at[3];
    uint64_t *bar;
};

/* Lanes of one mask that meet: what each brought, twice, so that the next meeting may begin. */
struct sim_meeting {
    unsigned mask, here, turn;
    struct sim_site site;
    alignas(16) unsigned char slot[2][SIM_LANES][SIM_SLOT];
};

struct sim_warp {
    unsigned alive; /* lanes that have not ended */
    struct sim_meeting at[SIM_MASKS];
};

struct sim_thread {
    void *sp, *fake;
    char *stack;
    struct uint3 tid;
    unsigned linear, lane;
    struct sim_warp *warp;
    enum sim_wait wait;
    unsigned long seen; /* SIM_AT_MEMORY: runs again when block.changes is another */
    struct sim_site site;
    std::vector<struct sim_copy> open;                /* copies of no group yet */
    std::vector<std::vector<struct sim_copy>> groups; /* committed, oldest first */
    bool fenced;                                      /* products may be asked for */
    std::vector<struct sim_wgmma> asked;              /* products of no group yet */
    std::vector<std::vector<struct sim_wgmma>> products;
    std::vector<struct sim_held> held;
    std::vector<struct sim_bulk> stores;
    std::vector<std::vector<struct sim_bulk>> store_groups;
};

struct sim_barrier {
    unsigned here;
    struct sim_site site;
};

struct sim_static {
    const void *key;
    void *p;
};

struct sim_order {
    int kind;      /* 0 forward, 1 reversed, 2 shuffled */
    uint64_t seed; /* of the shuffle */
};

struct sim_launch {
    dim3 grid, block;
    size_t shared;
    std::function<void()> body;
    struct sim_order order;
};

struct sim_block {
    const struct sim_launch *launch;
    unsigned threads, alive;
    unsigned long changes; /* of memory that threads wait for */
    std::vector<struct sim_thread> thread;
    std::vector<struct sim_warp> warp;
    std::vector<unsigned> order, place; /* order[place[i]] == i */
    struct sim_barrier bar[SIM_BARRIERS];
    std::vector<struct sim_static> statics;
    std::vector<struct sim_bulk> loads; /* asked for, not landed */
    char *room;                         /* shared memory: the dynamic part first */
    size_t used;
};

extern thread_local struct sim_block sim_now;
extern __thread struct sim_thread *sim_me;
/* Of the thread that runs. */
extern __thread struct uint3 threadIdx, blockIdx, blockDim, gridDim;

/* Prints and aborts. */
[[noreturn]] void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Runs all blocks of a launch. */
void sim_run(const struct sim_launch *l);

/* Static shared memory of this block: the same address for every thread and key. */
void *sim_shared(const void *key, size_t bytes, size_t align);
/* The offset of p in the block's shared memory; fails for other memory. */
uint32_t sim_offset(const void *p, size_t bytes, struct sim_site site);

/* Fails when the simulated device is older. */
void sim_need_sm90(struct sim_site site);

/* The thread waits until another changed memory (sim_changed); fails when none can. */
void sim_wait_change(struct sim_site site);
void sim_changed(void);

void sim_barrier_wait(unsigned id, unsigned threads, bool stay, bool same_site,
                      struct sim_site site);

/* Every lane of mask brings n bytes; returns the 32 slots of all. The last lane to come calls
 * `last` (if any) with the slots before the others go on. */
typedef unsigned char (*sim_slots)[SIM_SLOT];
sim_slots sim_meet(unsigned mask, const void *in, size_t n, void (*last)(sim_slots, unsigned),
                   struct sim_site site);

#endif
