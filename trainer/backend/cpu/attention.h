/* Shared by the two implementations of attention: f32 tiles (attention.c), and by the
 * kernels of cells.h (cells_attention.c). */
#ifndef TR_BACKEND_CPU_ATTENTION_H
#define TR_BACKEND_CPU_ATTENTION_H

#include "trainer/backend/cpu/cpu.h"

/* One kv head g of the segment begin .. end; h is the current q head. */
struct cpu_head {
    const struct tr_attention *a;
    bool amx; /* products of bf16 by AMX */
    int64_t begin, end, g, h;
    int64_t dq, dv;
};

/* An implementation: queries and keys of a block; f32 scratch of a thread (len: tokens of a
 * segment, 0 in forward); forward of a block of queries; backward of a kv head with all its q
 * heads. */
struct cpu_attend {
    int64_t block;
    int64_t (*floats)(const struct tr_attention *a, int64_t len);
    void (*forward)(const struct cpu_head *x, float *lane, struct cpu_range qs);
    void (*backward)(struct cpu_head *x, float *lane);
};
const struct cpu_attend *cpu_attend_cells(void);
/* Whether its cells are f32, not pairs of bf16. */
bool cpu_attend_f32(const struct tr_attention *a);

/* Keys that query i may see among the n from j0 on. */
int64_t cpu_seen(const struct cpu_head *x, int64_t i, int64_t j0, int64_t n);
/* The keys among these that lie before i's window. */
int64_t cpu_passed(const struct cpu_head *x, int64_t i, int64_t j0, int64_t n);
/* The first block of keys that a query of qs sees, and the end of the keys of qs. */
int64_t cpu_first_block(const struct cpu_head *x, struct cpu_range qs, int64_t block);
int64_t cpu_last_key(const struct cpu_head *x, struct cpu_range qs);

#endif
