/*
 * Which ranks own experts among them, and over which the other weights are sharded: sizes that are
 * given or follow from the nodes, and what is refused (trainer/train/groups.c).
 */
#include "tests/unit/check.h"
#include "tests/unit/ranks.h"
#include "trainer/train/groups.h"

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

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        try_row(&rows[i]);
    return check_done();
}
