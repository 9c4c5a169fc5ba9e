/* Which kernels of cells.h run: what the chip has, and FLOWTRAIN_MAX_ISA allows. */
#include "trainer/backend/cpu/cells.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum level { NONE, AVX2, AVX512, AVX512_BF16, TILES };

extern const struct cpu_kernels cpu_avx2_kernels, cpu_avx512_kernels, cpu_avx512bf16_kernels;

/* FLOWTRAIN_MAX_ISA: the most that kernels may use; another word: none. AVX512_BF16 asks for pairs
 * also where they are slower. */
static enum level allowed(void)
{
    static const char *const names[] = {
        [AVX2] = "AVX2", [AVX512] = "AVX512", [AVX512_BF16] = "AVX512_BF16"};
    const char *max = getenv("FLOWTRAIN_MAX_ISA");

    if (max == NULL || max[0] == '\0')
        return TILES;
    for (int i = AVX2; i < TILES; i++)
        if (strcmp(max, names[i]) == 0)
            return (enum level)i;
    return NONE;
}

/* Intel's instruction for pairs has half the rate of FMA, so bf16 is faster widened there, and
 * pairs serve beside AMX alone; that of AMD is twice as fast as FMA (tests/bench/peak.c). */
static bool pairs_are_fast(enum level most)
{
    return most == AVX512_BF16 || !__builtin_cpu_is("intel") || (most == TILES && cpu_amx_have());
}

static const struct cpu_kernels *pick(void)
{
    enum level most = allowed();

    if (most >= AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return most >= AVX512_BF16 && __builtin_cpu_supports("avx512bf16") && pairs_are_fast(most)
                   ? &cpu_avx512bf16_kernels
                   : &cpu_avx512_kernels;
    if (most >= AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c"))
        return &cpu_avx2_kernels;
    return NULL;
}

const struct cpu_kernels *cpu_kernels(void)
{
    static const struct cpu_kernels none;
    static const struct cpu_kernels *_Atomic known;
    const struct cpu_kernels *is = atomic_load_explicit(&known, memory_order_relaxed);

    if (is == NULL) {
        is = pick();
        is = is != NULL ? is : &none;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is != &none ? is : NULL;
}

bool cpu_may_tile(void)
{
    return allowed() == TILES;
}
