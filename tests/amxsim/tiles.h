/*
 * The intrinsics of AMX by a machine in plain C, for a chip that has AVX-512 with BF16 but no
 * tiles: put in front of trainer/backend/cpu/cells_amx.c when that is built for the tests. What a
 * chip would fault at ends the process, and so does a tile that is still held at its end.
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1 chapter 18, and
 * volume 2, LDTILECFG, TDPBF16PS, TILELOADD, TILESTORED.
 */
#ifndef TESTS_AMXSIM_TILES_H
#define TESTS_AMXSIM_TILES_H

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

/* arch_prctl(2), of which only the request for tiles succeeds. */
long amxsim_syscall(long number, long option, long feature);
void amxsim_config(const void *config);
void amxsim_release(void);
void amxsim_zero(int tile);
void amxsim_load(int tile, const void *from, long apart);
void amxsim_store(int tile, void *to, long apart);
/* sums += a b */
void amxsim_add(int sums, int a, int b);

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) amxsim_config(config)
#define _tile_release() amxsim_release()
#define _tile_zero(tile) amxsim_zero(tile)
#define _tile_loadd(tile, from, apart) amxsim_load(tile, from, apart)
#define _tile_stored(tile, to, apart) amxsim_store(tile, to, apart)
#define _tile_dpbf16ps(sums, a, b) amxsim_add(sums, a, b)

/* The chip has it, and the system lets a process use it that asks. */
#define __builtin_cpu_supports(feature) 1
#define syscall(number, option, feature) amxsim_syscall(number, option, feature)

#endif
