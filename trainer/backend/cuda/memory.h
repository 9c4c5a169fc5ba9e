/*
 * The memory calls of backend.h; self is a struct cuda. Internal to trainer/backend/cuda.
 */
#ifndef TR_BACKEND_CUDA_MEMORY_H
#define TR_BACKEND_CUDA_MEMORY_H

#include "trainer/backend/cuda/cuda.h"

extern const struct tr_memory_ops cuda_memory;

void cuda_mem_free(void *self, enum tr_mem kind, void *p);
void cuda_scratch(void *self, enum tr_op op, const void *args, struct tr_scratch *most);

#endif
