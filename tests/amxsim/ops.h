/*
 * The CPU backend whose ops are watched: a fault of the tiles names the op, and no thread may hold
 * tiles when one has ended, for the next may be a library's.
 */
#ifndef TESTS_AMXSIM_OPS_H
#define TESTS_AMXSIM_OPS_H

#include "trainer/backend/cpu/cpu.h"

/* As cpu_create. */
enum fr_rc amxsim_create(enum cpu_math math, struct tr_backend **out, struct fr_err *err);

void amxsim_begin_op(const char *name);
void amxsim_end_op(void);

#endif
