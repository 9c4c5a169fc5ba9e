/*
 * The op table on a real device, by flowtrain_cuda.so beside this program. Exit 77 where there is
 * no device.
 */
#include "tests/op/op.h"
#include "trainer/backend/device.h"

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    struct tr_backend *be[1] = {NULL};
    struct fr_err err;
    enum fr_rc rc = tr_device_create(TR_DEVICE_CUDA, 0, &be[0], &err);

    if (rc != FR_OK) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    if (op_setup(be, 1, NULL, 0, &err) != FR_OK) {
        printf("%s\n", err.msg);
        return EXIT_FAILURE;
    }
    return op_run();
}
