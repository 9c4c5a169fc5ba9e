/*
 * The experts of models of the Llama family. Mixtral (Jiang et al. 2024): every layer has them, as
 * wide as intermediate_size, and the weights of the chosen experts add up to 1. Qwen3-MoE (2025):
 * layers have experts if their number is a multiple of decoder_sparse_step, except mlp_only_layers.
 */
#include "trainer/config/model_read.h"

static void set_dense(struct tr_model_config *c, int64_t layer)
{
    c->dense[layer / 64] |= (uint64_t)1 << layer % 64;
}

/* Marks the dense layers of a Qwen3-MoE. */
static enum fr_rc read_layers(const struct tr_fields *f, struct tr_model_config *c,
                              struct fr_err *err)
{
    const json_t *list = tr_field(f, "mlp_only_layers"), *one;
    size_t i;

    for (int64_t l = 0; l < c->num_hidden_layers; l++)
        if ((l + 1) % c->decoder_sparse_step != 0)
            set_dense(c, l);
    if (list != NULL && !json_is_array(list))
        return tr_field_bad(f, "mlp_only_layers", "a list of layers", err);
    json_array_foreach(list, i, one)
    {
        json_int_t l = json_is_integer(one) ? json_integer_value(one) : -1;

        if (l < 0 || l >= c->num_hidden_layers)
            return tr_field_bad(f, "mlp_only_layers", "layers below num_hidden_layers", err);
        set_dense(c, l);
    }
    return FR_OK;
}

/* Refuses options that would change the loss or the routing in training. */
static enum fr_rc read_fixed(const struct tr_fields *f, struct fr_err *err)
{
    enum fr_rc rc = tr_read_off(f, "router_jitter_noise", "0", err);

    if (rc == FR_OK)
        rc = tr_read_off(f, "output_router_logits", "false: no loss that balances experts is added",
                         err);
    if (rc == FR_OK && json_is_null(json_object_get(f->object, "router_aux_loss_coef")))
        rc = tr_field_bad(f, "router_aux_loss_coef", "a number", err);
    return rc;
}

enum fr_rc tr_read_experts(const struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;
    enum fr_rc rc = read_fixed(&r->f, err);

    if (rc != FR_OK)
        return rc;
    if (c->num_experts_per_tok > c->n_routed_experts)
        return tr_field_bad(&r->f, "num_experts_per_tok", "at most the number of experts", err);
    c->first_k_dense_replace = 0;
    c->n_group = c->topk_group = 1;
    c->routed_scaling_factor = 1;
    c->softmax_scores = true;
    c->block_sparse_moe = r->type->block_sparse_moe;
    if (!tr_key_has(r, "norm_topk_prob"))
        c->norm_topk_prob = true;
    if (!tr_key_has(r, "moe_intermediate_size"))
        c->moe_intermediate_size = c->intermediate_size;
    return tr_key_has(r, "decoder_sparse_step") ? read_layers(&r->f, c, err) : FR_OK;
}
