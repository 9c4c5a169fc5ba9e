/* An open checkpoint, for the files safetensors_*.c. */
#ifndef TR_TENSOR_SAFETENSORS_OPEN_H
#define TR_TENSOR_SAFETENSORS_OPEN_H

#include "engine/base/arena.h"
#include "trainer/tensor/safetensors.h"

#include <jansson.h>
#include <time.h>

struct st_file {
    const char *path;
    int fd;
    int64_t bytes;
    struct timespec written; /* time of modification when the file was opened */
};

struct tr_st {
    struct fr_arena arena;
    struct st_file *files;
    size_t nfiles;
    struct tr_st_tensor *tensors; /* by name */
    size_t ntensors, cap;
};

/* The order of tr_st_at, after names have changed. */
void st_sort(struct tr_st *st);

#endif
