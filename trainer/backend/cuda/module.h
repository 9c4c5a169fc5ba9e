/*
 * What the module flowtrain_cuda.so gives to the program that opens it: two symbols, and nothing is
 * asked of the program in return.
 */
#ifndef TR_BACKEND_CUDA_MODULE_H
#define TR_BACKEND_CUDA_MODULE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "trainer/backend/backend.h"

/* The device of this ordinal among those that the process sees. FR_UNSUPPORTED: no driver, or a
 * device too old; FR_NOTFOUND: no such device. */
__attribute__((visibility("default"))) enum fr_rc tr_cuda_open(int device, struct tr_backend **out,
                                                               struct fr_err *err);

const char *tr_cuda_op_name(enum tr_op op);

#ifdef __cplusplus
}
#endif

#endif
