/* Implements fr_sys.within with threads; sys.h has its contract. Returns 1 when run(arg) returned
 * within ms; else 0 and errno, and drop(arg) is called once. */
#ifndef FR_BASE_WITHIN_H
#define FR_BASE_WITHIN_H

#include <stdint.h>

int fr_within(int64_t ms, void (*run)(void *arg), void (*drop)(void *arg), void *arg);

#endif
