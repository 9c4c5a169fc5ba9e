/*
 * The account of a mutation run: which rows of a table of tests noticed which faults. A cell is
 * one fault in one op under one row; it counts only if the fault changed an output.
 */
#ifndef TESTS_OP_PROVE_H
#define TESTS_OP_PROVE_H

#include "tests/op/mutant.h"

struct prove;

enum fr_rc prove_create(struct prove **out);

/* Adds a cell. group: the line of the printed table that the row is counted in. The strings are
 * copied. */
void prove_cell(struct prove *p, const char *group, const char *row, enum mutation m, bool noticed);

/* A row that can fail; every such row must have noticed a fault. */
void prove_row(struct prove *p, const char *group, const char *row);

/* Runs row once for each op that it calls and each fault, in processes of their own, and adds the
 * cells. row runs the checks of one row on the backend that what describes, and ends with whether
 * one failed; a process that dies has failed. PROVE_EVERY=N in the environment: every Nth fault. */
typedef bool prove_run(const void *row, const struct mutant *what);
void prove_runs(struct prove *p, const char *name, prove_run *run, const void *row);

/* Prints the table, one line a group, "noticed/changed" for each fault, then each cell that was not
 * noticed. Counts one check a cell and one a row. Frees p. */
void prove_print(struct prove *p);

#endif
