/*
 * train: one `flowtrain launch` a node; the head is rank 0. Its output goes to our log and to
 * node<RANK>.log in the output folder. From the second attempt on it resumes.
 */
#include "tasks/launch.h"
#include "tasks/task.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Inputs that are flags of `flowtrain train`; flag NULL: of the same name. A relative path is below
 * the work folder. */
static const struct {
    const char *key, *flag;
    bool path;
} direct[] = {
    {"stage", NULL, false},
    {"model", "model_name_or_path", true},
    {"adapter", "adapter_name_or_path", true},
    {"dataset", NULL, false},
    {"dataset_dir", NULL, true},
    {"template", NULL, false},
    {"finetuning_type", NULL, false},
    {"lora_target", NULL, false},
    {"lora_rank", NULL, false},
    {"lora_alpha", NULL, false},
    {"lora_dropout", NULL, false},
    {"overwrite_output_dir", NULL, false},
    {"per_device_train_batch_size", NULL, false},
    {"gradient_accumulation_steps", NULL, false},
    {"learning_rate", NULL, false},
    {"lr_scheduler_type", NULL, false},
    {"adam_beta1", NULL, false},
    {"adam_beta2", NULL, false},
    {"weight_decay", NULL, false},
    {"max_grad_norm", NULL, false},
    {"warmup_steps", NULL, false},
    {"warmup_ratio", NULL, false},
    {"num_train_epochs", NULL, false},
    {"max_steps", NULL, false},
    {"max_samples", NULL, false},
    {"cutoff_len", NULL, false},
    {"bf16", NULL, false},
    {"deepspeed", NULL, true},
    {"logging_steps", NULL, false},
    {"save_strategy", NULL, false},
    {"save_steps", NULL, false},
    {"save_total_limit", NULL, false},
    {"save_only_model", NULL, false},
    {"report_to", NULL, false},
    {"seed", NULL, false},
    {"val_size", NULL, false},
    {"eval_dataset", NULL, false},
    {"do_eval", NULL, false},
    {"eval_on_start", NULL, false},
    {"eval_strategy", NULL, false},
    {"eval_steps", NULL, false},
    {"per_device_eval_batch_size", NULL, false},
    {"compute_accuracy", NULL, false},
    {"load_best_model_at_end", NULL, false},
    {"metric_for_best_model", NULL, false},
    {"early_stopping_steps", NULL, false},
};

/* The shortest decimal that reads back as x. */
static const char *show_real(struct fr_job *job, double x)
{
    char text[40];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    return fr_arena_dup(&job->arena, text);
}

static void add_flag(struct fr_job *job, struct fr_launch *l, const char *name, const char *value)
{
    fr_launch_add(job, l, fr_arena_fmt(&job->arena, "--%s", name));
    fr_launch_add(job, l, value);
}

static enum fr_rc add_direct(struct fr_job *job, struct fr_launch *l, struct fr_err *err)
{
    for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++) {
        const char *key = direct[i].key, *flag = direct[i].flag != NULL ? direct[i].flag : key;
        json_t *v = json_object_get(job->with, key);

        if (v == NULL || json_is_null(v))
            continue;
        if (json_is_string(v))
            add_flag(job, l, flag, direct[i].path ? fr_input_path(job, key) : json_string_value(v));
        else if (json_is_boolean(v))
            add_flag(job, l, flag, json_is_true(v) ? "true" : "false");
        else if (json_is_integer(v))
            add_flag(job, l, flag,
                     fr_arena_fmt(&job->arena, "%lld", (long long)json_integer_value(v)));
        else if (json_is_real(v))
            add_flag(job, l, flag, show_real(job, json_real_value(v)));
        else
            return fr_fail(err, FR_USAGE, "input '%s' is neither text, number, true nor false",
                           key);
    }
    return FR_OK;
}

static enum fr_rc add_args(struct fr_job *job, struct fr_launch *l, const char *output_dir,
                           bool resume, struct fr_err *err)
{
    const char *events = fr_input_path(job, "logging_dir");
    int64_t silence_ms = fr_input_int(job, "ddp_timeout", 120000);
    size_t n;
    const char **more = fr_input_list(job, "args", &n);
    enum fr_rc rc;

    fr_launch_add(job, l, "train");
    add_flag(job, l, "do_train", "true");
    if ((rc = add_direct(job, l, err)) != FR_OK)
        return rc;
    add_flag(job, l, "output_dir", output_dir);
    if (events != NULL)
        add_flag(job, l, "logging_dir", events);
    add_flag(job, l, "ddp_timeout",
             fr_arena_fmt(&job->arena, "%lld", (long long)((silence_ms + 999) / 1000)));
    for (size_t i = 0; i < n; i++)
        fr_launch_add(job, l, more[i]);
    if (resume)
        add_flag(job, l, "resume_from_checkpoint", "last");
    return fr_inputs_ok(job, err);
}

/* Steps and the newest logged loss, from the last lines of trainer_log.jsonl. */
static enum fr_rc read_results(struct fr_job *job, const char *output_dir, struct fr_err *err)
{
    const char *path = fr_arena_fmt(&job->arena, "%s/trainer_log.jsonl", output_dir);
    struct fr_buf text = {0};
    int64_t steps = -1;
    double loss = 0;
    bool has_loss = false;
    enum fr_rc rc = fr_file_read(path, 256 << 20, &text, err);

    for (char *p = text.p; rc == FR_OK && p != NULL && *p != '\0';) {
        size_t n = strcspn(p, "\n");
        json_t *line = json_loadb(p, n, 0, NULL);
        json_t *step = json_object_get(line, "current_steps"), *l = json_object_get(line, "loss");
        if (json_is_integer(step))
            steps = json_integer_value(step);
        if (json_is_number(l)) {
            loss = json_number_value(l);
            has_loss = true;
        }
        json_decref(line);
        p += p[n] == '\n' ? n + 1 : n;
    }
    fr_buf_finish(&text);
    if (rc != FR_OK)
        return fr_while(err, "training ended well, but its log cannot be read");
    if (steps < 0)
        return fr_fail(err, FR_CORRUPT, "training ended well, but %s names no step", path);
    json_object_set_new(job->did, "steps", json_integer(steps));
    rc = fr_output(job, err, "steps", "%lld", (long long)steps);
    if (rc == FR_OK && has_loss) {
        json_object_set_new(job->did, "final_loss", json_real(loss));
        rc = fr_output(job, err, "final_loss", "%s", show_real(job, loss));
    }
    return rc;
}

static enum fr_rc run(struct fr_job *job, struct fr_launch *l, const char *output_dir,
                      struct fr_err *err)
{
    bool first = fr_env_int("FLOWRUN_ATTEMPT_NO", 1) <= 1 && l->generation <= 1;
    const char *path =
        fr_arena_fmt(&job->arena, "%s/node%lld.log", output_dir, (long long)l->node_rank);
    enum fr_rc rc = fr_mkdirs(output_dir, 0755, err);

    if (rc != FR_OK)
        return rc;
    l->log_fd = fr_sys.open(path, O_WRONLY | O_CREAT | O_APPEND | (first ? O_TRUNC : 0), 0644);
    if (l->log_fd < 0)
        return fr_fail_errno(err, errno, "cannot write %s", path);
    rc = fr_launch_run(l, err);
    fr_sys.close(l->log_fd);
    if (rc != FR_OK)
        return fr_while(err, "node rank %lld (log in %s)", (long long)l->node_rank, path);
    if (l->node_rank == 0)
        rc = read_results(job, output_dir, err);
    if (rc == FR_OK && l->node_rank == 0)
        rc = fr_output(job, err, "adapter_node", "%s", fr_env("FLOWRUN_NODE", ""));
    return rc;
}

static enum fr_rc train(struct fr_job *job, struct fr_err *err)
{
    struct fr_launch l = {.n = 0};
    const char *output_dir = fr_input_path(job, "output_dir");
    bool resume = fr_env_int("FLOWRUN_ATTEMPT_NO", 1) > 1;
    enum fr_rc rc = fr_launch_begin(job, &l, err);

    job->no_summary = true;
    if (rc == FR_OK && output_dir == NULL)
        rc = fr_fail(err, FR_USAGE, "input 'output_dir' is missing");
    for (size_t i = 0; rc == FR_OK && i < 3; i++) {
        static const char *const needed[] = {"model", "dataset", "dataset_dir"};
        if (fr_input_text(job, needed[i]) == NULL)
            rc = fr_fail(err, FR_USAGE, "input '%s' is missing", needed[i]);
    }
    resume = resume || l.generation > 1;
    if (rc == FR_OK)
        rc = add_args(job, &l, output_dir, resume, err);
    if (rc != FR_OK)
        return rc;
    json_object_set_new(job->did, "node_rank", json_integer(l.node_rank));
    json_object_set_new(job->did, "nodes", json_integer(l.nnodes));
    json_object_set_new(job->did, "ranks_here", json_integer(l.nproc));
    json_object_set_new(job->did, "resumed", json_boolean(resume));
    fr_launch_show(job, &l);
    rc = fr_output(job, err, "output_dir", "%s", output_dir);
    if (rc == FR_OK && !job->dry_run)
        rc = run(job, &l, output_dir, err);
    fr_buf_finish(&l.out);
    return rc;
}

int fr_task_train(int argc, char **argv)
{
    return fr_job_main("train", argc, argv, train);
}
