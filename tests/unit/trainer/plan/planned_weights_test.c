/*
 * Plans of weights that train (trainer/plan), on small models: operations, elements, bytes on links
 * and seconds from the formulas of plan.h with sizes counted by hand.
 */
#include "tests/unit/trainer/plan/plan_bed.h"

enum { H = 12, V = 23, L = 3, NODES = 2, GPUS = 2, W = 4, T = 20 };
enum { DENSE = 3 * H * 10 };

static struct tr_model_config config;

static struct tr_plan_job a_job(void)
{
    return (struct tr_plan_job){.config = &config,
                                .compute = TR_BF16,
                                .batch = 2,
                                .cutoff = 10,
                                .accumulation = 3,
                                .limits = {.max_live = 1000000},
                                .skew = 1};
}

/* Of a model of the Llama family: a layer's linears, those whose outputs are not made again. */
enum { LINEAR = 2 * H * 24 + 2 * H * 12 + DENSE, LAST = H * 24 + H * 10, ALL = 3 };

static void test_trained_flops(void)
{
    const double core = 2 * 4 * (6 + 6) * 5, head = 4 * V * H; /* core of a layer */
    const struct {
        const char *name;
        struct tr_trained of;
        size_t keep;
        double flops, elements;
    } rows[] = {
        {"all",
         {.all = true},
         0,
         ALL * (8 * LINEAR - 2 * LAST + 4.6 * core) + 2 * head,
         ALL * (LINEAR + 2 * H) + H + 2 * V * H},
        {"all, kept",
         {.all = true},
         1,
         ALL * (6 * LINEAR + 3.6 * core) + 1.5 * head,
         ALL * (LINEAR + 2 * H) + H + 2 * V * H},
        {"the last layer",
         {.all = true, .freeze = true, .first = 2, .last = 3},
         0,
         2 * (2 * LINEAR + core) + 8 * LINEAR - 2 * LAST + 4.6 * core + head,
         LINEAR + 2 * H},
        {"the second layer's mlp",
         {.all = true, .freeze = true, .first = 1, .last = 2, .modules = "mlp"},
         0,
         2 * LINEAR + core + 2 * (6 * LINEAR - 2 * LAST + 4.6 * core) + 2 * DENSE + head,
         DENSE},
        {"the head",
         {.all = true, .freeze = true, .extra = "lm_head"},
         0,
         ALL * (2 * LINEAR + core) + 2 * head,
         V * H},
        {"the embedding",
         {.all = true, .freeze = true, .extra = "embed_tokens"},
         0,
         ALL * (6 * LINEAR - 2 * LAST + 4.6 * core) + head,
         V * H},
    };
    struct tr_model_config c = tiny_config(&(struct tiny){.kv_heads = 2});
    struct tr_plan_trained got;
    struct fr_err err = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_plan_job job = {
            .config = &c, .trained = &rows[i].of, .keep_bytes = rows[i].keep, .cutoff = 10};

        check_row(rows[i].name);
        CHECK_INT(tr_plan_trained(&job, &got, &err), FR_OK);
        CHECK(same(got.flops, rows[i].flops) && same(got.elements, rows[i].elements));
        CHECK_INT(got.head, i != 2 && i != 3 && i != 5);
        CHECK_INT(got.embedding, i < 2 || i == 5);
    }
}

/* Shares are whole 256 bytes of each of a handful of units. */
static bool padded(double got, double want)
{
    if (got >= want && got < want + 16 * 256)
        return true;
    printf("   got %.12g, want %.12g and padding\n", got, want);
    return false;
}

/* p: the same with f32 between ranks. */
static void test_wire(const struct tr_plan *p, const struct tr_plan_job *f32_job,
                      const struct tr_cluster *c, double P)
{
    struct tr_plan_job job = *f32_job;
    struct tr_plan *half = calloc(1, sizeof(*half));

    check_row("16 bits between ranks");
    job.wire = TR_BF16;
    if (make(half, &job, c)) {
        const struct tr_plan_layout *l = &half->layouts[0], *f32 = &p->layouts[0];
        double sent = (double)l->shares.reduced, summed = (double)l->shares.summed;

        CHECK(2 * sent == summed && summed == (double)f32->shares.reduced);
        for (int later = 0; later < 2; later++)
            CHECK(
                moves(l->gradients[later], W * sent, W * sent * (GPUS - 1), W * sent * (W - GPUS)));
        CHECK(same(f32->embedding.far - l->embedding.far, H * 2.0 / 2));
        CHECK(same(l->far_bytes, f32->far_bytes - GPUS * (W - GPUS) * sent));
        CHECK(same(l->work_s, f32->work_s + W * summed / 1e12 - 4 * summed / 3e12));
        CHECK(l->memory <
              f32->memory + 2 * P); /* rounded ones in place of half of those received */
    }
    free(half);
}

/* Another window, as large as the first: of all layouts, or of sharded weights alone. */
static void test_beside(const struct tr_plan *p, const struct tr_plan_job *plain,
                        const struct tr_cluster *c)
{
    struct tr_plan_job job = *plain;
    struct tr_plan *more = calloc(1, sizeof(*more));
    double window = 4 * LINEAR / 4; /* at least: a quarter of a layer */

    for (int sharded = 0; sharded < 2; sharded++) {
        check_row(sharded ? "beside, no file says so" : "beside");
        job.beside = !sharded;
        job.beside_sharded = sharded;
        if (!make(more, &job, c))
            break;
        for (size_t i = 0; i < p->n; i++) {
            const struct tr_plan_layout *l = &more->layouts[i];
            double grown =
                bytes_of(l, "gradient windows") - bytes_of(&p->layouts[i], "gradient windows");

            CHECK(sharded && l->way.whole ? grown == 0 : grown > window);
            CHECK(same(l->memory, p->layouts[i].memory + grown));
        }
    }
    free(more);
}

static void test_trained(void)
{
    static const struct tr_trained all = {.all = true};
    const double P = ALL * (LINEAR + 2 * H) + H + 2 * V * H, norms = ALL * 2 * H + H;
    struct tr_plan_job job = a_job();
    struct tr_cluster c = a_cluster(NODES, GPUS);
    struct tr_plan *p = calloc(1, sizeof(*p));

    config = tiny_config(&(struct tiny){.kv_heads = 2});
    job.trained = &all;
    job.lora = NULL;
    check_row("two layouts, each with the optimizer on either side");
    if (!make(p, &job, &c) || !CHECK(p->n == 4 && p->adapters == 0))
        return;
    for (size_t i = 2; i < p->n; i++) {
        const struct tr_plan_layout *l = &p->layouts[i], *device = &p->layouts[i - 2];
        double sums = l->sums;

        CHECK(l->way.states && !device->way.states && l->way.whole == device->way.whole);
        CHECK(l->host >= device->host + GPUS * 16 * sums && sums == device->sums);
        CHECK(l->memory < device->memory);
        CHECK(same(l->host_bytes, device->host_bytes + (double)l->shares.summed));
        CHECK(same(l->update_s, fmax(GPUS * sums * 30 / 300e9, sums * 2 / c.gpu.host)));
    }
    CHECK(same(p->checkpoint, p->weights + 12 * P) && same(p->flops, p->trained.flops));
    for (size_t i = 0; i < 2; i++) {
        const struct tr_plan_layout *l = &p->layouts[i];
        double sent = (double)l->shares.reduced, updated = (double)l->shares.updated;
        double gathered = 0, copies = (W - 1) * updated;

        check_row(l->name);
        CHECK(padded(sent, 4 * (P - V * H) / W) && padded(4 * l->sums, 4 * P / W));
        CHECK(padded(updated, 2 * (l->way.whole ? P : norms) / W));
        CHECK(same(bytes_of(l, "gradients"), 4 * l->sums));
        CHECK(padded(bytes_of(l, "optimizer"), 12 * l->sums));
        CHECK(moves(l->gradients[0], (W * NODES + 1) * sent, (W * NODES + 1) * (GPUS - 1) * sent,
                    (W + W - GPUS) * sent));
        CHECK(moves(l->gradients[1], W * sent, W * sent * (GPUS - 1), W * sent * (W - GPUS)));
        CHECK(rings(l->updated, 1, W, NODES, updated));
        CHECK(moves(l->embedding, H * (l->way.whole ? 4.0 : 6.0) / 4,
                    H * (l->way.whole ? 4.0 : 6.0) / 4, H * (l->way.whole ? 4.0 : 6.0) / 2));
        for (int k = 0; k < 3; k++) /* of the last step that was rehearsed */
            gathered += l->fetched[TR_PLAN_FIRSTS - 3 + k] / 3 / W * (W - 1);
        CHECK(l->way.whole == (gathered == 0));
        CHECK(same(l->far_bytes, gathered + GPUS * (W - GPUS) * sent));
        CHECK(same(l->near_bytes, gathered + (GPUS - 1) * sent * (2 + (W * NODES + 1.0) / W) / 3));
        CHECK(same(l->step_bytes, copies) && same(l->step_near, copies));
        CHECK(same(l->update_s, l->sums * 34 / 1e12));
        CHECK(same(l->work_s, T * p->flops / 1e9 + (W + 2 + 4 / 3.) * sent / 1e12));
        CHECK(same(tr_plan_time(l, &c, 3).step_s,
                   3 * fmax(l->work_s, l->far_bytes / 1e8) + copies / 1e8 + l->update_s));
    }
    test_wire(p, &job, &c, P);
    test_beside(p, &job, &c);
    check_row("alone");
    c = a_cluster(1, 1);
    if (make(p, &job, &c))
        CHECK(moves(p->layouts[0].gradients[1], 0, 0, 0) && moves(p->layouts[0].updated, 0, 0, 0) &&
              p->layouts[0].near_bytes == 0 && p->layouts[0].shares.reduced > 0);
    free(p);
}

/* Ways of gradients between nodes: f32 or half of that in the first micro-batch of three, and in
 * later ones, by hand: slices of 4 bytes out of the busiest node, in all, in each step. */
static void test_between_nodes(void)
{
    static const struct tr_trained all = {.all = true};
    static const struct {
        const char *name;
        int nodes, gpus;
        enum tr_dtype wire;
        bool chain[2];
        double busiest[2], far[2];
    } rows[] = {
        {"3 x 2", 3, 2, TR_F32, {true, true}, {6, 8}, {16, 20}},
        {"2 x 3", 2, 3, TR_F32, {true, true}, {6, 6}, {9, 12}},
        {"2 x 3, 16 bits", 2, 3, TR_BF16, {false, false}, {4.5, 4.5}, {9, 9}},
        {"2 x 4, 16 bits", 2, 4, TR_BF16, {true, false}, {8, 8}, {12, 16}},
        {"4 x 1", 4, 1, TR_F32, {false, false}, {3, 3}, {12, 12}},
        {"1 x 4", 1, 4, TR_F32, {false, false}, {0, 0}, {0, 0}},
    };
    struct tr_plan_job job = a_job();
    struct tr_plan *p = calloc(1, sizeof(*p));

    config = tiny_config(&(struct tiny){.kv_heads = 2});
    job.trained = &all;
    job.lora = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct tr_cluster c = a_cluster(rows[i].nodes, rows[i].gpus);
        const struct tr_plan_layout *l = &p->layouts[1]; /* nothing is gathered */

        check_row(rows[i].name);
        job.wire = rows[i].wire;
        if (!make(p, &job, &c))
            break;
        for (int later = 0; later < 2; later++) {
            CHECK_INT(l->ways[later].chain, rows[i].chain[later]);
            CHECK(same(l->gradients[later].far, rows[i].far[later] * (double)l->shares.summed));
        }
        CHECK(same(l->far_bytes,
                   (rows[i].busiest[0] + 2 * rows[i].busiest[1]) / 3 * (double)l->shares.summed));
    }
    free(p);
}

/* Experts stay where they do not train, inside a node. */
static void test_trained_experts(void)
{
    static const struct tr_trained attention = {
        .all = true, .freeze = true, .last = L, .modules = "self_attn"};
    static const struct tr_trained all = {.all = true};
    struct tr_plan_job job = a_job();
    struct tr_plan *p = calloc(1, sizeof(*p));

    config = tiny_config(&(struct tiny){.yarn = false});
    for (int i = 0; i < 3; i++) {
        struct tr_cluster c = a_cluster(i == 1 ? 2 : 1, 2);

        check_row(i == 0 ? "attention" : i == 1 ? "two nodes" : "all");
        job.trained = i < 2 ? &attention : &all;
        job.lora = NULL;
        if (make(p, &job, &c))
            CHECK_INT(p->n, i == 0 ? 5 : 4);
        CHECK_INT(p->trained.experts, i == 2);
    }
    free(p);
}

/* How often each gather comes: (steps, micro-batches of a step) */
static void test_times(void)
{
    static const struct tr_trained all = {.all = true};
    struct tr_plan_job job = a_job();
    double t[TR_PLAN_FIRSTS], sum = 0;

    check_row("adapters");
    tr_plan_times(&job, 4, 2, t);
    CHECK(t[0] == 1 && t[1] == 1 && t[2] == 6 && t[3] == 0);
    check_row("weights");
    job.trained = &all;
    job.lora = NULL;
    job.accumulation = 5;
    tr_plan_times(&job, 8, 5, t);
    CHECK(t[0] == 1 && t[1] == 1 && t[2] == 3 && t[3] == 1 && t[5] == 3);
    CHECK(t[TR_PLAN_FIRSTS - 3] == 3 && t[TR_PLAN_FIRSTS - 1] == 9);
    for (int i = 0; i < TR_PLAN_FIRSTS; i++)
        sum += t[i];
    CHECK(sum == 40);
    job.accumulation = 1;
    tr_plan_times(&job, 8, 1, t);
    CHECK(t[0] == 1 && t[TR_PLAN_STEPS - 1] == 3 && t[TR_PLAN_STEPS] == 0);
}

/* q and o of 24 x 12 elements, k and v of 12 x 12, each from a multiple of 128 on: 1280 in all, in
 * shares of 384 of four ranks on two nodes. Rank 0 has q, which it orthogonalises; o is rank 1's,
 * of which rank 2 has 256 elements and rank 3 has 32; k is rank 2's, which rank 1 has; v is rank
 * 3's, of which rank 1 has 128 and rank 2 has 16. */
static void test_muon(void)
{
    static const struct tr_trained attention = {
        .all = true, .freeze = true, .first = 1, .last = 2, .modules = "self_attn"};
    const double plain = 5 * (4 * 12 * 288 + 2 * 1728), gram = 8 * 12 * 288 + 14 * 2 * 1728;
    const double room = 320 * 4 + 2 * 320 * 2 + 4 * 192 * 2; /* the matrix, twice, four squares */
    struct tr_plan_job job = a_job();
    struct tr_cluster c = a_cluster(NODES, GPUS);
    struct tr_plan *p = calloc(3, sizeof(*p));

    config = tiny_config(&(struct tiny){.kv_heads = 2});
    job.trained = &attention;
    job.lora = NULL;
    for (int i = 0; i < 3; i++) {
        job.muon = i > 0;
        job.muon_gram = i > 1;
        if (!make(&p[i], &job, &c))
            return;
    }
    for (size_t i = 0; i < p->n; i++) {
        const struct tr_plan_layout *adamw = &p[0].layouts[i], *l = &p[1].layouts[i];
        double there = l->way.states ? 28 * 864.0 / W / c.gpu.host : 0; /* the host's states */

        check_row(l->name);
        CHECK(same(l->adapters.self - adamw->adapters.self, 8 * 288));
        CHECK(same(l->adapters.node - adamw->adapters.node, 8 * 16));
        CHECK(same(l->adapters.far - adamw->adapters.far, 8 * (288 + 144 + 128)));
        CHECK(same(l->step_near - adamw->step_near, 4 * 16));
        CHECK(same(l->step_bytes - adamw->step_bytes, 4 * (288 + 144 + 128)));
        CHECK(near(l->update_s - adamw->update_s - there, plain / 1e9, 1e-6));
        CHECK(near(p[2].layouts[i].update_s - adamw->update_s - there, gram / 1e9, 1e-6));
        CHECK(bytes_of(adamw, TR_MUON_ROW) == 0);
        CHECK(same(bytes_of(l, TR_MUON_ROW), room + (l->way.states ? 5 * 320 * 4 : 0)));
    }
    check_row("a checkpoint has one number of state for each of their elements, not two");
    CHECK(same(p[0].checkpoint - p[1].checkpoint, 4 * 864));
    CHECK(same(p[2].checkpoint, p[1].checkpoint));
    check_row("four nodes: rank 1 sends most, its k, its part of v, and o back");
    c = a_cluster(W, 1);
    job.muon = false;
    if (make(&p[0], &job, &c) && (job.muon = true) && make(&p[1], &job, &c)) {
        CHECK(same(p[1].layouts[0].step_bytes - p[0].layouts[0].step_bytes, 4 * (288 + 144 + 128)));
        CHECK(p[1].layouts[0].step_near == p[0].layouts[0].step_near);
    }
    free(p);
}

int main(void)
{
    test_trained_flops();
    test_trained();
    test_between_nodes();
    test_trained_experts();
    test_muon();
    test_times();
    return check_done();
}
