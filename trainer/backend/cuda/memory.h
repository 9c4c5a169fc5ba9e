/*
 * The memory calls of backend.h; self is a struct cuda. Internal to trainer/backend/cuda.
 */
#ifndef TR_BACKEND_CUDA_MEMORY_H
#define TR_BACKEND_CUDA_MEMORY_H

#include "trainer/backend/cuda/cuda.h"

enum fr_rc cuda_mem_reserve(void *self, size_t bytes, struct fr_err *err);
enum fr_rc cuda_mem_alloc(void *self, enum tr_mem kind, size_t bytes, void **out,
                          struct fr_err *err);
size_t cuda_mem_room(void *self);
void cuda_mem_free(void *self, enum tr_mem kind, void *p);
void cuda_scratch(void *self, enum tr_op op, const void *args, struct tr_scratch *most);

#endif
