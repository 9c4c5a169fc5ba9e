/*
 * What a run takes in each layout (trainer/plan), on small models: operations, spread of tokens,
 * bytes on links, seconds, what fits and what is fastest, from the formulas of plan.h with sizes
 * counted by hand. Figures of a large model: tests/e2e/trainer_plan.py.
 */
#include "tests/unit/check.h"
#include "tests/unit/trainer/plan/plan_bed.h"

enum { H = 12, V = 23, L = 3, MOE = 2, E = 8, K = 3, F = 6 };
enum {
    ATTENTION = H * 6 + 6 * 2 * 8 + H * 9 + 5 * 2 * 7 + 2 * 3 * H,
    EXPERT = 3 * H * F,
    DENSE = 3 * H * 10,
    ROUTER = E * H,
    NORMS = L * (2 * H + 6 + 5) + H,
    ROUTED = MOE * E * EXPERT,
    OTHERS = 2 * V * H + MOE * ROUTER,
    LINEARS = L * ATTENTION + DENSE + MOE * EXPERT + NORMS + MOE * E, /* with biases of routers */
    ADAPTERS = L * 2 * (H + 6) + L * 2 * (6 + H),                     /* of q_a_proj and o_proj */
};

static const char *const targets[] = {"q_a_proj", "o_proj"};

/* ---- operations ---- */

static void test_flops(void)
{
    static const struct {
        const char *name;
        int64_t window, cutoff;
        double supervised, visible; /* tokens that one sees, of the layer with a window */
    } rows[] = {{"no window", 0, 40, 0, 20},
                {"some have a target", 0, 40, 0.25, 20},
                {"a shorter sample", 16, 10, 0, 5},
                {"as long as the window", 16, 16, 0, 8},
                {"a longer sample", 16, 32, 0, 12}}; /* the last 16 see 16, the first 8 */
    struct tr_lora_config lora = {.r = 2, .targets = targets, .ntargets = 2};
    struct tr_model_counts n;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_model_config c =
            tiny_config(&(struct tiny){.kv_heads = 2, .window = rows[i].window});
        struct tr_plan_job job = {.config = &c,
                                  .lora = &lora,
                                  .cutoff = rows[i].cutoff,
                                  .supervised = rows[i].supervised};
        double T = (double)rows[i].cutoff, share = rows[i].supervised > 0 ? rows[i].supervised : 1;
        double weights = L * (2 * H * 24 + 2 * H * 12 + DENSE);
        double core = 2 * 4 * (6 + 6) * (2 * T / 2 + rows[i].visible);

        check_row(rows[i].name);
        tr_model_count(&c, &n);
        CHECK(same(tr_plan_head_flops(&job), 4 * share * V * H));
        CHECK(
            same(tr_plan_flops(&job, &n, 7), 6 * weights + 4.6 * core + 4 * share * V * H + 8 * 7));
    }
}

/* Modules of layers, of dense FFNs and of shared experts; routed experts and norms have none. */
static void test_adapters(void)
{
    static const struct {
        const char *target;
        double sum;
    } rows[] = {{"o_proj", L * 2 * (6 + H)},
                {"kv_a_proj_with_mqa", L * 2 * (H + 9)},
                {"gate_proj", 2 * (H + 10) + MOE * 2 * (H + F)},
                {"down_proj", 2 * (10 + H) + MOE * 2 * (F + H)},
                {"q_a_layernorm", 0}};
    struct tr_model_config c = tiny_config(&(struct tiny){.yarn = false});

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_lora_config lora = {.r = 2, .targets = &rows[i].target, .ntargets = 1};
        struct tr_plan_job job = {.config = &c, .lora = &lora};
        struct fr_err err = {0};
        double got = -1;

        check_row(rows[i].target);
        CHECK_INT(tr_plan_adapters(&job, &got, &err), FR_OK);
        CHECK(same(got, rows[i].sum));
    }
}

/* ---- where tokens go ---- */

/* Another generator, and chosen by sorting. */
static struct tr_plan_spread drawn(const struct tr_model_config *c, int nodes, int gpus)
{
    enum { TRIES = 40000 };
    struct tr_plan_spread s = {0};
    int e_n = (int)c->n_routed_experts, groups = (int)c->n_group, size = e_n / groups;

    srand(5);
    for (int i = 0; i < TRIES; i++) {
        double score[64], group[64] = {0};
        bool to[64] = {false}, hit[64] = {false};
        int home = rand() % nodes, place = rand() % gpus;

        for (int e = 0; e < e_n; e++)
            score[e] = rand() + 1.0;
        for (int g = 0; g < groups; g++)
            for (int a = 0; a < size; a++)
                for (int b = 0; b < a; b++)
                    group[g] = fmax(group[g], score[g * size + a] + score[g * size + b]);
        for (int g = 0; g < groups; g++) {
            int better = 0;

            for (int o = 0; o < groups; o++)
                better += group[o] > group[g];
            for (int e = 0; better >= c->topk_group && e < size; e++)
                score[g * size + e] = 0;
        }
        for (int e = 0; e < e_n; e++) {
            int better = 0;

            for (int o = 0; o < e_n; o++)
                better += score[o] > score[e];
            if (score[e] > 0 && better < c->num_experts_per_tok)
                to[e * nodes * gpus / e_n] = hit[e * nodes / e_n] = true;
        }
        for (int n = 0; n < nodes; n++)
            s.far += hit[n] && n != home;
        for (int r = 0; r < nodes * gpus; r++) {
            s.near += to[r] && r % gpus != place;
            s.self += to[r] && r % gpus == place;
        }
    }
    return (struct tr_plan_spread){s.far / TRIES, s.near / TRIES, s.self / TRIES};
}

static void test_spread(void)
{
    static const struct {
        const char *name;
        int experts, per_token, groups, take, nodes, gpus;
    } rows[] = {{"one of all", 16, 1, 1, 1, 2, 2},
                {"some of all", 16, 3, 1, 1, 2, 4},
                {"all", 8, 8, 1, 1, 2, 4},
                {"of one group", 16, 3, 4, 1, 4, 2},
                {"of two groups", 32, 4, 4, 2, 2, 2},
                {"three nodes", 24, 5, 6, 3, 3, 2},
                {"two groups of three", 24, 3, 8, 2, 1, 8}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_model_config c = tiny_config(&(struct tiny){.yarn = false});
        struct tr_plan_spread got, want;
        struct fr_err err;

        check_row(rows[i].name);
        c.n_routed_experts = rows[i].experts;
        c.num_experts_per_tok = rows[i].per_token;
        c.n_group = rows[i].groups;
        c.topk_group = rows[i].take;
        want = drawn(&c, rows[i].nodes, rows[i].gpus);
        CHECK_INT(tr_plan_spread(&c, rows[i].nodes, rows[i].gpus, &got, &err), FR_OK);
        CHECK(near(got.far, want.far, 0.012) && near(got.near, want.near, 0.012));
        CHECK(near(got.self, want.self, 0.025));
    }
}

/* ---- seconds ---- */

static void test_time(void)
{
    static const struct {
        const char *name, *gpu;
        double work, far, near, host;
        int64_t experts;
        double moves, micro;
        const char *bound;
    } rows[] = {
        {"computing", "gpu", 4, 30, 40, 20, 0, 3, 4, "computing"},
        {"computing as long as a link", "gpu", 3, 30, 40, 20, 0, 3, 3, "computing"},
        {"the network", "gpu", 1, 30, 40, 20, 0, 3, 3, "the network between nodes"},
        {"a node", "gpu", 1, 30, 100, 20, 0, 5, 5, "links inside a node"},
        {"an exchange in a node", "gpu", 1, 30, 40, 20, 2, 8, 8, "links inside a node"},
        {"the host", "gpu", 1, 30, 40, 70, 0, 7, 7, "the host's memory"},
        {"one after the other", "cpu", 5, 30, 40, 20, 0, 7, 12, "computing"},
        {"one after the other, a link", "cpu", 1, 30, 40, 20, 2, 13, 14, "links inside a node"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_cluster c = {.gpu = {.name = rows[i].gpu, .link = 20, .swap = 5, .host = 10},
                               .network = 10};
        struct tr_plan_layout l = {.way.experts = rows[i].experts,
                                   .work_s = rows[i].work,
                                   .far_bytes = rows[i].far,
                                   .near_bytes = rows[i].near,
                                   .host_bytes = rows[i].host,
                                   .step_bytes = 15,
                                   .tokens = 90};
        struct tr_plan_time t = tr_plan_time(&l, &c, 3);

        check_row(rows[i].name);
        CHECK(same(t.moves_s, rows[i].moves));
        CHECK(same(t.step_s, 3 * rows[i].micro + 1.5));
        CHECK(same(t.tokens_s, 90 / (3 * rows[i].micro + 1.5)));
        CHECK_TEXT(t.bound, rows[i].bound);
    }
}

static void test_care(void)
{
    struct tr_plan p = {.checkpoint = 40};
    struct tr_plan_layout l = {.read_bytes = 60};
    struct tr_cluster c = {.disk = 20, .failure_s = 1600}; /* 80 s lie between two checkpoints */
    struct tr_plan_care k = tr_plan_care(&p, &l, &c, 30);

    check_row("care");
    CHECK(same(k.save_s, 2) && same(k.load_s, 3) && same(k.lost_s, 3 + 3 * 30 / 2.0));
    CHECK_INT(k.save_steps, 3); /* the nearest number of steps */
    k = tr_plan_care(&p, &l, &c, 200);
    CHECK_INT(k.save_steps, 1);
    CHECK(same(k.lost_s, 103));
}

/* ---- layouts ---- */

static struct tr_model_config config;
static struct tr_lora_config two = {.r = 2, .alpha = 3, .targets = targets, .ntargets = 2};

static struct tr_plan_job a_job(void)
{
    return (struct tr_plan_job){.config = &config,
                                .lora = &two,
                                .compute = TR_BF16,
                                .batch = 2,
                                .cutoff = 10,
                                .accumulation = 3,
                                .micro_batches = 4,
                                .limits = {.max_live = 1000000},
                                .skew = 1.5};
}

static const struct tr_plan_layout *kind_of(const struct tr_plan *p, enum tr_plan_kind kind)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->layouts[i].kind == kind)
            return &p->layouts[i];
    return NULL;
}

/* Which layouts there are, in their order; letters as of all_kinds. */
static void test_kinds(void)
{
    static const char all_kinds[] = "zthwxyanso";
    static const struct {
        const char *name;
        int64_t nodes, gpus;
        bool cpu, dense;
        const char *want;
    } rows[] = {{"one GPU", 1, 1, false, false, "zthw"},
                {"a node", 1, 4, false, false, "zthwa"},
                {"nodes", 2, 2, false, false, "zthwans"},
                {"nodes of one GPU", 3, 1, false, false, "zthwa"},
                {"a rank for each expert", 2, 4, false, false, "zthwans"},
                {"more ranks than experts", 3, 4, false, false, "zthwns"},
                {"a node has as many GPUs as experts", 2, 8, false, false, "zthwns"},
                {"a node has more GPUs than experts", 2, 9, false, false, "zthw"},
                {"no experts", 2, 2, false, true, "zthw"},
                {"processors", 2, 2, true, false, "ztwans"},
                {"as many ranks as an exchange takes", 8, 8, false, false, "zthwans"},
                {"more than that", 13, 5, false, false, "zthwns"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_plan_job job = a_job();
        struct tr_cluster c = a_cluster(rows[i].nodes, rows[i].gpus);
        struct tr_plan *p = calloc(1, sizeof(*p));
        char got[TR_PLAN_KINDS + 1] = {0};

        check_row(rows[i].name);
        config = tiny_config(&(struct tiny){.kv_heads = rows[i].dense ? 2 : 0});
        if (rows[i].nodes >= 8)
            config.n_routed_experts = 256;
        c.gpu.name = rows[i].cpu ? "cpu" : "gpu";
        for (size_t k = 0; make(p, &job, &c) && k < p->n; k++)
            got[k] = all_kinds[p->layouts[k].kind];
        CHECK_TEXT(got, rows[i].want);
        CHECK_INT(p->asked, -1);
        free(p);
    }
}

enum { NODES = 2, GPUS = 2, W = 4, T = 20 };
#define STEP (ADAPTERS * (GPUS * (W - GPUS) / (double)W * 4 + (W - 1) / (double)W * 2))
#define WEIGHTS (2.0 * (ROUTED + LINEARS + OTHERS))
#define ROW (MOE * (5.0 * H * 2 + 12 * K))
#define CHOICES (MOE * 4.0 * T * K)

static double flops_a_token(void)
{
    double used = L * ATTENTION + DENSE + MOE * ((K + 1) * EXPERT + ROUTER);

    return 6 * used + 4.6 * L * 2 * 2 * (8 + 3) * 5 + 4 * V * H + 8 * ADAPTERS;
}

/* With experts that stay the busiest rank has more than the mean. */
static double work_s(bool stay)
{
    return T * (flops_a_token() + (stay ? 6.0 * MOE * K * EXPERT * 0.5 : 0)) / 1e9;
}

static void check_all(const struct tr_plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct tr_plan_layout *l = &p->layouts[i];
        double memory = 0, host = 0, copies = (W - 1) * 2 * l->flat / W; /* handed by one rank */

        check_row(l->name);
        CHECK(same(l->step_bytes, STEP) && same(l->tokens, W * T * 3));
        CHECK(l->fits && l->flat >= ADAPTERS && l->flat < ADAPTERS + 1024);
        CHECK(moves(l->adapters, 6 * l->flat, 4 * l->flat * (GPUS - 1) + copies * (W - NODES),
                    4 * l->flat * (W - GPUS) + copies * NODES));
        for (size_t k = 0; k < l->n_rows; k++)
            *(l->rows[k].host ? &host : &memory) += (double)l->rows[k].bytes;
        CHECK((l->n_rows == 0) == (l->config == NULL));
        CHECK(l->n_rows == 0 || (same(l->memory, memory) && same(l->host, host * GPUS)));
        CHECK(l->n_rows == 0 || (bytes_of(l, "libraries") == 3e9 && bytes_of(l, "optimizer") > 0 &&
                                 bytes_of(l, "backend scratch") == 0));
        CHECK_INT(l->passes, l->kind == TR_PLAN_ZERO3_THREE ? 3 : 2);
    }
}

static void check_sharded(const struct tr_plan *p)
{
    const struct tr_plan_layout *z = kind_of(p, TR_PLAN_ZERO3);
    const struct tr_plan_layout *three = kind_of(p, TR_PLAN_ZERO3_THREE);
    const struct tr_plan_layout *host = kind_of(p, TR_PLAN_ZERO3_HOST);
    double layer = ATTENTION + 2 * H + 11 + (E + 1) * EXPERT + ROUTER + E;
    double streamed[] = {2 * WEIGHTS / 1e12, 3 * WEIGHTS / 1e12};

    for (int i = 0; i < 3; i++) {
        const struct tr_plan_layout *l = i == 0 ? z : i == 1 ? three : host;
        double moved = l->fetched[2] / W * (W - 1);

        check_row(l->name);
        for (int k = 0; k < TR_PLAN_FIRSTS; k++)
            CHECK(rings(l->gathers[k], 1, W, NODES, l->fetched[k] / W));
        CHECK(same(l->work_s, fmax(work_s(false), streamed[i == 1])));
        CHECK(l->fetched[2] > 0 && same(l->far_bytes, moved) && same(l->near_bytes, moved));
        CHECK(same(l->host_bytes, i == 2 ? l->fetched[2] / W : 0));
        CHECK(same(l->read_bytes, WEIGHTS / NODES));
        CHECK(moves(l->embedding, H * 2.0 / 4, H * 2.0 / 4, H * 2.0 / 2));
        CHECK_INT(l->way.host, i == 2);
    }
    check_row("as DeepSpeed does it");
    CHECK(same(three->fetched[0], 3 * (WEIGHTS - 2 * OTHERS) + 2 * V * H));
    CHECK(same(three->memory, z->memory + 2 * layer - bytes_of(z, "gather windows")));
    CHECK(bytes_of(z, "gather windows") > 0);
}

static void check_whole(const struct tr_plan *p)
{
    const struct tr_plan_layout *l = kind_of(p, TR_PLAN_WHOLE);

    check_row(l->name);
    CHECK(l->way.whole && !l->way.host && l->way.experts == 0);
    CHECK(same(l->work_s, work_s(false)) && same(l->read_bytes, WEIGHTS));
    CHECK(l->far_bytes == 0 && l->near_bytes == 0 && l->host_bytes == 0);
    CHECK(moves(l->embedding, 0, 0, 0) && moves(l->gathers[0], 0, 0, 0));
}

static void check_experts(const struct tr_plan *p)
{
    static const enum tr_plan_kind kinds[] = {TR_PLAN_EXPERTS_ALL, TR_PLAN_EXPERTS_NODE,
                                              TR_PLAN_STAGES};
    const struct tr_plan_layout *node = kind_of(p, TR_PLAN_EXPERTS_NODE);

    for (int i = 0; i < 3; i++) {
        const struct tr_plan_layout *l = kind_of(p, kinds[i]);
        double X = i == 0 ? W : GPUS, nodes = i == 0 ? NODES : 1;
        double late = i == 2 ? (4 + NODES - 1) / 4.0 : 1, chosen = (X - 1) * CHOICES;
        struct tr_plan_spread s;

        check_row(l->name);
        CHECK_INT(tr_plan_spread(&config, (int64_t)nodes, GPUS, &s, NULL), FR_OK);
        CHECK(same(l->spread.far, s.far) && same(l->spread.near, s.near));
        CHECK_INT(l->way.experts, (int64_t)X);
        CHECK(moves(l->token, s.self * ROW, s.near * ROW, s.far * ROW));
        CHECK(rings(l->choices, W / X, X, nodes, CHOICES));
        for (int k = 0; k < TR_PLAN_FIRSTS; k++)
            CHECK(rings(l->gathers[k], NODES, GPUS, 1, l->fetched[k] / GPUS));
        CHECK(moves(l->embedding, H * 2.0 / 2, H * 2.0 / 2, 0));
        CHECK(same(l->work_s, work_s(true) * late));
        CHECK(same(l->near_bytes, T * s.near * ROW + chosen + l->fetched[2] / GPUS));
        CHECK(same(l->far_bytes, i == 0   ? GPUS * T * s.far * ROW + chosen
                                 : i == 1 ? 0
                                          : 2.0 * NODES * GPUS * T * H * 2));
        CHECK(same(l->read_bytes, i == 0   ? WEIGHTS - ROUTED * 2.0 / NODES
                                  : i == 1 ? WEIGHTS
                                           : WEIGHTS / NODES));
    }
    check_row("a stage has its part of the layers");
    CHECK(bytes_of(node, "experts") > 0 && bytes_of(node, "base shard") > 0);
    CHECK(same(kind_of(p, TR_PLAN_STAGES)->memory,
               node->memory - (bytes_of(node, "experts") + bytes_of(node, "base shard")) / 2));
}

static void test_layouts(void)
{
    struct tr_plan_job job = a_job();
    struct tr_cluster c = a_cluster(NODES, GPUS);
    struct tr_plan *p = calloc(1, sizeof(*p));
    const struct tr_plan_layout *z;

    check_row("a plan");
    config = tiny_config(&(struct tiny){.yarn = false});
    if (!make(p, &job, &c))
        return;
    z = kind_of(p, TR_PLAN_ZERO3);
    CHECK_INT(p->counts.total, ROUTED + LINEARS + OTHERS);
    CHECK(same(p->weights, WEIGHTS) && same(p->experts, 2 * ROUTED));
    CHECK(same(p->head, 2 * V * H) && same(p->never, 2 * (OTHERS - V * H)));
    CHECK(same(p->adapters, ADAPTERS) && same(p->checkpoint, ADAPTERS * (4 + 12)));
    CHECK(same(p->flops, flops_a_token()));
    CHECK(same(p->wins_tokens * GPUS * p->all.far * ROW, z->far_bytes));
    CHECK(p->all.near > p->node.near && p->node.near > 0 && p->node.far == 0);
    check_all(p);
    check_sharded(p);
    check_whole(p);
    check_experts(p);
    check_row("weights are read longer than computed with");
    c.gpu.stream = 1e6;
    CHECK(make(p, &job, &c) && same(kind_of(p, TR_PLAN_ZERO3_THREE)->work_s, 3 * WEIGHTS / 1e6) &&
          same(kind_of(p, TR_PLAN_WHOLE)->work_s, 2 * WEIGHTS / 1e6));
    check_row("ops on rows take their time");
    c = a_cluster(NODES, GPUS);
    c.gpu.rows = 1e6;
    c.gpu.draws = 1e5;
    CHECK(make(p, &job, &c) && p->rows_work.bytes > 0);
    CHECK(same(kind_of(p, TR_PLAN_ZERO3)->work_s,
               work_s(false) + p->rows_work.bytes / 1e6 + p->rows_work.draws / 1e5));
    check_row("FP8: embedding, routers and head stay in bf16");
    config.fp8 = true;
    config.fp8_block_rows = 2;
    config.fp8_block_cols = 8;
    CHECK(make(p, &job, &c) && same(p->weights, 1.25 * (ROUTED + LINEARS) + 2 * OTHERS) &&
          same(p->experts, 1.25 * ROUTED) && same(p->head, 2 * V * H) &&
          same(p->never, 2 * (OTHERS - V * H)));
    free(p);
}

/* One node, one GPU: nothing leaves it. */
static void test_alone(void)
{
    struct tr_plan_job job = a_job();
    struct tr_plan *p = calloc(1, sizeof(*p));

    for (int64_t gpus = 1; gpus <= 2; gpus++) {
        struct tr_cluster c = a_cluster(1, gpus);

        check_row(gpus == 1 ? "alone" : "a node");
        config = tiny_config(&(struct tiny){.yarn = false});
        for (size_t i = 0; make(p, &job, &c) && i < p->n; i++) {
            CHECK(p->layouts[i].far_bytes == 0 && p->layouts[i].step_bytes == 0);
            CHECK((p->layouts[i].near_bytes > 0) ==
                  (gpus > 1 && p->layouts[i].kind != TR_PLAN_WHOLE));
            CHECK(gpus > 1 || moves(p->layouts[i].embedding, 0, 0, 0));
        }
        CHECK(p->wins_tokens == 0);
    }
    struct tr_cluster nodes = a_cluster(3, 1);
    check_row("nodes of one GPU");
    if (make(p, &job, &nodes))
        CHECK(p->layouts[0].near_bytes == 0 && p->layouts[0].far_bytes > 0);
    check_row("a layer that is held, without experts");
    config = tiny_config(&(struct tiny){.kv_heads = 2});
    if (make(p, &job, &nodes))
        CHECK(same(kind_of(p, TR_PLAN_ZERO3_THREE)->memory,
                   p->layouts[0].memory + 2 * (double)p->counts.dense_layer -
                       bytes_of(&p->layouts[0], "gather windows")));
    free(p);
}

/* ---- memory ---- */

/* What a layout's rows follow from. */
static void test_memory(void)
{
    struct tr_plan_job job = a_job();
    struct tr_cluster c = a_cluster(NODES, GPUS);
    struct tr_plan *p = calloc(1, sizeof(*p));
    double flat, held, windows;

    check_row("the memory of a rank");
    config = tiny_config(&(struct tiny){.yarn = false});
    if (!make(p, &job, &c))
        return;
    flat = p->layouts[0].flat;
    held = bytes_of(&p->layouts[0], "activations");
    windows = bytes_of(&p->layouts[0], "gather windows");
    CHECK(bytes_of(&p->layouts[0], "optimizer") == 4 * (flat / W * 4 + flat) + 512);
    CHECK(bytes_of(&p->layouts[0], "state staging") == 0);
    CHECK(held > 0 && windows > 0);
    for (size_t i = 0; i < p->n; i++)
        CHECK(bytes_of(&p->layouts[i], "total") == 0);
    check_row("of more tokens");
    job.cutoff *= 2;
    CHECK(make(p, &job, &c) && bytes_of(&p->layouts[0], "activations") > 1.6 * held);
    check_row("with units gathered one at a time");
    job = a_job();
    job.limits.max_live = 1;
    CHECK(make(p, &job, &c) && bytes_of(&p->layouts[0], "gather windows") < windows);
    check_row("of processors");
    job = a_job();
    c.gpu.name = "cpu";
    CHECK(make(p, &job, &c) && bytes_of(&p->layouts[0], "state staging") == 3 * 4 * flat);
    CHECK(bytes_of(&p->layouts[0], "libraries") == 0);
    for (size_t i = 0; i < p->n; i++)
        CHECK(p->layouts[i].host == 0 && bytes_of(&p->layouts[i], "total") == 0);
    free(p);
}

/* ---- what fits, what was asked for ---- */

static void test_fits(void)
{
    struct tr_plan_job job = a_job();
    struct tr_plan *p = calloc(1, sizeof(*p));
    double memory, host = 0;

    config = tiny_config(&(struct tiny){.yarn = false});
    for (int cpu = 0; cpu < 2; cpu++) {
        struct tr_cluster c = a_cluster(1, 2);

        check_row(cpu ? "ranks fit" : "GPUs fit");
        c.gpu.name = cpu ? "cpu" : "gpu";
        if (!make(p, &job, &c))
            break;
        memory = kind_of(p, TR_PLAN_WHOLE)->memory;
        c.gpu.memory = memory / 0.97 * 1.000001;
        CHECK(make(p, &job, &c) && kind_of(p, TR_PLAN_WHOLE)->fits);
        CHECK(kind_of(p, TR_PLAN_WHOLE)->why[0] == '\0');
        c.gpu.memory = memory / 0.97 * 0.999999;
        CHECK(make(p, &job, &c) && !kind_of(p, TR_PLAN_WHOLE)->fits);
        CHECK(strstr(kind_of(p, TR_PLAN_WHOLE)->why, cpu ? "a rank needs " : "a GPU needs ") !=
              NULL);
        CHECK(strstr(kind_of(p, TR_PLAN_WHOLE)->why, "(97 % of ") != NULL);
        c.gpu.memory = 0;
        CHECK(make(p, &job, &c) && p->best == -1);
    }
    check_row("the host's memory");
    struct tr_cluster c = a_cluster(1, 2);
    if (make(p, &job, &c) && (host = kind_of(p, TR_PLAN_ZERO3_HOST)->host) > 0) {
        c.host_memory = host;
        CHECK(make(p, &job, &c) && kind_of(p, TR_PLAN_ZERO3_HOST)->fits);
        c.host_memory = host - 1;
        CHECK(make(p, &job, &c) && !kind_of(p, TR_PLAN_ZERO3_HOST)->fits);
        CHECK(strstr(kind_of(p, TR_PLAN_ZERO3_HOST)->why, "a node needs 0 GB of 0 GB of host") !=
              NULL);
    }
    CHECK(host > 0);
    free(p);
}

static void test_best(void)
{
    struct tr_plan_job job = a_job();
    struct tr_plan *p = calloc(1, sizeof(*p));

    config = tiny_config(&(struct tiny){.yarn = false});
    for (int i = 0; i < 4; i++) {
        struct tr_cluster c = a_cluster(2, 2);
        double most = 0;
        int want = -1;

        check_row("the fastest that is built and fits");
        c.network = i == 0 ? 1e3 : 1e9;
        c.gpu.swap = i == 1 ? 1e3 : 1e9;
        c.gpu.memory = i >= 2 ? 3e9 / 0.97 + 100000 + 10000 * i : 1e10;
        if (!make(p, &job, &c))
            break;
        for (size_t k = 0; k < p->n; k++) {
            const struct tr_plan_layout *l = &p->layouts[k];
            double rate = tr_plan_time(l, &c, 3).tokens_s;

            if (l->config != NULL && l->memory <= 0.97 * c.gpu.memory && rate > most) {
                most = rate;
                want = (int)k;
            }
        }
        CHECK_INT(p->best, want);
    }
    free(p);
}

static void test_asked(void)
{
    static const struct {
        const char *name;
        struct tr_plan_way way;
        int kind; /* of those that are always there; -1: its own */
    } rows[] = {
        {"ZeRO-3", {false, false, false, false, 0}, TR_PLAN_ZERO3},
        {"ZeRO-3, shards in host memory", {false, true, false, false, 0}, TR_PLAN_ZERO3_HOST},
        {"weights whole on each GPU", {true, false, false, false, 0}, TR_PLAN_WHOLE},
        {"experts over all ranks", {false, false, false, false, 4}, TR_PLAN_EXPERTS_ALL},
        {"experts on each node", {false, false, false, false, 2}, TR_PLAN_EXPERTS_NODE},
        {"weights whole, in host memory", {true, true, false, false, 0}, -1},
        {"experts over 1 rank", {false, false, false, false, 1}, -1},
        {"experts over 4 ranks, other weights whole", {true, false, false, false, 4}, -1}};
    struct tr_plan *p = calloc(1, sizeof(*p));

    config = tiny_config(&(struct tiny){.yarn = false});
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_plan_job job = a_job();
        struct tr_cluster c = a_cluster(2, 2);

        check_row(rows[i].name);
        job.asked = &rows[i].way;
        if (!make(p, &job, &c) || !CHECK(p->asked >= 0 && p->asked < (int)p->n))
            continue;
        CHECK_INT(p->n, rows[i].kind < 0 ? 8 : 7);
        CHECK_TEXT(p->layouts[p->asked].name, rows[i].name);
        CHECK_INT(p->layouts[p->asked].kind, rows[i].kind < 0 ? TR_PLAN_ASKED : rows[i].kind);
        CHECK(p->layouts[p->asked].config != NULL && p->layouts[p->asked].memory > 0);
        if (rows[i].way.whole && rows[i].way.host)
            CHECK(p->layouts[p->asked].host_bytes == p->layouts[p->asked].fetched[2] &&
                  p->layouts[p->asked].host_bytes > 0);
        if (rows[i].way.whole && rows[i].way.experts > 0)
            CHECK(moves(p->layouts[p->asked].embedding, 0, 0, 0));
    }
    free(p);
}

static void test_wrong(void)
{
    static const struct {
        const char *name;
        int64_t nodes, gpus;
        double skew;
        const char *want; /* NULL: accepted by the check */
    } rows[] = {{"no nodes", 0, 1, 1, "0 nodes of 1 GPUs: expected 1 to 1024 of 1 to 64"},
                {"no GPUs", 1, 0, 1, "1 nodes of 0 GPUs"},
                {"65 GPUs", 1, 65, 1, "1 nodes of 65 GPUs"},
                {"1025 nodes", 1025, 1, 1, "1025 nodes of 1 GPUs"},
                {"64 GPUs", 1, 64, 1, NULL},
                {"1024 nodes", 1024, 1, 1, NULL},
                {"below the mean", 1, 1, 0.99, "a skew of 0.99"}};
    struct tr_plan *p = calloc(1, sizeof(*p));

    config = tiny_config(&(struct tiny){.kv_heads = 2});
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_plan_job job = a_job();
        struct tr_cluster c = a_cluster(rows[i].nodes, rows[i].gpus);
        struct fr_err err = {0};

        check_row(rows[i].name);
        job.skew = rows[i].skew;
        CHECK_INT(tr_plan_make(&job, &c, p, &err), rows[i].want == NULL ? FR_OK : FR_USAGE);
        CHECK(rows[i].want == NULL || strstr(err.msg, rows[i].want) != NULL);
    }
    free(p);
}

int main(void)
{
    test_flops();
    test_adapters();
    test_spread();
    test_time();
    test_care();
    test_kinds();
    test_layouts();
    test_alone();
    test_memory();
    test_fits();
    test_best();
    test_asked();
    test_wrong();
    return check_done();
}
