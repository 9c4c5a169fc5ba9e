/* Evaluation inside a training run, and what follows from it: the best model, an early stop. */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/backend/trace.h"
#include "trainer/report/log.h"
#include "trainer/train/evaluate.h"
#include "trainer/save/export.h"
#include "trainer/save/import_model.h"
#include "trainer/train/setup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void tr_run_eval_key(const struct tr_eval_set *set, const char *what, char out[TR_EVAL_KEY])
{
    snprintf(out, TR_EVAL_KEY, "eval_%.256s%s%s", set->name != NULL ? set->name : "",
             set->name != NULL ? "_" : "", what);
}

static void put(json_t *o, const struct tr_eval_set *set, const char *what, double v)
{
    char key[TR_EVAL_KEY];

    tr_run_eval_key(set, what, key);
    tr_log_number(o, key, v);
}

static json_t *figures_of(const struct tr_run *r, const struct tr_eval_set *set,
                          const struct tr_eval_result *x)
{
    int64_t total = r->args->per_device_eval_batch_size * r->env.comm->size;
    double steps = (double)((x->samples + total - 1) / total);
    double per = x->seconds > 0 ? 1 / x->seconds : 0;
    json_t *o = json_object();

    put(o, set, "loss", x->loss);
    if (r->args->compute_accuracy)
        put(o, set, "accuracy", x->accuracy);
    put(o, set, "runtime", round(x->seconds * 1e4) / 1e4);
    put(o, set, "samples_per_second", round((double)x->samples * per * 1e3) / 1e3);
    put(o, set, "steps_per_second", round(steps * per * 1e3) / 1e3);
    json_object_set_new(o, "epoch", json_real(tr_metrics_epoch(&r->derived, &r->progress)));
    return o;
}

static void say_begin(const struct tr_run *r, const struct tr_eval_set *set)
{
    if (r->env.comm->rank != 0)
        return;
    tr_say("***** Running Evaluation%s%s *****", set->name != NULL ? " of " : "",
           set->name != NULL ? set->name : "");
    tr_say("  Num examples = %lld", (long long)tr_dataset_size(set->data));
    tr_say("  Batch size = %lld", (long long)r->args->per_device_eval_batch_size);
}

static enum fr_rc one_set(struct tr_run *r, const struct tr_eval_set *set, json_t *all,
                          struct fr_err *err)
{
    struct tr_eval_opts o = {.model = r->model,
                             .comm = r->env.comm,
                             .data = set->data,
                             .batch = r->args->per_device_eval_batch_size,
                             .tokens_max = r->tokens_max,
                             .samples_max = r->samples_max,
                             .whole = r->args->streaming || !r->args->pretrain};
    struct tr_eval_result x;
    json_t *figures = NULL;
    enum fr_rc rc;

    say_begin(r, set);
    if ((rc = tr_evaluate(&o, &x, err)) != FR_OK)
        return rc;
    if (x.unscored > 0 && r->env.comm->rank == 0)
        tr_say("%lld of %lld samples have no targets and count for nothing", (long long)x.unscored,
               (long long)x.samples);
    figures = figures_of(r, set, &x);
    rc = tr_metrics_evaluated(&r->metrics, &r->progress, figures, err);
    if (rc == FR_OK && json_object_update(all, figures) != 0)
        rc = fr_fail(err, FR_NOMEM, "no memory for the figures of an evaluation");
    json_decref(figures);
    return rc;
}

enum fr_rc tr_run_evaluate(struct tr_run *r, json_t **figures, struct fr_err *err)
{
    int64_t began = fr_sys.mono_ms();
    enum fr_rc rc = FR_OK;

    if ((*figures = json_object()) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the figures of an evaluation");
    tr_trace_begin(r->env.be, NULL, "evaluation");
    for (size_t i = 0; i < r->nevals && rc == FR_OK; i++)
        if ((rc = one_set(r, &r->evals[i], *figures, err)) != FR_OK)
            fr_while(err, "evaluation after step %lld", (long long)r->progress.step);
    tr_trace_end(r->env.be, NULL);
    r->metrics.last_log_ms += fr_sys.mono_ms() - began; /* not training: tokens_per_second */
    return rc;
}

void tr_run_add_perplexity(const struct tr_run *r, json_t *figures)
{
    for (size_t i = 0; i < r->nevals; i++) {
        const json_t *loss;
        char key[TR_EVAL_KEY];

        tr_run_eval_key(&r->evals[i], "loss", key);
        loss = json_object_get(figures, key);
        put(figures, &r->evals[i], "perplexity",
            json_is_number(loss) ? exp(json_number_value(loss)) : NAN);
    }
}

/* The key of --metric_for_best_model among an evaluation's figures. */
static void metric_key(const struct tr_args *a, char out[TR_EVAL_KEY])
{
    const char *name = a->metric_for_best_model;

    snprintf(out, TR_EVAL_KEY, "%s%.300s", fr_has_prefix(name, "eval_") ? "" : "eval_", name);
}

enum fr_rc tr_run_check_metric(const struct tr_run *r, struct fr_err *err)
{
    const char *whats[] = {"loss", "accuracy"};
    char want[TR_EVAL_KEY], key[TR_EVAL_KEY];
    struct fr_buf known = {0};

    if (r->args->metric_for_best_model == NULL || r->derived.eval_every == 0)
        return FR_OK;
    metric_key(r->args, want);
    for (size_t i = 0; i < r->nevals; i++)
        for (size_t k = 0; k < (r->args->compute_accuracy ? 2 : 1); k++) {
            tr_run_eval_key(&r->evals[i], whats[k], key);
            if (strcmp(key, want) == 0) {
                fr_buf_finish(&known);
                return FR_OK;
            }
            fr_buf_fmt(&known, "%s%s", known.n > 0 ? ", " : "", key);
        }
    fr_fail(err, FR_USAGE, "--metric_for_best_model %s: the evaluation gives %s",
            r->args->metric_for_best_model, known.bad ? "other figures" : known.p);
    fr_buf_finish(&known);
    return FR_USAGE;
}

bool tr_run_judge(struct tr_run *r, const json_t *figures)
{
    struct tr_progress *p = &r->progress;
    bool greater = r->args->greater_is_better == TR_MAYBE_TRUE, better;
    char key[TR_EVAL_KEY];
    double v;

    if (r->args->metric_for_best_model == NULL)
        return false;
    metric_key(r->args, key);
    if (!json_is_number(json_object_get(figures, key))) { /* NaN is never better */
        p->not_better++;
        return false;
    }
    v = json_number_value(json_object_get(figures, key));
    better = p->best_step == 0 || (greater ? v > p->best_metric : v < p->best_metric);
    if (!better) {
        p->not_better++;
        return false;
    }
    p->best_metric = v;
    p->best_step = p->step;
    p->not_better = 0;
    return true;
}

enum fr_rc tr_run_check_best(struct tr_run *r, struct fr_err *err)
{
    struct tr_progress *p = &r->progress;
    char dir[PATH_MAX];
    struct stat st;
    double gone = 0;
    enum fr_rc rc;

    if (!r->args->load_best_model_at_end || p->best_step == 0)
        return FR_OK;
    (void)snprintf(dir, sizeof(dir), "%s/checkpoint-%lld", r->args->output_dir,
                   (long long)p->best_step);
    if (r->env.comm->rank == 0)
        gone = fr_sys.lstat(dir, &st) != 0;
    if ((rc = tr_comm_host_sum(r->env.comm, &gone, 1, err)) != FR_OK || gone == 0)
        return rc;
    if (r->env.comm->rank == 0)
        tr_say("note: %s, the best model so far, is no longer there: the best is looked for anew",
               dir);
    p->best_step = 0;
    p->best_metric = 0;
    return FR_OK;
}

/* Rank 0 reads the checkpoint and shares the adapter. */
static enum fr_rc import_adapter(struct tr_run *r, const char *dir, struct fr_err *err)
{
    struct fr_err why = {0};
    enum fr_rc rc;

    if (r->env.comm->rank == 0) {
        memset(r->flat, 0, (size_t)r->optim.params.padded * sizeof(float));
        why.rc = tr_import_adapter(dir, &r->optim.params, &r->lora, r->flat, &why);
    }
    if ((rc = tr_comm_host_broadcast(r->env.comm, &why, sizeof(why), 0, err)) != FR_OK)
        return rc;
    if (why.rc != FR_OK)
        return fr_fail(err, FR_NOTFOUND, "%s", why.msg);
    if ((rc = tr_optim_share(&r->optim, 0, r->flat, err)) != FR_OK)
        return rc;
    return tr_optim_load(&r->optim, TR_OPTIM_MASTER, r->flat, err);
}

enum fr_rc tr_run_load_best(struct tr_run *r, struct fr_err *err)
{
    const struct tr_progress *p = &r->progress;
    bool first = r->env.comm->rank == 0;
    char dir[PATH_MAX], score[32];
    enum fr_rc rc;

    if (!r->args->load_best_model_at_end || p->best_step == 0)
        return FR_OK;
    snprintf(dir, sizeof(dir), "%s/checkpoint-%lld", r->args->output_dir, (long long)p->best_step);
    rc =
        tr_trained_any(&r->trained) ? tr_import_model(dir, !r->trained.all, &r->optim, err) : FR_OK;
    if (rc == FR_OK && !r->trained.all)
        rc = import_adapter(r, dir, err);
    if (rc == FR_NOTFOUND) {
        if (first)
            fr_log(FR_LOG_WARN, "train",
                   "the best model is not loaded, the %s of the last step: %s",
                   r->trained.all ? "weights are those" : "adapter is that", err->msg);
        *err = (struct fr_err){0};
        return FR_OK;
    }
    if (rc != FR_OK)
        return rc;
    snprintf(score, sizeof(score), "%.17g", p->best_metric);
    if (first)
        tr_say("Loading best model from %s (score: %s).", dir, score);
    if (first && r->args->save_total_limit == 1)
        tr_export_rotate(r->args->output_dir, 1, p->best_step);
    return FR_OK;
}
