/* Whether what a run saves has room on the disks of its nodes. */
#include "trainer/train/setup.h"

/* Whether a node keeps a copy of rank k's part in this node's folder: its own node, or one after
 * it. */
static bool is_kept(const struct tr_run *r, int k)
{
    const struct tr_comm *c = r->env.comm;
    const int *folders = r->resume.folders;

    for (int node = 0; node < c->nodes; node++)
        if (folders[node] == folders[c->node] &&
            (node - c->node_of[k] + c->nodes) % c->nodes < r->args->resume_copies)
            return true;
    return false;
}

/* Ranks whose parts of trained weights lie in this node's folder. */
static int64_t ranks_kept(const struct tr_run *r)
{
    const struct tr_comm *c = r->env.comm;
    int64_t n = 0;

    for (int k = 0; k < c->size && c->node_of != NULL; k++)
        n += is_kept(r, k);
    return c->node_of != NULL ? n : c->size;
}

static struct tr_resume_size size_of(const struct tr_run *r)
{
    struct tr_grads *g = tr_model_grads(r->model);
    const struct tr_comm *c = r->env.comm;
    enum tr_dtype saved = r->trained.save_masters ? TR_F32 : tr_run_compute_type(r);
    struct tr_params p;

    tr_model_params(r->model, &p);
    if (g != NULL) {
        int64_t trained = tr_grads_elements(g) + p.elements;
        int64_t part = tr_args_coded(r->args) || tr_grads_muon(g) ? (int64_t)tr_optim_states(g)
                                                                  : trained * 12 / c->size;

        return (struct tr_resume_size){.state = part * ranks_kept(r),
                                       .at_once = 2,
                                       .checkpoint = trained * (int64_t)tr_dtype_bytes(saved)};
    }
    return (struct tr_resume_size){
        .state = p.elements * 12, .at_once = 3, .checkpoint = p.elements * 4};
}

enum fr_rc tr_run_check_room(const struct tr_run *r, struct fr_buf *notes, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    const struct tr_derived *d = &r->derived;
    int64_t saves = d->save_every > 0 ? d->total_steps / d->save_every : 0;
    struct tr_resume_size size;

    if (a->no_resume_state || !tr_resume_writes(&r->resume, r->env.comm))
        return FR_OK;
    if (r->env.comm->rank == 0 && a->resume_copies > r->env.comm->nodes)
        fr_buf_fmt(notes,
                   "--resume_copies %lld: a part stands on each of %d nodes, there are no more\n",
                   (long long)a->resume_copies, r->env.comm->nodes);
    if (a->save_total_limit > 0 && a->save_total_limit < saves)
        saves = a->save_total_limit;
    size = size_of(r);
    size.checkpoints =
        !tr_run_saves_model(r) || a->save_only_model || r->env.comm->rank != 0 ? 0 : saves;
    return tr_resume_room(&r->resume, &size, notes, err);
}
