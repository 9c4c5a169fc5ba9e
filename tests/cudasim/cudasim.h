/*
 * The simulator that trainer/backend/cuda/dev.h includes when no nvcc compiles it.
 */
#ifndef TESTS_CUDASIM_CUDASIM_H
#define TESTS_CUDASIM_CUDASIM_H

#include "tests/cudasim/blas.h"
#include "tests/cudasim/instructions.h"
#include "tests/cudasim/runtime.h"
#include "tests/cudasim/thread.h"
#include "tests/cudasim/types.h"

#endif
