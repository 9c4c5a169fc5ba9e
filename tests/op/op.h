/*
 * The harness of the op tests. A case binds its views once; the harness makes one copy of them for
 * each backend, with the same contents and guard bytes around, runs the op on all, and compares:
 * backend 0 is the reference; 1 is the backend under test; those behind it are the same with
 * another number or order of threads, whose bytes must equal those of 1, or its mutants, whose
 * results must fail (op_prove). A case of sums has one copy more: absolute values, which the
 * reference adds up to the sums of magnitudes that bound the error.
 */
#ifndef TESTS_OP_OP_H
#define TESTS_OP_OP_H

#include "tests/op/mutant.h"
#include "tests/ref/ref.h"
#include "trainer/backend/backend.h"

enum { OP_REF, OP_DEV, OP_MAGNITUDES = OP_DEV + 1 + MUTATIONS, OP_BACKENDS };
#define OP_NEVER INT64_MIN

enum op_role {
    OP_IN,   /* must stay as it is */
    OP_OUT,  /* begins as NaN; what the reference leaves so must be left so */
    OP_INOUT /* begins as numbers, is compared */
};

/* A view to be made. */
struct op_spec {
    enum op_role role;
    enum tr_dtype dtype;
    int64_t shape[TR_RANK_MAX]; /* ends at the first 0; a dimension of no elements is -1 */
    int64_t gap;                /* elements between rows: ld = row + gap */
    double scale, shift;        /* values are uniform in shift +- scale; scale 0 means 1 */
    const int64_t *ints;        /* values instead, cycled; OP_NEVER is -infinity */
    int64_t count;              /* of ints */
    double loose;               /* widens the tolerance; 0 means 1 */
    double sum_unit;            /* not 0: a sum, off by at most this share of its magnitudes */
    bool broken;                /* two infinities and a NaN among the values */
};

struct op_case;

enum fr_rc op_begin(struct op_case **out, const char *what);

/* Before anything is bound: an output has sum_unit. Factors in args[OP_MAGNITUDES] must be >= 0. */
void op_sums(struct op_case *c);
/* The sum_unit of n products added in f32, whose factors are rounded (TR_F64: not). */
double op_sum_unit(int64_t n, enum tr_dtype factors);

/* Fills views[b] at stride bytes for every backend b. */
void op_bind(struct op_case *c, struct tr_view *first, size_t stride, const struct op_spec *spec);
#define OP_BIND(c, args, field, ...)                                                               \
    op_bind(c, &(args)[0].field, sizeof((args)[0]), &(struct op_spec){.role = __VA_ARGS__})

/* A bound weight of backend b gets its packed form, where the backend has one: of all but the first
 * under test, whose bytes the others' must equal. op_repack: a copy of it, in the form of products
 * by w itself. */
void op_prepack(struct op_case *c, int b, struct tr_weight *w);
void op_repack(struct op_case *c, int b, struct tr_weight *w);

struct tr_backend *op_backend(struct op_case *c, int b);
struct tr_queue *op_queue(struct op_case *c, int b);

/* Compares all outputs, guards and inputs, counts checks, frees. */
void op_end(struct op_case *c);

/* Runs tr_<name> on every backend and compares. */
#define OP_RUN(c, name, args)                                                                      \
    do {                                                                                           \
        if (op_left(c, TR_OP_##name, &(args)[OP_DEV]))                                             \
            break;                                                                                 \
        for (int op_b = 0; op_b < op_count(); op_b++) {                                            \
            struct fr_err op_err = {0};                                                            \
            op_check(tr_##name(op_backend(c, op_b), op_queue(c, op_b), &(args)[op_b], &op_err),    \
                     &op_err);                                                                     \
        }                                                                                          \
        if (op_has_sums(c)) {                                                                      \
            struct fr_err op_err = {0};                                                            \
            op_check(tr_##name(op_backend(c, OP_REF), op_queue(c, OP_REF), &(args)[OP_MAGNITUDES], \
                               &op_err),                                                           \
                     &op_err);                                                                     \
        }                                                                                          \
        op_end(c);                                                                                 \
    } while (0)
int op_count(void); /* backends of this run */
bool op_has_sums(const struct op_case *c);
/* Whether the case is left out; then it is over. args: of the backend under test, whose directions
 * the table of the op's checks must have. */
bool op_left(struct op_case *c, enum tr_op op, const void *args);
void op_check(enum fr_rc rc, const struct fr_err *err);

/* A call that must end with rc and this text. */
void op_expect(enum fr_rc rc, enum fr_rc want, const struct fr_err *err, const char *text);

/* Adds the reference, then the backend under test n times over (taken over, also on failure). */
enum fr_rc op_setup(struct tr_backend *const *be, int n, struct fr_err *err);
/* As op_setup with be (taken over) and a mutant of it for each fault: each fault that changes an
 * output must fail, and each row with an output that is not empty must fail by some fault. */
enum fr_rc op_prove(struct tr_backend *be, struct fr_err *err);
/* Cases of this op are left out. */
void op_leave(enum tr_op op);
/* Each op's name is printed when its first case begins. */
void op_announce(void);
/* From here on only the first n of the backends under test run. */
void op_use(int n);
/* Runs all tables; then as op_finish. */
int op_run(void);
/* Frees the backends; the exit status. */
int op_finish(void);
void op_seed(uint64_t seed); /* the same numbers follow from each seed */
double op_uniform(void);     /* in [-1, 1) */

/* The tables. */
void op_dense_cases(void);
void op_attention_cases(void);
void op_cache_cases(void);
void op_loss_cases(void);
void op_moe_cases(void);
void op_vec_cases(void);
void op_refusals(void);

extern const enum tr_dtype op_types[3]; /* f32, bf16, f16 */

#endif
