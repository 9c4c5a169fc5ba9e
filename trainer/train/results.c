#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/text/pyjson.h"
#include "trainer/text/text.h"
#include "trainer/report/log.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RESULTS_MAX = 1 << 20 };

/* best_metric and what goes with it: null where no evaluation was the best. */
static void put_best(json_t *root, const struct tr_metrics *m, const struct tr_progress *p)
{
    char path[PATH_MAX];
    struct stat st;

    if (p->best_step <= 0)
        return;
    tr_log_number(root, "best_metric", p->best_metric);
    json_object_set_new(root, "best_global_step", json_integer(p->best_step));
    snprintf(path, sizeof(path), "%s/checkpoint-%lld", m->args->output_dir,
             (long long)p->best_step);
    if (p->best_step == p->step || fr_sys.lstat(path, &st) == 0)
        json_object_set_new(root, "best_model_checkpoint", json_string(path));
}

static json_t *callbacks(const struct tr_metrics *m, const struct tr_progress *p)
{
    json_t *all =
        json_pack("{s:{s:{s:b, s:b, s:b, s:b, s:b}, s:{}}}", "TrainerControl", "args",
                  "should_epoch_stop", 0, "should_evaluate", 0, "should_log", 0, "should_save", 1,
                  "should_training_stop", tr_metrics_over(m, p) ? 1 : 0, "attributes");

    if (m->args->early_stopping_steps > 0)
        json_object_set_new(
            all, "EarlyStoppingCallback",
            json_pack("{s:{s:I, s:f}, s:{s:I}}", "args", "early_stopping_patience",
                      (json_int_t)m->args->early_stopping_steps, "early_stopping_threshold", 0.0,
                      "attributes", "early_stopping_patience_counter", (json_int_t)p->not_better));
    return all;
}

bool tr_metrics_over(const struct tr_metrics *m, const struct tr_progress *p)
{
    int64_t patience = m->args->early_stopping_steps;

    return p->step >= m->derived->total_steps || (patience > 0 && p->not_better >= patience);
}

enum fr_rc tr_metrics_save_state(const struct tr_metrics *m, const struct tr_progress *p,
                                 const char *dir, struct fr_err *err)
{
    char path[PATH_MAX];
    bool steps = m->args->eval_strategy == TR_STRATEGY_STEPS;
    json_t *root = json_pack(
        "{s:n, s:n, s:n, s:f, s:I, s:I, s:b, s:b, s:b, s:O, s:I, s:I, s:I, s:I, s:I,"
        " s:o, s:f, s:I, s:n, s:n}",
        "best_global_step", "best_metric", "best_model_checkpoint", "epoch",
        tr_metrics_epoch(m->derived, p), "eval_steps",
        (json_int_t)(steps ? m->derived->eval_every : 500), "global_step", (json_int_t)p->step,
        "is_hyper_param_search", 0, "is_local_process_zero", 1, "is_world_process_zero", 1,
        "log_history", p->history, "logging_steps", (json_int_t)m->derived->log_every, "max_steps",
        (json_int_t)m->derived->total_steps, "num_input_tokens_seen", (json_int_t)p->padded_tokens,
        "num_train_epochs", (json_int_t)m->derived->epochs, "save_steps",
        (json_int_t)m->derived->save_every, "stateful_callbacks", callbacks(m, p), "total_flos",
        tr_log_flos(m, p), "train_batch_size", (json_int_t)m->args->per_device_train_batch_size,
        "trial_name", "trial_params");
    enum fr_rc rc =
        root == NULL ? fr_fail(err, FR_NOMEM, "no memory for trainer_state.json") : FR_OK;

    snprintf(path, sizeof(path), "%s/trainer_state.json", dir);
    if (rc == FR_OK) {
        put_best(root, m, p);
        rc = fr_json_save(root, path, JSON_INDENT(2) | JSON_SORT_KEYS, 0644, err);
    }
    json_decref(root);
    return rc;
}

static void show_result(const char *key, double v, char out[64])
{
    char clock[48];

    if (strcmp(key, "total_flos") == 0)
        snprintf(out, 64, "%.0fGF", floor(v / 1073741824.0));
    else if (strstr(key, "_runtime") != NULL) {
        tr_log_seconds(v, clock);
        snprintf(out, 64, "%.40s.%02d", clock, (int)((v - floor(v)) * 100));
    } else
        tr_show_float(round(v * 1e4) / 1e4, out);
}

/* Sorted by name, in two columns. */
static void print_table(const char *split, const json_t *results)
{
    size_t n = 0, most = json_object_size(results);
    const char *key, **keys = fr_sys.alloc((most + 1) * sizeof(*keys));
    int width = 0, wide = 0;
    char value[64];
    json_t *v;

    if (keys == NULL)
        return;
    json_object_foreach((json_t *)results, key, v)
    {
        keys[n++] = key;
        show_result(key, json_is_number(v) ? json_number_value(v) : NAN, value);
        width = (int)strlen(key) > width ? (int)strlen(key) : width;
        wide = (int)strlen(value) > wide ? (int)strlen(value) : wide;
    }
    qsort(keys, n, sizeof(*keys), fr_by_text);
    fr_print("***** %s metrics *****\n", split);
    for (size_t i = 0; i < n; i++) {
        v = json_object_get(results, keys[i]);
        show_result(keys[i], json_is_number(v) ? json_number_value(v) : NAN, value);
        fr_print("  %-*s = %*s\n", width, keys[i], wide, value);
    }
    fr_sys.free(keys);
}

enum fr_rc tr_metrics_results(struct tr_metrics *m, const char *split, const json_t *results,
                              struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *all = NULL;
    enum fr_rc rc;

    print_table(split, results);
    snprintf(path, sizeof(path), "%s/%s_results.json", m->args->output_dir, split);
    if ((rc = fr_json_save(results, path, JSON_INDENT(4) | JSON_SORT_KEYS, 0644, err)) != FR_OK)
        return rc;
    snprintf(path, sizeof(path), "%s/all_results.json", m->args->output_dir);
    if (fr_json_load(path, RESULTS_MAX, &all, NULL) != FR_OK || !json_is_object(all)) {
        json_decref(all); /* none, or of no use */
        all = json_object();
    }
    rc = all == NULL || json_object_update(all, (json_t *)results) != 0
             ? fr_fail(err, FR_NOMEM, "no memory for %s", path)
             : fr_json_save(all, path, JSON_INDENT(4) | JSON_SORT_KEYS, 0644, err);
    json_decref(all);
    return rc;
}

/* The results that are printed at the end. */
static json_t *results(const struct tr_metrics *m, const struct tr_progress *p)
{
    double seconds = (double)(fr_sys.mono_ms() - m->start_ms) / 1000;
    double steps = (double)(p->step - m->start_step), per = seconds > 0 ? 1 / seconds : 0;
    double samples = m->args->max_steps > 0
                         ? (double)m->derived->total_batch
                         : (double)m->derived->examples * m->args->num_train_epochs /
                               (double)m->derived->total_steps; /* of a step */
    json_t *r = json_object();

    tr_log_number(r, "epoch", tr_metrics_epoch(m->derived, p));
    tr_log_number(r, "total_flos", tr_log_flos(m, p));
    tr_log_number(r, "train_loss", tr_progress_loss(p));
    tr_log_number(r, "train_runtime", round(seconds * 1e4) / 1e4);
    tr_log_number(r, "train_samples_per_second", round(samples * steps * per * 1e3) / 1e3);
    tr_log_number(r, "train_steps_per_second", round(steps * per * 1e3) / 1e3);
    return r;
}

/* The reference leaves total_flos to the table. */
static void print_closing(const json_t *r)
{
    static const char *const keys[] = {"train_runtime", "train_samples_per_second",
                                       "train_steps_per_second", "train_loss", "epoch"};
    char text[32];

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        double v = json_number_value(json_object_get(r, keys[i]));
        tr_show_float(strcmp(keys[i], "epoch") == 0 ? round(v * 100) / 100 : v, text);
        fr_print("%s'%s': %s", i > 0 ? ", " : "{", keys[i], text);
    }
    fr_print("}\n");
}

enum fr_rc tr_metrics_end(struct tr_metrics *m, struct tr_progress *p, struct fr_err *err)
{
    json_t *r = results(m, p), *last = json_copy(r);
    enum fr_rc rc;

    tr_say("Training completed.");
    print_closing(r);
    tr_log_row(m, p, r, 0);
    tr_log_events(m, r, p->step);
    json_object_set_new(last, "step", json_integer(p->step));
    json_array_append_new(p->history, last);
    rc = tr_metrics_results(m, "train", r, err);
    json_decref(r);
    return rc == FR_OK ? tr_metrics_save_state(m, p, m->args->output_dir, err) : rc;
}
