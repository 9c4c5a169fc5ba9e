#include "trainer/config/model_read.h"

/* Keys that may only have the value of the architecture. */
static enum fr_rc read_fixed(const struct tr_fields *f, const struct tr_model_config *c,
                             struct fr_err *err)
{
    static const struct tr_fixed_row rows[] = {
        {"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}, {"hidden_act", "silu"}};
    int64_t freq = 1;
    enum fr_rc rc = tr_read_fixed(f, rows, sizeof(rows) / sizeof(rows[0]), err);

    if (rc != FR_OK || (rc = tr_field_i64(f, "moe_layer_freq", &freq, err)) != FR_OK)
        return rc;
    if (c->num_key_value_heads != c->num_attention_heads)
        return tr_field_bad(f, "num_key_value_heads", "as num_attention_heads", err);
    if (freq != 1)
        return tr_field_bad(f, "moe_layer_freq", "1", err);
    return tr_read_off(f, "attention_dropout", "0", err);
}

/* Sizes that follow from others, which a file may say as well. */
static enum fr_rc check_size(const struct tr_fields *f, const char *key, int64_t is,
                             const char *want, struct fr_err *err)
{
    int64_t said = is;
    enum fr_rc rc = tr_field_i64(f, key, &said, err);

    return rc != FR_OK || said == is ? rc : tr_field_bad(f, key, want, err);
}

static enum fr_rc check(const struct tr_model_read *r, struct fr_err *err)
{
    const struct tr_model_config *c = r->c;
    int64_t group = c->n_routed_experts / c->n_group;

    if (c->qk_rope_head_dim % 2 != 0)
        return tr_key_bad(r, "qk_rope_head_dim", "an even number", err);
    if (c->n_routed_experts % c->n_group != 0)
        return tr_key_bad(r, "n_group", "a divisor of n_routed_experts", err);
    if (c->topk_group > c->n_group)
        return tr_key_bad(r, "topk_group", "at most n_group", err);
    if (c->n_group > 1 && group < 2)
        return tr_key_bad(r, "n_group", "groups of at least 2 experts", err);
    if (c->num_experts_per_tok > c->topk_group * group)
        return tr_key_bad(r, "num_experts_per_tok", "at most the experts of topk_group groups",
                          err);
    if (c->first_k_dense_replace > c->num_hidden_layers)
        return tr_key_bad(r, "first_k_dense_replace", "at most num_hidden_layers", err);
    return FR_OK;
}

enum fr_rc tr_read_deepseek(const struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;
    enum fr_rc rc = tr_read_rope(r, 1U << TR_ROPE_DEFAULT | 1U << TR_ROPE_YARN, err);

    if (rc != FR_OK || (rc = read_fixed(&r->f, c, err)) != FR_OK ||
        (rc = check_size(&r->f, "head_dim", c->qk_rope_head_dim, "as qk_rope_head_dim", err)) !=
            FR_OK ||
        (rc = check_size(&r->f, "qk_head_dim", c->qk_nope_head_dim + c->qk_rope_head_dim,
                         "the sum of qk_nope_head_dim and qk_rope_head_dim", err)) != FR_OK)
        return rc;
    return check(r, err);
}
