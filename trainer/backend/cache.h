/*
 * Arguments of the ops of a key-value cache: rows put into it, and attention over it. The rules at
 * the top of ops.h hold. A cache is rows of all sequences; a sequence owns neighbouring rows.
 */
#ifndef TR_BACKEND_CACHE_H
#define TR_BACKEND_CACHE_H

#include "trainer/backend/ops.h"

/* Rows as TR_DENSE_OPS has. */
#define TR_CACHE_OPS(X)                                                                            \
    X(put_rows, tr_put_rows, false)                                                                \
    X(attention_cached, tr_attention_cached, false)

/* put_rows: y[index[t]] = x[t]; indices are distinct, -1 is skipped. Other rows of y stay. */
struct tr_put_rows {
    struct tr_view y;     /* (R, n) C = , rows that index names */
    struct tr_view x;     /* (T, n) C in */
    struct tr_view index; /* (T) i32 below R */
};

/*
 * attention_cached: the tokens of segment b, [offsets[b], offsets[b+1]), are the last of a sequence
 * of which len[b] tokens are cached, these included: rows first[b] .. first[b] + len[b]. Token i of
 * the segment has position len[b] - (offsets[b+1] - offsets[b]) + i - offsets[b] and sees the keys
 * up to that position. For q head h, kv head h / (nh/nkv): O_i = sum_j softmax_j(scale * Q_i.K_j)
 * V_j. K and V may be columns of one buffer: with nkv 1 they are the latents of multi-head latent
 * attention (DeepSeek-V2 2024, section 2.1.2). Tokens outside every segment are not written.
 */
struct tr_attention_cached {
    struct tr_view O;       /* (T, nh, dv) C    = */
    struct tr_view Q;       /* (T, nh, dq) C    in */
    struct tr_view K;       /* (R, nkv, dq) C   in, nh % nkv == 0 */
    struct tr_view V;       /* (R, nkv, dv) C   in */
    struct tr_view offsets; /* (B+1) i32 ascending, within [0, T] */
    struct tr_view first;   /* (B) i32 */
    struct tr_view len;     /* (B) i32, at least the segment's tokens */
    int64_t max_len;        /* no len is larger; 0: R */
    int64_t window;         /* 0: none; else a token sees the last so many, itself included */
    float scale;
};

#endif
