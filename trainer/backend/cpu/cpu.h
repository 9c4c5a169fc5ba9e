/*
 * Inside the CPU backend: its state, scratch, rows as f32, and the matrix product all ops share.
 * Work is split into pieces by constants, never by the number of threads, and each piece is summed
 * in one order, so results have the same bits for any OMP_NUM_THREADS.
 */
#ifndef TR_BACKEND_CPU_CPU_H
#define TR_BACKEND_CPU_CPU_H

#include "trainer/backend/backend.h"

/* Kernels are built for any x86-64, for x86-64-v3 (AVX2, FMA) and for x86-64-v4 (AVX-512); the
 * loader picks. gcc 11 has no picker of levels, only of single features: there AVX2 has no FMA. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CPU_PLAIN)
#if __GNUC__ < 12
#define CPU_KERNEL __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define CPU_KERNEL __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
#else
#define CPU_KERNEL
#endif

/* For a kernel with an own form for x86-64-v4 (AVX-512); the kernel's caller checks the chip. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CPU_PLAIN)
#define CPU_WIDE __attribute__((target("arch=x86-64-v4")))
#endif

struct cpu_kernels;

struct cpu {
    struct tr_backend base;
    const struct cpu_kernels *cells; /* vector kernels (cells.h); NULL: none, plain f32 tiles */
    bool pairs;                      /* their products of bf16 are of pairs */
    bool amx;                        /* strips of bf16 by AMX */
    int threads;
};

/* Scratch of a queue: one piece for an op, one for the product inside it. */
enum cpu_slot { CPU_WORK_OP, CPU_WORK_GEMM, CPU_WORK_SLOTS };

struct tr_queue {
    void *work[CPU_WORK_SLOTS]; /* owns, 64-byte aligned */
    size_t bytes[CPU_WORK_SLOTS];
};

/* Workspace bytes of ops; len: tokens of the longest segment. */
size_t cpu_xent_bytes(const struct cpu *cpu, const struct tr_xent *a);
size_t cpu_router_bytes(const struct cpu *cpu, const struct tr_router *a);
size_t cpu_router_grad_bytes(const struct cpu *cpu, const struct tr_router_grad *a);
size_t cpu_attention_bytes(const struct cpu *cpu, const struct tr_attention *a, int64_t len);
size_t cpu_cached_bytes(const struct cpu *cpu, const struct tr_attention_cached *a);
size_t cpu_product_bytes(struct cpu *cpu, const struct tr_gemm *g);
size_t cpu_grouped_bytes(struct cpu *cpu, const struct tr_grouped_gemm *a);
void cpu_scratch(void *self, enum tr_op op, const void *args, struct tr_scratch *most);

/* Bytes of memory that this process can still allocate. */
size_t cpu_room(void *self);

void *cpu_aligned(size_t bytes); /* NULL: no memory */
void cpu_release(void *p);       /* NULL is fine */

/* At least `bytes` of the queue's slot; earlier contents are lost. FR_NOMEM. */
enum fr_rc cpu_work(struct tr_queue *q, enum cpu_slot slot, size_t bytes, void **out,
                    struct fr_err *err);

static inline int64_t cpu_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cpu_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct cpu_range {
    int64_t begin, end;
};
struct cpu_range cpu_rows(const struct tr_rows *r, int64_t all);

/* The address of an element, and of a row. */
static inline char *cpu_at(const struct tr_view *v, int64_t row, int64_t col)
{
    return (char *)v->p + (row * v->ld + col) * (int64_t)tr_dtype_bytes(v->dtype);
}

static inline void *cpu_row_at(const struct tr_view *v, int64_t row)
{
    return cpu_at(v, row, 0);
}

/* Prefetches a row that is read or written soon, if the view has it: the hardware prefetcher does
 * not follow short rows. */
void cpu_bring_row(const struct tr_view *v, int64_t row);

/* Columns [col, col+n) of a row, as f32, and back (rounded to nearest even). */
void cpu_load(float *dst, const struct tr_view *v, int64_t row, int64_t col, int64_t n);
/* The first n elements of a row as f32: in place, or converted into buf. */
const float *cpu_row(float *buf, const struct tr_view *v, int64_t row, int64_t n);
void cpu_store(const struct tr_view *v, int64_t row, int64_t col, const float *src, int64_t n);
/* Where to write a row of f32: in place, or buf, which cpu_store then converts. */
float *cpu_out(float *buf, const struct tr_view *v, int64_t row);

enum { CPU_SMALL = 1 << 14 }; /* elements below which one thread does it */

/* `floats` for each thread in the queue's op slot; cpu_lane: those of the calling thread. */
enum fr_rc cpu_lanes(const struct cpu *cpu, struct tr_queue *q, int64_t floats, float **out,
                     struct fr_err *err);
float *cpu_lane(float *lanes, int64_t floats);

enum { CPU_VIEWS = 5 };

/* An op that works row by row, on all threads if the rows have more than CPU_SMALL elements. `row`
 * receives the op's arguments and the thread's lane. */
struct cpu_loop {
    struct cpu_range rows;
    int64_t n, floats;                     /* elements of a row; floats of a lane */
    const struct tr_view *next[CPU_VIEWS]; /* whose next rows are prefetched; NULL ends the list */
    void (*row)(const void *args, int64_t i, float *lane);
    const void *args;
};
enum fr_rc cpu_each_row(const struct cpu *cpu, struct tr_queue *q, const struct cpu_loop *l,
                        struct fr_err *err);

/* A row or a part of one: faster than memcpy where it is short. */
void cpu_copy_row(void *dst, const void *src, size_t bytes);

/* n values of type t (f32, bf16, f16). */
void cpu_to_f32(float *dst, const void *src, enum tr_dtype t, int64_t n);
void cpu_from_f32(void *dst, enum tr_dtype t, const float *src, int64_t n);
/* n codes of f8_e4m3 times their scale. Loading refuses NaN, so no code is NaN. */
void cpu_f8_to_f32(float *dst, const uint8_t *src, float scale, int64_t n);

/* Columns [col, col+n) of a row of a weight, decoded. */
void cpu_load_weight(float *dst, const struct tr_weight *w, int64_t row, struct cpu_range cols);

/* Rounds n values to type t. */
void cpu_round(float *x, enum tr_dtype t, int64_t n);

float cpu_dot(const float *x, const float *y, int64_t n);
void cpu_axpy(float *y, float a, const float *x, int64_t n); /* y += a x */
void cpu_scale(float *y, float a, int64_t n);
void cpu_mul(float *y, const float *x, int64_t n);     /* y *= x */
float cpu_max(const float *x, int64_t n);              /* n > 0 */
float cpu_exp_sum(float *x, float max, int64_t n);     /* x = exp(x - max); their sum */
void cpu_sigmoid(float *y, const float *x, int64_t n); /* y = 1/(1 + exp(-x)); y may be x */
/* h = g/(1 + exp(-g)) u; h may be g or u. */
void cpu_swiglu(float *h, const float *g, const float *u, int64_t n);

/* Element of an i32 or i64 view. */
int64_t cpu_int(const struct tr_view *v, int64_t row, int64_t col);

/* c (m, n) += a (m, k) b (k, n), f32 row-major: the product inside attention and plain tiles. */
struct cpu_tile {
    float *c;
    const float *a, *b;
    int64_t m, n, k, ldc, lda, ldb;
};
void cpu_tile_gemm(const struct cpu_tile *t);

/* dst (cols, rows) = src (rows, cols) transposed. */
struct cpu_turn {
    float *dst;
    const float *src;
    int64_t rows, cols, ldd, lds;
};
void cpu_turn(const struct cpu_turn *t);

/* Which matrix products a backend runs. tr_cpu_create takes the best of the machine; tests take
 * each. */
enum cpu_math {
    CPU_MATH_BEST,
    CPU_MATH_PLAIN, /* f32 tiles without kernels of cells.h */
    CPU_MATH_CELLS  /* kernels of cells.h, pairs of bf16 where the chip has their instructions; no
                     * AMX */
};
enum fr_rc cpu_create(enum cpu_math math, struct tr_backend **out, struct fr_err *err);

/* The product of expert e; no rows when the expert has no weight. */
struct tr_gemm cpu_expert(const struct tr_grouped_gemm *a, int64_t e);

/* As tr_gemm, for operands of any float type, FP8 weights, and a and b of different types. */
enum fr_rc cpu_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                       struct fr_err *err);
/* The same, always by f32 tiles. */
enum fr_rc cpu_f32_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                           struct fr_err *err);

/* The product of tile i: tiles [first[p], first[p+1]) are those of product p < n. */
int64_t cpu_which(const int64_t *first, int64_t n, int64_t i);

/* Products by cells.h. any: of a group, the product of one expert; n: of how many. */
bool cpu_cells_take(const struct cpu *cpu, const struct tr_gemm *g);
enum fr_rc cpu_cells_product(struct cpu *cpu, struct tr_queue *q, const struct tr_gemm *g,
                             struct fr_err *err);
enum fr_rc cpu_cells_group(struct cpu *cpu, struct tr_queue *q, const struct tr_grouped_gemm *a,
                           const struct tr_gemm *any, struct fr_err *err);
size_t cpu_cells_bytes(const struct cpu *cpu, int64_t n, const struct tr_gemm *any);
/* Panels of all columns of w^T (cells.h), which products by w^T read. */
size_t cpu_prepack_bytes(void *self, const struct tr_view *w);
enum fr_rc cpu_prepack(void *self, struct tr_queue *q, const struct tr_view *w, void *packed);
/* Panels of all columns of w, if they take as many bytes as w. */
bool cpu_repacks(void *self, const struct tr_view *w);
enum fr_rc cpu_repack(void *self, struct tr_queue *q, const struct tr_view *w, struct fr_err *err);

#define CPU_OP(name, args, fp8)                                                                    \
    enum fr_rc tr_cpu_##name(void *self, struct tr_queue *q, const struct args *a,                 \
                             struct fr_err *err);
TR_OPS(CPU_OP)
#undef CPU_OP

#endif
