/*
 * flowtrain plan: what a run needs and how long it takes in each layout, before anything is
 * reserved: no weights, no GPU.
 */
#include "trainer/cli/cli.h"
#include "trainer/cli/plan_files.h"
#include "trainer/cli/planned.h"
#include "trainer/cli/ranks.h"
#include "trainer/train/experts.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Networks that every plan is shown for, bytes a second of a node. */
static const double networks[] = {1.25e9, 4e9, 10e9};
enum { NETWORKS = sizeof(networks) / sizeof(networks[0]) };

struct planning {
    const char *gpu, *weights, *placement, *files;
    double nodes, gpus, network, disk, host_memory, gpu_memory; /* sizes in GB */
    double hours, tokens, skew, stages;
    bool json, check;
    struct tr_args args;
    struct tr_planned run;
};

/* ---- what is asked ---- */

static enum fr_rc read_cluster(struct planning *p, struct fr_err *err)
{
    struct tr_cluster *c = &p->run.cluster;
    const struct tr_gpu *gpu = tr_gpu_find(p->gpu);

    if (gpu == NULL)
        return fr_fail(err, FR_USAGE, "--gpu %s: expected one of %s", p->gpu, tr_gpu_names());
    *c = (struct tr_cluster){.nodes = (int64_t)p->nodes,
                             .gpus = (int64_t)p->gpus,
                             .gpu = *gpu,
                             .network = p->network * 1e9,
                             .disk = p->disk * 1e9,
                             .host_memory = p->host_memory * 1e9,
                             .failure_s = p->hours * 3600};
    if (p->gpu_memory > 0)
        c->gpu.memory = p->gpu_memory * 1e9;
    if (c->gpu.memory <= 0)
        return fr_fail(err, FR_USAGE, "--gpu cpu: say by --gpu_memory how much a rank may take");
    return FR_OK;
}

static enum fr_rc read_job(struct planning *p, struct fr_err *err)
{
    struct tr_planned *r = &p->run;
    enum fr_rc rc = tr_planned_read(r, &p->args, err);

    if (rc == FR_OK && p->weights != NULL && strcmp(p->weights, "bf16") == 0)
        r->config.fp8 = false;
    else if (rc == FR_OK && p->weights != NULL)
        rc = fr_fail(err, FR_USAGE,
                     "--weights %s: expected bf16, or nothing for what config.json says",
                     p->weights);
    r->job.micro_batches = (int64_t)p->stages;
    r->job.epoch_tokens = p->tokens;
    r->job.skew = p->skew;
    if (rc == FR_OK && tr_gpu_is_cpu(&r->cluster.gpu))
        rc = tr_plan_cpu_rate(&r->job, 0, &r->cluster.gpu, err);
    return rc;
}

/* ---- as text ---- */

static void show_count(double x, char out[24])
{
    if (x >= 1e9)
        (void)snprintf(out, 24, "%.1f B", x * 1e-9);
    else if (x >= 1e6)
        (void)snprintf(out, 24, "%.1f M", x * 1e-6);
    else
        (void)snprintf(out, 24, "%.0f", x);
}

static void print_job(const struct planning *p)
{
    const struct tr_cluster *c = &p->run.cluster;
    char total[24], used[24], trained[24], beside[24];

    show_count((double)p->run.plan.counts.total, total);
    show_count((double)p->run.plan.counts.activated, used);
    show_count(p->run.plan.trained.elements, beside);
    show_count(p->run.trained.all ? p->run.plan.trained.elements : p->run.plan.adapters, trained);
    fr_print("%s: %s parameters, %s of them used by a token; %sweights of %.1f GB, %.1f GB in "
             "routed experts; ",
             p->run.config.model_type, total, used, p->run.trained.all ? "" : "frozen ",
             p->run.plan.weights * 1e-9, p->run.plan.experts * 1e-9);
    if (p->run.trained.all)
        fr_print("%s of them train (--finetuning_type %s)\n", trained, p->args.finetuning_type);
    else
        fr_print("adapters of %s (rank %lld)", trained, (long long)p->run.lora.r);
    if (p->run.trained.beside != NULL)
        fr_print(", and %s train whole beside them (--additional_target)", beside);
    if (!p->run.trained.all)
        fr_print("\n");
    fr_print("%lld x %lld %s, %g GB/s a node; a step: %lld x %lld samples of %lld tokens a GPU, "
             "%.1f GFLOP a token\n",
             (long long)c->nodes, (long long)c->gpus, c->gpu.name, c->network * 1e-9,
             (long long)p->run.job.accumulation, (long long)p->run.job.batch,
             (long long)p->run.job.cutoff, p->run.plan.flops * 1e-9);
}

static const char *name_of_way(const struct tr_grads_way *way)
{
    return way->chain ? "from node to node" : "from each rank to their owners";
}

/* The way of gradients between nodes, which is that of all layouts. */
static void print_way(const struct planning *p)
{
    const struct tr_grads_way *ways = p->run.plan.layouts[0].ways;

    if (p->run.cluster.nodes == 1 || !tr_trained_any(&p->run.trained))
        return;
    fr_print("gradients between nodes: %s", name_of_way(&ways[0]));
    if (ways[0].chain != ways[1].chain)
        fr_print(" in the first micro-batch of a step, %s in later ones", name_of_way(&ways[1]));
    fr_print("\n");
}

static void print_layouts(const struct planning *p)
{
    fr_print("\n%-32s %8s %8s %5s %10s %9s %8s %9s   %s\n", "layout", "GB a GPU", "GB host", "fits",
             "GB/node", "GB/GPU", "step", "tokens/s", "bound by");
    for (size_t i = 0; i < p->run.plan.n; i++) {
        const struct tr_plan_layout *l = &p->run.plan.layouts[i];
        struct tr_plan_time t = tr_plan_time(l, &p->run.cluster, p->run.job.accumulation);

        fr_print("%-32s %8.1f %8.1f %5s %10.1f %9.1f %7.2fs %9.0f   %s\n", l->name,
                 l->memory * 1e-9, l->host * 1e-9, l->fits ? "yes" : "no",
                 (l->far_bytes * (double)p->run.job.accumulation + l->step_bytes) * 1e-9,
                 l->near_bytes * (double)p->run.job.accumulation * 1e-9, t.step_s, t.tokens_s,
                 t.bound);
    }
    for (size_t i = 0; i < p->run.plan.n; i++) {
        const struct tr_plan_layout *l = &p->run.plan.layouts[i];

        if (l->disk > 0)
            fr_print("%s: %.1f GB of a node's disk, read and written in every step: %.1f s at %g "
                     "GB/s\n",
                     l->name, l->disk * 1e-9, l->disk_s, p->run.cluster.disk * 1e-9);
    }
    fr_print("GB host: pinned, of a node. GB/node: out of a node, GB/GPU: to a GPU from its node, "
             "both a step. Seconds are lower bounds.\n");
    print_way(p);
}

static void print_networks(const struct planning *p)
{
    if (p->run.cluster.nodes == 1)
        return;
    fr_print("\n%-34s", "tokens/s with a network of");
    for (int k = 0; k < NETWORKS; k++)
        fr_print("%9.4g GB/s", networks[k] * 1e-9);
    fr_print("\n");
    for (size_t i = 0; i < p->run.plan.n; i++) {
        fr_print("  %-32s", p->run.plan.layouts[i].name);
        for (int k = 0; k < NETWORKS; k++) {
            struct tr_cluster c = p->run.cluster;

            c.network = networks[k];
            fr_print("%14.0f",
                     tr_plan_time(&p->run.plan.layouts[i], &c, p->run.job.accumulation).tokens_s);
        }
        fr_print("\n");
    }
}

static void print_memory(const struct tr_plan_layout *l)
{
    char size[24];

    fr_print("\nmemory of a GPU, %s:\n", l->name);
    for (size_t i = 0; i < l->n_rows; i++) {
        fr_show_size((int64_t)l->rows[i].bytes, size);
        fr_print("  %-24s %12s%s\n", l->rows[i].name, size, l->rows[i].host ? "  host" : "");
    }
}

/* What takes less memory on as many GPUs. */
static const char *smaller(const struct planning *p)
{
    return p->run.trained.all ? "--finetuning_type lora" : "a checkpoint in FP8";
}

static void print_best(const struct planning *p)
{
    const struct tr_plan_layout *l =
        p->run.plan.best >= 0 ? &p->run.plan.layouts[p->run.plan.best] : NULL;
    struct tr_plan_time t;
    struct tr_plan_care k;
    const char *before = "\n";
    char text[3][24];

    for (size_t i = 0; i < p->run.plan.n; i++)
        if (!p->run.plan.layouts[i].fits) {
            fr_print("%s%s does not fit: %s\n", before, p->run.plan.layouts[i].name,
                     p->run.plan.layouts[i].why);
            before = "";
        }
    if (l == NULL) {
        fr_print("\nno layout that is built fits: take more GPUs, or %s\n", smaller(p));
        return;
    }
    t = tr_plan_time(l, &p->run.cluster, p->run.job.accumulation);
    k = tr_plan_care(&p->run.plan, l, &p->run.cluster, t.step_s);
    print_memory(l);
    fr_print("\ntake: %s (%s)\n", l->name, l->config);
    if (p->run.plan.wins_tokens > 0)
        fr_print("ZeRO-3 moves less than experts over all ranks from %.0f tokens a GPU and "
                 "micro-batch on\n",
                 p->run.plan.wins_tokens);
    fr_show_duration((int64_t)(k.load_s * 1e3), text[0]);
    fr_show_duration((int64_t)(k.save_s * 1e3), text[1]);
    fr_show_duration((int64_t)(k.lost_s * 1e3), text[2]);
    fr_print("reading the weights: %.1f GB a node, %s; a checkpoint: %.2f GB, %s\n",
             l->read_bytes * 1e-9, text[0], p->run.plan.checkpoint * 1e-9, text[1]);
    fr_print("a failure every %g h: save_steps %lld loses least, %s each time\n",
             p->run.cluster.failure_s / 3600, (long long)k.save_steps, text[2]);
    if (p->run.job.epoch_tokens > 0)
        fr_print("an epoch of %.4g tokens: %.1f h\n", p->run.job.epoch_tokens,
                 p->run.job.epoch_tokens / t.tokens_s / 3600);
}

/* ---- as JSON ---- */

static json_t *json_of_rows(const struct tr_plan_layout *l)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < l->n_rows; i++)
        (void)json_array_append_new(rows, json_pack("{s:s, s:I, s:b}", "name", l->rows[i].name,
                                                    "bytes", (json_int_t)l->rows[i].bytes, "host",
                                                    (int)l->rows[i].host));
    return rows;
}

/* In the first micro-batch of a step, and in later ones. */
static const char *word_of_way(const struct tr_grads_way *way)
{
    return way->chain ? "chain" : "all_to_all";
}

static json_t *json_of_layout(const struct planning *p, const struct tr_plan_layout *l)
{
    struct tr_plan_time t = tr_plan_time(l, &p->run.cluster, p->run.job.accumulation);
    struct tr_plan_care k = tr_plan_care(&p->run.plan, l, &p->run.cluster, t.step_s);
    json_t *out = json_pack(
        "{s:s, s:s?, s:b, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s}", "name",
        l->name, "config", l->config, "fits", (int)l->fits, "why", l->why, "passes", l->passes,
        "memory_bytes", l->memory, "host_bytes", l->host, "work_s", l->work_s, "moves_s", t.moves_s,
        "far_bytes", l->far_bytes, "near_bytes", l->near_bytes, "step_bytes", l->step_bytes,
        "read_bytes", l->read_bytes, "step_s", t.step_s, "tokens_s", t.tokens_s, "bound", t.bound);

    (void)json_object_set_new(out, "memory", json_of_rows(l));
    if (tr_trained_any(&p->run.trained)) {
        (void)json_object_set_new(out, "step_near_bytes", json_real(l->step_near));
        (void)json_object_set_new(out, "update_s", json_real(l->update_s));
        (void)json_object_set_new(
            out, "gradients",
            json_pack("[s, s]", word_of_way(&l->ways[0]), word_of_way(&l->ways[1])));
        (void)json_object_set_new(out, "disk_bytes", json_real(l->disk));
        (void)json_object_set_new(out, "disk_s", json_real(l->disk_s));
    }
    (void)json_object_set_new(out, "load_s", json_real(k.load_s));
    (void)json_object_set_new(out, "save_s", json_real(k.save_s));
    (void)json_object_set_new(out, "save_steps", json_integer(k.save_steps));
    (void)json_object_set_new(out, "failure_s", json_real(k.lost_s));
    if (p->run.job.epoch_tokens > 0)
        (void)json_object_set_new(out, "epoch_s", json_real(p->run.job.epoch_tokens / t.tokens_s));
    return out;
}

static json_t *json_of_name(const struct tr_plan *plan, int layout)
{
    return layout >= 0 ? json_string(plan->layouts[layout].name) : json_null();
}

static enum fr_rc print_json(const struct planning *p, struct fr_err *err)
{
    const struct tr_plan *plan = &p->run.plan;
    json_t *layouts = json_array();
    json_t *out = json_pack(
        "{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "model",
        p->run.config.model_type, "parameters", (json_int_t)plan->counts.total, "weights_bytes",
        plan->weights, "experts_bytes", plan->experts, "adapters", plan->adapters, "flops_a_token",
        plan->flops, "checkpoint_bytes", plan->checkpoint, "far_all", plan->all.far, "near_all",
        plan->all.near, "near_node", plan->node.near, "zero3_from_tokens", plan->wins_tokens,
        "network", p->run.cluster.network, "row_bytes", plan->rows_work.bytes, "draws",
        plan->rows_work.draws);
    enum fr_rc rc;

    if (tr_trained_any(&p->run.trained))
        (void)json_object_set_new(out, "trained", json_real(plan->trained.elements));
    for (size_t i = 0; i < plan->n; i++)
        (void)json_array_append_new(layouts, json_of_layout(p, &plan->layouts[i]));
    if (json_object_set_new(out, "layouts", layouts) == 0 &&
        json_object_set_new(out, "best", json_of_name(plan, plan->best)) == 0 &&
        json_object_set_new(out, "asked", json_of_name(plan, plan->asked)) == 0)
        rc = fr_json_print(out, JSON_REAL_PRECISION(12), err);
    else
        rc = fr_fail(err, FR_NOMEM, "no memory for the plan");
    json_decref(out);
    return rc;
}

/* ---- whether it fits ---- */

/* Where weights train: in one line what each layout needs. */
static enum fr_rc refuse_trained(const struct planning *p, const struct tr_plan_layout *l,
                                 struct fr_err *err)
{
    const struct tr_plan *plan = &p->run.plan;
    struct fr_buf others = {0};
    enum fr_rc rc;

    for (size_t i = 0; i < plan->n; i++) {
        const struct tr_plan_layout *x = &plan->layouts[i];

        if (x == l)
            continue;
        fr_buf_fmt(&others, "; %s (%s) needs %.1f", x->name, x->config, x->memory * 1e-9);
        if (x->host >= 5e8)
            fr_buf_fmt(&others, " (host %.0f)", x->host * 1e-9);
        fr_buf_text(&others, x->fits ? " and would fit" : "");
    }
    rc = fr_fail(err, FR_USAGE, "finetuning_type %s: %s: %s, with samples of %lld tokens%s%s%s",
                 p->args.finetuning_type, l->name, l->why, (long long)p->run.job.cutoff,
                 others.n > 0 ? others.p : "", plan->best < 0 ? ": take more ranks, or " : "",
                 plan->best < 0 ? smaller(p) : "");
    fr_buf_finish(&others);
    return rc;
}

static enum fr_rc check(const struct planning *p, struct fr_err *err)
{
    const struct tr_plan *plan = &p->run.plan;
    const struct tr_plan_layout *l = &plan->layouts[plan->asked];
    const struct tr_plan_layout *best = plan->best >= 0 ? &plan->layouts[plan->best] : NULL;
    struct tr_plan_time t = tr_plan_time(l, &p->run.cluster, p->run.job.accumulation);
    char needs[24], has[24];

    if (!l->fits && p->run.trained.all)
        return refuse_trained(p, l, err);
    if (!l->fits)
        return fr_fail(err, FR_USAGE, "%s: %s, with samples of %lld tokens; %s%s%s", l->name,
                       l->why, (long long)p->run.job.cutoff,
                       best != NULL ? best->name : "no layout that is built fits",
                       best != NULL ? " would fit: " : ": ",
                       best != NULL ? best->config : "take more ranks, or a checkpoint in FP8");
    fr_show_size((int64_t)l->memory, needs);
    fr_show_size((int64_t)p->run.cluster.gpu.memory, has);
    fr_print("%s: %s of %s a rank, a step takes at least %.3g s (%s)\n", l->name, needs, has,
             t.step_s, t.bound);
    if (best != NULL && best != l)
        fr_print("%s would take %.3g s: %s\n", best->name,
                 tr_plan_time(best, &p->run.cluster, p->run.job.accumulation).step_s, best->config);
    return FR_OK;
}

/* ---- where experts should lie ---- */

/* In the groups that the flags ask for; else over all ranks. */
static enum fr_rc place(struct planning *p, struct fr_err *err)
{
    const struct tr_model_config *c = &p->run.config;
    const struct tr_cluster *k = &p->run.cluster;
    int64_t ranks = p->run.way.experts > 0 ? p->run.way.experts : k->nodes * k->gpus;
    struct tr_expert_places rows = {.numbers = NULL};
    enum fr_rc rc = FR_OK;

    if (ranks > c->n_routed_experts)
        return fr_fail(err, FR_USAGE, "--placement: %lld ranks, the model has %lld experts a layer",
                       (long long)ranks, (long long)c->n_routed_experts);
    rc = tr_experts_read(p->placement, c, &rows, err);
    if (rc == FR_OK && rows.ranks > 0)
        rc = fr_fail(err, FR_USAGE, "--placement: %s is placed already, expected counts",
                     p->placement);
    if (rc == FR_OK)
        rc = tr_experts_print_places(&rows, c, (int)ranks, err);
    fr_sys.free(rows.numbers);
    return rc;
}

static enum fr_rc make(struct planning *p, struct fr_err *err)
{
    int64_t node = -1;
    enum fr_rc rc;

    fr_log_level(FR_LOG_WARN); /* what this machine would compute with is not asked */
    rc = read_job(p, err);
    if (rc == FR_OK && p->placement != NULL)
        return place(p, err);
    if (rc == FR_OK && p->files != NULL) {
        if (fr_parse_i64(fr_str_of(p->files), &node, NULL) != FR_OK)
            return fr_fail(err, FR_USAGE, "--files is '%s', expected a node's number", p->files);
        return tr_plan_files(&p->run, p->args.model_name_or_path, node, err);
    }
    if (rc == FR_OK)
        rc = tr_plan_make(&p->run.job, &p->run.cluster, &p->run.plan, err);
    if (rc != FR_OK)
        return rc;
    if (p->check)
        return check(p, err);
    if (p->json)
        return print_json(p, err);
    print_job(p);
    print_layouts(p);
    print_networks(p);
    print_best(p);
    return FR_OK;
}

/* A model alone is planned as `train` would take it by default. */
static enum fr_rc read_args(struct planning *p, int argc, const char *const *argv,
                            struct fr_err *err)
{
    const char *words[512] = {"--do_train", "--dataset",    "-", "--template",
                              "empty",      "--output_dir", "-"};
    int n = 7;

    if (argc > 0 && argv[0][0] != '-' && strstr(argv[0], ".y") != NULL)
        return tr_args_read(&p->args, argc, argv, NULL, err);
    if (argc > (int)(sizeof(words) / sizeof(words[0])) - 8)
        return fr_fail(err, FR_USAGE, "too many arguments: put them into a file");
    if (argc > 0 && argv[0][0] != '-') {
        words[n++] = "--model_name_or_path";
        words[n++] = argv[0];
        argc--;
        argv++;
    }
    for (int i = 0; i < argc; i++)
        words[n++] = argv[i];
    return tr_args_read(&p->args, n, words, NULL, err);
}

static enum fr_rc plan(struct tr_call *call, struct fr_err *err)
{
    struct planning *p = call->options;
    enum fr_rc rc;

    if ((rc = read_args(p, call->nwords, call->words, err)) == FR_OK &&
        (rc = read_cluster(p, err)) == FR_OK && tr_gpu_is_cpu(&p->run.cluster.gpu))
        rc = tr_rank_like(p->run.cluster.gpus, "plan", call->argc, call->argv, err);
    if (rc == FR_OK)
        rc = make(p, err);
    tr_planned_finish(&p->run);
    tr_args_finish(&p->args);
    return rc;
}

#define AT(member) offsetof(struct planning, member)

static const struct tr_flag flags[] = {
    TR_FLAG("nodes", TR_POSITIVE, AT(nodes), "how many there are: 1", .high = 1024),
    TR_FLAG("gpus", TR_POSITIVE, AT(gpus), "of each node: 8", .high = 64),
    TR_FLAG("gpu", TR_TEXT, AT(gpu),
            "a100-40g, a100-80g (as without it), a6000-48g, h100-80g, h200-141g, cpu"),
    TR_FLAG("gpu_memory", TR_POSITIVE, AT(gpu_memory), "GB of one, where it is another size",
            .high = 1e6),
    TR_FLAG("network", TR_POSITIVE, AT(network),
            "GB/s of a node each way, as `flowtrain probe` measures: 10", .high = 1e6),
    TR_FLAG("disk", TR_POSITIVE, AT(disk), "GB/s that a node reads and writes: 2", .high = 1e6),
    TR_FLAG("host_memory", TR_POSITIVE, AT(host_memory), "GB of a node: not looked at without it",
            .high = 1e9),
    TR_FLAG("failures", TR_POSITIVE, AT(hours), "hours between two failures of the run: 24",
            .high = 1e6),
    TR_FLAG("tokens", TR_POSITIVE, AT(tokens), "of an epoch: to say how long it takes",
            .high = 1e18),
    TR_FLAG("skew", TR_POSITIVE, AT(skew),
            "rows of the busiest rank over the mean, of experts that stay: 1", .high = 1e6),
    TR_FLAG("micro_batches", TR_POSITIVE, AT(stages), "in flight, of stages: 8", .high = 1e6),
    TR_FLAG("weights", TR_TEXT, AT(weights), "bf16: the checkpoint is converted from FP8"),
    TR_FLAG("placement", TR_TEXT, AT(placement),
            "expert_counts.json: print where experts should lie"),
    TR_FLAG("files", TR_TEXT, AT(files),
            "a node's number: print the weight files that it has to hold"),
    TR_FLAG("check", TR_SWITCH, AT(check), "whether what the flags ask for fits, in a line"),
    TR_FLAG("json", TR_SWITCH, AT(json), "one JSON line"),
    TR_FLAG_HELP,
};

const struct tr_command tr_cmd_plan = {
    .name = "plan",
    .summary = "memory, bytes and time of a run in each layout, without weights or GPUs",
    .usage = "flowtrain plan [--NAME VALUE …] FILE.yaml [NAME=VALUE …]\n"
             "flowtrain plan [--NAME VALUE …] MODEL [--ARGUMENT VALUE …]\n"
             "flowtrain plan [--NAME VALUE …] -- --ARGUMENT VALUE …\n\n"
             "FILE.yaml and ARGUMENT are those of `flowtrain train`; of MODEL the config.json is "
             "read, no weights.\n\n\n",
    TR_FLAGS(flags, struct planning),
    .initial = &(const struct planning){.gpu = "a100-80g",
                                        .nodes = 1,
                                        .gpus = 8,
                                        .network = 10,
                                        .disk = 2,
                                        .hours = 24,
                                        .skew = 1,
                                        .stages = 8},
    .leading = true,
    .run = plan,
};
