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

/* The tables of a backend, in bytes: a module of another build has another size. */
enum {
    TR_TABLE_BYTES =
        sizeof(struct tr_memory_ops) + sizeof(struct tr_queue_ops) + sizeof(struct tr_backend_ops)
};

/* The device of this ordinal among those that the process sees; share: counted round. table_bytes:
 * TR_TABLE_BYTES of the caller. FR_UNSUPPORTED: no driver, a driver or device too old, no cuBLASLt,
 * another build; FR_NOTFOUND: no such device.
 */
typedef enum fr_rc tr_cuda_open_fn(size_t table_bytes, int device, bool share,
                                   struct tr_backend **out, struct fr_err *err);
__attribute__((visibility("default"))) tr_cuda_open_fn tr_cuda_open;

#ifdef __cplusplus
}
#endif

#endif
