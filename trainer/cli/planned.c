#include "trainer/cli/planned.h"

#include "engine/base/log.h"
#include "trainer/cli/speeds.h"
#include "trainer/config/folder.h"
#include "trainer/config/lora_saves.h"
#include "trainer/report/metrics.h"
#include "trainer/train/resize.h"

#include <math.h>
#include <string.h>

/* Ranks of a group that owns experts. */
static int64_t owners(const struct tr_planned *p)
{
    const struct tr_cluster *c = &p->cluster;

    if (p->ds.expert_ranks > 0)
        return p->ds.expert_ranks;
    return p->ds.expert_group == TR_EXPERTS_NODE ? c->gpus : c->nodes * c->gpus;
}

static enum fr_rc read_way(struct tr_planned *p, struct fr_err *err)
{
    int64_t ranks = p->cluster.nodes * p->cluster.gpus;

    p->way = (struct tr_plan_way){
        .whole = p->ds.stage < 3,
        .host = p->ds.offload_param != TR_OFFLOAD_NONE && !tr_gpu_is_cpu(&p->cluster.gpu),
        .states = tr_trained_any(&p->trained) && p->ds.offload_optimizer != TR_OFFLOAD_NONE,
        .disk = tr_trained_any(&p->trained) && p->ds.offload_optimizer == TR_OFFLOAD_NVME};
    p->job.asked = &p->way;
    if (!p->ds.experts_stay)
        return FR_OK;
    if (p->config.n_routed_experts == 0)
        return fr_fail(err, FR_USAGE, "moe: the model has no routed experts: leave the block out");
    p->way.experts = owners(p);
    if (ranks % p->way.experts != 0)
        return fr_fail(err, FR_USAGE,
                       "moe: expert_parallel_size %lld does not divide the %lld ranks of the run",
                       (long long)p->way.experts, (long long)ranks);
    return FR_OK;
}

/* Refuses what is not done where weights train, as far as the layouts are concerned. */
static enum fr_rc check_trained(const struct tr_planned *p, const struct tr_args *a,
                                struct fr_err *err)
{
    const char *what = p->trained.all ? "--finetuning_type " : "--additional_target";
    const char *of = p->trained.all ? a->finetuning_type : "";
    struct tr_plan_trained t;
    enum fr_rc rc = tr_plan_trained(&p->job, &t, err);

    if (rc == FR_OK && p->way.host && !p->way.states)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s%s: weights that train wait in the host's memory beside "
                       "their optimizer alone: set offload_optimizer.device to cpu as well, or "
                       "leave out offload_param",
                       what, of);
    if (rc == FR_OK && p->way.experts > 0 && t.experts)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s%s: experts that stay on their ranks cannot be trained "
                       "yet: leave out the moe block, or freeze them",
                       what, of);
    if (rc == FR_OK && p->way.experts > 0 && !p->way.whole && p->cluster.nodes > 1)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s%s: weights that train are sharded over all ranks, with "
                       "a moe block inside nodes: leave it out",
                       what, of);
    return rc;
}

/* Adapters, and what trains whole beside them. rows_before: of --resize_vocab; 0: none are added.
 */
static enum fr_rc read_adapter(struct tr_planned *p, const struct tr_args *a, int64_t rows_before,
                               struct fr_err *err)
{
    enum fr_rc rc;

    if (p->trained.all)
        return FR_OK;
    rc = a->adapter_name_or_path != NULL ? tr_lora_read(a->adapter_name_or_path, &p->lora, err)
                                         : tr_lora_from_args(a, &p->lora, err);
    if (rc == FR_OK)
        rc = tr_lora_resolve(&p->lora, &p->config, err);
    if (rc == FR_OK)
        rc = tr_lora_settle(&p->lora, &p->config, NULL, err);
    if (rc == FR_OK && rows_before > 0)
        rc = tr_resize_held(&p->lora, &p->config, err);
    tr_trained_beside(&p->trained, &p->lora);
    return rc;
}

enum fr_rc tr_planned_read(struct tr_planned *p, const struct tr_args *a, struct fr_err *err)
{
    struct tr_ds_flags flags = {.args = a, .world = p->cluster.nodes * p->cluster.gpus};
    int64_t rows_before = 0;
    enum fr_rc rc = tr_folder_config(a->model_name_or_path, &p->config, err);

    if (rc == FR_OK)
        rc = tr_resize_planned(a, &p->config, &rows_before, err);
    flags.hidden_size = p->config.hidden_size;
    if (rc == FR_OK)
        rc = tr_trained_read(a, &p->config, &p->trained, NULL, err);
    if (rc == FR_OK)
        rc = read_adapter(p, a, rows_before, err);
    flags.weights = tr_trained_any(&p->trained);
    tr_ds_default(&flags, &p->ds);
    if (rc == FR_OK && a->deepspeed != NULL)
        rc = tr_ds_load(a->deepspeed, &flags, &p->ds, NULL, err);
    p->job = (struct tr_plan_job){.config = &p->config,
                                  .lora = p->trained.all ? NULL : &p->lora,
                                  .trained = tr_trained_any(&p->trained) ? &p->trained : NULL,
                                  .coded = tr_args_coded(a),
                                  .compute = tr_precision_type(p->ds.precision),
                                  .beside = p->ds.overlap_comm,
                                  .beside_sharded = a->deepspeed == NULL,
                                  .wire = tr_precision_type(p->ds.communication),
                                  .muon = p->ds.muon != TR_MUON_NONE,
                                  .muon_gram = p->ds.muon == TR_MUON_BLOCK && !p->ds.muon_plain,
                                  .batch = a->per_device_train_batch_size,
                                  .cutoff = a->cutoff_len,
                                  .accumulation = a->gradient_accumulation_steps,
                                  .micro_batches = 8,
                                  .keep_bytes = a->recompute == TR_RECOMPUTE_NONE ? SIZE_MAX : 0,
                                  .limits = {.prefetch_bucket = p->ds.prefetch_bucket_size,
                                             .prefetch_auto = p->ds.prefetch_auto,
                                             .max_live = p->ds.max_live_parameters,
                                             .max_reuse = p->ds.max_reuse_distance},
                                  .tile = p->ds.sub_group_size,
                                  .tiles = p->ds.offload_tiles,
                                  .skew = 1};
    if (rc == FR_OK)
        rc = read_way(p, err);
    return rc == FR_OK && tr_trained_any(&p->trained) ? check_trained(p, a, err) : rc;
}

void tr_planned_finish(struct tr_planned *p)
{
    tr_lora_finish(&p->lora);
}

/* ---- beside what a run did ---- */

static void add_moves(double out[TR_LINK_CLASSES], const struct tr_plan_moves *m, double times)
{
    out[TR_LINK_SELF] += m->self * times;
    out[TR_LINK_NODE] += m->node * times;
    out[TR_LINK_FAR] += m->far * times;
}

/* The plan's values for the run's own micro-batches, tokens and steps. */
static void expect(const struct tr_plan_layout *l, const struct tr_planned *p,
                   const struct tr_train_counts *n, double out[TR_MOVES][TR_LINK_CLASSES])
{
    double micros = (double)n->micros, steps = (double)n->steps, times[TR_PLAN_FIRSTS];
    double choices = micros * (double)n->tokens_max / (double)(p->job.batch * p->job.cutoff);
    const struct {
        enum tr_move move;
        const struct tr_plan_moves *of;
        double times;
    } parts[] = {{TR_MOVE_WEIGHTS, &l->updated, steps},
                 {TR_MOVE_EMBEDDING, &l->embedding, n->tokens},
                 {TR_MOVE_TOKENS, &l->choices, choices},
                 {TR_MOVE_TOKENS, &l->token, n->tokens},
                 {TR_MOVE_GRADIENTS, &l->gradients[0], steps},
                 {TR_MOVE_GRADIENTS, &l->gradients[1], micros - steps},
                 {TR_MOVE_ADAPTERS, &l->adapters, steps}};

    memset(out, 0, sizeof(double) * TR_MOVES * TR_LINK_CLASSES);
    tr_plan_times(&p->job, steps, micros / steps, times);
    for (int i = 0; i < TR_PLAN_FIRSTS; i++)
        add_moves(out[TR_MOVE_WEIGHTS], &l->gathers[i], times[i]);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        add_moves(out[parts[i].move], parts[i].of, parts[i].times);
}

static void say_row(const char *what, const char *where, double planned, double counted)
{
    if (planned > 0 || counted > 0)
        tr_say("  %-9s %-24s %16.0f %16.0f %7.3f", what, where, planned, counted,
               planned > 0 ? counted / planned : INFINITY);
}

static const char *const moves[TR_MOVES] = {[TR_MOVE_WEIGHTS] = "weights",
                                            [TR_MOVE_EMBEDDING] = "embedding",
                                            [TR_MOVE_TOKENS] = "tokens",
                                            [TR_MOVE_GRADIENTS] = "gradients",
                                            [TR_MOVE_ADAPTERS] = "adapters"};

static const char *const links[TR_LINK_CLASSES] = {[TR_LINK_SELF] = "on the same rank",
                                                   [TR_LINK_NODE] = "inside nodes",
                                                   [TR_LINK_FAR] = "between nodes"};

/* muon: at the end of a step whole matrices travel, not adapters. */
static void say_bytes(bool muon, double planned[TR_MOVES][TR_LINK_CLASSES],
                      double counted[TR_MOVES][TR_LINK_CLASSES])
{
    char what[32];

    for (int m = 0; m < TR_MOVES; m++)
        for (int c = 0; c < TR_LINK_CLASSES; c++) {
            (void)snprintf(what, sizeof(what), "bytes %s", links[c]);
            say_row(muon && m == TR_MOVE_ADAPTERS ? "matrices" : moves[m], what, planned[m][c],
                    counted[m][c]);
        }
}

/* Microseconds of a step as planned, and as the steps were. */
static void say_ratios(double planned[TR_MOVES][TR_LINK_CLASSES],
                       double counted[TR_MOVES][TR_LINK_CLASSES], const double step[2])
{
    char text[160];
    size_t n = 0;

    for (int c = 0; c < TR_LINK_CLASSES; c++) {
        double p = 0, q = 0;

        for (int m = 0; m < TR_MOVES; m++) {
            p += planned[m][c];
            q += counted[m][c];
        }
        if (p > 0)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.3f %s", n > 0 ? ", " : "", q / p,
                                  links[c]);
    }
    tr_say("The run moved %s of the planned bytes, and took %.2f of the planned time",
           n > 0 ? text : "none", step[1] / step[0]);
}

static void say(const struct tr_planned *p, struct tr_train_counts *n)
{
    const struct tr_plan_layout *l = &p->plan.layouts[p->plan.asked];
    const struct tr_gpu *g = &p->cluster.gpu;
    struct tr_plan_time t = tr_plan_time(l, &p->cluster, p->job.accumulation);
    double planned[TR_MOVES][TR_LINK_CLASSES];
    double visits = n->tokens * (double)tr_model_moe_count(&p->config);
    double full = (double)(p->job.batch * p->job.cutoff * p->job.accumulation) *
                  (double)(p->cluster.nodes * p->cluster.gpus);
    double step[2] = {t.step_s * 1e6 * n->tokens / (double)n->steps / full,
                      n->seconds * 1e6 / (double)n->steps};

    expect(l, p, n, planned);
    tr_say("Plan and run, %s, %lld steps of %.0f tokens:", l->name, (long long)n->steps,
           n->tokens / (double)n->steps);
    tr_say("  %-34s %16s %16s %7s", "", "planned", "counted", "ratio");
    say_bytes(p->job.muon, planned, n->bytes);
    say_row("routes", "rows inside nodes", l->spread.near * visits, n->near_rows);
    say_row("routes", "rows between nodes", l->spread.far * visits, n->far_rows);
    say_row("memory", "bytes of a rank", l->memory, n->memory);
    say_row("time", "us of a step", step[0], step[1]);
    tr_say(
        "  speeds of a rank: products %.3g GFLOP/s, other ops %.3g GB/s, dropout %.3g M/s; links "
        "inside nodes %.3g MB/s, of a node %.3g MB/s",
        g->flops * 1e-9, g->rows * 1e-9, g->draws * 1e-6, p->cluster.gpus > 1 ? g->swap * 1e-6 : 0,
        p->cluster.nodes > 1 ? p->cluster.network * 1e-6 : 0);
    say_ratios(planned, n->bytes, step);
}

/* As many ranks on each node, on devices whose speed is known. */
static bool has_plan(const struct tr_train_env *env)
{
    const struct tr_comm *c = env->comm;

    for (int k = 0; k < c->size && c->node_of != NULL; k++)
        if (c->node_of[k] != k / c->local_size)
            return false;
    return c->size == c->nodes * c->local_size && env->be->memory->is_host;
}

void tr_planned_compare(const struct tr_args *a, const struct tr_train_env *env)
{
    struct tr_planned p = {.cluster = {.nodes = env->comm->nodes,
                                       .gpus = env->comm->local_size,
                                       .gpu = *tr_gpu_find("cpu"),
                                       .network = 10e9,
                                       .disk = 2e9,
                                       .failure_s = 86400}};
    struct fr_err why = {0};
    size_t measured; /* bytes, by all ranks */
    enum fr_rc rc;

    if (!has_plan(env) || env->counts->steps == 0 || env->counts->tokens <= 0)
        return;
    fr_log_level(FR_LOG_WARN); /* the plan's backend has logged its kernels */
    measured = env->comm->class_bytes[TR_LINK_FAR];
    rc = tr_planned_read(&p, a, &why);
    p.job.keep_bytes = env->counts->kept;
    p.job.pack_bytes = env->counts->packed;
    p.job.accumulation = (env->counts->micros + env->counts->steps - 1) / env->counts->steps;
    p.job.supervised = env->counts->targets / env->counts->tokens;
    if (rc == FR_OK) {
        /* The longest sample, not the longest that is allowed: what grows with its square counts.
         */
        p.job.cutoff = (env->counts->tokens_max + p.job.batch - 1) / p.job.batch;
        rc = tr_speeds_measure(&p.job, env, &p.cluster, &why);
    }
    if (rc == FR_OK && env->comm->rank == 0)
        rc = tr_plan_make(&p.job, &p.cluster, &p.plan, &why);
    measured = (env->comm->class_bytes[TR_LINK_FAR] - measured) * (size_t)env->comm->size;
    if (rc == FR_OK && env->comm->rank == 0)
        say(&p, env->counts);
    if (rc == FR_OK && env->comm->rank == 0 && measured > 0)
        tr_say("  links between nodes were measured by %zu bytes", measured);
    else if (rc != FR_OK)
        fr_log(FR_LOG_WARN, "plan", "nothing to compare with: %s", why.msg);
    tr_planned_finish(&p);
}
