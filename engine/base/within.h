/* fr_sys.within of real threads. */
#ifndef FR_BASE_WITHIN_H
#define FR_BASE_WITHIN_H

#include <stdint.h>

int fr_within(int64_t ms, void (*run)(void *arg), void (*drop)(void *arg), void *arg);

#endif
