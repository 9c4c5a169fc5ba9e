#include "trainer/train/groups.h"

static int node_of(const struct tr_comm *world, int rank)
{
    return world->node_of != NULL ? world->node_of[rank] : 0;
}

/* The first rank after those of rank's node; ranks are numbered node by node. */
static int node_end(const struct tr_comm *world, int rank)
{
    int end = rank + 1;

    while (end < world->size && node_of(world, end) == node_of(world, rank))
        end++;
    return end;
}

/* Ranks of each node; 0: they differ. */
static int ranks_a_node(const struct tr_comm *world)
{
    int n = node_end(world, 0);

    for (int first = n; first < world->size; first = node_end(world, first))
        if (node_end(world, first) - first != n)
            return 0;
    return n;
}

static enum fr_rc choose_size(const struct tr_comm *world, const struct tr_groups_opts *o,
                              int64_t *size, struct fr_err *err)
{
    int local = ranks_a_node(world);

    *size = o->ranks;
    if (*size > 0)
        return FR_OK;
    if (o->group == TR_EXPERTS_WORLD || local == world->size) {
        *size = world->size;
        return FR_OK;
    }
    if (o->group == TR_EXPERTS_ANY)
        return fr_fail(err, FR_USAGE,
                       "moe: the experts are owned by which ranks? expert_group \"node\" keeps "
                       "tokens inside a node and a full set of experts on each, \"world\" spreads "
                       "one set over all nodes");
    if (local == 0)
        return fr_fail(err, FR_USAGE,
                       "moe: expert_group \"node\" needs nodes with equal numbers of ranks: give "
                       "--nproc_per_node the same value everywhere, or take \"world\"");
    *size = local;
    return FR_OK;
}

/* Groups are `size` neighbours each, inside a node or nodes as a whole. */
static enum fr_rc check_size(const struct tr_comm *world, enum tr_expert_group group, int64_t size,
                             struct fr_err *err)
{

    if (world->size % size != 0)
        return fr_fail(err, FR_USAGE,
                       "moe: expert_parallel_size %lld does not divide the %d ranks of the run",
                       (long long)size, world->size);
    if (group == TR_EXPERTS_WORLD && size != world->size)
        return fr_fail(err, FR_USAGE,
                       "moe: expert_group \"world\" is all %d ranks, expert_parallel_size says "
                       "%lld: leave one of them out",
                       world->size, (long long)size);
    for (int first = 0; first < world->size; first += (int)size) {
        int last = first + (int)size - 1;
        bool inside = node_of(world, first) == node_of(world, last);
        bool whole = (first == 0 || node_of(world, first - 1) != node_of(world, first)) &&
                     node_end(world, last) == last + 1;

        if (!inside && (group == TR_EXPERTS_NODE || !whole))
            return fr_fail(err, FR_USAGE,
                           "moe: expert_parallel_size %lld makes a group of ranks %d to %d, which "
                           "is neither inside a node nor nodes as a whole: take a divisor of the "
                           "ranks of a node, or a multiple",
                           (long long)size, first, last);
    }
    return FR_OK;
}

enum fr_rc tr_groups_make(struct tr_comm *world, const struct tr_groups_opts *o,
                          struct tr_comm **experts, struct tr_comm **rest, struct fr_err *err)
{
    int64_t size = 0;
    enum fr_rc rc = choose_size(world, o, &size, err);

    *experts = *rest = NULL;
    if (rc == FR_OK)
        rc = check_size(world, o->group, size, err);
    if (rc == FR_OK)
        rc = tr_comm_split(world, world->rank / (int)size, experts, err);
    if (rc == FR_OK && !o->whole && world->size > node_end(world, 0))
        rc = tr_comm_split(world, world->node, rest, err);
    return rc;
}
