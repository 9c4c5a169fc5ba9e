/* libFuzzer's two entry points (llvm.org/docs/LibFuzzer.html). FUZZ_TARGET names the target. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    target = fuzz_find(getenv("FUZZ_TARGET"));
    if (target == NULL) {
        fprintf(stderr, "FUZZ_TARGET must name a target\n");
        exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    /* a copy of exactly n bytes: reading behind the end is found */
    target->run((struct fr_str){(const char *)p, n});
    return 0;
}
