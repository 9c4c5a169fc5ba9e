/* Weights that train: how many, their operations, and how gathers come between updates. */
#include "trainer/plan/plan.h"

#include <math.h>
#include <string.h>

#define HOST_STREAM 300e9 /* bytes a second of a node's memory, assumed */

/* lowest: the first layer with a weight that trains, -1: below all layers. */
struct walk {
    const struct tr_plan_job *job;
    struct tr_plan_trained *out;
    int64_t lowest;
    bool found;
};

static enum fr_rc find_lowest(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct walk *w = arg;
    struct tr_lora_hit hit = {0};
    char module[TR_NAME_MAX];
    enum fr_rc rc = FR_OK;

    if (!w->found && w->job->lora != NULL && t->role == TR_ROLE_LINEAR &&
        tr_model_module(t->name, module))
        rc = tr_lora_match(w->job->lora, module, &hit, err);
    if (rc != FR_OK || w->found || !(hit.adapted || tr_trained_has(w->job->trained, t)))
        return rc;
    w->found = true;
    w->lowest =
        t->layer >= 0 || t->role == TR_ROLE_EMBED ? t->layer : w->job->config->num_hidden_layers;
    return FR_OK;
}

/* Recomputing ends at the inputs of the last products of attention and FFN. */
static enum fr_rc count_trained(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct walk *w = arg;
    const struct tr_model_config *c = w->job->config;
    bool trains = tr_trained_has(w->job->trained, t), linear = t->role == TR_ROLE_LINEAR;
    bool last = linear && (t->kind == TR_LIN_O || t->kind == TR_LIN_DOWN);
    double n = (double)(t->ndim == 2 ? t->shape[0] * t->shape[1] : t->shape[0]), times = 2;

    (void)err;
    w->out->elements += trains ? n : 0;
    w->out->coded += trains && t->role != TR_ROLE_EMBED && n >= TR_CODED_LEAST ? n : 0;
    w->out->matrices += trains && w->job->muon && tr_muon_takes(t->name, t->ndim) ? n : 0;
    w->out->experts |= trains && t->expert >= 0;
    w->out->embedding |= trains && t->role == TR_ROLE_EMBED;
    w->out->head |= trains && (t->role == TR_ROLE_HEAD ||
                               (t->role == TR_ROLE_EMBED && w->job->config->tie_word_embeddings));
    if (!linear && t->role != TR_ROLE_ROUTER)
        return FR_OK;
    if (t->layer >= w->lowest)
        times += w->job->keep_bytes > 0 || last ? 2 : 4;
    times += trains ? 2 : 0;
    n *= t->expert >= 0 ? (double)c->num_experts_per_tok / (double)c->n_routed_experts : 1;
    w->out->flops += times * n;
    return FR_OK;
}

enum fr_rc tr_plan_trained(const struct tr_plan_job *job, struct tr_plan_trained *out,
                           struct fr_err *err)
{
    struct walk w = {.job = job, .out = out};
    int64_t layers = job->config->num_hidden_layers, first;
    double tokens = (double)job->cutoff, back = job->keep_bytes > 0 ? 3.6 : 4.6;
    double head = job->keep_bytes > 0 ? 1.5 : 2; /* of a trained one, beside a frozen one */
    enum fr_rc rc = tr_model_tensors(job->config, find_lowest, &w, err);

    *out = (struct tr_plan_trained){.flops = 0};
    if (rc == FR_OK)
        rc = tr_model_tensors(job->config, count_trained, &w, err);
    first = w.lowest > 0 ? w.lowest : 0;
    out->flops += tr_plan_core(job->config, tokens, 0, first) +
                  back * tr_plan_core(job->config, tokens, first, layers) +
                  tr_plan_head_flops(job) * (out->head ? head : 1);
    return rc;
}

void tr_plan_times(const struct tr_plan_job *job, double steps, double micros,
                   double times[TR_PLAN_FIRSTS])
{
    int n = (int)fmin((double)job->accumulation, TR_PLAN_LATER + 1), last = TR_PLAN_STEPS - 1;

    memset(times, 0, TR_PLAN_FIRSTS * sizeof(*times));
    if (job->trained == NULL) {
        micros *= steps;
        for (int i = 0; i < TR_PLAN_LATER; i++)
            times[i] = fmin(fmax(micros - i, 0), 1);
        times[TR_PLAN_LATER] = fmax(micros - TR_PLAN_LATER, 0);
        return;
    }
    for (int step = 0; step <= last; step++) {
        double of = fmin(fmax(steps - step, 0), step < last ? 1 : steps);

        for (int i = 0; i < n; i++)
            times[step * n + i] = of * (i < n - 1 ? 1 : micros - i);
    }
}

void tr_plan_step_matrices(const struct tr_plan *p, const struct tr_cluster *c,
                           struct tr_plan_layout *l)
{
    double W = (double)(c->nodes * c->gpus);

    l->step_bytes += l->matrices.node_far;
    l->step_near += l->matrices.rank_near;
    l->update_s += l->matrices.rank_flops / c->gpu.flops;
    if (l->way.states && !tr_gpu_is_cpu(&c->gpu))
        l->update_s += 28 * p->trained.matrices / W / c->gpu.host;
    if (l->way.disk) { /* a pass over all states, then what belongs to matrices once more */
        double more = 8 * p->trained.matrices / (double)c->nodes / c->disk;

        l->disk_s += more;
        l->update_s += more;
    }
}

void tr_plan_step_on_host(const struct tr_plan_job *job, const struct tr_cluster *c,
                          struct tr_plan_layout *l)
{
    double copy = (double)tr_dtype_bytes(job->compute);

    l->disk_s = l->disk / c->disk;
    if (tr_gpu_is_cpu(&c->gpu)) { /* the same memory */
        l->work_s += 2 * (double)l->shares.summed / c->gpu.stream;
        l->update_s = fmax(l->update_s, l->disk_s);
        return;
    }
    l->host_bytes += (double)l->shares.summed;
    l->update_s = fmax((double)c->gpus * l->sums * ((job->coded ? 4 : 7) * 4 + copy) / HOST_STREAM,
                       fmax(l->sums * copy / c->gpu.host, l->disk_s));
}
