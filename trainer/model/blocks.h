/*
 * The blocks of decoder-only models and their constructors. A block holds unit ids and shapes, and
 * takes weights from the shard while their unit is whole.
 */
#ifndef TR_MODEL_BLOCKS_H
#define TR_MODEL_BLOCKS_H

#include "trainer/config/model_config.h"
#include "trainer/model/block.h"
#include "trainer/model/linear.h"
#include "trainer/shard/exchange.h"

/* A norm's gain: a tensor of a persistent unit. */
struct tr_norm {
    int unit, tensor;
    bool trained;
    float eps;
};

/* tr_norm_fwd: y = norm(x), and rrms (T) for the backward. tr_norm_bwd: dx = dres + gradient
 * through the norm, and the gradient of a trained gain; dres may be absent, and dx if the gain is
 * trained. */
void tr_norm_fwd(const struct tr_norm *n, struct tr_ctx *ctx, struct tr_view y, struct tr_view rrms,
                 struct tr_view x);
struct tr_norm_grad {
    struct tr_view dx, dres, dy, x, rrms;
};
void tr_norm_bwd(const struct tr_norm *n, struct tr_ctx *ctx, const struct tr_norm_grad *g);

/* y += x */
void tr_add(struct tr_ctx *ctx, struct tr_view y, struct tr_view x);

/* embed: y = rows of the table by tokens->index. The backward of a trained embedding adds to the
 * table's units (tr_fetch_rows). */
struct tr_embed_opts {
    int unit, units;
    bool trained;
};
enum fr_rc tr_embed_block(const struct tr_embed_opts *o, struct tr_block **out, struct fr_err *err);

/*
 * mla: y = x + o(attention(norm(x))), multi-head latent attention (DeepSeek-V2 2024, eq. 9-19).
 * qr = 0: q is one linear `qb` on the normalised input, `qa` and q_norm unused.
 */
struct tr_mla_opts {
    int unit; /* of all linears */
    struct tr_norm norm, q_norm, kv_norm;
    struct tr_linear qa, qb, kva, kvb, o;
    int64_t H, nh, dn, dr, dv, qr, kr;
    float scale; /* of the softmax */
    bool interleave;
};

/*
 * mla_cache.c: the compressed cache of generation. A token's row is its normalised latent (kr) and
 * its rotated key part (dr), which all heads share. Attention over the cache multiplies the query
 * by the key half of kv_b and the result by its value half. It makes no keys or values of cached
 * tokens (DeepSeek-V2 2024, section 2.1.2).
 */
/* cache row of each token = [nc (T, kr), rope(k_pe (T, dr))]. */
void tr_mla_store(const struct tr_mla_opts *o, struct tr_ctx *ctx, struct tr_view cache,
                  struct tr_view nc, struct tr_view k_pe);
/* y (T, nh*dv) = attention of q (T, nh*(dn+dr)), not yet rotated. */
void tr_mla_attend(const struct tr_mla_opts *o, struct tr_ctx *ctx, struct tr_view cache,
                   struct tr_view q, struct tr_view y);

/* The SwiGLU MLP of dense layers and shared experts (Shazeer 2020). */
struct tr_ffn {
    int unit;
    struct tr_linear gate, up, down;
    int64_t H, I;
};
bool tr_ffn_trains(const struct tr_ffn *f);
/* y = ffn(n). Gathers and releases the unit. */
void tr_ffn_fwd(const struct tr_ffn *f, struct tr_ctx *ctx, struct tr_view y, struct tr_view n);
/* dn = gradient from dy and the recomputed n. Absent dn: gradients of adapters only. */
void tr_ffn_bwd(const struct tr_ffn *f, struct tr_ctx *ctx, struct tr_view dn, struct tr_view dy,
                struct tr_view n);

/* mlp: y = x + ffn(norm(x)). */
enum fr_rc tr_mlp_block(const struct tr_norm *norm, const struct tr_ffn *f, struct tr_block **out,
                        struct fr_err *err);

/*
 * moe: y = x + sum over the chosen experts of w_e ffn_e(norm(x)) + shared(norm(x)). Each expert is
 * a unit with the tensors gate, up, down of `expert` (its unit is ignored). This rank computes
 * units expert0 .. expert0+here-1 and gathers them in windows of `window` neighbours. They are all
 * E experts, or with ctx->exchange those that this rank owns. The gradient of the routing weights
 * flows to x.
 *
 * The score of an expert outside the chosen groups is -inf. DeepSeek's own code has this rule, and
 * transformers since 5.6.0 (read in 5.23.0). Earlier transformers (read in 4.57.3) use 0.0: with
 * negative biases such an expert can win against one of a chosen group. -inf is the published rule
 * and that of the golden models; negative_bias is a model in which the two rules differ.
 */
struct tr_moe_opts {
    struct tr_norm norm;
    int router_unit, gate_tensor; /* persistent */
    bool router_trained;
    int bias_unit, bias_tensor; /* persistent; tensor -1: none */
    int64_t E, K, n_group, topk_group;
    float factor;
    bool norm_topk, softmax;
    int expert0, window;
    int64_t here;                   /* experts computed on this rank: E without exchange */
    const struct tr_owners *owners; /* with exchange; borrows */
    int64_t plan0;                  /* with exchange: first of its plans, one for each slot */
    int64_t *rows;                  /* (E) with exchange: += rows of each expert in training */
    struct tr_ffn expert;
    bool has_shared;
    struct tr_ffn shared;
};
enum fr_rc tr_moe_block(const struct tr_moe_opts *o, struct tr_block **out, struct fr_err *err);

/*
 * head: norm, then logits by row chunks of the head, each gathered once. The loss is cross-entropy
 * with its gradient, over tokens with a target only. The logits are never whole, but where a head
 * that trains keeps them for its backward, in f32: 6*T*H*V FLOP in all. Else it computes those of a
 * chunk again, 8*T*H*V.
 */
struct tr_head_opts {
    struct tr_norm norm;
    int chunk0, chunks; /* units; one tensor each */
    int64_t H, V, rows; /* rows of a chunk; the last may have fewer */
    bool trained;
};
enum fr_rc tr_head_block(const struct tr_head_opts *o, struct tr_block **out, struct fr_err *err);

/* Logits of all rows of x, the head's input. out is called for each chunk with a device view (T,
 * rows) in f32*, whose first column is col0. */
struct tr_head_emit {
    void (*out)(void *arg, struct tr_ctx *ctx, struct tr_view logits, int64_t col0);
    void *arg;
};
void tr_head_logits(const struct tr_block *b, struct tr_ctx *ctx, struct tr_view x,
                    const struct tr_head_emit *emit);

/* Copies a block's struct of `size` bytes, which begins with *b. The caller frees *out with
 * fr_sys.free. FR_NOMEM. */
enum fr_rc tr_block_make(const struct tr_block *b, size_t size, struct tr_block **out,
                         struct fr_err *err);

#endif
