#include "trainer/train/train.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/backend/trace.h"
#include "trainer/save/card.h"
#include "trainer/save/export.h"
#include "trainer/save/export_model.h"
#include "trainer/report/plot.h"
#include "trainer/train/setup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

enum { MIB = 1 << 20, CHECKPOINTS = 1024 /* that may have a state to resume from */ };

enum { PASS_STOP, PASS_TARGETS, PASS_TOKENS, PASS_PADDED, PASS_SUMS };

/* Results of one step, equal on every rank. */
struct step {
    int64_t micros; /* micro-batches of this rank */
    double targets; /* N, over all ranks */
    double loss;    /* mean over the N targets */
    double lr;
    bool updated; /* the weights changed */
    struct tr_optim_result result;
    bool stop; /* a rank was asked to stop */
};

/* Loads the step's micro-batches and agrees on the sums over all ranks. */
static enum fr_rc begin_step(struct tr_run *r, struct step *s, struct fr_err *err)
{
    struct tr_progress *p = &r->progress;
    int64_t left = r->micros - p->micro;
    double sums[PASS_SUMS] = {tr_run_stop_asked(r) ? 1 : 0, 0, 0, 0};
    enum fr_rc rc = FR_OK;

    *s = (struct step){.micros = r->args->gradient_accumulation_steps};
    if (s->micros > left)
        s->micros = left;
    for (int64_t k = 0; k < s->micros && rc == FR_OK; k++) {
        rc = tr_sampler_batch(r->sampler, p->epoch, p->micro + k, &r->batches[k], err);
        sums[PASS_TARGETS] += (double)r->batches[k].target_count;
        sums[PASS_TOKENS] += (double)r->batches[k].tokens;
        sums[PASS_PADDED] += (double)r->batches[k].padded_tokens;
    }
    if (rc == FR_OK)
        rc = tr_comm_host_sum(r->env.comm, sums, PASS_SUMS, err);
    s->stop = sums[PASS_STOP] > 0;
    s->targets = sums[PASS_TARGETS];
    if (rc == FR_OK && !s->stop) {
        p->tokens += (int64_t)sums[PASS_TOKENS];
        p->padded_tokens += (int64_t)sums[PASS_PADDED];
    }
    return rc;
}

static enum fr_rc run_micros(struct tr_run *r, struct step *s, struct fr_err *err)
{
    double sum = 0;
    enum fr_rc rc = tr_optim_zero_grad(&r->optim, err);

    for (int64_t k = 0; k < s->micros && rc == FR_OK; k++) {
        const struct tr_batch *b = &r->batches[k];
        struct tr_micro mb = {
            .T = b->tokens,
            .B = b->samples,
            .ids = b->ids,
            .pos = b->pos,
            .targets = b->targets,
            .offsets = b->attn_offsets,
            .place = b->place,
            .epoch = r->progress.epoch,
            .loss_scale = r->progress.scaler.scale / s->targets,
            .last = k + 1 == s->micros,
        };
        rc = tr_model_forward_backward(r->model, &mb, err);
    }
    if (rc == FR_OK)
        rc = tr_model_take_loss(r->model, &sum, err);
    if (rc == FR_OK)
        rc = tr_comm_host_sum(r->env.comm, &sum, 1, err);
    s->loss = sum / s->targets;
    return rc;
}

static enum fr_rc update(struct tr_run *r, struct step *s, struct fr_err *err)
{
    struct tr_progress *p = &r->progress;
    enum fr_rc rc = tr_optim_step(&r->optim, s->lr, p->scaler.scale, &s->result, err);
    /* what is wrong in a forward spreads to all */
    const char *where = isfinite(s->loss) ? s->result.where : "";
    const char *of = where[0] != '\0' ? " of " : "";

    if (rc == FR_OK && s->result.skipped && !p->scaler.on && !r->ds.check_grad_overflow)
        return fr_fail(
            err, FR_CORRUPT,
            "gradients%s%s are not finite at step %lld (loss %g): nothing was updated; look at "
            "the data and the learning rate, the last checkpoint is whole",
            of, where, (long long)p->step + 1, s->loss);
    if (rc == FR_OK && s->result.skipped && !p->scaler.on && r->env.comm->rank == 0)
        tr_say("step %lld skipped: gradients%s%s are not finite", (long long)p->step + 1, of,
               where);
    if (rc == FR_OK)
        rc = tr_scaler_update(&p->scaler, s->result.skipped, err);
    s->updated = rc == FR_OK && !s->result.skipped;
    p->updates += s->updated;
    return rc;
}

static enum fr_rc one_step(struct tr_run *r, struct step *s, struct fr_err *err)
{
    enum fr_rc rc;

    s->lr = tr_schedule_lr(&r->schedule, r->progress.updates);
    if (s->targets > 0) {
        tr_trace_begin(r->env.be, NULL, "forward and backward");
        rc = run_micros(r, s, err);
        tr_trace_end(r->env.be, NULL);
        tr_trace_begin(r->env.be, NULL, "update");
        if (rc == FR_OK)
            rc = update(r, s, err);
        tr_trace_end(r->env.be, NULL);
        if (rc != FR_OK)
            return fr_while(err, "step %lld", (long long)r->progress.step + 1);
    } else if (r->env.comm->rank == 0)
        tr_say("step %lld has no targets and changes nothing", (long long)r->progress.step + 1);
    tr_progress_advance(&r->progress, s->micros, s->targets > 0 ? s->loss : NAN);
    return FR_OK;
}

/* The best checkpoint and the one of now are both wanted where the best is loaded in the end. */
static void rotate(const struct tr_run *r)
{
    int64_t keep = r->args->save_total_limit, best = r->progress.best_step;

    if (keep == 1 && r->args->load_best_model_at_end && best > 0 && best != r->progress.step)
        keep = 2;
    tr_export_rotate(r->args->output_dir, keep, keep > 1 ? best : 0);
}

/* The card, and the tokenizer's files that the template changes. */
static enum fr_rc write_card(const struct tr_run *r, const char *dir, struct fr_err *err)
{
    struct tr_card c = {.args = r->args,
                        .lora = r->trained.all ? NULL : &r->lora,
                        .derived = &r->derived,
                        .template_name = tr_template_name(r->templ),
                        .step = r->progress.step,
                        .history = r->progress.history,
                        .chat = {r->chat.p, r->chat.n}};

    enum fr_rc rc = tr_card_write(dir, &c, err);

    return rc == FR_OK ? tr_template_files_write(&r->files, dir, err) : rc;
}

/* The trained weights, in a folder; every rank calls. */
static enum fr_rc export_weights(struct tr_run *r, const char *dir, struct fr_err *err)
{
    struct tr_export_model o = {
        .out = {.model = r->model, .world = r->env.comm, .type = tr_run_compute_type(r)},
        .st = r->st,
        .args = r->args,
        .shard_bytes = r->args->max_shard_size,
        .tied = r->config.tie_word_embeddings,
        .rows = r->rows_before > 0 ? r->config.vocab_size : 0};
    struct tr_adapter_out a = {
        .params = &r->optim.params, .flat = r->flat, .args = r->args, .lora = &r->lora};

    if (r->trained.save_masters && o.out.type != TR_F32)
        o.out.masters = &r->optim;
    if (r->trained.all)
        return tr_export_model(dir, &o, err);
    if (r->trained.beside != NULL)
        return tr_export_adapter_beside(dir, &a, &o.out, r->st, err);
    return r->env.comm->rank == 0 ? tr_export_adapter(dir, &a, err) : FR_OK;
}

/* checkpoint-N, made whole under another name first. Rank 0 writes. */
static enum fr_rc export_checkpoint(struct tr_run *r, struct fr_err *err)
{
    bool first = r->env.comm->rank == 0;
    char dir[PATH_MAX], tmp[PATH_MAX];
    enum fr_rc rc = FR_OK;

    snprintf(dir, sizeof(dir), "%s/checkpoint-%lld", r->args->output_dir,
             (long long)r->progress.step);
    snprintf(tmp, sizeof(tmp), "%s/" TR_EXPORT_TMP "checkpoint-%lld", r->args->output_dir,
             (long long)r->progress.step);
    if (first)
        rc = fr_remove_tree(tmp, err);
    if (rc == FR_OK)
        rc = export_weights(r, tmp, err);
    if (!first)
        return rc;
    if (rc == FR_OK)
        rc = write_card(r, tmp, err);
    if (rc == FR_OK)
        rc = tr_metrics_save_state(&r->metrics, &r->progress, tmp, err);
    if (rc == FR_OK)
        rc = fr_remove_tree(dir, err);
    if (rc == FR_OK && fr_sys.rename(tmp, dir) != 0)
        rc = fr_fail(err, FR_IO, "cannot rename %s to %s", tmp, dir);
    if (rc != FR_OK)
        fr_remove_tree(tmp, NULL);
    else if ((rc = fr_sync_dir(r->args->output_dir, err)) == FR_OK)
        rotate(r);
    return rc;
}

/* States stay with their checkpoints, which only rank 0 has; with --save_only_model they do not. */
static enum fr_rc save_state(struct tr_run *r, const struct tr_progress *now, struct fr_err *err)
{
    struct {
        int64_t steps[CHECKPOINTS];
        size_t n;
    } kept = {.n = 0};
    enum fr_rc rc;

    if (r->env.comm->rank == 0 && !r->args->save_only_model)
        kept.n = tr_export_steps(r->args->output_dir, kept.steps, CHECKPOINTS);
    if (r->env.comm->rank == 0 && r->trained.all &&
        (rc = tr_export_args(r->args->output_dir, r->args, err)) !=
            FR_OK) /* who exports reads it */
        return rc;
    rc = tr_comm_host_broadcast(r->env.comm, &kept, sizeof(kept), 0, err);
    r->resume.kept = kept.steps;
    r->resume.n_kept = kept.n;
    if (rc == FR_OK)
        rc = tr_resume_save(&r->resume, &r->optim, now, err);
    r->resume.kept = NULL;
    r->resume.n_kept = 0;
    return rc;
}

/* The checkpoint before the state: who goes on from the state of step N finds checkpoint-N whole.
 */
static enum fr_rc save(struct tr_run *r, bool checkpoint, struct fr_err *err)
{
    bool model = checkpoint && tr_run_saves_model(r);
    struct tr_progress now = r->progress;
    enum fr_rc rc = FR_OK;

    tr_trace_begin(r->env.be, NULL, checkpoint ? "checkpoint-%lld" : "resume state %lld",
                   (long long)now.step);
    now.seconds += (double)(fr_sys.mono_ms() - r->metrics.start_ms) / 1000;
    if (model)
        rc = tr_optim_whole(&r->optim, TR_OPTIM_MASTER, r->flat, err);
    if (rc == FR_OK && model) {
        rc = export_checkpoint(r, err);
        if (rc == FR_OK && r->env.comm->rank == 0)
            tr_say("Saving model checkpoint to %s/checkpoint-%lld", r->args->output_dir,
                   (long long)r->progress.step);
    }
    if (rc == FR_OK && !r->args->no_resume_state)
        rc = save_state(r, &now, err);
    if (rc == FR_OK && (checkpoint || !r->args->no_resume_state))
        r->metrics.checkpoint = now.step;
    if (rc == FR_OK)
        rc = tr_run_count_experts(r, false, err);
    tr_trace_end(r->env.be, NULL);
    return rc;
}

/* The step that was done is one of those that each number of steps, or each epoch, asks for. Epochs
 * of a stream may differ in length. */
static bool is_due(const struct tr_run *r, enum tr_strategy strategy, int64_t every)
{
    const struct tr_progress *p = &r->progress;

    if (r->args->streaming && strategy == TR_STRATEGY_EPOCH)
        return p->micro >= r->micros;
    return every > 0 && p->step % every == 0;
}

/* Whether the step that was done is one after which --eval_strategy evaluates. An epoch that ends
 * with the training counts as one, as it does for the reference. */
static bool evaluates(const struct tr_run *r)
{
    const struct tr_derived *d = &r->derived;
    const struct tr_progress *p = &r->progress;

    if (r->args->eval_strategy == TR_STRATEGY_EPOCH)
        return (is_due(r, TR_STRATEGY_EPOCH, d->steps_per_epoch) || p->step == d->total_steps) &&
               tr_metrics_epoch(d, p) >= r->args->eval_delay;
    return d->eval_every > 0 && p->step % d->eval_every == 0 &&
           (double)p->step >= r->args->eval_delay;
}

static enum fr_rc evaluate(struct tr_run *r, bool *better, struct fr_err *err)
{
    json_t *figures = NULL;
    enum fr_rc rc = tr_run_evaluate(r, &figures, err);

    if (rc == FR_OK)
        *better = tr_run_judge(r, figures);
    if (rc == FR_OK && r->env.comm->rank == 0 && tr_metrics_over(&r->metrics, &r->progress) &&
        r->progress.step < r->derived.total_steps)
        tr_say("Stopping early: %lld evaluations were not better than that after step %lld",
               (long long)r->progress.not_better, (long long)r->progress.best_step);
    json_decref(figures);
    return rc;
}

static enum fr_rc after_step(struct tr_run *r, const struct step *s, struct fr_err *err)
{
    const struct tr_derived *d = &r->derived;
    struct tr_progress *p = &r->progress;
    bool last = p->step == d->total_steps, better = false;
    enum fr_rc rc = FR_OK;

    bool log = is_due(r, r->args->logging_strategy, d->log_every) ||
               (p->step == 1 && r->args->logging_first_step);
    if (log)
        rc = tr_metrics_log(&r->metrics, p, s->result.grad_norm,
                            tr_schedule_logged(&r->schedule, p->updates - s->updated), err);
    tr_metrics_bar(&r->metrics, p);
    if (rc == FR_OK && evaluates(r))
        rc = evaluate(r, &better, err);
    bool now =
        r->args->save_strategy == TR_STRATEGY_BEST
            ? better
            : is_due(r, r->args->save_strategy, d->save_every) || (d->save_every > 0 && last);
    return rc == FR_OK && now ? save(r, true, err) : rc;
}

/* Figures that decide nothing: before the first step, or those of the final adapter. */
static enum fr_rc evaluate_alone(struct tr_run *r, bool final, struct fr_err *err)
{
    json_t *figures = NULL;
    enum fr_rc rc = tr_run_evaluate(r, &figures, err);

    if (rc == FR_OK && final && r->args->pretrain)
        tr_run_add_perplexity(r, figures);
    if (rc == FR_OK && final && r->env.comm->rank == 0)
        rc = tr_metrics_results(&r->metrics, "eval", figures, err);
    json_decref(figures);
    return rc;
}

static enum fr_rc loop(struct tr_run *r, struct fr_err *err)
{
    struct tr_progress *p = &r->progress;
    struct step s;
    enum fr_rc rc = FR_OK;

    if (r->args->eval_on_start && p->step == 0)
        rc = evaluate_alone(r, false, err);
    if (rc == FR_OK)
        rc = tr_sampler_micros(r->sampler, p->epoch, &r->micros, NULL, err);
    while (rc == FR_OK && !tr_metrics_over(&r->metrics, p)) {
        if (p->micro >= r->micros) {
            p->micro = 0;
            rc = tr_sampler_micros(r->sampler, ++p->epoch, &r->micros, NULL, err);
            if (rc != FR_OK)
                return rc;
        }
        tr_trace_begin(r->env.be, NULL, "step %lld", (long long)p->step + 1);
        tr_run_step_begins(r);
        rc = begin_step(r, &s, err);
        if (rc == FR_OK && s.stop) {
            rc = save(r, false, err);
            return rc != FR_OK ? rc
                               : fr_fail(err, FR_STOPPED, "stopped after step %lld as asked; %s",
                                         (long long)p->step,
                                         r->args->no_resume_state ? "no resume state is kept"
                                                                  : "the resume state is written");
        }
        if (rc == FR_OK)
            rc = one_step(r, &s, err);
        tr_run_step_ends(r, s.micros, s.targets);
        if (rc == FR_OK)
            rc = after_step(r, &s, err);
        tr_trace_end(r->env.be, NULL);
        if (rc == FR_OK)
            tr_trace_flush(r->env.be);
    }
    return rc;
}

/* Reports each rank's planned and actual memory. */
static enum fr_rc say_memory(struct tr_run *r, struct fr_err *err)
{
    struct {
        int64_t plan, taken, peak;
    } mine = {(int64_t)r->planned_bytes, (int64_t)r->env.be->taken, tr_peak_rss() - r->rss_before},
      *all;
    size_t size = (size_t)r->env.comm->size;
    enum fr_rc rc;

    all = fr_sys.alloc(size * sizeof(*all));
    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to compare memory");
    rc = tr_comm_host_all_gather(r->env.comm, all, &mine, sizeof(mine), err);
    for (size_t k = 0; rc == FR_OK && r->env.comm->rank == 0 && k < size; k++) {
        tr_say(
            "Memory of rank %zu: the table says %.1f MiB, %.1f MiB were allocated, the process's "
            "peak grew by %.1f MiB",
            k, (double)all[k].plan / MIB, (double)all[k].taken / MIB, (double)all[k].peak / MIB);
        r->counts.memory = fmax(r->counts.memory, (double)all[k].peak);
    }
    fr_sys.free(all);
    return rc;
}

/* No step changed a weight. The loss scaler's skipped steps are part of a run; others are not. */
static enum fr_rc unchanged(const struct tr_run *r, struct fr_err *err)
{
    const struct tr_scaler *s = &r->progress.scaler;
    const char *what = r->trained.all ? "model" : "adapter";

    if (!s->dynamic || s->step == 0)
        return fr_fail(err, FR_CORRUPT,
                       "none of %lld steps changed the %s (gradients not finite, or no "
                       "targets in the data): nothing is exported",
                       (long long)r->progress.step, what);
    if (r->env.comm->rank == 0)
        tr_say("all %lld steps were skipped, the loss scale fell from %.0f to %.0f: the %s is "
               "as it started; take more steps or a lower fp16.initial_scale_power",
               (long long)r->progress.step, ldexp(1, (int)r->ds.initial_scale_power), s->scale,
               what);
    return FR_OK;
}

/* A picture that cannot be written is only logged. */
static void plot(const struct tr_run *r, const char *key)
{
    struct fr_err why = {0};

    if (tr_plot_history(r->args->output_dir, r->progress.history, key, &why) != FR_OK)
        fr_log(FR_LOG_WARN, "train", "no picture of %s: %s", key, why.msg);
}

static void plot_all(const struct tr_run *r)
{
    plot(r, "loss");
    for (size_t i = 0; i < r->nevals; i++) {
        char key[TR_EVAL_KEY];

        tr_run_eval_key(&r->evals[i], "loss", key);
        plot(r, key);
        tr_run_eval_key(&r->evals[i], "accuracy", key);
        plot(r, key);
    }
}

/* The adapter, or the model, in the output folder. */
static enum fr_rc export_result(struct tr_run *r, struct fr_err *err)
{
    char tmp[PATH_MAX];
    enum fr_rc rc;

    if (!r->trained.all)
        return export_weights(r, r->args->output_dir, err);
    snprintf(tmp, sizeof(tmp), "%s/" TR_EXPORT_TMP "model", r->args->output_dir);
    rc = export_weights(r, tmp, err);
    return rc == FR_OK && r->env.comm->rank == 0
               ? tr_export_model_move(tmp, r->args->output_dir, err)
               : rc;
}

/* In place of the result its state. A model of an earlier run would be taken for the result. */
static enum fr_rc keep_state(struct tr_run *r, struct fr_err *err)
{
    enum fr_rc rc = save(r, false, err);

    if (rc != FR_OK || r->env.comm->rank != 0)
        return rc;
    tr_say("stage3_gather_16bit_weights_on_model_save is false: flowtrain export --from %s/resume "
           "writes the model",
           r->args->output_dir);
    return tr_export_model_clear(r->args->output_dir, err);
}

static enum fr_rc finish(struct tr_run *r, struct fr_err *err)
{
    int64_t steps = r->progress.step, idle = steps - r->progress.updates;
    enum fr_rc rc = idle == steps ? unchanged(r, err) : FR_OK;

    if (idle > 0 && idle < steps && r->env.comm->rank == 0)
        tr_say("%lld of %lld steps changed nothing: gradients not finite, or no targets in the "
               "data",
               (long long)idle, (long long)steps);
    if (rc == FR_OK)
        rc = tr_run_load_best(r, err);
    if (rc == FR_OK)
        rc = tr_optim_whole(&r->optim, TR_OPTIM_MASTER, r->flat, err);
    if (rc == FR_OK)
        rc = tr_run_saves_model(r) ? export_result(r, err) : keep_state(r, err);
    if (rc == FR_OK && r->env.comm->rank == 0) {
        rc = tr_metrics_end(&r->metrics, &r->progress, err);
        if (rc == FR_OK && r->args->plot_loss)
            plot_all(r);
    }
    if (rc == FR_OK && r->args->do_eval)
        rc = evaluate_alone(r, true, err);
    if (rc == FR_OK && r->env.comm->rank == 0)
        rc = write_card(r, r->args->output_dir, err);
    if (rc == FR_OK)
        rc = tr_run_say_exchange(r, err);
    if (rc == FR_OK)
        rc = tr_run_count_experts(r, true, err);
    if (rc == FR_OK)
        rc = tr_run_sum_counts(r, err);
    return rc == FR_OK ? say_memory(r, err) : rc; /* no rank leaves before rank 0 has written */
}

static void banner(struct tr_run *r, const struct tr_model_counts *c)
{
    int64_t trainable = tr_run_trainable(r);
    bool untied = r->trained.tied && !r->config.tie_word_embeddings;
    int64_t all = c->total - c->router_biases + /* no parameters in the reference */
                  (r->trained.all ? 0 : trainable) - (untied ? c->head : 0);

    tr_say("Fine-tuning method: %s", r->trained.freeze ? "Freeze"
                                     : r->trained.all  ? "Full"
                                                       : "LoRA");
    tr_say("trainable params: %lld || all params: %lld || trainable%%: %.4f", (long long)trainable,
           (long long)all, 100.0 * (double)trainable / (double)all);
    tr_metrics_banner(&r->metrics, &r->progress, trainable);
}

static enum fr_rc start_metrics(struct tr_run *r, struct fr_err *err)
{
    struct tr_model_counts c;
    struct tr_metrics_opts o = {.args = r->args,
                                .derived = &r->derived,
                                .resumed = r->resumed,
                                .quiet = r->env.comm->rank != 0};

    tr_model_count(&r->config, &c);
    o.flops_per_token = tr_metrics_token_flops(&c, r->optim.params.elements);
    enum fr_rc rc = tr_metrics_start(&r->metrics, &o, &r->progress, err);
    if (rc == FR_OK && !o.quiet)
        banner(r, &c);
    return rc;
}

enum fr_rc tr_train(const struct tr_args *a, const struct tr_train_env *env, struct fr_err *err)
{
    struct tr_trace_opts trace = {a->trace, env->comm->rank, a->trace_steps};
    struct tr_run r;
    enum fr_rc rc = a->trace != NULL ? tr_trace_open(env->be, &trace, err) : FR_OK;

    if (rc != FR_OK)
        return rc;
    rc = tr_run_setup(&r, a, env, err);
    if (rc == FR_STOPPED)
        tr_comm_abort(env->comm, err->msg); /* by this rank alone, not agreed as at a step */
    if (rc == FR_OK)
        rc = start_metrics(&r, err);
    if (rc == FR_OK)
        rc = loop(&r, err);
    if (rc == FR_OK)
        rc = finish(&r, err);
    if (rc == FR_OK && env->counts != NULL)
        *env->counts = r.counts;
    tr_trace_close(env->be);
    tr_run_finish(&r);
    return rc;
}
