/* One tile of a product by the kernels of cells.h: one thread's work. It packs its columns of b,
 * unless they are packed already, and runs over its rows of a in strips. */
#ifndef TR_BACKEND_CPU_CELLS_TILE_H
#define TR_BACKEND_CPU_CELLS_TILE_H

#include "trainer/backend/cpu/cells.h"

struct cells_tile {
    const struct tr_gemm *g;
    bool amx;                    /* whether the backend has it */
    struct cpu_range rows, cols; /* of c; cols begins at a panel */
};

/* The largest tile of a product, and the bytes that a thread takes for any of it. */
int64_t cells_tile_rows(const struct tr_gemm *g);
int64_t cells_tile_cols(const struct tr_gemm *g);
size_t cells_tile_bytes(const struct tr_gemm *g);

/* What the tile reads of b at first. */
struct cpu_ahead cells_tile_ahead(const struct cells_tile *t);

/* work: its bytes, at a multiple of 64; ahead: what the next tile reads, brought nearer
 * meanwhile. */
void cells_tile_run(const struct cells_tile *t, void *work, struct cpu_ahead *ahead);

#endif
