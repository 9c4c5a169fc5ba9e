/*
 * A backend that runs another's ops with one fault, to prove that the tests of ops would fail on
 * it. The memory of the backend must be the host's.
 */
#ifndef TESTS_OP_MUTANT_H
#define TESTS_OP_MUTANT_H

#include "trainer/backend/backend.h"

enum mutation {
    MUTATION_UNWRITTEN,  /* outputs hold what they held before */
    MUTATION_ZEROED,     /* outputs are zeros */
    MUTATION_SHIFTED,    /* row i of each output is row i - 1; in one row, element i is i - 1 */
    MUTATION_TILE,       /* the last tile of each output has no result */
    MUTATION_TRANSPOSED, /* each output is stored column by column */
    MUTATION_NO_BIAS,    /* optional terms of a sum are left out: bias, residual */
    MUTATION_NO_BETA,    /* outputs that are added to, are replaced */
    MUTATION_CUT,        /* the last eighth of the sums of a product is left out */
    MUTATIONS
};

const char *mutation_name(enum mutation m);

/* Whether two views of one shape differ by more than the rounding of their type. */
bool mutant_differs(struct tr_view a, struct tr_view b);

/* What a mutant did, by op. */
struct mutant_report {
    bool called[TR_OP_COUNT];
    bool adds[TR_OP_COUNT];    /* to an output, in one call at least */
    bool changed[TR_OP_COUNT]; /* the fault made a difference to an output */
};

/* Whether an op has what the fault is about. sound: of a run without fault. */
bool mutant_possible(enum mutation m, enum tr_op op, const struct mutant_report *sound);

struct mutant {
    enum mutation mutation;       /* MUTATIONS: no fault */
    enum tr_op op;                /* the op that has it; TR_OP_COUNT: every op */
    bool written_only;            /* elements that the op left as they were stay so */
    struct mutant_report *report; /* borrowed; may be NULL */
};

/* Borrows inner, which is destroyed after *out. */
enum fr_rc mutant_create(struct tr_backend *inner, const struct mutant *what,
                         struct tr_backend **out, struct fr_err *err);

#endif
