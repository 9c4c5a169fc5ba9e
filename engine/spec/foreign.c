/* Keys as other tools name them, each with the line that says the same here. */
#include "engine/spec/load.h"

#include <string.h>

/* Which objects a word is looked for in: bits. */
enum {
    TASK = 1,
    HOOK = 2,
    SIDECAR = 4,
    PIPELINE = 8,
    NODE = 16,
    INVENTORY = 32,
    RETRY = 64,
    PARAM = 128,
    SLURM = 256,
    ALLOCATION = 512
};
enum { ACTION = TASK | HOOK | SIDECAR, RULE = TASK | HOOK };

static const struct {
    const char *id;
    int bit;
} objects[] = {
    {"task", TASK},   {"hook", HOOK},          {"sidecar", SIDECAR},      {"pipeline", PIPELINE},
    {"node", NODE},   {"node_defaults", NODE}, {"inventory", INVENTORY},  {"retry", RETRY},
    {"param", PARAM}, {"slurm", SLURM},        {"allocation", ALLOCATION}};

/* clang-format off */
static const struct {
    int objects;
    const char *words; /* a blank on both sides of each */
    const char *ours;
} table[] = {
    {RULE, " if condition only rules ", "when: EXPRESSION"},
    {RULE, " unless except ", "when: \"!(EXPRESSION)\""},
    {TASK, " depends_on depends-on depends dependencies after requires upstream ", "needs: [TASK]"},
    {ACTION, " script cmd bash sh commands steps shell_command ", "run: SCRIPT"},
    {ACTION, " command entrypoint args arguments exec ",
     "run: SCRIPT, or argv: [PROGRAM, ARGUMENT]"},
    {ACTION | PIPELINE, " environment env_vars ", "env: {NAME: VALUE}"},
    {ACTION, " variables vars ", "env: {NAME: VALUE}"},
    {ACTION, " gpus gpu num_gpus gres resources ",
     "slots: N (of the node's slots: in the inventory); gpus: stands with a node"},
    {HOOK, " needs depends_on ", "no needs: a hook starts when the run has ended"},
    {TASK, " partition queue qos account reservation constraint walltime sbatch slurm ",
     "on: ALLOCATION, which slurm: of the inventory has"},
    {TASK, " image container docker ", "a task with uses: container, and in: THAT TASK"},
    {ACTION, " working_dir working-directory working_directory workdir dir chdir ", "cwd: FOLDER"},
    {RULE, " timeout-minutes timeout_minutes time_limit execution_timeout ", "timeout: 30m"},
    {RULE, " continue-on-error continue_on_error allow_failure ignore_errors ",
     "best_effort: true"},
    {RULE, " retries max_retries attempts ", "retry: {times: N}"},
    {RULE, " retry_delay ", "retry: {delay: 10s}"},
    {RULE, " runs-on runs_on host hosts node nodes tags where ",
     "on: all, head, a node or a label"},
    {RULE, " parallel replicas ", "on: all, or a list of nodes"},
    {TASK, " trigger_rule trigger-rule trigger ", "run_if: success, failure, any or always"},
    {TASK, " for_each for-each with_items withItems with_param withParam loop expand map items ",
     "foreach: [VALUE, VALUE] or foreach: ${{ tasks.NAME.outputs.KEY }}"},
    {TASK, " strategy rows ", "matrix: {NAME: [VALUE, VALUE]}"},
    {TASK, " name id ", "the name as the key under tasks:"},
    {RULE, " artifacts results ", "outputs: [NAME]"},
    {PIPELINE, " jobs steps stages workflow dag job ", "tasks: {NAME: {run: SCRIPT}}"},
    {PIPELINE, " inputs parameters variables vars args ", "params: {NAME: {default: VALUE}}"},
    {PIPELINE, " inventory hosts cluster machines ", "nodes: the path of an inventory, or a list"},
    {PIPELINE, " on triggers cron ", "no such key: flowrun FILE starts it (from a crontab, too)"},
    {PIPELINE, " retry shell grace ", "it under defaults:"},
    {PIPELINE, " timeout-minutes timeout_minutes time_limit dagrun_timeout run_timeout ",
     "timeout: 30m"},
    {PIPELINE, " version ", "no version: there is one form"},
    {INVENTORY, " hosts machines ", "nodes: [{name: NAME, address: HOST}]"},
    {PIPELINE, " slurm allocations sbatch ",
     "it in the inventory: nodes: {slurm: {work: FOLDER, allocations: {NAME: {time: 1h}}}}"},
    {INVENTORY, " allocations pools ",
     "slurm: {work: FOLDER, allocations: {NAME: {time: 1h}}}"},
    {NODE, " slurm partition sbatch ",
     "slurm: {work: FOLDER, allocations: {NAME: {time: 1h}}} beside nodes:"},
    {SLURM, " pools pool jobs nodes ", "allocations: {NAME: {nodes: 4, time: 12h}}"},
    {SLURM, " workdir folder dir scratch ", "work: FOLDER"},
    {SLURM, " partition qos reservation constraint time gpus cpus memory exclusive options idle "
     "queue_for chain ",
     "it in each of allocations:"},
    {ALLOCATION, " walltime timelimit time_limit limit ", "time: 12h"},
    {ALLOCATION, " queue queues partitions ", "partition: NAME"},
    {ALLOCATION, " project ", "account: NAME"},
    {ALLOCATION, " mem ", "memory: 64GiB"},
    {ALLOCATION, " gres gpu gpus_per_node gpus-per-node ", "gpus: N, or TYPE:N"},
    {ALLOCATION, " cpus_per_task cpus-per-task cores ncpus ", "cpus: N"},
    {ALLOCATION, " feature features ", "constraint: FEATURES"},
    {ALLOCATION, " count hosts ntasks ", "nodes: N"},
    {ALLOCATION, " exclude nodelist licenses switches mail-type mail-user ",
     "options: [--NAME=VALUE]"},
    {NODE, " host hostname ip ansible_host ", "address: HOST"},
    {NODE, " ssh_key identity_file identityfile private_key ", "key: FILE"},
    {NODE, " username login ", "user: NAME"},
    {NODE, " password ", "key: FILE, or the key in ssh-agent"},
    {NODE, " workdir path folder ", "work: FOLDER"},
    {RETRY, " count max attempts limit retries max_attempts ", "times: N"},
    {RETRY, " interval wait ", "delay: 10s"},
    {PARAM, " value ", "default: VALUE"},
    {PARAM, " description ", "help: TEXT"},
    {PARAM, " required ", "no default: then -p must give it"},
    {PARAM, " enum values options ", "choices: [VALUE]"},
};
/* clang-format on */

const char *foreign_key(const struct object *object, const char *word)
{
    size_t n = strlen(word);
    int bit = 0;

    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
        if (strcmp(objects[i].id, object->id) == 0)
            bit = objects[i].bit;
    if (n == 0 || strchr(word, ' ') != NULL)
        return NULL;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if ((table[i].objects & bit) == 0)
            continue;
        for (const char *p = table[i].words; (p = strstr(p, word)) != NULL; p++)
            if (p[-1] == ' ' && p[n] == ' ')
                return table[i].ours;
    }
    return NULL;
}
