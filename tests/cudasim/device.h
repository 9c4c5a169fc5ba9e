/*
 * What the simulator's own sources share and device sources do not see: memory that only a working
 * stream may touch, and work that does not begin by itself.
 */
#ifndef TESTS_CUDASIM_DEVICE_H
#define TESTS_CUDASIM_DEVICE_H

#include "tests/cudasim/runtime.h"

/* Around work: device memory may be touched. Calls nest. */
void sim_open(void);
void sim_shut(void);

/* As sim_put, but not before something waits for it, on any device. A collective is such work: as
 * on a device, putting it into a stream waits for no other rank. takes: microseconds of its device.
 */
void sim_put_late(cudaStream_t s, double takes, std::function<void()> work);

#endif
