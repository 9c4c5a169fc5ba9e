/* Experts that stay, in a training: set-up from its flags, and reports. */
#include "trainer/train/experts.h"
#include "trainer/train/groups.h"
#include "trainer/train/setup.h"

/* Refuses by name what this layout does not support. */
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
    const struct tr_groups_opts o = {
        .group = r->ds.expert_group, .ranks = r->ds.expert_ranks, .whole = r->ds.stage < 3};
    enum fr_rc rc;

    if (!r->ds.experts_stay)
        return FR_OK;
    rc = check_rest(r, staged, err);
    return rc == FR_OK ? tr_groups_make(r->env.comm, &o, &r->experts, &r->rest, err) : rc;
}

enum fr_rc tr_run_read_placement(struct tr_run *r, struct fr_err *err)
{
    if (!r->ds.experts_stay || r->ds.expert_placement[0] == '\0' || r->config.n_routed_experts == 0)
        return FR_OK;
    return tr_experts_read(r->ds.expert_placement, &r->config, &r->places, err);
}

enum fr_rc tr_run_place_experts(const struct tr_run *r, int32_t **ranks, struct fr_err *err)
{
    *ranks = NULL;
    if (r->places.numbers == NULL)
        return FR_OK;
    return tr_experts_place(&r->places, &r->config, r->experts->size, ranks, err);
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
    if (r->places.numbers != NULL)
        tr_say("Experts are placed %s %s", r->places.ranks > 0 ? "as in" : "by the rows counted in",
               r->ds.expert_placement);
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
