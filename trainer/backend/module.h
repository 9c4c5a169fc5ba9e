/*
 * The interface of a CUDA module: one symbol. A module needs no symbol of the program that opens
 * it.
 */
#ifndef TR_BACKEND_MODULE_H
#define TR_BACKEND_MODULE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "trainer/backend/backend.h"

/* The device of this ordinal among those that the process sees; share: counted round. table_bytes:
 * the size of struct tr_backend_ops in the caller; a module of another build has another size.
 * FR_UNSUPPORTED: no driver, a driver or device too old, no cuBLASLt, another build; FR_NOTFOUND:
 * no such device.
 */
typedef enum fr_rc tr_cuda_open_fn(size_t table_bytes, int device, bool share,
                                   struct tr_backend **out, struct fr_err *err);
__attribute__((visibility("default"))) tr_cuda_open_fn tr_cuda_open;

#ifdef __cplusplus
}
#endif

#endif
