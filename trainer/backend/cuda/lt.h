/*
 * cuBLASLt: opened at run time, plans cached. Internal to trainer/backend/cuda.
 */
#ifndef TR_BACKEND_CUDA_LT_H
#define TR_BACKEND_CUDA_LT_H

#include "trainer/backend/cuda/cuda.h"

/* What cuBLASLt may use of a queue's workspace: the first bytes of it. An op that calls lt_gemm and
 * needs room of its own takes it behind them. */
enum { LT_WORKSPACE = 32 << 20 };

/* Whether the library of this module's version of CUDA is there; FR_UNSUPPORTED names it. */
enum fr_rc lt_present(struct fr_err *err);

/* Opens the library for cuda, until lt_destroy. */
enum fr_rc lt_open(struct cuda *cuda, struct fr_err *err);

/* c = alpha * op(a) * op(b) + beta * c, the bias left out; b not FP8; no dimension is 0. A plan
 * (the library's first choice for shape, types and alignments) is made once. FR_UNSUPPORTED names
 * the shape when it has no algorithm. */
enum fr_rc lt_gemm(struct cuda *cuda, struct tr_queue *q, const struct tr_gemm *a,
                   struct fr_err *err);

void lt_destroy(struct lt *lt);

#endif
