/*
 * train: one `flowtrain launch` a node; the head is rank 0. Its output goes to our log and to
 * node<RANK>.log in the output folder. A further attempt goes on from the newest resume state of
 * its own run (--resume_run). Before that, each node checks by `flowtrain plan` whether the run
 * fits.
 */
#include "tasks/gpu.h"
#include "tasks/launch.h"
#include "tasks/nodefacts.h"
#include "tasks/task.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_MS = 60000 };

/* Inputs that are flags of `flowtrain train`. */
/* clang-format off */
static const char *const direct[] = {
    "stage", "model", "adapter", "dataset", "dataset_dir", "template", "finetuning_type",
    "lora_target", "lora_rank", "lora_alpha", "lora_dropout", "overwrite_output_dir",
    "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate",
    "lr_scheduler_type", "adam_beta1", "adam_beta2", "weight_decay", "max_grad_norm",
    "warmup_steps", "warmup_ratio", "num_train_epochs", "max_steps", "max_samples", "cutoff_len",
    "bf16", "deepspeed", "logging_steps", "save_strategy", "save_steps", "save_total_limit",
    "save_only_model", "report_to", "seed", "val_size", "eval_dataset", "do_eval",
    "eval_on_start", "eval_strategy", "eval_steps", "per_device_eval_batch_size",
    "compute_accuracy", "load_best_model_at_end", "metric_for_best_model",
    "early_stopping_steps",
};
/* clang-format on */

/* Inputs of these that are paths, relative to the work folder; flag NULL: the same name. */
static const struct {
    const char *key, *flag;
} paths[] = {{"model", "model_name_or_path"},
             {"adapter", "adapter_name_or_path"},
             {"dataset_dir", NULL},
             {"deepspeed", NULL}};

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

/* An input as the text of a flag. */
static const char *flag_text(struct fr_job *job, const char *key, const json_t *v, bool path)
{
    if (json_is_string(v))
        return path ? fr_input_path(job, key) : json_string_value(v);
    if (json_is_boolean(v))
        return json_is_true(v) ? "true" : "false";
    if (json_is_integer(v))
        return fr_arena_fmt(&job->arena, "%lld", (long long)json_integer_value(v));
    return show_real(job, json_real_value(v));
}

static enum fr_rc add_direct(struct fr_job *job, struct fr_launch *l, struct fr_err *err)
{
    for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++) {
        const char *key = direct[i], *flag = key, *text;
        const json_t *v = json_object_get(job->with, key);
        bool path = false;

        if (v == NULL || json_is_null(v))
            continue;
        for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++)
            if (strcmp(paths[k].key, key) == 0) {
                path = true;
                flag = paths[k].flag != NULL ? paths[k].flag : key;
            }
        if (json_is_array(v) || json_is_object(v))
            return fr_fail(err, FR_USAGE, "input '%s' is neither text, number, true nor false",
                           key);
        if ((text = flag_text(job, key, v, path)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for input '%s'", key);
        fr_launch_flag(job, l, flag, "%s", text);
    }
    return FR_OK;
}

static enum fr_rc add_args(struct fr_job *job, struct fr_launch *l, const char *output_dir,
                           struct fr_err *err)
{
    const char *events = fr_input_path(job, "logging_dir");
    int64_t silence_ms = fr_input_int(job, "ddp_timeout", 120000);
    size_t n;
    const char **more = fr_input_list(job, "args", &n);
    enum fr_rc rc;

    fr_launch_add(job, l, "train");
    fr_launch_flag(job, l, "do_train", "true");
    if ((rc = add_direct(job, l, err)) != FR_OK)
        return rc;
    fr_launch_flag(job, l, "output_dir", "%s", output_dir);
    if (events != NULL)
        fr_launch_flag(job, l, "logging_dir", "%s", events);
    fr_launch_flag(job, l, "ddp_timeout", "%lld", (long long)((silence_ms + 999) / 1000));
    for (size_t i = 0; i < n; i++)
        fr_launch_add(job, l, more[i]);
    fr_launch_flag(job, l, "resume_run", "%s", fr_env("FLOWRUN_RUN", "none"));
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

/* NCCL's settings as nccl-probe found them: "NAME=VALUE NAME=VALUE". What is set already stays. */
static enum fr_rc set_nccl(struct fr_job *job, struct fr_err *err)
{
    const char *at = fr_input_text(job, "nccl_env");

    for (at = at != NULL ? at : ""; *at != '\0'; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        const char *name = fr_arena_text(&job->arena, at, strcspn(at, " =")), *is;
        const char *value = fr_arena_text(&job->arena, at, n);

        if (name == NULL || value == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for input 'nccl_env'");
        if (!fr_has_prefix(name, "NCCL_") || strlen(name) + 1 >= n)
            return fr_fail(err, FR_USAGE,
                           "input 'nccl_env': '%s' is no setting of NCCL; expected NCCL_NAME=VALUE",
                           value);
        at += n;
        is = getenv(name);
        fr_note(job, "nccl_env", "%s%s%s", value, is != NULL ? " was found, but it is set to " : "",
                is != NULL ? is : "");
        if (setenv(name, value + strlen(name) + 1, 0) != 0)
            return fr_fail(err, FR_NOMEM, "no memory for the environment");
    }
    return fr_inputs_ok(job, err);
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

/* ---- the plan ---- */

/* Ranks that share this machine's memory and processors. */
static int64_t ranks_here(const struct fr_launch *l)
{
    bool local = strcmp(fr_env("FLOWRUN_EXECUTOR", ""), "local") == 0;

    return l->nproc * (local ? l->nnodes : 1);
}

/* The GPU whose figures are known, by the name that the driver has for it. */
static const char *gpu_kind(const struct fr_gpu *gpu)
{
    if (strstr(gpu->name, "H200") != NULL)
        return "h200-141g";
    if (strstr(gpu->name, "H100") != NULL)
        return "h100-80g";
    if (strstr(gpu->name, "A6000") != NULL)
        return "a6000-48g";
    return gpu->memory_mib < 60 * 1024 ? "a100-40g" : "a100-80g";
}

static bool asks_for_cpu(const struct fr_launch *l)
{
    for (size_t i = 0; i + 1 < l->n; i++)
        if (strcmp(l->argv[i], "--device") == 0 && strcmp(l->argv[i + 1], "cpu") == 0)
            return true;
    return false;
}

/* `flowtrain plan --check` for the ranks of this gang, as many bytes each as this node has. */
static enum fr_rc plan_command(struct fr_job *job, const struct fr_launch *l, struct fr_launch *out,
                               struct fr_err *err)
{
    struct fr_gpus gpus = {.n = 0};
    struct fr_err none = {0};
    double network = fr_input_real(job, "network_gbps", 0);
    bool gpu = !asks_for_cpu(l) && fr_gpus_read(job, &gpus, &none) == FR_OK && gpus.n > 0;
    double bytes = gpu ? (double)gpus.v[0].memory_mib * 1024 * 1024
                       : (double)fr_available_memory() / (double)ranks_here(l);
    size_t from = 0;

    *out = (struct fr_launch){.program = l->program};
    fr_launch_add(job, out, l->program);
    fr_launch_add(job, out, "plan");
    fr_launch_add(job, out, "--check");
    fr_launch_flag(job, out, "nodes", "%lld", (long long)l->nnodes);
    fr_launch_flag(job, out, "gpus", "%lld", (long long)l->nproc);
    fr_launch_flag(job, out, "gpu", "%s", gpu ? gpu_kind(&gpus.v[0]) : "cpu");
    fr_launch_flag(job, out, "gpu_memory", "%.6f", bytes * 1e-9);
    if (network > 0)
        fr_launch_flag(job, out, "network", "%.6f", network / 8);
    while (from < l->n && l->argv[from] != NULL && strcmp(l->argv[from], "--") != 0)
        from++;
    fr_launch_add(job, out, "--");
    for (size_t i = from + 2; i < l->n; i++) /* after "-- train" */
        fr_launch_add(job, out, l->argv[i]);
    return fr_inputs_ok(job, err);
}

/* Refuses a run that does not fit. The head prints the result. */
static enum fr_rc make_plan(struct fr_job *job, const struct fr_launch *l, struct fr_err *err)
{
    const char *wanted = fr_input_text(job, "plan");
    bool refuse = wanted == NULL || strcmp(wanted, "refuse") == 0;
    struct fr_launch words;
    struct fr_command c = {.timeout_ms = PLAN_MS};
    enum fr_rc rc;

    if (!refuse && strcmp(wanted, "off") == 0)
        return FR_OK;
    if ((rc = plan_command(job, l, &words, err)) != FR_OK)
        return rc;
    c.argv = words.argv;
    if (job->dry_run) {
        fr_launch_show(job, &words);
        return FR_OK;
    }
    rc = fr_command_run(&c, err);
    if (rc == FR_OK && c.code == 0 && !c.signaled && l->node_rank == 0)
        fr_print("plan: %s", c.out.p != NULL ? c.out.p : "");
    if (rc == FR_OK && (c.code != 0 || c.signaled)) {
        struct fr_str why = fr_last_line(&c.err);

        if (refuse)
            rc = fr_fail(err, c.code == 2 ? FR_USAGE : FR_PEER, "%.*s",
                         (int)(why.n < 400 ? why.n : 400), why.p);
        else if (l->node_rank == 0)
            fr_print("plan: %.*s\n", (int)why.n, why.p);
    }
    fr_command_finish(&c);
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
        rc = add_args(job, &l, output_dir, err);
    if (rc == FR_OK)
        rc = set_nccl(job, err);
    if (rc != FR_OK)
        return rc;
    json_object_set_new(job->did, "node_rank", json_integer(l.node_rank));
    json_object_set_new(job->did, "nodes", json_integer(l.nnodes));
    json_object_set_new(job->did, "ranks_here", json_integer(l.nproc));
    json_object_set_new(job->did, "resumed", json_boolean(resume));
    if ((rc = make_plan(job, &l, err)) != FR_OK)
        return rc;
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
