/*
 * The op table of tests/op on the simulated device: threads forward, reversed and shuffled, which
 * must give the same bits, against the reference.
 */
#include "tests/cudasim/kernels.h"
#include "trainer/backend/cuda/cuda.h"
#include "trainer/backend/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "tests/op/op.h"
}

/* The order of threads is the plain build's matter; sanitizers look at one. */
#if defined(__SANITIZE_ADDRESS__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

/* Every kernel has run, but those of another architecture. */
static bool all_ran(int sm)
{
    std::vector<std::string> idle;
    bool all = true;

    if (!sim_idle_kernels(&idle)) {
        printf("no symbols: which kernels ran is not known\n");
        return false;
    }
    for (const std::string &name : idle)
        if (sm >= 90 || name.find("sm90") == std::string::npos) {
            printf("   no row runs %s\n", name.c_str());
            all = false;
        }
    return all;
}

/* What an A100 has of its own: attention by mma.sync from wide rows, in all orders, and the
 * products over experts; the rest is the same code as on sm_90. */
static int run_sm80(void)
{
    op_attention_cases();
    op_use(1);
    op_moe_cases();
    if (!sanitized) {
        op_cache_cases();
        op_dense_cases();
        op_loss_cases();
        op_vec_cases();
    }
    return op_finish();
}

/* The ops that use tensor cores, with sums in another order or rounding. part: some of them. */
static int run_products(const char *part)
{
    if (part == NULL || strcmp(part, "attention") == 0) {
        op_attention_cases();
        op_loss_cases();
    }
    if (part == NULL || strcmp(part, "experts") == 0) {
        op_moe_cases();
        op_dense_cases();
    }
    return op_finish();
}

/* cudasim_op [80 or 90 [truncated or shuffled [attention or experts]]]: the kind of device, how its
 * tensor cores sum. */
int main(int argc, char **argv)
{
    int sm = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 90;
    int devices = sanitized || argc > 2 ? 1 : SIM_DEVICES;
    struct tr_backend *be[SIM_DEVICES] = {};
    struct fr_err err;
    enum fr_rc rc = FR_OK;

    cudasim_device(sm, 1);
    if (argc > 2)
        cudasim_sums(strcmp(argv[2], "truncated") == 0 ? ISA_TRUNCATED : ISA_SHUFFLED);
    for (int i = 0; i < devices && rc == FR_OK; i++)
        rc = tr_cuda_open(TR_TABLE_BYTES, i, false, &be[i], &err);
    if (rc == FR_OK)
        rc = op_setup(be, devices, &err);
    if (rc != FR_OK) {
        printf("%s\n", err.msg);
        return EXIT_FAILURE;
    }

    if (argc > 2)
        return run_products(argc > 3 ? argv[3] : NULL);

    int status = sm == 90 ? op_run() : run_sm80();

    bool some = sanitized || getenv("OP_EVERY") != NULL; /* of the rows */

    return some || all_ran(sm) ? status : EXIT_FAILURE;
}
