/*
 * Which kernels of this program were launched. The kernels are those of the program's own symbol
 * table: each instance of a template that a launcher may choose.
 */
#ifndef TESTS_CUDASIM_KERNELS_H
#define TESTS_CUDASIM_KERNELS_H

#include <string>
#include <vector>

void sim_kernel_launched(const void *kernel);

/* Names of the kernels that were never launched, sorted; false when the program was stripped. */
bool sim_idle_kernels(std::vector<std::string> *idle);

#endif
