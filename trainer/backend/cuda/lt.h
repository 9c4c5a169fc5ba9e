/*
 * cuBLASLt, opened at run time, with a cache of plans. Internal to trainer/backend/cuda.
 */
#ifndef TR_BACKEND_CUDA_LT_H
#define TR_BACKEND_CUDA_LT_H

#include "trainer/backend/cuda/cuda.h"

/* Bytes at the start of a queue's workspace that cuBLASLt may use. An op that calls lt_gemm puts
 * its own workspace after them. */
enum { LT_WORKSPACE = 32 << 20 };

/* FR_UNSUPPORTED, with its name: the library of this module's version of CUDA is not installed. */
enum fr_rc lt_present(struct fr_err *err);

/* Opens the library for cuda; lt_destroy closes it. */
enum fr_rc lt_open(struct cuda *cuda, struct fr_err *err);

/* c = alpha * op(a) * op(b) + beta * c without the bias; b is not FP8, no dimension is 0. The plan
 * for a shape, types and alignments is the library's first choice, and is cached. FR_UNSUPPORTED
 * names the shape: the library has no algorithm for it. */
enum fr_rc lt_gemm(struct cuda *cuda, struct tr_queue *q, const struct tr_gemm *a,
                   struct fr_err *err);

void lt_destroy(struct lt *lt);

#endif
