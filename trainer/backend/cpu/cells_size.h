/* Sizes of the blocks and the scratch of a product's tiles (cells_tile.h), by the caches. */
#ifndef TR_BACKEND_CPU_CELLS_SIZE_H
#define TR_BACKEND_CPU_CELLS_SIZE_H

#include "trainer/backend/cpu/cells.h"

bool cells_f32(const struct tr_gemm *g); /* else pairs of bf16 */
int64_t cells_inner(const struct tr_gemm *g);
/* What of the inner dimension a block has at most. Sums are f32 between blocks, so it changes no
 * bits. */
int64_t cells_depth(const struct tr_gemm *g);
/* Whether c is f32 and gets the sums without alpha and bias, beta being 0 or 1: c keeps them
 * between blocks. */
bool cells_plain(const struct tr_gemm *g);
bool cells_packed(const struct tr_gemm *g);   /* b is, since before the product */
int64_t cells_apart(const struct tr_gemm *g); /* bytes from a row of a to the next */

/* Cells of scratch: of a packed piece of b; of the same decoded; of packed or copied rows of a; of
 * a tile's sums between blocks that c does not keep. */
int64_t cells_of_b(const struct tr_gemm *g);
int64_t cells_decoded(const struct tr_gemm *g);
int64_t cells_of_a(const struct tr_gemm *g);
int64_t cells_of_sums(const struct tr_gemm *g);

#endif
