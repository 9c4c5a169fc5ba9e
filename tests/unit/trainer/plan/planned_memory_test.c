/* What the memory of a planned rank follows from beside the model: which rank is on which node, and
 * the limit of packed weights. */
#include "tests/unit/trainer/plan/plan_bed.h"
#include "trainer/shard/exchange.h"

enum { H = 12, K = 3 };

static const char *const targets[] = {"q_a_proj", "o_proj"};
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
                                .skew = 1};
}

static double bytes_in(const struct tr_plan *p, enum tr_plan_kind kind, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->layouts[i].kind == kind)
            return bytes_of(&p->layouts[i], name);
    return -1;
}

/* Bytes of an exchange on the first of `gpus` ranks a node. */
static double exchanged(const struct tr_plan_job *job, int nodes, int gpus)
{
    int node_of[64];
    struct tr_comm comm = {.size = nodes * gpus, .nodes = nodes, .node_of = node_of};
    struct tr_exchange_opts o = {.comm = &comm,
                                 .per_token = K,
                                 .tokens_max = job->batch * job->cutoff,
                                 .row_bytes = H * 2,
                                 .plans = 1};
    struct tr_exchange *x = NULL;
    struct tr_exchange_bytes bytes = {0};

    for (int k = 0; k < comm.size; k++)
        node_of[k] = k / gpus;
    if (CHECK_INT(tr_exchange_create(&o, &x, NULL), FR_OK))
        tr_exchange_bytes(x, &bytes);
    tr_exchange_destroy(x);
    return (double)bytes.device;
}

/* What lies on which node counts for tokens on their way. */
static void test_nodes(void)
{
    struct tr_plan_job job = a_job();
    struct tr_plan *p = calloc(1, sizeof(*p));

    config = tiny_config(&(struct tiny){.yarn = false});
    for (int nodes = 1; nodes <= 4; nodes *= 2) {
        struct tr_cluster c = a_cluster(nodes, 8 / nodes);

        check_row("eight ranks");
        if (make(p, &job, &c))
            CHECK(same(bytes_in(p, TR_PLAN_EXPERTS_ALL, "exchange of tokens"),
                       exchanged(&job, nodes, 8 / nodes)));
    }
    CHECK(exchanged(&job, 1, 8) < exchanged(&job, 2, 4));
    CHECK(exchanged(&job, 2, 4) < exchanged(&job, 4, 2));
    free(p);
}

/* Weights that are whole have a second form as far as the limit goes, where products read one. */
static void test_packed(void)
{
    struct tr_plan_job job = a_job();
    struct tr_cluster c = a_cluster(1, 2);
    struct tr_plan *p = calloc(1, sizeof(*p));
    struct tr_backend *be = NULL;
    bool packs;

    check_row("packed weights");
    config = tiny_config(&(struct tiny){.yarn = false});
    config.hidden_size = 64;
    if (!CHECK_INT(tr_cpu_create(&be, NULL), FR_OK))
        return;
    packs = tr_prepack_bytes(be, tr_view2(NULL, TR_BF16, 16, 64)) > 0;
    for (int i = 0; i < 2; i++) {
        job.pack_bytes = i == 0 ? 0 : SIZE_MAX;
        if (!make(p, &job, &c))
            continue;
        CHECK(bytes_in(p, TR_PLAN_ZERO3, "packed weights") == 0);
        CHECK_INT(bytes_in(p, TR_PLAN_WHOLE, "packed weights") > 0, packs && i == 1);
    }
    tr_backend_destroy(be);
    free(p);
}

int main(void)
{
    test_nodes();
    test_packed();
    return check_done();
}
