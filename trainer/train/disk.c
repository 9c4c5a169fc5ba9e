/* Whether what a run saves has room on the disks of its nodes. */
#include "trainer/train/setup.h"

enum fr_rc tr_run_check_room(const struct tr_run *r, struct fr_buf *notes, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    const struct tr_derived *d = &r->derived;
    int64_t saves = d->save_every > 0 ? d->total_steps / d->save_every : 0;
    struct tr_params p;

    if (a->no_resume_state || r->env.comm->local_rank != 0)
        return FR_OK;
    if (a->save_total_limit > 0 && a->save_total_limit < saves)
        saves = a->save_total_limit;
    tr_model_params(r->model, &p);
    return tr_resume_room(&r->resume, &p, a->save_only_model || r->env.comm->rank != 0 ? 0 : saves,
                          notes, err);
}
