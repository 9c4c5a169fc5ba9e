/* Seconds of a step on links of known speed, of a checkpoint, and of a failure. */
#include "trainer/plan/plan.h"

#include <math.h>

struct tr_plan_time tr_plan_time(const struct tr_plan_layout *l, const struct tr_cluster *c,
                                 int64_t accumulation)
{
    double inside = l->way.experts == 0 ? c->gpu.link : c->gpu.swap;
    const struct {
        const char *name;
        double s;
    } links[] = {{"the network between nodes", l->far_bytes / c->network},
                 {"links inside a node", l->near_bytes / inside},
                 {"the host's memory", l->host_bytes / c->gpu.host}};
    struct tr_plan_time t = {.bound = "computing"};
    double micro = l->work_s, most = micro;
    bool beside = !tr_gpu_is_cpu(&c->gpu);

    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        t.moves_s = beside ? fmax(t.moves_s, links[i].s) : t.moves_s + links[i].s;
        if (links[i].s > most) {
            most = links[i].s;
            t.bound = links[i].name;
        }
    }
    micro = beside ? most : micro + t.moves_s;
    t.step_s = micro * (double)accumulation + l->update_s +
               fmax(l->step_bytes / c->network, l->step_near / inside);
    t.tokens_s = l->tokens / t.step_s;
    return t;
}

double tr_plan_checkpoint(const struct tr_plan_job *job, const struct tr_plan *p)
{
    double trained = p->adapters + p->trained.elements, saved = trained * sizeof(float);

    if (job->trained != NULL && job->trained->all)
        saved =
            p->weights + (job->trained->save_masters
                              ? p->floats * (sizeof(float) - (double)tr_dtype_bytes(job->compute))
                              : 0);
    if (job->coded) /* two codes, and two numbers a block, in place of two numbers */
        saved -= p->trained.coded * (8 - 2 - 8.0 / TR_CODED_BLOCK);
    return saved + trained * 12 - p->trained.matrices * 4;
}

struct tr_plan_care tr_plan_care(const struct tr_plan *p, const struct tr_plan_layout *l,
                                 const struct tr_cluster *c, double step_s)
{
    struct tr_plan_care k = {.save_s = p->checkpoint / c->disk, .load_s = l->read_bytes / c->disk};
    double between = sqrt(2 * k.save_s * c->failure_s);

    k.save_steps = between > step_s ? (int64_t)llround(between / step_s) : 1;
    k.lost_s = k.load_s + (double)k.save_steps * step_s / 2;
    return k;
}
