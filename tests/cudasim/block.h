/*
 * Inside the simulator: the block that runs now, its threads as coroutines, and the places where
 * they wait for each other. One block runs at a time on a host thread. Its threads run one after
 * another, each until it has to wait, in the order of the device.
 *
 * It finds these errors, prints block, thread and source line, and aborts:
 * a __syncthreads that not all threads of the block reach at the same place, a warp
 * operation that not all lanes of its mask reach, a thread that ended while others wait, copies
 * never waited for, registers of a product that were not pinned or were written before its wait, a
 * matrix descriptor that the ISA does not allow, a missing ptx_fence_async, an mbarrier used
 * without its fence or waited for two phases late, setmaxnreg beyond the launch's registers or not
 * by all four warps, shared memory beyond the launch's. Shared memory is filled with 0xff (NaN, -1)
 * when a block begins and red zones lie between its variables, so under AddressSanitizer every
 * access out of bounds is found, and what was never written is seen.
 */
#ifndef TESTS_CUDASIM_BLOCK_H
#define TESTS_CUDASIM_BLOCK_H

#include "tests/cudasim/isa.h"
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

/* Registers that a thread pinned: what they held then. */
struct sim_pin {
    void *at;
    std::vector<uint32_t> bits;
    bool fenced; /* a fence came behind it */
};

/* Registers of products, sums or operands: what they hold is kept here until they are pinned behind
 * the wait. */
struct sim_held {
    void *at;
    std::vector<uint32_t> bits;
    int n;    /* columns of the sums; 0: an operand */
    int open; /* products in flight that use them */
    struct sim_site site;
};

/* A tensor map holds the arguments of cuTensorMapEncodeTiled (instructions.h). */
struct alignas(64) CUtensorMap {
    char *p;
    unsigned rank, size;          /* size: bytes of an element */
    uint64_t shape[3], stride[3]; /* stride in bytes; of dimension 0 the size */
    uint32_t box[3];
};

/* A box that TMA moves into shared memory. */
struct sim_bulk {
    CUtensorMap map; /* of the thread that asked, whose own copy may be gone when this lands */
    char *room;
    int at[3];
    uint64_t *bar;
};

/* What is known of an mbarrier beside its 8 bytes. */
struct sim_mbar {
    const uint64_t *bar;
    unsigned thread; /* that initialised it */
    bool fenced;     /* visible to the other threads and to TMA */
    unsigned phase;  /* phases that have ended */
};

/* Lanes of one mask at a warp operation: the operand of each, in two copies, so that the next
 * operation may begin. */
struct sim_meeting {
    unsigned mask, here, turn;
    struct sim_site site;
    alignas(16) unsigned char slot[2][SIM_LANES][SIM_SLOT];
};

struct sim_warp {
    unsigned alive;    /* lanes that have not ended */
    unsigned regs;     /* of a thread */
    unsigned turns;    /* setmaxnreg so far */
    unsigned products; /* wgmma so far */
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
    std::vector<struct sim_pin> pins;
    std::vector<struct sim_held> held;
};

struct sim_barrier {
    unsigned here;
    struct sim_site site;
};

struct sim_static {
    const void *key;
    char *p;
    size_t bytes;
};

struct sim_order {
    int kind;      /* 0 forward, 1 reversed, 2 shuffled */
    uint64_t seed; /* of the shuffle */
};

struct sim_launch {
    dim3 grid, block;
    size_t shared;
    size_t room; /* what static and dynamic shared memory may be together */
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
    std::vector<struct sim_mbar> mbars;
    unsigned regs; /* of the launch that no warp has: setmaxnreg gave them */
    char *room;    /* shared memory: the dynamic part first */
    char *seen;    /* the same bytes as wgmma may read them: written by TMA, or fenced */
    size_t used;
};

extern thread_local struct sim_block sim_now;
extern __thread struct sim_thread *sim_me;
/* Of the thread that runs. */
extern __thread struct uint3 threadIdx, blockIdx, blockDim, gridDim;

/* Prints and aborts. */
[[noreturn]] void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Fails unless wgmma sees the bytes at `at` as they are. */
inline void sim_check_async(uint32_t at, size_t bytes)
{
    if (memcmp(sim_now.room + at, sim_now.seen + at, bytes) != 0)
        sim_fail("byte %u of shared memory was written without ptx_fence_async behind it", at);
}

/* Runs all blocks of a launch. */
void sim_run(const struct sim_launch *l);

/* Static shared memory of this block: the same address for every thread and key. */
void *sim_shared(const void *key, size_t bytes, size_t align);
/* The offset of p in the block's shared memory; fails for other memory. */
uint32_t sim_offset(const void *p, size_t bytes, struct sim_site site);

/* setmaxnreg of the calling thread's warp, which must have all its lanes. A thread of a launch
 * begins with its share of the 65,536 registers. Taking waits until others gave. */
void sim_set_registers(unsigned n, bool take, struct sim_site site);

/* Makes ordinary writes to shared memory so far visible to wgmma and TMA. */
void sim_fence_async(void);

/* How tensor cores sum. */
enum isa_sums sim_sums(void);

/* Fails when the simulated device is older. */
void sim_need_sm90(struct sim_site site);

/* The thread waits until another changed memory (sim_changed); fails when none can. */
void sim_wait_change(struct sim_site site);
void sim_changed(void);

void sim_barrier_wait(unsigned id, unsigned threads, bool stay, bool same_site,
                      struct sim_site site);

/* Every lane of mask gives n bytes; returns the 32 slots of all. The last lane to arrive calls
 * `last` (if any) with the slots before the others go on. */
typedef unsigned char (*sim_slots)[SIM_SLOT];
sim_slots sim_meet(unsigned mask, const void *in, size_t n, void (*last)(sim_slots, unsigned),
                   struct sim_site site);

#endif
