/*
 * Tables of the PTX ISA, written down here a second time and independently of
 * trainer/backend/cuda/ptx*.h: which element of a matrix each register of a lane holds, what the
 * bits of a matrix descriptor mean, where an element of a matrix lies in shared memory, and how a
 * tensor core sums. Elements have 16 bits. Source: PTX ISA 8.x, the sections that comments name.
 */
#ifndef TESTS_CUDASIM_ISA_H
#define TESTS_CUDASIM_ISA_H

#include <cstddef>
#include <cstdint>

struct isa_at {
    unsigned row, col;
};

/* "Matrix Fragments for mma.m16n8k16": element i of a lane's a (8), b (4), c and d (4). */
struct isa_at isa_mma_a(unsigned lane, unsigned i);
struct isa_at isa_mma_b(unsigned lane, unsigned i);
struct isa_at isa_mma_d(unsigned lane, unsigned i);

/* "Register Fragments and Shared Memory Matrix Layouts" of wgmma m64nNk16: element i of thread
 * `thread` (0..127) of a warpgroup: d (N/2), a in registers (8). */
struct isa_at isa_wgmma_d(unsigned thread, unsigned i);
struct isa_at isa_wgmma_a(unsigned thread, unsigned i);

/* "Matrix Descriptor Format". */
struct isa_matrix {
    uint32_t start, lead, stride; /* bytes */
    unsigned base, swizzle;       /* swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes */
};

/* Decodes a descriptor. Returns NULL, or what is wrong with it: a bit that must be zero, a start
 * inside the pattern that the base offset does not say. mn_major: m (or n) is contiguous. */
const char *isa_matrix_of(struct isa_matrix *out, uint64_t bits, bool mn_major);

/* "Canonical Layouts": the byte of element (row, col) in shared memory. row counts along m or n,
 * col along k, whichever is contiguous. */
uint32_t isa_element(const struct isa_matrix *x, bool mn_major, unsigned row, unsigned col);

/* The same in parts: the bytes that a row and a column add to the start, the swizzle of the sum. */
uint32_t isa_row(const struct isa_matrix *x, bool mn_major, unsigned row);
uint32_t isa_col(const struct isa_matrix *x, bool mn_major, unsigned col);
uint32_t isa_swizzled(const struct isa_matrix *x, uint32_t byte);

/* How a product of 16 terms and its accumulator are summed. The ISA promises neither order nor
 * rounding: results may only depend on it within their bounds. */
enum isa_sums {
    ISA_IN_ORDER,  /* f32, terms one after another */
    ISA_TRUNCATED, /* terms aligned to the largest and cut to 25 bits */
    ISA_SHUFFLED   /* f32, another order for each element */
};

/* The sum of c and of a[k] * b[k * step] for 16 k. salt chooses the order of ISA_SHUFFLED. */
float isa_sum(enum isa_sums kind, float c, const float *a, const float *b, size_t step,
              unsigned salt);

#endif
