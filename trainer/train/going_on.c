/* A training that goes on from a checkpoint of another trainer. */
#include "trainer/save/foreign.h"
#include "trainer/train/setup.h"

#include <math.h>

/* The place in the data after p->step steps, of which this run may have fewer: the last step of an
 * epoch may have fewer micro-batches. */
static enum fr_rc find_place(const struct tr_run *r, struct tr_progress *p, struct fr_err *err)
{
    int64_t accumulation = r->args->gradient_accumulation_steps, micros, steps;
    int64_t left = p->step < r->derived.total_steps ? p->step : r->derived.total_steps;
    enum fr_rc rc;

    for (p->epoch = 0;; p->epoch++) {
        if ((rc = tr_sampler_micros(r->sampler, p->epoch, &micros, NULL, err)) != FR_OK)
            return rc;
        steps = (micros + accumulation - 1) / accumulation;
        if (left < steps)
            break;
        left -= steps;
    }
    p->micro = left * accumulation;
    return FR_OK;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

/* Notes on what differs between the checkpoint and this run. */
static void note_differences(const struct tr_run *r, const struct tr_foreign_said *said,
                             struct fr_buf *notes)
{
    const struct tr_progress *p = &r->progress;
    double lr = tr_schedule_lr(&r->schedule, p->updates);
    double epoch = tr_metrics_epoch(&r->derived, p);

    if (!isnan(said->lr) && !near(said->lr, lr))
        fr_buf_fmt(notes,
                   "the learning rate of the next step was to be %g there, it is %g here: "
                   "--learning_rate, --lr_scheduler_type, the warm-up and the number of steps "
                   "decide it\n",
                   said->lr, lr);
    if (!isnan(said->epoch) && !near(said->epoch, epoch))
        fr_buf_fmt(notes,
                   "step %lld was at epoch %g there, it is at %g here: the data set or the samples "
                   "of a step differ, and some samples are taken twice or not at all\n",
                   (long long)p->step, said->epoch, epoch);
    if (said->other_decay > 0)
        fr_buf_fmt(notes,
                   "the weight decay of %lld tensors was another there: here norms and biases have "
                   "none\n",
                   (long long)said->other_decay);
    fr_buf_fmt(notes,
               "not taken over: the states of random generators, what was counted of tokens and "
               "losses%s; samples go on in the order of --seed\n",
               p->scaler.on ? ", the loss scale" : "");
}

enum fr_rc tr_run_go_on(struct tr_run *r, const struct tr_foreign *from, struct fr_err *err)
{
    const struct tr_foreign_run run = {
        .from = from,
        .model_dir = r->args->model_name_or_path,
        .config = &r->config,
        .trained = &r->trained,
        .peak_lr = r->ds.scheduler == TR_DS_LR_NONE ? r->schedule.peak : NAN,
    };
    struct tr_foreign_said said;
    struct fr_buf notes = {0};
    enum fr_rc rc = tr_foreign_load(&run, &r->optim, &r->progress, &said, err);

    if (rc == FR_OK)
        rc = find_place(r, &r->progress, err);
    if (rc != FR_OK)
        return rc;
    r->resumed = true;
    if (r->env.comm->rank == 0)
        tr_say("Going on from %s, which is of %s: weights and AdamW's moments are those of step "
               "%lld",
               from->dir, said.what, (long long)r->progress.step);
    note_differences(r, &said, &notes);
    tr_run_notes(r, &notes);
    return FR_OK;
}
