/*
 * Types, views and their arithmetic. A view is a value: it points to memory and does not own it.
 *
 * Letters in shapes, everywhere: T tokens of the micro-batch, B samples, H hidden, V vocabulary,
 * L layers, nh heads, dn dr dv head sizes (no position, rotary, value), qr kr latent ranks,
 * E experts, K experts a token, R = T*K routed rows, I expert or FFN width, r LoRA rank, W ranks.
 */
#ifndef TR_TENSOR_TENSOR_H
#define TR_TENSOR_TENSOR_H

#include "engine/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_dtype { TR_NONE = 0, TR_F64, TR_F32, TR_BF16, TR_F16, TR_F8_E4M3, TR_I64, TR_I32, TR_U8 };

enum { TR_RANK_MAX = 4 };

/* Dimension 0 has stride ld elements; the dimensions behind it are contiguous (row-major). A whole
 * tensor has ld = product of shape[1..rank). A view of the first kr columns of a (T, kr+dr) matrix
 * is {shape = {T, kr}, ld = kr+dr}. An absent tensor has p == NULL. */
struct tr_view {
    void *p;
    enum tr_dtype dtype;
    int rank;
    int64_t shape[TR_RANK_MAX];
    int64_t ld;
};

/* A linear's weight as an op takes it: rows row0.. of a matrix (out, in). scale is absent unless
 * the type is FP8 in blocks of block_rows x block_cols (DeepSeek-V3, weight_block_size). */
struct tr_weight {
    struct tr_view w;     /* (out, in) */
    struct tr_view scale; /* (ceil(out/block_rows), ceil(in/block_cols)) f32 */
    int block_rows, block_cols;
    int64_t row0;       /* first row of the block grid that w starts at */
    const void *packed; /* the packed form of all of w (tr_prepack); NULL: none */
    bool repacked;      /* w's memory holds the form of tr_repack: products alone can read it */
};

size_t tr_dtype_bytes(enum tr_dtype t);
const char *tr_dtype_name(enum tr_dtype t); /* "bf16" */

struct tr_view tr_view_of(void *p, enum tr_dtype t, int rank, const int64_t *shape);
struct tr_view tr_view1(void *p, enum tr_dtype t, int64_t n);
struct tr_view tr_view2(void *p, enum tr_dtype t, int64_t rows, int64_t cols);

/* Rows [first, first+n) of v; columns [first, first+n) of a rank-2 v. */
struct tr_view tr_view_rows(struct tr_view v, int64_t first, int64_t n);
struct tr_view tr_view_cols(struct tr_view v, int64_t first, int64_t n);

/* A rank-2 v of n pieces of w columns side by side as (rows, n, w). */
struct tr_view tr_view_heads(struct tr_view v, int64_t n, int64_t w);

int64_t tr_view_count(struct tr_view v); /* elements */
size_t tr_view_bytes(struct tr_view v);  /* of a contiguous view */
bool tr_view_contiguous(struct tr_view v);
bool tr_view_absent(struct tr_view v);
bool tr_view_finite(struct tr_view v); /* no NaN, no infinity in a contiguous view */
/* y = x, contiguous and of as many elements, each rounded as by tr_set. */
void tr_view_copy(struct tr_view y, struct tr_view x);

/* "(7168, 1536) bf16" into out. */
void tr_view_show(struct tr_view v, char out[96]);

/* bf16 and f16 as raw bits; round to nearest even. */
uint16_t tr_bf16_of(float x);
float tr_bf16_to(uint16_t b);
uint16_t tr_f16_of(float x);
float tr_f16_to(uint16_t b);
float tr_f8_e4m3_to(uint8_t b);
uint8_t tr_f8_e4m3_of(float x); /* saturates at 448 */

/* Element i (flat, of a contiguous view) as a double, and back. Slow: for tests and scalars. */
double tr_get(struct tr_view v, int64_t i);
void tr_set(struct tr_view v, int64_t i, double x);

static inline int64_t tr_div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
