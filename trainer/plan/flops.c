/* Operations of a token and parameters of adapters; plan.h has the formula. */
#include "trainer/plan/plan.h"

/* Tokens that a token attends to, on average over a sample. */
static double visible(const struct tr_model_config *c, int64_t layer, double tokens)
{
    double w = (double)tr_model_window(c, layer);

    return w <= 0 || tokens <= w ? tokens / 2 : w - w * w / (2 * tokens);
}

double tr_plan_core(const struct tr_model_config *c, double tokens, int64_t first, int64_t last)
{
    struct tr_head_sizes head = tr_model_head(c);
    double sum = 0;

    for (int64_t l = first; l < last; l++)
        sum +=
            2 * (double)c->num_attention_heads * (double)(head.qk + head.v) * visible(c, l, tokens);
    return sum;
}

/* Weights that multiply a token, without the head. */
static double used(const struct tr_model_config *c, const struct tr_model_counts *n)
{
    double moe = (double)tr_model_moe_count(c), layers = (double)c->num_hidden_layers;

    return layers * (double)n->attention_layer + (layers - moe) * (double)n->dense_ffn +
           moe * ((double)c->num_experts_per_tok * (double)n->expert + (double)n->shared_expert +
                  (double)n->router);
}

double tr_plan_head_flops(const struct tr_plan_job *job)
{
    double share = job->supervised > 0 ? job->supervised : 1;

    return 4 * share * (double)job->config->vocab_size * (double)job->config->hidden_size;
}

double tr_plan_flops(const struct tr_plan_job *job, const struct tr_model_counts *n,
                     double adapters)
{
    double core = tr_plan_core(job->config, (double)job->cutoff, 0, job->config->num_hidden_layers);

    return 6 * used(job->config, n) + 4.6 * core + tr_plan_head_flops(job) + 8 * adapters;
}

struct adapters {
    const struct tr_lora_config *lora;
    double weights;
};

static enum fr_rc count_adapter(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct adapters *a = arg;
    char module[TR_NAME_MAX];
    struct tr_lora_hit hit;
    enum fr_rc rc = tr_lora_match_tensor(a->lora, t, module, &hit, err);

    if (rc == FR_OK && hit.adapted && t->expert < 0)
        a->weights += (double)hit.r * (double)(t->shape[0] + t->shape[1]);
    return rc;
}

enum fr_rc tr_plan_adapters(const struct tr_plan_job *job, double *out, struct fr_err *err)
{
    struct adapters a = {job->lora, 0};
    enum fr_rc rc = FR_OK;

    if (job->lora != NULL)
        rc = tr_model_tensors(job->config, count_adapter, &a, err);
    *out = a.weights;
    return rc;
}
