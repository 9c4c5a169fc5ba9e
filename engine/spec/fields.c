#include "engine/spec/fields.h"

#include <string.h>

static const char *const become_choices[] = {"none", "sudo", NULL};
static const char *const full_choices[] = {"drop_middle", "stop", NULL};
static const char *const run_if_choices[] = {"success", "failure", "any", "always", NULL};
static const char *const executor_choices[] = {"local", "ssh", NULL};
static const char *const transport_choices[] = {"auto", "libssh2", "openssh", NULL};

#define IN_TASK ALLOW_RUN | ALLOW_OUTPUTS

/* ", not oom": of each cause that may be listed and is not by default. */
#define UNLISTED(name, word, end, phase, retryable, preset, ...)                                   \
    UNLISTED_##retryable##_##preset(word)
#define UNLISTED_true_false(word) ", not " word
#define UNLISTED_true_true(word)
#define UNLISTED_false_false(word)
#define UNLISTED_CAUSES FR_CAUSES(UNLISTED)

static const struct field retry_fields[] = {
    {"times", SHAPE_INT, AT(fr_retry, times), .max = 1000, .preset = "0",
     .help = "Further attempts after the first."},
    {"delay", SHAPE_DURATION, AT(fr_retry, delay_ms), .preset = "10s",
     .help = "Time before the first retry."},
    {"max_delay", SHAPE_DURATION, AT(fr_retry, max_delay_ms), .preset = "10m",
     .help = "The delay never grows beyond this."},
    {"backoff", SHAPE_FLOAT, AT(fr_retry, backoff), .min = 1, .max = 100, .preset = "2",
     .help = "Factor by which the delay grows with each retry."},
    {"jitter", SHAPE_FLOAT, AT(fr_retry, jitter), .max = 1, .preset = "0.1",
     .help = "Share of the delay that is random."},
    {"on", SHAPE_RETRY_ON,
     .help = "Causes and exit codes after which it is tried again ('flowrun help causes' says what "
             "each means); default: all" UNLISTED_CAUSES ". lost means that its supervisor was "
             "killed and nobody knows how the command ended: it may have done its work already. "
             "Where a second run does harm, list the causes without lost."},
    {0},
};
static const struct object object_retry = {"retry", "retry", retry_fields, "times"};

static const char *const from_choices[] = {"failed", "start", NULL};

static const struct field rerun_fields[] = {
    {"times", SHAPE_INT, AT(fr_rerun, when.times), .min = 1, .max = 1000, .required = true,
     .help = "How often; a retry by hand begins to count anew."},
    {"after", SHAPE_DURATION, AT(fr_rerun, after_ms), .preset = "10m",
     .help = "Time from the end of the run that failed."},
    {"from", SHAPE_CHOICE, AT(fr_rerun, from), .choices = from_choices, .preset = "failed",
     .help = "failed: what failed, and what waits for it, runs again in the same run, as with "
             "'flowrun retry'. start: all of it, as a new run, as with 'flowrun rerun'."},
    {"on", SHAPE_RETRY_ON,
     .help = "Only when each failure had one of these causes or exit codes (see retry: on:); "
             "timeout is also that of the run. Default: all" UNLISTED_CAUSES "."},
    {0},
};
static const struct object object_rerun = {"rerun", "rerun", rerun_fields, "times"};

static const struct field log_fields[] = {
    {"max", SHAPE_SIZE, AT(fr_log_limit, max_bytes), .preset = "1GiB",
     .help = "Output of an attempt that is kept. 0: all of it."},
    {"on_full", SHAPE_CHOICE, AT(fr_log_limit, on_full), .choices = full_choices,
     .preset = "drop_middle",
     .help = "What happens to output beyond that: the last 256 KiB of it are kept, too, or "
             "none. A line in the log says how much was dropped; the task goes on."},
    {0},
};
static const struct object object_log = {"log", "log", log_fields, "max"};

static const struct field keep_fields[] = {
    {"days", SHAPE_INT, AT(fr_keep, days), .max = 36500, .preset = "14",
     .help = "Days that logs and folders of ended attempts, and shipped files that nobody used, "
             "stay on a node; 0: they go at once."},
    {"bytes", SHAPE_SIZE, AT(fr_keep, bytes), .preset = "20GiB",
     .help = "Their size in all, beyond which the oldest go; 0: no limit."},
    {0},
};
static const struct object object_keep = {"keep", "keep", keep_fields, "days"};

static const struct field connect_fields[] = {
    {"timeout", SHAPE_DURATION, AT(fr_connect, timeout_ms), .min = 1000, .preset = "60s",
     .help = "Time that one try may take: connection (20 s at most), login, and flownode's answer. "
             "Copying flownode to the node does not count."},
    {"retry_for", SHAPE_LIMIT, AT(fr_connect, retry_for_ms), .preset = "2m",
     .help = "A task fails with the cause unreachable when its node is not there for this long; "
             "never: it waits for ever."},
    {0},
};
static const struct object object_connect = {"connect", "connect", connect_fields, NULL};

static const struct field file_fields[] = {
    {"exclude", SHAPE_STRINGS, ATN(file_entry, exclude),
     .help =
         "Patterns as in .gitignore of what is not shipped of a folder: name, *.o, /top, a/**/b, "
         "folder/, !kept."},
    {"path", SHAPE_TEXT, AT(file_entry, path), .allow = IN_TASK, .required = true,
     .help =
         "A path on control, or node:/path."}, /* the last, as its place is looked at behind it */
    {0},
};
const struct object object_file = {"a file", "file", file_fields, "path"};

#define ENV_FILE_HELP                                                                              \
    "File of variables on this machine, or a list of them: NAME=VALUE, a line each, the value as " \
    "it stands; empty lines and those that begin with # are skipped. Read at submit and stored "   \
    "with the run, so not for secrets. env: comes before it."

/* Keys of everything that is done: tasks, hooks, sidecars. The action is their first member. */
#define ACTION_FIELDS                                                                              \
    {"uses", SHAPE_USES, .help = "Name of a built-in task."},                                      \
        {"run", SHAPE_SCRIPT,                                                                      \
         .help = "Shell script; values reach it through env:, never through "                      \
                 "${{ }}."},                                                                       \
        {"argv", SHAPE_TEXTS, ATN(fr_action, argv), .allow = IN_TASK,                              \
         .help = "Program and arguments, started without a shell."},                               \
        {"shell", SHAPE_STRING, AT(fr_action, shell), .preset = "sh",                              \
         .help = "Shell of run: sh, bash or a path."},                                             \
        {"with", SHAPE_WITH, .help = "Inputs of the built-in task."},                              \
        {"env_file", SHAPE_ENV_FILE, ATN(fr_action, env), .help = ENV_FILE_HELP},                  \
        {"env", SHAPE_ENV, ATN(fr_action, env), .allow = IN_TASK | ALLOW_SECRETS,                  \
         .help = "Environment variables; the only way for values into scripts."},                  \
        {"login", SHAPE_BOOL, AT(fr_action, login), .preset = "false",                             \
         .help = "Run it in the environment that the startup files of its user's login shell "     \
                 "make on the node (modules, conda); env: comes before that. Of run: and argv:."}, \
        {"cwd", SHAPE_TEXT, AT(fr_action, cwd), .allow = IN_TASK,                                  \
         .help = "Folder on the node to run in, below the attempt's own, which is the default."},  \
    {                                                                                              \
        "needs_program", SHAPE_PROGRAMS,                                                           \
            .help = "Programs of ours that are shipped to the node first: flowtrain."              \
    }

/* Keys that `defaults` has too. */
#define LIMIT_FIELDS                                                                               \
    {"retry", SHAPE_OBJECT, AT(fr_task, retry), .object = &object_retry,                           \
     .help = "When and how often it is tried again. A command runs at least once. It runs twice "  \
             "when its supervisor is killed between its end and the record of it; on: without "    \
             "lost excludes that."},                                                               \
        {"timeout", SHAPE_LIMIT, AT(fr_task, timeout_ms), .preset = "never",                       \
         .help = "An attempt that runs longer is stopped."},                                       \
        {"lost_after", SHAPE_LIMIT, AT(fr_task, lost_after_ms), .preset = "never",                 \
         .help =                                                                                   \
             "A node without contact stops the attempt itself after this; then it is replaced."},  \
        {"grace", SHAPE_DURATION, AT(fr_task, grace_ms), .preset = "10s",                          \
         .help = "Time between SIGTERM and SIGKILL."},                                             \
        {"notice", SHAPE_LIMIT, AT(fr_task, notice_ms), .preset = "never",                         \
         .help = "In an allocation of Slurm: SIGTERM so long before its limit, so that it can "    \
                 "save what it has; its cause is time_limit then."},                               \
        {"log", SHAPE_OBJECT, AT(fr_task, log), .object = &object_log,                             \
         .help = "Limits of its output."},                                                         \
    {                                                                                              \
        "become", SHAPE_CHOICE, AT(fr_task, become),                                               \
            .choices = become_choices, .first = FR_BECOME_NONE,                                    \
            .help = "Run it through sudo -n; default: as its node says."                           \
    }

#define RULE_FIELDS                                                                                \
    {"description", SHAPE_STRING, AT(fr_task, help), .help = "For readers."},                      \
        {"on", SHAPE_ON,                                                                           \
         .help = "Where: all, head, control, a node, a label, or a list of nodes and labels."},    \
        {"best_effort", SHAPE_BOOL, AT(fr_task, best_effort), .preset = "false",                   \
         .help = "Its failure fails neither the run nor what needs it."},                          \
        {"when", SHAPE_WHEN, .allow = IN_TASK | ALLOW_STATE,                                       \
         .help = "One expression, with or without ${{ }} around it; false: the instance is "       \
                 "skipped."},                                                                      \
        {"slots",     SHAPE_INT,     AT(fr_task, slots),                                           \
         .max = 4096, .preset = "1", .help = "How many of its node's slots it takes."},            \
        {"files",                                                                                  \
         SHAPE_FILES,                                                                              \
         ATN(fr_task, files),                                                                      \
         .allow = IN_TASK,                                                                         \
         .object = &object_file,                                                                   \
         .help =                                                                                   \
             "Name in the attempt's folder: a path on control, or node:/path; or a map of path "   \
             "and exclude. What .flowrunignore in a folder names is not shipped either."},         \
    {                                                                                              \
        "sidecars", SHAPE_SIDECARS, ATN(fr_task, sidecars),                                        \
            .object = &object_sidecar,                                                             \
            .help = "Started with it and stopped with it, on the same node."                       \
    }

static const struct field task_fields[] = {
    {"extends", SHAPE_EXTENDS,
     .help =
         "Templates, one or a list, whose keys it has too. Its own go over them, and later ones "
         "over earlier ones: maps are merged by key, null removes a key, anything else "
         "replaces."},
    {"matrix", SHAPE_MATRIX,
     .help =
         "Names and lists of values: the task runs once for each row of their product, the last "
         "name changing fastest, with the row's values as ${{ matrix.NAME }}. exclude: rows "
         "that agree with one of these maps are left out; include: adds names to the rows that "
         "agree with a map in all names of the product, else it is a row of its own."},
    {"foreach", SHAPE_FOREACH, .allow = ALLOW_OUTPUTS,
     .help =
         "A list, or an expression that gives one as JSON once the tasks that this one needs have "
         "ended, such as ${{ tasks.NAME.outputs.KEY }}: the task runs once for each element, "
         "${{ item }}, or ${{ item.NAME }} where it is a map; ${{ index }} counts from 0. A map is "
         "the list of its {key, value}. Not beside matrix:."},
    ACTION_FIELDS,
    LIMIT_FIELDS,
    {"needs", SHAPE_NEEDS,
     .help = "Tasks that must have ended before. {task: NAME, item: same}: of a task with the "
             "same matrix each row waits for the row with its own key alone. {task: NAME, states: "
             "[STATE]}: it must have ended in one of these states, whatever run_if: says."},
    {"run_if", SHAPE_CHOICE, AT(fr_task, run_if), .choices = run_if_choices, .preset = "success",
     .help = "What of its needs must be so once all have ended. success: none failed, but those "
             "that are best_effort; failure: an instance failed; any: an instance succeeded; "
             "always: nothing."},
    {"skip_with", SHAPE_SKIP_WITH,
     .help = "Tasks among its needs: when one of them was skipped, so is the task."},
    RULE_FIELDS,
    {"gang", SHAPE_BOOL, AT(fr_task, gang),
     .help = "Its instances start together or not at all, and end together."},
    {"max_parallel", SHAPE_INT, AT(fr_task, max_parallel), .min = 1, .max = 100000,
     .help = "Instances of it that are on their way at once, also between two tries; a gang counts "
             "as one. Default: as many as max_parallel of the pipeline and the slots of nodes "
             "allow."},
    {"fail_fast", SHAPE_BOOL, AT(fr_task, fail_fast), .preset = "false",
     .help = "Once an instance of it has failed, its retries used up, those that wait are "
             "cancelled and those that run are stopped. For a task with matrix: or foreach:, or on "
             "several "
             "nodes."},
    {"metrics", SHAPE_METRICS, AT(fr_task, metrics), .allow = IN_TASK,
     .help = "File of JSON lines that the task writes, with a number `step` (or `current_steps`) "
             "and other numbers: its curves. A relative path is below its working folder; "
             "$FLOWRUN_WORK/FILE and $FLOWRUN_DIR/FILE are below these. train has its own."},
    {"outputs", SHAPE_NAMES, ATN(fr_task, outputs),
     .help = "Names that the task writes to $FLOWRUN_OUTPUT as NAME=value."},
    {"in", SHAPE_IN, .help = "Task of kind container in which it runs."},
    {0},
};
const struct object object_task = {"a task", "task", task_fields, "run"};
const struct object object_template = {"a template", "template", task_fields, NULL};

static const struct field hook_fields[] = {
    {"name", SHAPE_STRING, AT(fr_action, name), .help = "Shown in tables and logs."},
    ACTION_FIELDS,
    LIMIT_FIELDS,
    RULE_FIELDS,
    {0},
};
const struct object object_hook = {"a hook", "hook", hook_fields, "run"};

static const struct field sidecar_fields[] = {
    {"name", SHAPE_STRING, AT(fr_action, name), .help = "Shown in tables and logs."},
    ACTION_FIELDS,
    {0},
};
const struct object object_sidecar = {"a sidecar", "sidecar", sidecar_fields, "run"};

static const struct field defaults_fields[] = {
    LIMIT_FIELDS,
    {"shell", SHAPE_STRING, AT(fr_action, shell), .preset = "sh", .help = "Shell of run."},
    {0},
};
const struct object object_defaults = {"defaults", "defaults", defaults_fields, NULL};

/* Keys that the places of an allocation have, too. */
#define PLACE_FIELDS                                                                               \
    {"slots",     SHAPE_INT,     AT(fr_node, slots),          .min = 1,                            \
     .max = 4096, .preset = "8", .help = "Instances at once."},                                    \
        {"labels", SHAPE_NAMES, ATN(fr_node, labels), .help = "Labels, for on:."},                 \
        {"become",                                                                                 \
         SHAPE_CHOICE,                                                                             \
         AT(fr_node, become),                                                                      \
         .choices = become_choices,                                                                \
         .first = FR_BECOME_NONE,                                                                  \
         .preset = "none",                                                                         \
         .help = "Run its tasks through sudo -n."},                                                \
        {"keep", SHAPE_OBJECT, AT(fr_node, keep), .object = &object_keep,                          \
         .help = "How long ended attempts stay on it."},                                           \
    {                                                                                              \
        "env", SHAPE_ENV, ATN(fr_node, env), .help = "Environment of all tasks on it."             \
    }

/* How a node is reached over SSH. */
#define SSH_FIELDS                                                                                 \
    {"transport",                                                                                  \
     SHAPE_CHOICE,                                                                                 \
     AT(fr_node, transport),                                                                       \
     .choices = transport_choices,                                                                 \
     .preset = "auto",                                                                             \
     .help = "Which SSH: libssh2 inside flowrun, or the system's ssh."},                           \
        {"address", SHAPE_STRING, AT(fr_node, address), .help = "Host name or IP address."},       \
        {"user", SHAPE_STRING, AT(fr_node, user), .help = "Login name; default: as ssh has it."},  \
        {"port",   SHAPE_INT,    AT(fr_node, port),                                                \
         .min = 1, .max = 65535, .help = "Port of its sshd; default: as ssh has it, or 22."},      \
        {"key", SHAPE_PATH, AT(fr_node, key), .help = "Private key; default: agent and ~/.ssh."},  \
        {"known_hosts", SHAPE_PATH, AT(fr_node, known_hosts),                                      \
         .help = "File of host keys; default: ~/.ssh/known_hosts."},                               \
        {"ssh_config", SHAPE_PATH, AT(fr_node, ssh_config),                                        \
         .help = "Read instead of ~/.ssh/config and the system's ssh_config."},                    \
    {                                                                                              \
        "work", SHAPE_STRING, AT(fr_node, work),                                                   \
            .help =                                                                                \
                "Work folder on the node (FLOWRUN_WORK), made where it is not there; default: "    \
                "found there. ~/DIR and DIR are below the user's home there. In one that others "  \
                "can write flowrun makes a private folder."                                        \
    }

#define CONNECT_FIELD                                                                              \
    {                                                                                              \
        "connect", SHAPE_OBJECT, AT(fr_node, connect),                                             \
            .object = &object_connect,                                                             \
            .help = "How long it may take to answer, and how long it is tried."                    \
    }

#define NODE_FIELDS                                                                                \
    {"executor",                                                                                   \
     SHAPE_CHOICE,                                                                                 \
     AT(fr_node, executor),                                                                        \
     .choices = executor_choices,                                                                  \
     .expected = "local or ssh (nodes under Slurm stand in slurm: beside nodes:)",                 \
     .help = "How it is reached; default: ssh where there is an address, else local."},            \
        SSH_FIELDS,                                                                                \
        {"gpus", SHAPE_INT, AT(fr_node, gpus), .max = 1024, .preset = "0", .help = "Its GPUs."},   \
        PLACE_FIELDS, CONNECT_FIELD

static const struct field node_fields[] = {
    {"name", SHAPE_STRING, AT(fr_node, name), .required = true, .help = "Its name, unique."},
    NODE_FIELDS,
    {0},
};
const struct object object_node = {"a node", "node", node_fields, "name"};

static const struct field node_defaults_fields[] = {NODE_FIELDS, {0}};
static const struct object object_node_defaults = {"defaults", "node_defaults",
                                                   node_defaults_fields, NULL};

static const struct field rendezvous_fields[] = {
    {"address", SHAPE_STRING, AT(fr_spec, rendezvous_address),
     .help = "Address of the head; default: the one on the route from the other nodes."},
    {"port", SHAPE_INT, AT(fr_spec, rendezvous_port), .min = 1, .max = 65535,
     .help = "Default: the task's own choice."},
    {0},
};
static const struct object object_rendezvous = {"rendezvous", "rendezvous", rendezvous_fields,
                                                NULL};

static const struct field container_fields[] = {
    {"pyxis", SHAPE_SLURM_IMAGE, AT(fr_slurm_container, pyxis),
     .help = "Image that Slurm's plugin pyxis starts: one of a registry, or the path of a squashfs "
             "file."},
    {"apptainer", SHAPE_SLURM_IMAGE, AT(fr_slurm_container, apptainer),
     .help = "Image that Apptainer starts: the absolute path of a SIF file or of a folder, or "
             "docker://NAME."},
    {"program", SHAPE_SLURM_PROGRAM, .preset = "apptainer",
     .help = "Of apptainer: its name on the nodes' PATH, singularity or an absolute path."},
    {"mounts", SHAPE_SLURM_MOUNTS,
     .help = "Folders of the nodes that are in the container, too: /FOLDER, /FOLDER:/INSIDE or "
             "/FOLDER:/INSIDE:ro each; work: is there anyway."},
    {0},
};
static const struct object object_container = {"a container", "slurm_container", container_fields,
                                               NULL};

#define OF_ALLOCATION(member) .at = offsetof(struct allocation_entry, spec.member)

static const struct field allocation_fields[] = {
    {"nodes", SHAPE_INT, OF_ALLOCATION(nodes), .min = 1, .max = 4096, .preset = "1",
     .help = "How many nodes it has: NAME1, NAME2 and so on, all with the label NAME."},
    {"copies", SHAPE_INT, OF_ALLOCATION(copies), .min = 1, .max = 100000,
     .help = "In place of nodes: so many allocations of one node each, NAME1, NAME2 and so on, "
             "submitted as arrays. Each starts when Slurm has a node for it."},
    {"time", SHAPE_SLURM_TIME, OF_ALLOCATION(time_ms), .required = true,
     .expected = "time: 12h, how long it may last",
     .help = "How long it may last, at most 365d; Slurm is asked for whole minutes, rounded up."},
    {"partition", SHAPE_SLURM_WORD, OF_ALLOCATION(partition),
     .help = "Partition, or several with commas between them; here and in the next four keys "
             "the default is Slurm's."},
    {"account", SHAPE_SLURM_WORD, OF_ALLOCATION(account),
     .help = "Account that pays; default: that of slurm:."},
    {"qos", SHAPE_SLURM_WORD, OF_ALLOCATION(qos), .help = "Quality of service."},
    {"reservation", SHAPE_SLURM_WORD, OF_ALLOCATION(reservation), .help = "Reservation."},
    {"constraint", SHAPE_SLURM_WORD, OF_ALLOCATION(constraint),
     .help = "Features that its nodes must have: a100&nvlink."},
    {"gpus", SHAPE_SLURM_GPUS, .max = 1024, .preset = "0",
     .help = "GPUs of each node: N, or TYPE:N."},
    {"cpus", SHAPE_INT, OF_ALLOCATION(cpus), .min = 1, .max = 65535,
     .help = "CPUs of each node; default: Slurm's."},
    {"memory", SHAPE_SLURM_MEMORY, OF_ALLOCATION(memory),
     .help = "Memory of each node, with its unit; default: Slurm's, all of it with exclusive."},
    {"exclusive", SHAPE_BOOL, OF_ALLOCATION(exclusive), .preset = "false",
     .help = "No other job on its nodes."},
    {"idle", SHAPE_DURATION, OF_ALLOCATION(idle_ms), .preset = "2m",
     .help = "It is given back when no task has used it for so long, or none may use it any "
             "more."},
    {"lease", SHAPE_DURATION, OF_ALLOCATION(lease_ms), .min = 60000, .preset = "30m",
     .help = "Its job ends by itself when for so long no flowrun spoke to it, nothing ran there, "
             "and no end or log was left to fetch; at least 1m."},
    {"queue_for", SHAPE_LIMIT, OF_ALLOCATION(queue_for_ms), .preset = "never",
     .help = "It is given up when Slurm has not begun it so long after it was submitted; its tasks "
             "fail with queue_time."},
    {"chain", SHAPE_INT, OF_ALLOCATION(chain), .max = 1000, .preset = "0",
     .help = "How often what its time limit or a preemption ended goes on in a further one, "
             "without a try of retry:."},
    {"container", SHAPE_SLURM_CONTAINER, .object = &object_container,
     .help = "A container that its tasks run in, by pyxis or Apptainer; default: none."},
    {"options", SHAPE_SLURM_OPTIONS,
     .help = "Further options of sbatch, --NAME=VALUE each; 'docs/slurm.md' lists them."},
    PLACE_FIELDS,
    {0},
};
const struct object object_allocation = {"an allocation", "allocation", allocation_fields, "time"};

static const struct field login_fields[] = {SSH_FIELDS, CONNECT_FIELD, {0}};
static const struct object object_login = {"login", "login", login_fields, "address"};

static const struct field slurm_fields[] = {
    {"login", SHAPE_LOGIN, .object = &object_login,
     .help = "A login node, reached over SSH, where Slurm's commands are run; default: they run "
             "here."},
    {"work", SHAPE_SLURM_FOLDER, AT(fr_slurm_spec, work), .required = true,
     .expected = "work: /FOLDER, which this machine and the compute nodes share",
     .help = "Absolute path of a folder that the machine of Slurm's commands (this one, or that of "
             "login:) and the compute nodes share."},
    {"account", SHAPE_SLURM_WORD, AT(fr_slurm_spec, account),
     .help = "Account of allocations that name none."},
    {"path", SHAPE_SLURM_FOLDER, AT(fr_slurm_spec, path),
     .help = "Folder with Slurm's commands, searched before PATH."},
    {"rpc", SHAPE_INT, AT(fr_slurm_spec, rpc), .min = 1, .max = 60, .preset = "12",
     .help = "Commands a minute that ask Slurm's controller, at most."},
    {"max_jobs", SHAPE_INT, AT(fr_slurm_spec, max_jobs), .min = 1, .max = 100000, .preset = "500",
     .help = "Jobs that Slurm has of one flowrun at once, at most; each copy of copies: is one."},
    {"allocations", SHAPE_ALLOCATIONS, ATN(fr_slurm_spec, allocations),
     .object = &object_allocation, .required = true,
     .expected = "allocations: {NAME: {nodes: 4, time: 12h}}",
     .help = "Allocations by name. A run takes one when a task needs one of its nodes."},
    {0},
};
const struct object object_slurm = {"slurm", "slurm", slurm_fields, NULL};

static const struct field inventory_fields[] = {
    {"defaults", SHAPE_NODE_DEFAULTS, .object = &object_node_defaults, .help = "For all nodes."},
    {"rendezvous", SHAPE_OBJECT, .object = &object_rendezvous,
     .help = "Where gangs meet; the pipeline's wins."},
    {"nodes", SHAPE_NODE_LIST, .object = &object_node, .help = "The nodes; the first is the head."},
    {"slurm", SHAPE_SLURM, .object = &object_slurm,
     .help = "A cluster under Slurm, whose allocations are nodes after those of nodes:; without "
             "nodes: the first of the first allocation is the head."},
    {0},
};
const struct object object_inventory = {"an inventory", "inventory", inventory_fields, NULL};

#define WORD(type, word, text) word,
static const char *const type_choices[] = {FR_TYPES(WORD)}; /* ended by the first NULL */
#undef WORD

static const struct field param_fields[] = {
    {"type", SHAPE_PARAM_TYPE, AT(fr_param, type), .choices = type_choices, .preset = "string",
     .help = "string, int, float, bool, path, duration or size."},
    {"default", SHAPE_DEFAULT, AT(fr_param, preset), .help = "Without one, -p must give it."},
    {"help", SHAPE_STRING, AT(fr_param, help), .help = "For readers."},
    {"choices", SHAPE_STRINGS, ATN(fr_param, choices), .help = "Allowed values."},
    {0},
};
const struct object object_param = {"a param", "param", param_fields, "default"};

/* Exactly one of these; enum fr_secret_from is their order. */
static const struct field secret_fields[] = {
    {"env", SHAPE_STRING, .at = offsetof(struct secret_entry, from[0]), .of_host = true,
     .help = "Variable of flowrun's environment."},
    {"file", SHAPE_PATH, .at = offsetof(struct secret_entry, from[1]),
     .help = "File on control; a newline at its end is cut."},
    {"command", SHAPE_STRING, .at = offsetof(struct secret_entry, from[2]), .of_host = true,
     .help = "Command for sh -c on control that prints it."},
    {0},
};
const struct object object_secret = {"a secret", "secret", secret_fields, "env"};

#define HOOKS(name_, which_, help_)                                                                \
    {                                                                                              \
        name_, SHAPE_HOOKS, .at = offsetof(struct fr_spec, hooks[which_]),                         \
                            .n_at = offsetof(struct fr_spec, n_hooks[which_]),                     \
                            .object = &object_hook, .help = help_                                  \
    }

static const struct field pipeline_fields[] = {
    {"params", SHAPE_PARAMS, ATN(fr_spec, params), .object = &object_param,
     .help = "Values that -p name=value sets."},
    {"name", SHAPE_STRING, AT(fr_spec, name), .help = "Default: the file's name."},
    {"description", SHAPE_STRING, AT(fr_spec, help), .help = "For readers."},
    {"secrets", SHAPE_SECRETS, ATN(fr_spec, secrets), .object = &object_secret,
     .help = "Values that are never stored: asked for on control at each start."},
    {"max_parallel", SHAPE_INT, AT(fr_spec, max_parallel), .min = 1, .max = 4096, .preset = "16",
     .help = "Instances of the run at once."},
    {"max_active_runs", SHAPE_INT, AT(fr_spec, max_active_runs), .min = 1, .max = 100000,
     .help = "Runs of this pipeline at once; further ones wait in the queue. Default: no limit."},
    {"pool", SHAPE_STRING, AT(fr_spec, pool),
     .help =
         "A run takes a place of that pool of the home (pools: in its config.yaml), or waits in "
         "the queue. Default: none."},
    {"timeout", SHAPE_LIMIT, AT(fr_spec, timeout_ms), .preset = "never",
     .help = "A run that takes longer is stopped and has failed; its hooks run. A retry has all of "
             "the time again."},
    {"late", SHAPE_LIMIT, AT(fr_spec, late_ms), .preset = "never",
     .help = "A run that is not over so long after it was asked for is late: its events say so, "
             "and rules of notify: may tell it. It goes on."},
    {"rerun", SHAPE_OBJECT, AT(fr_spec, rerun), .object = &object_rerun,
     .help =
         "A run that failed runs again by itself, while a 'flowrun serve' drives the home's runs. "
         "Default: never."},
    {"keep", SHAPE_KEEP, .object = &object_keep,
     .help = "How long ended attempts stay on nodes that do not say it."},
    {"keep_runs", SHAPE_OBJECT, AT(fr_spec, keep_runs), .object = &object_keep_runs,
     .help = "Which ended runs of this pipeline stay in the home; what it does not say, keep: of "
             "the home's config.yaml does. What the newest run says counts."},
    {"transport", SHAPE_TRANSPORT, .choices = transport_choices, .preset = "auto",
     .help = "SSH transport of nodes that do not say it."},
    {"nodes", SHAPE_NODES, .object = &object_inventory,
     .help = "Inventory: the path of its file, or the nodes themselves; default: one local node."},
    {"rendezvous", SHAPE_OBJECT, .object = &object_rendezvous, .help = "Where gangs meet."},
    {"env_file", SHAPE_PIPELINE_ENV_FILE, .help = ENV_FILE_HELP},
    {"env", SHAPE_PIPELINE_ENV, .allow = ALLOW_RUN | ALLOW_SECRETS,
     .help = "Environment of all tasks."},
    {"defaults", SHAPE_DEFAULTS, .object = &object_defaults, .help = "For all tasks and hooks."},
    {"templates", SHAPE_TEMPLATES, .object = &object_template,
     .help = "Parts of tasks by name, for extends: of tasks and of other templates."},
    {"tasks", SHAPE_TASKS, ATN(fr_spec, tasks), .object = &object_task, .required = true,
     .help = "What is done, by name."},
    HOOKS("on_success", FR_HOOK_SUCCESS, "Done when the run has succeeded."),
    HOOKS("on_failure", FR_HOOK_FAILURE, "Done when the run has failed."),
    HOOKS("on_cancel", FR_HOOK_CANCEL, "Done when the run was cancelled."),
    HOOKS("on_exit", FR_HOOK_EXIT, "Done in the end, after the others."),
    {"notify", SHAPE_RULES, ATN(fr_spec, notify), .object = &object_notify,
     .help = "Which events of its runs are told, beside those that notify: of the home's "
             "config.yaml names: one rule or a list of them."},
    {"schedule", SHAPE_SCHEDULE, ATN(fr_spec, schedules), .object = &object_schedule,
     .help = "When it runs by itself, as long as 'flowrun serve' has the file's folder: one "
             "schedule or a list of them."},
    {0},
};
const struct object object_pipeline = {"a pipeline", "pipeline", pipeline_fields, NULL};

const char *fr_executor_name(const struct fr_node *node)
{
    enum fr_executor executor = node != NULL ? node->executor : FR_EXECUTOR_LOCAL;

    return executor == FR_EXECUTOR_SLURM ? "slurm" : executor_choices[executor];
}

const char *fr_run_if_name(enum fr_run_if run_if)
{
    return run_if_choices[run_if];
}

const struct field *field_find(const struct object *object, const char *name)
{
    for (const struct field *f = object->fields; f->name != NULL; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}
