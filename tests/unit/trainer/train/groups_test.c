/*
 * Which ranks own experts among them, and over which the other weights are sharded: sizes that are
 * given or follow from the nodes, and what is refused (trainer/train/groups.c); what a run says of
 * it.
 */
#include "engine/base/log.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "trainer/train/groups.h"
#include "trainer/train/setup.h"

struct row {
    const char *name;
    int W, node[RANKS_MAX];
    struct tr_groups_opts o;
    int size, rest; /* ranks of a group, of those that share the rest; 0: the whole world */
    const char *want;
};

#define ONE_NODE                                                                                   \
    {                                                                                              \
        0                                                                                          \
    }
#define HALVES                                                                                     \
    {                                                                                              \
        0, 0, 1, 1                                                                                 \
    }
#define THIRDS                                                                                     \
    {                                                                                              \
        0, 0, 1, 1, 2, 2                                                                           \
    }
#define UNEVEN                                                                                     \
    {                                                                                              \
        0, 0, 0, 1                                                                                 \
    }

static const struct row rows[] = {
    {"one rank", 1, ONE_NODE, {TR_EXPERTS_ANY, 0, false}, 1, 0, NULL},
    {"one node", 4, ONE_NODE, {TR_EXPERTS_ANY, 0, false}, 4, 0, NULL},
    {"one node, asked for", 4, ONE_NODE, {TR_EXPERTS_NODE, 0, false}, 4, 0, NULL},
    {"groups in a node", 4, ONE_NODE, {TR_EXPERTS_NODE, 2, false}, 2, 0, NULL},
    {"each rank by itself", 4, HALVES, {TR_EXPERTS_ANY, 1, false}, 1, 2, NULL},
    {"a node each", 4, HALVES, {TR_EXPERTS_NODE, 0, false}, 2, 2, NULL},
    {"a node each, by number", 4, HALVES, {TR_EXPERTS_ANY, 2, false}, 2, 2, NULL},
    {"all", 4, HALVES, {TR_EXPERTS_WORLD, 0, false}, 4, 2, NULL},
    {"all, by number", 4, HALVES, {TR_EXPERTS_WORLD, 4, false}, 4, 2, NULL},
    {"all, the rest whole", 4, HALVES, {TR_EXPERTS_WORLD, 0, true}, 4, 0, NULL},
    {"all of uneven nodes", 4, UNEVEN, {TR_EXPERTS_WORLD, 0, true}, 4, 0, NULL},
    {"which?", 4, HALVES, {TR_EXPERTS_ANY, 0, false}, 0, 0, "owned by which ranks?"},
    {"a node each of uneven ones",
     4,
     UNEVEN,
     {TR_EXPERTS_NODE, 0, false},
     0,
     0,
     "needs nodes with equal numbers of ranks"},
    {"no divisor",
     4,
     HALVES,
     {TR_EXPERTS_ANY, 3, false},
     0,
     0,
     "expert_parallel_size 3 does not divide the 4 ranks"},
    {"half the world",
     4,
     HALVES,
     {TR_EXPERTS_WORLD, 2, false},
     0,
     0,
     "\"world\" is all 4 ranks, expert_parallel_size says 2"},
    {"more than a node",
     4,
     HALVES,
     {TR_EXPERTS_NODE, 4, false},
     0,
     0,
     "expert_parallel_size 4 makes a group of ranks 0 to 3"},
    {"one and a half nodes",
     6,
     THIRDS,
     {TR_EXPERTS_ANY, 3, false},
     0,
     0,
     "expert_parallel_size 3 makes a group of ranks 0 to 2"},
    {"across uneven nodes",
     4,
     UNEVEN,
     {TR_EXPERTS_ANY, 2, false},
     0,
     0,
     "expert_parallel_size 2 makes a group of ranks 2 to 3"},
};

struct seen {
    const struct row *row;
    enum fr_rc rc;
    int size, first, rest, rest_first; /* -1: no group */
    struct fr_err err;
};

static void body(struct rank_self *self, void *arg)
{
    struct seen *v = arg;
    struct tr_comm world = ranks_comm(self, NULL), *experts = NULL, *rest = NULL;

    world.node_of = v->row->node;
    v->rc = tr_groups_make(&world, &v->row->o, &experts, &rest, &v->err);
    v->size = experts != NULL ? experts->size : -1;
    v->first = experts != NULL ? experts->ranks[0] : -1;
    v->rest = rest != NULL ? rest->size : -1;
    v->rest_first = rest != NULL ? rest->ranks[0] : -1;
    tr_comm_destroy(experts);
    tr_comm_destroy(rest);
}

static void try_row(const struct row *r)
{
    struct seen v[RANKS_MAX] = {{0}};
    void *args[RANKS_MAX];

    check_row(r->name);
    for (int k = 0; k < r->W; k++) {
        v[k].row = r;
        args[k] = &v[k];
    }
    ranks_run_on(r->W, r->node, 0, body, args);
    for (int k = 0; k < r->W; k++) {
        CHECK_INT(v[k].rc, r->want != NULL ? FR_USAGE : FR_OK);
        if (!CHECK(r->want == NULL || strstr(v[k].err.msg, r->want) != NULL))
            printf("   message: %s\n", v[k].err.msg);
        CHECK_INT(v[k].size, r->want != NULL ? -1 : r->size);
        CHECK_INT(v[k].first, r->want != NULL ? -1 : k / r->size * r->size);
        CHECK_INT(v[k].rest, r->rest > 0 ? r->rest : -1);
        CHECK_INT(v[k].rest_first, r->rest > 0 ? k / r->rest * r->rest : -1);
    }
}

static struct fr_buf said;

/* Without the time in front. */
static void hear(void *arg, int fd, const char *text, size_t n)
{
    const char *from = memmem(text, n, ">> ", 3);

    (void)arg;
    (void)fd;
    if (CHECK(from != NULL))
        fr_buf_add(&said, from + 3, n - (size_t)(from + 3 - text));
}

static int no_error(void *arg)
{
    (void)arg;
    return 0;
}

#define STAY "Experts stay, tokens move: "

static void test_said(void)
{
    static int64_t numbers;
    static const struct {
        int rank, group, rest, stage; /* group, rest: ranks; 0: none */
        int64_t experts, placed;      /* placed: -1 no, else the ranks of a placement */
        const char *want;
    } runs[] = {
        {0, 0, 0, 3, 5, -1, ""},
        {1, 2, 0, 3, 5, -1, ""},
        {0, 4, 0, 3, 8, -1,
         STAY "8 routed experts a layer over 4 ranks, at most 2 on each; groups of ranks: 1\n"
              "Other weights: sharded over 4 ranks\n"},
        {0, 2, 2, 3, 5, 0,
         STAY "5 routed experts a layer over 2 ranks, at most 3 on each; groups of ranks: 2\n"
              "Experts are placed by the rows counted in counts.json\n"
              "Other weights: sharded over 2 ranks of a node\n"},
        {0, 2, 0, 2, 5, 2,
         STAY "5 routed experts a layer over 2 ranks, at most 3 on each; groups of ranks: 2\n"
              "Experts are placed as in counts.json\n"
              "Other weights: whole on every rank\n"},
    };

    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        struct tr_comm world = {.rank = runs[i].rank, .size = 4}, group = {.size = runs[i].group},
                       rest = {.size = runs[i].rest};
        struct tr_run r = {.env.comm = &world,
                           .experts = runs[i].group > 0 ? &group : NULL,
                           .rest = runs[i].rest > 0 ? &rest : NULL,
                           .config.n_routed_experts = runs[i].experts,
                           .ds = {.stage = runs[i].stage, .expert_placement = "counts.json"},
                           .places = {runs[i].placed >= 0 ? &numbers : NULL,
                                      runs[i].placed > 0 ? runs[i].placed : 0}};
        struct fr_printer before = fr_print_by(&(struct fr_printer){hear, no_error, NULL});

        check_row(runs[i].want);
        fr_buf_finish(&said);
        fr_buf_text(&said, "");
        tr_run_say_layout(&r);
        (void)fr_print_by(before.put != NULL ? &before : NULL);
        CHECK_TEXT(said.p, runs[i].want);
    }
    fr_buf_finish(&said);
}

/* What the block of experts that stay cannot be used with. */
static void test_block_refused(void)
{
    static const struct {
        bool stay, staged;
        int64_t experts;
        const char *want; /* "": it is nothing to it */
    } blocks[] = {
        {false, true, 0, ""},
        {true, false, 0, "moe: the model in m has no routed experts: leave the block out"},
        {true, true, 4,
         "moe: experts that stay are on the device: leave out offload_param, or set moe.enabled to "
         "false"},
    };

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        struct tr_args a = {.model_name_or_path = "m"};
        struct tr_run r = {.args = &a,
                           .ds.experts_stay = blocks[i].stay,
                           .config.n_routed_experts = blocks[i].experts};
        struct fr_err err = {.msg = ""};

        check_row(blocks[i].want);
        CHECK_INT(tr_run_layout(&r, blocks[i].staged, &err) == FR_OK, blocks[i].want[0] == '\0');
        CHECK_TEXT(err.msg, blocks[i].want);
        CHECK(r.experts == NULL && r.rest == NULL);
    }
}

int main(void)
{
    test_said();
    test_block_refused();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        try_row(&rows[i]);
    return check_done();
}
