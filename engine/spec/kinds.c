#include "engine/spec/kinds.h"

#include <string.h>

static const char *const none[] = {NULL};
static const char *const flowtrain[] = {"flowtrain", NULL};
static const char *const reset_choices[] = {"never", "auto", "always", NULL};
static const char *const strictness[] = {"ignore", "warn", "require", NULL};
static const char *const runtimes[] = {"auto", "docker", "podman", "none", NULL};
static const char *const gathered[] = {"adapter", "model", NULL};
static const char *const pulls[] = {"never", "missing", "always", NULL};
static const char *const comm_backends[] = {"auto", "nccl", "tcp", NULL};
static const char *const methods[] = {"POST", "PUT", NULL};
static const char *const plans[] = {"refuse", "show", "off", NULL};
static const char *const stages[] = {"sft", NULL};
static const char *const save_strategies[] = {"no", "steps", "epoch", "best", NULL};
static const char *const eval_strategies[] = {"no", "steps", "epoch", NULL};
static const char *const schedulers[] = {"linear",
                                         "cosine",
                                         "cosine_with_restarts",
                                         "polynomial",
                                         "constant",
                                         "constant_with_warmup",
                                         "inverse_sqrt",
                                         "cosine_with_min_lr",
                                         "warmup_stable_decay",
                                         NULL};
static const char *const probe_outputs[] = {
    "iface",       "bandwidth_gbps", "latency_us", "master_addr",
    "master_port", "nccl_env",       FR_RESULT,    NULL};
static const char *const train_outputs[] = {"output_dir",   "steps",   "final_loss",
                                            "adapter_node", FR_RESULT, NULL};
static const char *const gather_outputs[] = {"adapter_dir", "model_dir", FR_RESULT, NULL};
static const char *const no_outputs[] = {FR_RESULT, NULL};
/* Outputs by which the engine runs later tasks in it: runtime "" means none (they run on the host);
 * flownode and home: the program and the node's home as seen inside. */
static const char *const container_outputs[] = {"runtime", "name",    "flownode", "home",
                                                "digest",  FR_RESULT, NULL};
static const char *const publish_outputs[] = {"version", "path", FR_RESULT, NULL};

#define KEY(name_, type_, help_, ...)                                                              \
    {                                                                                              \
        .name = name_, .type = FR_T_##type_, .help = help_, __VA_ARGS__                            \
    }
#define DRY_RUN KEY("dry_run", BOOL, "Say what would be done, and do nothing.", .preset = "false")

static const struct fr_key cleanup_keys[] = {
    KEY("processes", LIST, "Names of programs whose stale processes are ended."),
    KEY("owner", STRING, "Whose processes: a user's name, or self.", .preset = "self"),
    KEY("port", INT, "End whoever listens on this TCP port."),
    KEY("shm", BOOL, "Remove leftovers of NCCL, torch and flowtrain in /dev/shm.",
        .preset = "false"),
    KEY("tmp", BOOL, "Remove their leftovers in /tmp.", .preset = "false"),
    KEY("nv", BOOL, "Remove caches of the CUDA driver in ~/.nv.", .preset = "false"),
    KEY("globs", LIST, "Further files to remove: patterns below /dev/shm, /tmp or ~/.nv."),
    KEY("containers", LIST,
        "Containers to remove, by name: stopped ones, and those that this run started."),
    KEY("restart_containers", LIST, "Names of containers to restart."),
    KEY("runtime", CHOICE, "Container runtime for these two.", .preset = "auto",
        .choices = runtimes),
    KEY("gpu_reset", CHOICE, "Reset GPUs that no process uses.", .preset = "never",
        .choices = reset_choices),
    KEY("grace", DURATION, "Time between SIGTERM and SIGKILL.", .preset = "5s"),
    DRY_RUN,
    {0},
};

static const struct fr_key preflight_keys[] = {
    KEY("driver", STRING, "Least version of the NVIDIA driver."),
    KEY("cuda", STRING, "Least CUDA version that the driver must offer."),
    KEY("fabric_manager", CHOICE, "Is its version the driver's (error 802)?", .preset = "warn",
        .choices = strictness),
    KEY("gpus", INT, "GPUs that a node must have; default: what the inventory says."),
    KEY("disk", SIZE, "Free space wanted in the work folder.", .preset = "1GiB"),
    KEY("memory", SIZE, "Memory available at least."),
    KEY("nofile", INT, "Open files a process may have, at least.", .preset = "1024"),
    KEY("memlock", SIZE, "Memory a process may lock, at least."),
    KEY("clock_skew", DURATION, "Largest difference of a node's clock to the head's.",
        .preset = "2s"),
    KEY("port", INT, "First port that must be open between all nodes.", .preset = "39500"),
    KEY("ports", INT, "How many ports from there on; 0: none is tried.", .preset = "32"),
    KEY("interface", STRING, "Network interface that the route to the head must take."),
    KEY("linger", CHOICE, "May processes outlive the login session?", .preset = "warn",
        .choices = strictness),
    KEY("commands", LIST, "Programs that must be found in PATH."),
    KEY("same", BOOL, "Fail when nodes differ in driver, CUDA or GPUs.", .preset = "true"),
    DRY_RUN,
    {0},
};

static const struct fr_key container_keys[] = {
    KEY("image", STRING, "Image to run; needed unless the runtime is none."),
    KEY("name", STRING,
        "Name of the container; one for each run is free of others: job-${{ run.id }}.",
        .preset = "flowrun"),
    KEY("runtime", CHOICE, "auto: none on a local node, else what the node has.", .preset = "auto",
        .choices = runtimes),
    KEY("recreate", BOOL,
        "Remove what an earlier run left under that name first; else it is used again.",
        .preset = "true"),
    KEY("pull", CHOICE, "When to pull the image.", .preset = "missing", .choices = pulls),
    KEY("mounts", LIST, "Folders of the node to mount: SOURCE:TARGET or SOURCE:TARGET:ro."),
    KEY("gpus", STRING, "all, none, or a count.", .preset = "all"),
    KEY("network", STRING, "Network mode.", .preset = "host"),
    KEY("ipc", STRING, "IPC mode.", .preset = "host"),
    KEY("shm_size", SIZE, "Size of /dev/shm inside, where ipc is not host."),
    KEY("env", MAP, "Environment of the container."),
    KEY("user", STRING, "User inside."),
    KEY("options", LIST, "Further arguments to the runtime's run command."),
    KEY("setup", LIST, "Commands run inside, in turn, after the start."),
    KEY("checks", LIST, "Commands inside that must exit 0."),
    KEY("write_test", BOOL, "Write and remove a file in each mount that is not ro.",
        .preset = "true"),
    KEY("same_image", BOOL, "Fail when the image's digest differs between nodes.",
        .preset = "true"),
    DRY_RUN,
    {0},
};

static const struct fr_key probe_keys[] = {
    KEY("port", INT, "Rendezvous port; default: the pipeline's, else one that is free."),
    KEY("nproc_per_node", INT, "Ranks a node; default: its GPUs, or 1."),
    KEY("backend", CHOICE, "auto: NCCL with GPUs, TCP without.", .preset = "auto",
        .choices = comm_backends),
    KEY("size", SIZE, "Bytes of the all-reduce that is timed.", .preset = "16MiB"),
    KEY("iterations", INT, "Timed rounds.", .preset = "10"),
    KEY("interface", STRING, "Network interface to use; default: the route to the head."),
    KEY("sweep", SIZE,
        "Time every collective up to this size, and find NCCL's best settings for the exchange of "
        "tokens between nodes: output nccl_env."),
    KEY("min_bandwidth_gbps", FLOAT, "A node below this fails."),
    KEY("max_latency_us", FLOAT, "A node above this fails."),
    KEY("timeout", DURATION, "Time for all to join and finish.", .preset = "2m"),
    DRY_RUN,
    {0},
};

static const struct fr_key train_keys[] = {
    KEY("model", PATH, "Checkpoint folder in Hugging Face layout (--model_name_or_path).",
        .required = true),
    KEY("dataset", STRING, "Names in dataset_info.json, separated by commas.", .required = true),
    KEY("dataset_dir", PATH, "Folder with dataset_info.json.", .required = true),
    KEY("template", STRING, "Chat template.", .preset = "default"),
    KEY("output_dir", NODEPATH, "Where checkpoints, logs and the adapter go.", .preset = "output"),
    KEY("overwrite_output_dir", BOOL, "Start over in a folder that holds a result.",
        .preset = "true"),
    KEY("nproc_per_node", INT, "Ranks a node; default: its GPUs, or 1."),
    KEY("port", INT, "Rendezvous port; default: the pipeline's, else one that is free."),
    KEY("deepspeed", PATH, "DeepSpeed JSON."),
    KEY("plan", CHOICE, "What to do with a run that `flowtrain plan` says does not fit.",
        .preset = "refuse", .choices = plans),
    KEY("network_gbps", FLOAT, "Gbit/s of a node for the plan, as nccl-probe measures them."),
    KEY("nccl_env", STRING,
        "Settings of NCCL, NAME=VALUE with spaces between them, as nccl-probe finds them; what the "
        "environment has already stays."),
    KEY("adapter", PATH, "Adapter to go on from (--adapter_name_or_path)."),
    KEY("stage", CHOICE, "Kind of training.", .preset = "sft", .choices = stages),
    KEY("finetuning_type", STRING, "What is trained.", .preset = "lora"),
    KEY("lora_target", STRING, "Module name suffixes, separated by commas, or all."),
    KEY("lora_rank", INT, "Rank r of the adapter."),
    KEY("lora_alpha", INT, "Scale is alpha/r; default 2r."),
    KEY("lora_dropout", FLOAT, "Dropout before A."),
    KEY("per_device_train_batch_size", INT, "Examples a rank and micro-batch."),
    KEY("gradient_accumulation_steps", INT, "Micro-batches a step."),
    KEY("learning_rate", FLOAT, "Peak learning rate."),
    KEY("lr_scheduler_type", CHOICE, "Course of the learning rate.", .choices = schedulers),
    KEY("adam_beta1", FLOAT, "AdamW beta1."),
    KEY("adam_beta2", FLOAT, "AdamW beta2."),
    KEY("weight_decay", FLOAT, "Decoupled weight decay."),
    KEY("max_grad_norm", FLOAT, "Gradients are clipped to this norm."),
    KEY("warmup_steps", INT, "Steps of linear warm-up."),
    KEY("warmup_ratio", FLOAT, "The same as a share of all steps."),
    KEY("num_train_epochs", FLOAT, "Passes over the data."),
    KEY("max_steps", INT, "Steps; wins over epochs."),
    KEY("max_samples", INT, "Use this many examples only."),
    KEY("cutoff_len", INT, "Tokens an example, at most."),
    KEY("bf16", BOOL, "Compute in bfloat16."),
    KEY("logging_steps", INT, "Steps between log lines."),
    KEY("save_strategy", CHOICE, "When checkpoints are written.", .choices = save_strategies),
    KEY("save_steps", INT, "Steps between checkpoints."),
    KEY("save_total_limit", INT, "Newest checkpoints kept."),
    KEY("save_only_model", BOOL, "Checkpoints hold the adapter alone."),
    KEY("report_to", STRING, "Where metrics go: tensorboard or none."),
    KEY("logging_dir", NODEPATH, "Folder of TensorBoard events."),
    KEY("seed", INT, "Seed of all random numbers."),
    KEY("ddp_timeout", DURATION, "A silent rank ends the run after this.", .preset = "120s"),
    KEY("val_size", FLOAT, "Share, or above 1 number, of records kept for evaluation."),
    KEY("eval_dataset", STRING, "Data sets for evaluation, separated by commas."),
    KEY("do_eval", BOOL, "Evaluate the final adapter."),
    KEY("eval_on_start", BOOL, "Evaluate before the first step."),
    KEY("eval_strategy", CHOICE, "When to evaluate.", .choices = eval_strategies),
    KEY("eval_steps", INT, "Steps between evaluations; default: logging_steps."),
    KEY("per_device_eval_batch_size", INT, "Samples of a batch in evaluation."),
    KEY("compute_accuracy", BOOL, "Share of tokens that are the first choice."),
    KEY("load_best_model_at_end", BOOL, "The result is that of the best evaluation."),
    KEY("metric_for_best_model", STRING, "loss, accuracy, or NAME_loss; default loss."),
    KEY("early_stopping_steps", INT, "Stop after so many evaluations that were not better."),
    KEY("args", LIST, "Further arguments of `flowtrain train`, as they are."),
    DRY_RUN,
    {0},
};

static const struct fr_key gather_keys[] = {
    KEY("from", NODEPATH, "Folder that holds the adapter or the model.", .required = true),
    KEY("what", CHOICE, "What it holds: a model is gathered on the node that has it.",
        .preset = "adapter", .choices = gathered),
    KEY("node", STRING, "Node that has it; default: the task's own."),
    KEY("to", NODEPATH, "Folder to put it in; default: `what`."),
    KEY("files", LIST, "Files to move; default: those of an adapter or of a model."),
    KEY("max_size", SIZE, "Most that is moved from another node, by way of this machine's disk.",
        .preset = "32GiB"),
    KEY("verify", BOOL, "Check names, shapes, finite values and checksums.", .preset = "true"),
    DRY_RUN,
    {0},
};

static const struct fr_key publish_keys[] = {
    KEY("from", NODEPATH, "Folder to publish.", .required = true),
    KEY("to", NODEPATH, "Folder of versions, with the link `latest`.", .required = true),
    KEY("version", STRING, "Name of the version; default: made of time and run."),
    KEY("keep", INT, "Versions kept beside the newest; 0: all.", .preset = "0"),
    DRY_RUN,
    {0},
};

static const struct fr_key janitor_keys[] = {
    KEY("dir", NODEPATH, "Folder kept within limits; default: output_dir of its task."),
    KEY("max_size", SIZE, "The oldest checkpoints beyond this size go."),
    KEY("min_free", SIZE, "They also go while the disk has less free than this."),
    KEY("max_age", DURATION, "Checkpoints older than this go."),
    KEY("keep_checkpoints", INT, "Newest checkpoints that are never removed.", .preset = "2"),
    KEY("interval", DURATION, "Time between looks.", .preset = "30s"),
    DRY_RUN,
    {0},
};

static const struct fr_key notify_keys[] = {
    KEY("url", STRING, "Webhook that gets the message.", .secret_ok = true),
    KEY("command", STRING, "Command for sh -c that gets the message on standard input.",
        .secret_ok = true),
    KEY("method", CHOICE, "HTTP method.", .preset = "POST", .choices = methods),
    KEY("headers", MAP, "HTTP headers.", .secret_ok = true),
    KEY("sign_with", STRING,
        "Secret (whsec_ and base64) that signs it as Standard Webhooks says, by the headers "
        "webhook-id, webhook-timestamp and webhook-signature; two, with a blank between, while one "
        "is replaced.",
        .secret_ok = true),
    KEY("body", STRING, "The message; default: a JSON object that describes the run."),
    KEY("timeout", DURATION, "Time for it.", .preset = "30s"),
    DRY_RUN,
    {0},
};

#define KIND(name_, keys_, outputs_, programs_, help_, ...)                                        \
    {                                                                                              \
        .name = name_, .keys = keys_, .outputs = outputs_, .programs = programs_, .help = help_,   \
        __VA_ARGS__                                                                                \
    }

const struct fr_kind fr_kinds[] = {
    KIND("cleanup", cleanup_keys, no_outputs, none,
         "Ends stale processes and removes leftovers of earlier runs, only those named."),
    KIND("preflight", preflight_keys, no_outputs, none,
         "Compares drivers, GPUs, disks, limits, clocks and ports of all nodes.", .gang = true),
    KIND("container", container_keys, container_outputs, none,
         "Starts the container in which later tasks run (`in:`).",
         .gang = true), /* its members compare the digests of their images */
    KIND("nccl-probe", probe_keys, probe_outputs, flowtrain,
         "Joins all nodes, checks and times an all-reduce.", .gang = true),
    KIND("train", train_keys, train_outputs, flowtrain,
         "Trains with flowtrain, one launcher a node; the head is rank 0.",
         .metrics = "trainer_log.jsonl", .metrics_in = "output_dir", .gang = true),
    KIND("gather-adapters", gather_keys, gather_outputs, flowtrain,
         "Brings the trained adapter, or model, to a folder and checks it."),
    KIND("publish", publish_keys, publish_outputs, none,
         "Puts a folder under a version and switches `latest` to it in one step."),
    KIND("janitor", janitor_keys, none, none, "Keeps a folder within limits while its task runs.",
         .sidecar = true),
    KIND("notify", notify_keys, none, none, "Sends a message to a webhook or a command.",
         .hook_only = true, .control = true),
    {0},
};

const struct fr_kind *fr_kind_find(const char *name)
{
    for (const struct fr_kind *k = fr_kinds; k->name != NULL; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

const struct fr_key *fr_kind_key(const struct fr_kind *kind, const char *name)
{
    for (const struct fr_key *k = kind->keys; k->name != NULL; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

const char *fr_type_name(enum fr_type type)
{
#define TEXT(type, word, text) text,
    static const char *const names[] = {FR_TYPES(TEXT)};
#undef TEXT

    return names[type];
}
