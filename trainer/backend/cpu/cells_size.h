/* Sizes of the blocks and the scratch of a product's tiles (cells_tile.h), by the caches. */
#ifndef TR_BACKEND_CPU_CELLS_SIZE_H
#define TR_BACKEND_CPU_CELLS_SIZE_H

#include "trainer/backend/cpu/cells.h"

bool cells_f32(const struct tr_gemm *g); /* else bf16 */
int64_t cells_inner(const struct tr_gemm *g);
/* What of the inner dimension a block has at most. c keeps f32 sums between blocks, so it changes
 * no bits if c is stored without scaling. */
int64_t cells_depth(const struct tr_gemm *g);
/* Whether sums are stored without alpha, bias and this beta, unless it is 0 or 1. */
bool cells_plain(const struct tr_gemm *g, float beta);
bool cells_packed(const struct tr_gemm *g);   /* b is, since before the product */
int64_t cells_apart(const struct tr_gemm *g); /* bytes from a row of a to the next */

/* Cells of scratch: of a packed piece of b; of packed or copied rows of a. */
int64_t cells_of_b(const struct tr_gemm *g);
int64_t cells_of_a(const struct tr_gemm *g);

#endif
