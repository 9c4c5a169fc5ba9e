/* Bytes, operations and seconds of each layout; the formulas stand in plan.h. */
#include "engine/base/sys.h"
#include "trainer/plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GROUP_RANKS_MAX = 64 }; /* of an exchange, see trainer/shard/route.h */
#define FP8_BYTES(c) (1 + 4.0 / (double)((c)->fp8_block_rows * (c)->fp8_block_cols))
#define ROOM 0.97 /* of a GPU's memory: the rest is lost between allocations */

/* Bytes of a frozen weight as it is stored. */
static double weight_bytes(const struct tr_plan_job *job, bool linear)
{
    if (job->config->fp8 && linear)
        return FP8_BYTES(job->config);
    return (double)tr_dtype_bytes(job->compute);
}

static void weigh(const struct tr_plan_job *job, struct tr_plan *p)
{
    const struct tr_model_config *c = job->config;
    const struct tr_model_counts *n = &p->counts;
    double routed = (double)tr_model_moe_count(c) * (double)c->n_routed_experts * (double)n->expert;
    double others =
        (double)n->embedding + (double)n->head + (double)tr_model_moe_count(c) * (double)n->router;
    double linears = (double)n->total - routed - others;

    p->experts = routed * weight_bytes(job, true);
    p->weights = p->experts + linears * weight_bytes(job, true) + others * weight_bytes(job, false);
    p->floats = others + (c->fp8 ? 0 : routed + linears);
    p->head = (double)n->head * weight_bytes(job, false);
    p->never = (others - (double)n->head) * weight_bytes(job, false);
}

/* ---- operations ---- */

/* Seconds of a micro-batch on the busiest rank. If experts stay, it has more rows than the mean. */
static double work(const struct tr_plan_job *job, const struct tr_cluster *c,
                   const struct tr_plan *p, bool stay)
{
    double tokens = (double)(job->batch * job->cutoff), flops = p->flops, rows = 0;

    if (stay)
        flops += 6 * (double)tr_model_moe_count(job->config) *
                 (double)job->config->num_experts_per_tok * (double)p->counts.expert *
                 (job->skew - 1);
    if (c->gpu.rows > 0)
        rows += p->rows_work.bytes / c->gpu.rows;
    if (c->gpu.draws > 0)
        rows += p->rows_work.draws / c->gpu.draws;
    return flops * tokens / c->gpu.flops + rows;
}

/* ---- links ---- */

static double ranks_of(const struct tr_cluster *c)
{
    return (double)(c->nodes * c->gpus);
}

/* Bytes out of a node, once a step. */
static double gradient_bytes(const struct tr_plan_job *job, const struct tr_cluster *c,
                             const struct tr_plan *p)
{
    double W = ranks_of(c), g = (double)c->gpus, copy = (double)tr_dtype_bytes(job->compute);

    if (c->nodes == 1)
        return 0;
    return p->adapters * (g * (W - g) / W * 4 + (W - 1) / W * copy);
}

/* Rings of `ranks` on `nodes` nodes: each rank puts its part of `part` bytes, and hands those of
 * all but the next one to it. */
struct rings {
    double ranks, nodes, count;
};

static struct tr_plan_moves ring(struct rings r, double part)
{
    double far = r.nodes > 1 ? r.nodes : 0, each = r.count * part, handed = (r.ranks - 1) * each;

    return (struct tr_plan_moves){r.ranks * each, (r.ranks - far) * handed, far * handed};
}

/* Moves of a token's embedding row, which any of `ranks` on `nodes` nodes may own. */
static struct tr_plan_moves row_of_id(const struct tr_plan_job *job, double ranks, double nodes,
                                      enum tr_dtype type)
{
    double row = (double)job->config->hidden_size * (double)tr_dtype_bytes(type);
    double local = ranks / nodes;

    if (ranks <= 1)
        return (struct tr_plan_moves){0, 0, 0};
    return (struct tr_plan_moves){row / ranks, (local - 1) / ranks * row,
                                  (ranks - local) / ranks * row};
}

/* Bytes that a rank passes to the next of `ranks` in the gathers of a later micro-batch, on average
 * over those of a step. */
static double gathered(const struct tr_plan_job *job, const struct tr_plan_layout *l, double ranks)
{
    double A = (double)job->accumulation, many[TR_PLAN_FIRSTS], more[TR_PLAN_FIRSTS], sum = 0;

    tr_plan_times(job, TR_PLAN_STEPS, A, many);
    tr_plan_times(job, TR_PLAN_STEPS + 1, A, more);
    for (int i = 0; i < TR_PLAN_FIRSTS; i++)
        sum += (more[i] - many[i]) * l->fetched[i];
    return sum / A / ranks * (ranks - 1);
}

static void put_gathers(struct tr_plan_layout *l, struct rings r)
{
    for (int i = 0; i < TR_PLAN_FIRSTS; i++)
        l->gathers[i] = ring(r, l->fetched[i] / r.ranks);
}

static void zero3(const struct tr_plan_job *job, const struct tr_cluster *c,
                  const struct tr_plan *p, struct tr_plan_layout *l)
{
    double W = ranks_of(c), n = (double)c->nodes, moved = gathered(job, l, W);
    double streamed = l->passes * p->weights / c->gpu.stream;

    put_gathers(l, (struct rings){W, n, 1});
    l->embedding = row_of_id(job, W, n, job->compute);
    l->work_s = fmax(work(job, c, p, false), streamed); /* every GPU reads all weights */
    l->far_bytes = c->nodes > 1 ? moved : 0;
    l->near_bytes = c->gpus > 1 ? moved : 0;
    l->host_bytes = l->way.host ? l->fetched[TR_PLAN_LATER] / W : 0;
    l->read_bytes = p->weights * (double)c->gpus / W;
}

static void whole(const struct tr_plan_job *job, const struct tr_cluster *c,
                  const struct tr_plan *p, struct tr_plan_layout *l)
{
    l->work_s = fmax(work(job, c, p, false), l->passes * p->weights / c->gpu.stream);
    l->host_bytes = l->way.host ? l->fetched[TR_PLAN_LATER] : 0;
    l->read_bytes = p->weights;
}

/* Bytes that a token and layer move for each node or rank it goes to. */
static double row_bytes(const struct tr_plan_job *job)
{
    return 5 * (double)job->config->hidden_size * (double)tr_dtype_bytes(job->compute) +
           12 * (double)job->config->num_experts_per_tok;
}

/* Nodes of a group that owns a set of experts. */
static int64_t nodes_of(const struct tr_plan_layout *l, const struct tr_cluster *c)
{
    return l->way.experts > c->gpus ? l->way.experts / c->gpus : 1;
}

static void experts_stay(const struct tr_plan_job *job, const struct tr_cluster *c,
                         const struct tr_plan *p, struct tr_plan_layout *l)
{
    double g = (double)c->gpus, T = (double)(job->batch * job->cutoff);
    double X = (double)l->way.experts, nodes = (double)nodes_of(l, c);
    double layers = (double)tr_model_moe_count(job->config), row = layers * row_bytes(job);
    double choices = layers * 4 * T * (double)job->config->num_experts_per_tok;
    double chosen = (X - 1) * choices;
    double rest = p->weights - p->experts;
    double moved = gathered(job, l, g);

    put_gathers(l, (struct rings){g, 1, ranks_of(c) / g});
    if (!l->way.whole)
        l->embedding = row_of_id(job, g, 1, job->compute);
    l->choices = ring((struct rings){X, nodes, ranks_of(c) / X}, choices);
    l->token =
        (struct tr_plan_moves){l->spread.self * row, l->spread.near * row, l->spread.far * row};
    l->work_s = work(job, c, p, true);
    l->far_bytes = g * T * l->token.far + (nodes > 1 ? chosen : 0);
    l->near_bytes = T * l->token.node + chosen + moved;
    l->read_bytes = p->experts / nodes + rest;
}

/* Activations go to the next node and their gradients back; all else stays inside one. As many
 * tokens as in the other layouts are n micro-batches of a node, in a row of m. */
static void stages(const struct tr_plan_job *job, const struct tr_cluster *c,
                   const struct tr_plan *p, struct tr_plan_layout *l)
{
    double n = (double)c->nodes, m = (double)job->micro_batches;

    experts_stay(job, c, p, l);
    l->work_s *= (m + n - 1) / m;
    l->far_bytes = 2 * n * (double)c->gpus * (double)(job->batch * job->cutoff) *
                   (double)job->config->hidden_size * (double)tr_dtype_bytes(job->compute);
    l->read_bytes = p->weights / n;
}

/* ---- weights that train ---- */

/* Beside the gathers: gradients in every micro-batch, on average over those of a step, and the
 * update of a step. */
static void train_weights(const struct tr_plan_job *job, const struct tr_cluster *c,
                          const struct tr_plan *p, struct tr_plan_layout *l)
{
    double W = ranks_of(c), n = (double)c->nodes, A = (double)job->accumulation;
    double sent = W > 1 ? (double)l->shares.reduced : 0; /* by each rank, to each */
    double updated = W > 1 ? (double)l->shares.updated : 0;
    double rate = c->gpu.rows > 0 ? c->gpu.rows : c->gpu.stream; /* of ops that compute little */
    double summed = (double)l->shares.summed;
    bool rounds = W > 1 && (job->wire == TR_BF16 || job->wire == TR_F16);
    enum tr_dtype wire = rounds ? job->wire : TR_F32;
    struct tr_plan_moves rows = row_of_id(job, W, n, wire);

    if (p->trained.embedding) {
        l->embedding.self += rows.self;
        l->embedding.node += rows.node;
        l->embedding.far += rows.far;
    }
    for (int later = 0; later < 2; later++) {
        const struct tr_grads_way *way = &l->ways[later];
        double share = (later ? A - 1 : 1) / A, passes = way->chain ? n + 1 : 1;

        l->gradients[later] = (struct tr_plan_moves){
            (double)way->bytes.self, (double)way->bytes.node, (double)way->bytes.far};
        l->far_bytes += share * (double)way->bytes.busiest;
        l->near_bytes += share * (double)way->bytes.node / W;
        l->work_s += share * (W * (double)l->shares.reduced + 2 * passes * summed) / rate;
    }
    l->updated = ring((struct rings){W, n, 1}, updated);
    l->step_bytes += n > 1 ? (W - 1) * updated : 0;
    l->step_near = c->gpus > 1 ? (W - 1) * updated : 0;
    l->work_s += rounds ? W * (summed + sent) / rate : 0;
    l->update_s =
        l->sums * ((job->coded ? 5 : 8) * 4 + (double)tr_dtype_bytes(job->compute)) / rate;
    if (l->way.states)
        tr_plan_step_on_host(job, c, l);
    tr_plan_step_matrices(p, c, l);
}

/* ---- all of them ---- */

static const struct {
    const char *name, *config;
    int passes;
} kinds[TR_PLAN_KINDS] = {
    [TR_PLAN_ZERO3] = {"ZeRO-3", "zero_optimization.stage 3", 2},
    [TR_PLAN_ZERO3_THREE] = {"ZeRO-3 of DeepSpeed, 3 passes", NULL, 3},
    [TR_PLAN_ZERO3_HOST] = {"ZeRO-3, shards in host memory",
                            "zero_optimization.stage 3, offload_param.device \"cpu\"", 2},
    [TR_PLAN_WHOLE] = {"weights whole on each GPU", "zero_optimization.stage 0", 2},
    [TR_PLAN_ZERO3_STATES] = {"ZeRO-3, optimizer in host memory",
                              "zero_optimization.stage 3, offload_optimizer.device \"cpu\"", 2},
    [TR_PLAN_WHOLE_STATES] = {"weights whole, optimizer in host",
                              "zero_optimization.stage 2, offload_optimizer.device \"cpu\"", 2},
    [TR_PLAN_EXPERTS_ALL] = {"experts over all ranks",
                             "moe {\"enabled\": true, \"expert_group\": \"world\"}", 2},
    [TR_PLAN_EXPERTS_NODE] = {"experts on each node",
                              "moe {\"enabled\": true, \"expert_group\": \"node\"}", 2},
    [TR_PLAN_STAGES] = {"stages x experts (not built)", NULL, 2},
    [TR_PLAN_ASKED] = {"", "as the DeepSpeed file has it", 2},
};

static double bytes_of(const struct tr_plan_layout *l, const char *name)
{
    for (size_t i = 0; i < l->n_rows; i++)
        if (strcmp(l->rows[i].name, name) == 0)
            return (double)l->rows[i].bytes;
    return 0;
}

/* Layouts without an implementation: the values of a similar layout with corrections. */
static void estimate(const struct tr_plan_job *job, const struct tr_cluster *c,
                     const struct tr_plan *p, struct tr_plan_layout *l)
{
    double n = (double)c->nodes, held = fmin((double)job->micro_batches, n) / n;
    double layer =
        (double)(tr_model_moe_count(job->config) > 0 ? p->counts.moe_layer : p->counts.dense_layer);

    if (l->config != NULL)
        return;
    if (l->kind == TR_PLAN_ZERO3_THREE) {
        l->memory += layer * weight_bytes(job, true) - bytes_of(l, "gather windows");
        for (int i = 0; i < TR_PLAN_FIRSTS; i++)
            l->fetched[i] = l->passes * (p->weights - p->head - p->never) + p->head;
    } else
        l->memory -= (bytes_of(l, "experts") + bytes_of(l, "base shard")) * (1 - 1 / n) +
                     bytes_of(l, "activations") * (1 - held);
    l->n_rows = 0;
}

static void check_fit(const struct tr_cluster *c, struct tr_plan_layout *l)
{
    double room = c->gpu.memory * ROOM;

    l->fits = l->memory <= room && (c->host_memory <= 0 || l->host <= c->host_memory);
    if (l->memory > room)
        (void)snprintf(l->why, sizeof(l->why), "a %s needs %.1f GB of %.1f GB (%.0f %% of %.1f GB)",
                       tr_gpu_is_cpu(&c->gpu) ? "rank" : "GPU", l->memory * 1e-9, room * 1e-9,
                       ROOM * 100, c->gpu.memory * 1e-9);
    else if (!l->fits)
        (void)snprintf(l->why, sizeof(l->why), "a node needs %.0f GB of %.0f GB of host memory",
                       l->host * 1e-9, c->host_memory * 1e-9);
}

static bool has_layout(const struct tr_plan_job *job, const struct tr_cluster *c,
                       const struct tr_plan *p, enum tr_plan_kind kind)
{
    int64_t E = tr_model_moe_count(job->config) > 0 ? job->config->n_routed_experts : 0;
    int64_t ranks = c->nodes * c->gpus;
    bool stay = !p->trained.experts && c->nodes == 1; /* beside weights that train */

    if (job->trained != NULL && kind != TR_PLAN_ZERO3 && kind != TR_PLAN_WHOLE &&
        kind != TR_PLAN_ZERO3_STATES && kind != TR_PLAN_WHOLE_STATES &&
        (kind != TR_PLAN_EXPERTS_ALL || !stay))
        return false;
    switch (kind) {
    case TR_PLAN_ASKED:
        return false;
    case TR_PLAN_ZERO3_HOST:
        return !tr_gpu_is_cpu(&c->gpu);
    case TR_PLAN_ZERO3_STATES:
    case TR_PLAN_WHOLE_STATES:
        return job->trained != NULL && !tr_gpu_is_cpu(&c->gpu);
    case TR_PLAN_EXPERTS_ALL:
        return E >= ranks && ranks > 1 && ranks <= GROUP_RANKS_MAX;
    case TR_PLAN_EXPERTS_NODE:
    case TR_PLAN_STAGES:
        return E >= c->gpus && c->nodes > 1 && c->gpus > 1;
    default:
        return true;
    }
}

static struct tr_plan_way way_of(const struct tr_cluster *c, enum tr_plan_kind kind)
{
    bool node = kind == TR_PLAN_EXPERTS_NODE || kind == TR_PLAN_STAGES;

    return (struct tr_plan_way){.whole = kind == TR_PLAN_WHOLE || kind == TR_PLAN_WHOLE_STATES,
                                .host = kind == TR_PLAN_ZERO3_HOST,
                                .states =
                                    kind == TR_PLAN_ZERO3_STATES || kind == TR_PLAN_WHOLE_STATES,
                                .experts = kind == TR_PLAN_EXPERTS_ALL ? c->nodes * c->gpus
                                           : node                      ? c->gpus
                                                                       : 0};
}

static void name_asked(struct tr_plan_layout *l)
{
    const char *states = l->way.disk     ? ", optimizer on NVMe"
                         : l->way.states ? ", optimizer in host"
                                         : "";

    if (l->way.experts > 0)
        (void)snprintf(l->name, sizeof(l->name), "experts over %lld rank%s%s%s",
                       (long long)l->way.experts, l->way.experts == 1 ? "" : "s",
                       l->way.whole ? ", other weights whole" : "", states);
    else
        (void)snprintf(l->name, sizeof(l->name), "%s%s%s",
                       l->way.whole ? "weights whole" : "ZeRO-3",
                       l->way.host ? ", in host memory" : "", states);
}

/* Once a step: ordered sums by slices, then copies round a ring. Matrices of Muon go to one rank
 * each, and back. */
static struct tr_plan_moves adapters(const struct tr_plan_job *job, const struct tr_cluster *c,
                                     const struct tr_plan_layout *l)
{
    double W = ranks_of(c), g = (double)c->gpus, copy = (double)tr_dtype_bytes(job->compute);
    struct tr_plan_moves m = ring((struct rings){W, (double)c->nodes, 1}, l->flat / W * copy);

    m.self += l->flat * sizeof(float);
    m.node += (g - 1) * l->flat * sizeof(float);
    m.far += (W - g) * l->flat * sizeof(float);
    m.self += l->matrices.self;
    m.node += l->matrices.node;
    m.far += l->matrices.far;
    return m;
}

static enum fr_rc lay_out(const struct tr_plan_job *job, const struct tr_cluster *c,
                          struct tr_plan *p, struct tr_plan_layout *l, struct fr_err *err)
{
    enum tr_plan_kind kind = l->kind;
    int64_t nodes = nodes_of(l, c);
    enum fr_rc rc;

    (void)snprintf(l->name, sizeof(l->name), "%s", kinds[kind].name);
    if (kind == TR_PLAN_ASKED)
        name_asked(l);
    l->config = kinds[kind].config;
    if (job->trained != NULL && kind == TR_PLAN_WHOLE)
        l->config = "zero_optimization.stage 0, 1 or 2";
    l->passes = kinds[kind].passes;
    rc = tr_plan_memory(job, c, l, err);
    if (rc == FR_OK && l->way.experts > 0)
        rc = tr_plan_spread(job->config, nodes, l->way.experts / nodes, &l->spread, err);
    if (rc != FR_OK)
        return rc;
    if (kind == TR_PLAN_ZERO3) /* the first of all */
        p->rows_work = l->rows_work;
    estimate(job, c, p, l);
    if (kind == TR_PLAN_STAGES)
        stages(job, c, p, l);
    else if (l->way.experts > 0)
        experts_stay(job, c, p, l);
    else if (l->way.whole)
        whole(job, c, p, l);
    else
        zero3(job, c, p, l);
    l->adapters = adapters(job, c, l);
    l->step_bytes = gradient_bytes(job, c, p);
    if (job->trained != NULL)
        train_weights(job, c, p, l);
    l->tokens = ranks_of(c) * (double)(job->batch * job->cutoff * job->accumulation);
    check_fit(c, l);
    return FR_OK;
}

/* The fastest layout that is built and fits. */
static int best_of(const struct tr_plan_job *job, const struct tr_cluster *c,
                   const struct tr_plan *p)
{
    int best = -1;
    double rate = 0;

    for (size_t i = 0; i < p->n; i++) {
        double r = tr_plan_time(&p->layouts[i], c, job->accumulation).tokens_s;

        if (p->layouts[i].config == NULL || !p->layouts[i].fits || r <= rate)
            continue;
        best = (int)i;
        rate = r;
    }
    return best;
}

static bool same_way(const struct tr_plan_way *a, const struct tr_plan_way *b)
{
    return a->whole == b->whole && a->host == b->host && a->states == b->states &&
           a->disk == b->disk && a->experts == b->experts;
}

/* Finds the job's layout among the others, or else adds it as the last one. */
static enum fr_rc find_asked(const struct tr_plan_job *job, const struct tr_cluster *c,
                             struct tr_plan *p, struct fr_err *err)
{
    for (size_t i = p->n; job->asked != NULL && i-- > 0;)
        if (p->layouts[i].config != NULL && same_way(&p->layouts[i].way, job->asked))
            p->asked = (int)i;
    if (job->asked == NULL || p->asked >= 0)
        return FR_OK;
    p->asked = (int)p->n;
    p->layouts[p->n] = (struct tr_plan_layout){.kind = TR_PLAN_ASKED, .way = *job->asked};
    return lay_out(job, c, p, &p->layouts[p->n++], err);
}

static enum fr_rc all_layouts(const struct tr_plan_job *job, const struct tr_cluster *c,
                              struct tr_plan *p, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int k = 0; rc == FR_OK && k < TR_PLAN_KINDS; k++) {
        struct tr_plan_layout *l = &p->layouts[p->n];

        if (!has_layout(job, c, p, (enum tr_plan_kind)k))
            continue;
        *l = (struct tr_plan_layout){.kind = (enum tr_plan_kind)k,
                                     .way = way_of(c, (enum tr_plan_kind)k)};
        rc = lay_out(job, c, p, l, err);
        p->n++;
        if (k == TR_PLAN_EXPERTS_ALL)
            p->all = p->node = l->spread;
        if (k == TR_PLAN_EXPERTS_NODE)
            p->node = l->spread;
    }
    return rc;
}

static enum fr_rc check(const struct tr_plan_job *job, const struct tr_cluster *c,
                        struct fr_err *err)
{
    if (c->nodes < 1 || c->gpus < 1 || c->gpus > 64 || c->nodes > 1024)
        return fr_fail(err, FR_USAGE, "%lld nodes of %lld GPUs: expected 1 to 1024 of 1 to 64",
                       (long long)c->nodes, (long long)c->gpus);
    if (job->skew < 1)
        return fr_fail(err, FR_USAGE, "a skew of %g: the busiest rank has at least the mean, 1",
                       job->skew);
    return FR_OK;
}

enum fr_rc tr_plan_make(const struct tr_plan_job *job, const struct tr_cluster *c,
                        struct tr_plan *out, struct fr_err *err)
{
    struct tr_plan *p = out;
    enum fr_rc rc = check(job, c, err);

    *p = (struct tr_plan){.best = -1, .asked = -1};
    if (rc == FR_OK)
        rc = tr_plan_adapters(job, &p->adapters, err);
    tr_model_count(job->config, &p->counts);
    weigh(job, p);
    p->flops = tr_plan_flops(job, &p->counts, p->adapters);
    if (rc == FR_OK && job->trained != NULL &&
        (rc = tr_plan_trained(job, &p->trained, err)) == FR_OK)
        p->flops = p->trained.flops + 8 * p->adapters;
    p->checkpoint = tr_plan_checkpoint(job, p);
    if (rc == FR_OK)
        rc = all_layouts(job, c, p, err);
    if (rc == FR_OK)
        rc = find_asked(job, c, p, err);
    if (rc != FR_OK)
        return rc;
    p->best = best_of(job, c, p);
    if (c->nodes > 1 && p->all.far > 0)
        p->wins_tokens = p->layouts[0].far_bytes / ((double)c->gpus * p->all.far * row_bytes(job) *
                                                    (double)tr_model_moe_count(job->config));
    return FR_OK;
}
