/* One tile of a product by the kernels of cells.h: the work of one thread. The tile packs its
 * columns of b, unless they are packed already, and computes its rows of a in strips. */
#ifndef TR_BACKEND_CPU_CELLS_TILE_H
#define TR_BACKEND_CPU_CELLS_TILE_H

#include "trainer/backend/cpu/cells.h"

struct cells_tile {
    const struct tr_gemm *g;
    bool amx;                    /* the backend has AMX */
    struct cpu_range rows, cols; /* of c; cols begins at a panel */
};

/* The largest tile of a product, and the bytes that a thread takes for any of it. */
int64_t cells_tile_rows(const struct tr_gemm *g);
int64_t cells_tile_cols(const struct tr_gemm *g);
size_t cells_tile_bytes(const struct tr_gemm *g);
/* Whether a tile packs its rows of a, once for all its columns: less of them cost less. */
bool cells_tile_wide(const struct tr_gemm *g);

/* The part of b that the tile reads first. */
struct cpu_ahead cells_tile_ahead(const struct cells_tile *t);

/* work: cells_tile_bytes, 64-byte aligned; ahead: what the next tile reads, prefetched
 * meanwhile. */
void cells_tile_run(const struct cells_tile *t, void *work, struct cpu_ahead *ahead);

#endif
