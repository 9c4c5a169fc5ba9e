/* Which ranks own routed experts among them, and over which the other weights are sharded. */
#include "trainer/train/experts.h"
#include "trainer/train/setup.h"

static int node_of(const struct tr_comm *world, int rank)
{
    return world->node_of != NULL ? world->node_of[rank] : 0;
}

/* The first rank behind those of rank's node; ranks are numbered node by node. */
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

static enum fr_rc choose_size(const struct tr_run *r, int64_t *size, struct fr_err *err)
{
    const struct tr_ds_config *d = &r->ds;
    const struct tr_comm *world = r->env.comm;
    int local = ranks_a_node(world);

    *size = d->expert_ranks;
    if (*size > 0)
        return FR_OK;
    if (d->expert_group == TR_EXPERTS_WORLD || local == world->size) {
        *size = world->size;
        return FR_OK;
    }
    if (d->expert_group == TR_EXPERTS_ANY)
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
static enum fr_rc check_size(const struct tr_run *r, int64_t size, struct fr_err *err)
{
    const struct tr_comm *world = r->env.comm;
    enum tr_expert_group group = r->ds.expert_group;

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

/* What this layout cannot do yet, by name. */
static enum fr_rc check_rest(const struct tr_run *r, bool staged, struct fr_err *err)
{
    if (r->config.n_routed_experts == 0)
        return fr_fail(err, FR_USAGE,
                       "moe: the model in %s has no routed experts: leave the block out",
                       r->args->model_name_or_path);
    if (staged)
        return fr_fail(err, FR_UNSUPPORTED,
                       "moe: experts that stay are on the device: leave out offload_param, or set "
                       "moe.enabled to false");
    return FR_OK;
}

enum fr_rc tr_run_layout(struct tr_run *r, bool staged, struct fr_err *err)
{
    struct tr_comm *world = r->env.comm;
    int64_t size = 0;
    enum fr_rc rc;

    if (!r->ds.experts_stay)
        return FR_OK;
    if ((rc = check_rest(r, staged, err)) != FR_OK || (rc = choose_size(r, &size, err)) != FR_OK ||
        (rc = check_size(r, size, err)) != FR_OK ||
        (rc = tr_comm_split(world, world->rank / (int)size, &r->experts, err)) != FR_OK)
        return rc;
    if (r->ds.stage == 3 && world->size > node_end(world, 0))
        rc = tr_comm_split(world, world->node, &r->rest, err);
    return rc;
}

enum fr_rc tr_run_read_placement(struct tr_run *r, struct fr_err *err)
{
    if (!r->ds.experts_stay || r->ds.expert_placement[0] == '\0' || r->config.n_routed_experts == 0)
        return FR_OK;
    return tr_experts_read(r->ds.expert_placement, &r->config, &r->expert_rows, err);
}

enum fr_rc tr_run_count_experts(const struct tr_run *r, bool say, struct fr_err *err)
{
    const struct tr_expert_report report = {.world = r->env.comm,
                                            .group = r->experts,
                                            .model = r->model,
                                            .config = &r->config,
                                            .output_dir = r->args->output_dir,
                                            .say = say};

    return tr_experts_report(&report, err);
}

void tr_run_say_layout(const struct tr_run *r)
{
    const struct tr_comm *x = r->experts;
    int64_t E = r->config.n_routed_experts;

    if (x == NULL || r->env.comm->rank != 0)
        return;
    tr_say("Experts stay, tokens move: %lld routed experts a layer over %d ranks, at most %lld on "
           "each; groups of ranks: %d",
           (long long)E, x->size, (long long)((E + x->size - 1) / x->size),
           r->env.comm->size / x->size);
    if (r->expert_rows != NULL)
        tr_say("Experts are placed by the rows counted in %s", r->ds.expert_placement);
    if (r->ds.stage < 3)
        tr_say("Other weights: whole on every rank");
    else
        tr_say("Other weights: sharded over %d ranks%s",
               r->rest != NULL ? r->rest->size : r->env.comm->size,
               r->rest != NULL ? " of a node" : "");
}

enum fr_rc tr_run_say_exchange(const struct tr_run *r, struct fr_err *err)
{
    double sums[TR_LINK_CLASSES] = {0};
    enum fr_rc rc;

    if (r->experts == NULL)
        return FR_OK;
    for (int c = 0; c < TR_LINK_CLASSES; c++)
        sums[c] = (double)r->experts->class_bytes[c];
    rc = tr_comm_host_sum(r->env.comm, sums, TR_LINK_CLASSES, err);
    if (rc == FR_OK && r->env.comm->rank == 0)
        tr_say("Tokens exchanged by all ranks: %.0f bytes inside a rank, %.0f inside a node, %.0f "
               "between nodes; rounds of a layer: at most %d",
               sums[TR_LINK_SELF], sums[TR_LINK_NODE], sums[TR_LINK_FAR],
               tr_model_exchange_rounds(r->model));
    return rc;
}
