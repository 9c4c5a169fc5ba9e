#include "tests/op/op.h"
#include "trainer/backend/cpu/cpu.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* op_test [own|onednn|bf16]: which matrix products the CPU backend takes; none: the machine's best.
 * Once with one thread, once with three. */
int main(int argc, char **argv)
{
    static const char *const names[] = {"best", "own", "onednn", "bf16"};
    enum cpu_math math = CPU_MATH_BEST;
    struct tr_backend *be[2] = {NULL, NULL};
    struct fr_err err;
    enum fr_rc rc = FR_OK;

    for (int i = 0; i < 4 && argc > 1; i++)
        if (strcmp(argv[1], names[i]) == 0)
            math = (enum cpu_math)i;
    for (int i = 0; i < 2 && rc == FR_OK; i++) {
        omp_set_num_threads(1 + 2 * i);
        rc = cpu_create(math, &be[i], &err);
    }
    if (rc == FR_OK)
        rc = op_setup(be, 2, NULL, 0, &err);
    if (rc != FR_OK) {
        printf("%s\n", err.msg);
        return rc == FR_UNSUPPORTED ? 77 : EXIT_FAILURE;
    }
    return op_run();
}
