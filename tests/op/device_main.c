/*
 * The op table on a real device, by the CUDA module beside this program.
 *
 * usage: op_device [OP ...]    these ops alone
 *        op_device names       the names of all ops
 *
 * Exit 77 where there is no device.
 */
#include "tests/op/op.h"
#include "trainer/backend/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Leaves out what is not named; false: a word is no op's name. */
static bool choose(int n, char *const *words)
{
    bool named[TR_OP_COUNT] = {false};

    for (int i = 0; i < n; i++) {
        int op = 0;

        while (op < TR_OP_COUNT && strcmp(tr_op_name((enum tr_op)op), words[i]) != 0)
            op++;
        if (op == TR_OP_COUNT) {
            printf("%s: no such op\n", words[i]);
            return false;
        }
        named[op] = true;
    }
    for (int op = 0; op < TR_OP_COUNT && n > 0; op++)
        if (!named[op])
            op_leave((enum tr_op)op);
    return true;
}

int main(int argc, char **argv)
{
    struct tr_backend *be[1] = {NULL};
    struct fr_err err;
    enum fr_rc rc;

    if (argc == 2 && strcmp(argv[1], "names") == 0) {
        for (int op = 0; op < TR_OP_COUNT; op++)
            printf("%s\n", tr_op_name((enum tr_op)op));
        return EXIT_SUCCESS;
    }
    if (!choose(argc - 1, argv + 1))
        return EXIT_FAILURE;
    if ((rc = tr_device_create(TR_DEVICE_CUDA, 0, &be[0], &err)) != FR_OK) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    if (op_setup(be, 1, &err) != FR_OK) {
        printf("%s\n", err.msg);
        return EXIT_FAILURE;
    }
    op_announce();
    return op_run();
}
