#include "engine/cli/cluster.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/exec/login.h"
#include "engine/link/runner.h"
#include "engine/run/folders.h"
#include "engine/slurm/cluster.h"

#include <stdio.h>
#include <string.h>

enum { CHECK_MS = 60000 };

struct cluster_finding {
    struct cluster_finding *next;
    struct fr_slurm_finding what;
    struct fr_pos pos;
};

static const char *const keys[] = {"",          "partition", "time", "nodes", "gpus",
                                   "container", "work",      "path", "rpc"};

/* ---- findings ---- */

static void found(void *arg, const struct fr_slurm_finding *f)
{
    struct cli_cluster *k = arg;
    struct cluster_finding *to = fr_arena_alloc(k->arena, sizeof(*to));

    k->bad = k->bad || f->bad;
    if (to == NULL)
        return;
    *to = (struct cluster_finding){NULL, *f, k->at[f->key]};
    (void)fr_visible(to->what.text, sizeof(to->what.text), f->text, strlen(f->text));
    *k->last = to;
    k->last = &to->next;
}

static void cannot_ask(struct cli_cluster *k, const struct fr_command_end *end, const char *what)
{
    struct fr_slurm_finding f = {.bad = true};
    struct fr_buf said = {0};
    bool named;

    fr_link_quote(&said, end->errors.p, end->errors.n);
    named = end->code == FR_RUNNER_NO_PROGRAM || (said.n > 0 && fr_has_prefix(said.p, what));
    snprintf(f.text, sizeof(f.text), "%s%s%s", named ? "" : what, named ? "" : ": ",
             said.n > 0 ? said.p : "it failed");
    fr_buf_finish(&said);
    found(k, &f);
}

static void not_read(struct cli_cluster *k, const struct fr_err *err)
{
    struct fr_slurm_finding f = {.bad = true};

    snprintf(f.text, sizeof(f.text), "%.390s", err->msg);
    found(k, &f);
}

/* ---- the questions ---- */

static void check_container(struct cli_cluster *k, const struct fr_allocation_spec *a)
{
    struct fr_slurm_finding f = {.bad = true, .key = FR_SLURM_KEY_CONTAINER};

    if (a->container.pyxis == NULL || k->pyxis)
        return;
    snprintf(f.text, sizeof(f.text), FR_SLURM_NO_PYXIS, a->name);
    found(k, &f);
}

static void check_all(struct cli_cluster *k)
{
    const struct fr_slurm_spec *slurm = k->spec->slurm;
    struct fr_slurm_sink sink = {found, k};
    bool bad = k->bad;

    for (size_t i = 0; i < slurm->n_allocations; i++) {
        const struct fr_allocation_spec *a = &slurm->allocations[i];

        k->at[FR_SLURM_KEY_PARTITION] = a->partition_pos;
        k->at[FR_SLURM_KEY_TIME] = a->time_pos;
        k->at[FR_SLURM_KEY_NODES] = a->nodes_pos;
        k->at[FR_SLURM_KEY_GPUS] = a->gpus_pos;
        k->at[FR_SLURM_KEY_CONTAINER] = a->container.pos;
        k->bad = false;
        check_container(k, a);
        fr_slurm_check_allocation(&k->partitions, a, sink);
        k->fits[i] = !k->bad;
        bad = bad || k->bad;
    }
    k->bad = bad;
}

static void on_sinfo(void *arg, const struct fr_command_end *end)
{
    struct cli_cluster *k = arg;
    struct fr_err err = {0};

    k->left--;
    if (end->code != 0) {
        cannot_ask(k, end, "sinfo");
    } else if (fr_sinfo_read(end->out, k->arena, &k->partitions, &err) != FR_OK) {
        not_read(k, &err);
    } else {
        k->known = true;
        check_all(k);
    }
}

static enum fr_rc ask(struct cli_cluster *k, const char *const *argv,
                      void (*ended)(void *arg, const struct fr_command_end *end),
                      struct fr_err *err)
{
    struct fr_command command = {.argv = argv, .asks = true, .ended = ended, .arg = k};

    if (argv == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a command of Slurm");
    k->left++;
    return fr_cluster_run(k->cluster, &command, err);
}

static bool wants_pyxis(const struct fr_slurm_spec *slurm)
{
    for (size_t i = 0; i < slurm->n_allocations; i++)
        if (slurm->allocations[i].container.pyxis != NULL)
            return true;
    return false;
}

static void on_help(void *arg, const struct fr_command_end *end)
{
    struct cli_cluster *k = arg;
    struct fr_err err = {0};

    k->left--;
    k->pyxis = end->code == 0 && fr_srun_has_pyxis(end->out);
    if (end->code != 0)
        cannot_ask(k, end, "srun --help");
    else if (ask(k, fr_sinfo_args(k->arena), on_sinfo, &err) != FR_OK)
        not_read(k, &err);
}

static void on_config(void *arg, const struct fr_command_end *end)
{
    struct cli_cluster *k = arg;
    struct fr_err err = {0};

    k->left--;
    if (end->code != 0) {
        cannot_ask(k, end, "scontrol show config");
        return;
    }
    if (fr_slurm_config_read(end->out, &k->config, &err) == FR_OK) {
        fr_slurm_check_config(&k->config, k->spec->slurm->rpc, (struct fr_slurm_sink){found, k});
        if ((wants_pyxis(k->spec->slurm)
                 ? ask(k, fr_srun_help_args(k->arena), on_help, &err)
                 : ask(k, fr_sinfo_args(k->arena), on_sinfo, &err)) == FR_OK)
            return;
    }
    not_read(k, &err);
}

static void no_change(void *arg)
{
    (void)arg;
}

/* Until it is connected, or the first try has failed, which is a finding. */
static enum fr_rc reach_login(struct cli_cluster *k, struct fr_loop *loop, struct fr_nodes *nodes,
                              struct fr_login **out, struct fr_err *err)
{
    const struct fr_slurm_spec *slurm = k->spec->slurm;
    struct fr_exec_node node = fr_exec_node_of(slurm->login, (struct fr_id){0});
    const struct fr_login_args args = {
        .nodes = nodes, .node = &node, .path = slurm->path, .changed = no_change};
    struct fr_slurm_finding f = {.bad = true};
    int64_t until = fr_sys.mono_ms() + CHECK_MS;
    struct fr_login_state s = {0};
    enum fr_rc rc;

    node.name = slurm->login->address;
    rc = fr_login_create(&args, out, err);
    while (rc == FR_OK && !(s = fr_login_is(*out)).up && !s.failed && fr_sys.mono_ms() < until)
        rc = fr_loop_turn(loop, true, err);
    if (rc != FR_OK || s.up)
        return rc;
    snprintf(f.text, sizeof(f.text), "login: %.380s", s.why[0] != '\0' ? s.why : "no answer");
    k->at[FR_SLURM_KEY_NONE] = slurm->login->pos;
    found(k, &f);
    return FR_OK;
}

enum fr_rc cli_cluster_check(struct cli_cluster *k, struct fr_loop *loop, struct fr_nodes *nodes,
                             struct fr_err *err)
{
    const struct fr_slurm_spec *slurm = k->spec->slurm;
    struct fr_cluster_args args = {.loop = loop, .path = slurm->path, .rpc = slurm->rpc};
    int64_t until = fr_sys.mono_ms() + CHECK_MS;
    struct fr_login *login = NULL;
    enum fr_rc rc = FR_OK;

    k->last = &k->first;
    for (size_t i = 0; i < sizeof(k->at) / sizeof(k->at[0]); i++)
        k->at[i] = slurm->pos;
    k->at[FR_SLURM_KEY_RPC] = slurm->rpc_pos;
    k->at[FR_SLURM_KEY_WORK] = slurm->work_pos;
    k->at[FR_SLURM_KEY_PATH] = slurm->path_pos;
    k->fits = fr_arena_array(k->arena, slurm->n_allocations, sizeof(*k->fits));
    if (k->fits == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for allocations");
    rc = fr_run_check_folders(slurm, (struct fr_slurm_sink){found, k}, err);
    if (rc == FR_OK && slurm->login != NULL)
        rc = reach_login(k, loop, nodes, &login, err);
    if (rc != FR_OK || (slurm->login != NULL && k->bad)) {
        fr_login_destroy(login);
        return rc;
    }
    args.runner = login != NULL ? fr_login_runner(login) : NULL;
    if ((rc = fr_cluster_create(&args, &k->cluster, err)) == FR_OK)
        rc = ask(k, fr_slurm_config_args(k->arena), on_config, err);
    while (rc == FR_OK && k->left > 0 && fr_sys.mono_ms() < until)
        rc = fr_loop_turn(loop, true, err);
    if (rc == FR_OK && k->left > 0)
        found(k, &(struct fr_slurm_finding){.bad = true, .text = "Slurm does not answer"});
    fr_cluster_destroy(k->cluster);
    k->cluster = NULL;
    fr_login_destroy(login);
    return rc;
}

/* ---- what is shown ---- */

static int rpc_of(const struct cli_cluster *k)
{
    int rpc = k->spec->slurm->rpc;

    return k->config.rpc > 0 && k->config.rpc < rpc ? k->config.rpc : rpc;
}

/* Of an allocation: its own, or the cluster's default; "": there is none. */
static const char *partition_of(const struct cli_cluster *k, const struct fr_allocation_spec *a)
{
    for (size_t i = 0; a->partition == NULL && i < k->partitions.n; i++)
        if (k->partitions.lines[i].preset)
            return k->partitions.lines[i].name;
    return a->partition != NULL ? a->partition : "";
}

void cli_print_size(const struct fr_allocation_spec *a)
{
    fr_print("allocation %s: ", a->name);
    if (a->copies > 0)
        fr_print("%d copies of 1 node", a->copies);
    else
        fr_print("%d node%s", a->nodes, a->nodes > 1 ? "s" : "");
}

static void print_allocation(const struct cli_cluster *k, size_t i)
{
    const struct fr_allocation_spec *a = &k->spec->slurm->allocations[i];
    const char *partition = partition_of(k, a);
    char time[24];

    fr_show_duration(a->time_ms, time);
    cli_print_size(a);
    fr_print(" for %s", time);
    if (partition[0] != '\0')
        fr_print(" of partition%s %s", strchr(partition, ',') != NULL ? "s" : "", partition);
    fr_print("  %s\n", k->fits[i] ? "ok" : "cannot be had");
}

void cli_cluster_print(const struct cli_cluster *k)
{
    const struct fr_slurm_config *c = &k->config;

    if (c->version[0] != 0)
        fr_print("cluster %s: Slurm %d.%02d, %s, MaxArraySize %d, %d commands a minute\n",
                 c->cluster, c->version[0], c->version[1],
                 c->accounting ? "accounting by slurmdbd" : "no accounting", c->max_array,
                 rpc_of(k));
    for (size_t i = 0; k->known && i < k->spec->slurm->n_allocations; i++)
        print_allocation(k, i);
    for (const struct cluster_finding *f = k->first; f != NULL; f = f->next)
        if (f->what.bad)
            fr_print("%s:%d:%d: %s\n", k->spec->sources[f->pos.file].path, f->pos.line, f->pos.col,
                     f->what.text);
        else
            fr_print("note: %s\n", f->what.text);
}

static json_t *findings_json(const struct cli_cluster *k)
{
    json_t *all = json_array();

    for (const struct cluster_finding *f = k->first; f != NULL; f = f->next)
        json_array_append_new(all, json_pack("{s:b, s:s, s:s, s:s, s:i, s:i}", "bad", f->what.bad,
                                             "text", f->what.text, "key", keys[f->what.key], "file",
                                             k->spec->sources[f->pos.file].path, "line",
                                             f->pos.line, "column", f->pos.col));
    return all;
}

json_t *cli_cluster_json(const struct cli_cluster *k)
{
    const struct fr_slurm_spec *slurm = k->spec->slurm;
    const struct fr_slurm_config *c = &k->config;
    json_t *allocations = json_array();
    char version[24] = "";

    if (c->version[0] != 0)
        snprintf(version, sizeof(version), "%d.%02d", c->version[0], c->version[1]);
    for (size_t i = 0; k->known && i < slurm->n_allocations; i++)
        json_array_append_new(allocations,
                              json_pack("{s:s, s:s, s:b}", "name", slurm->allocations[i].name,
                                        "partition", partition_of(k, &slurm->allocations[i]), "ok",
                                        k->fits[i]));
    return json_pack("{s:b, s:s, s:s, s:b, s:b, s:i, s:i, s:o, s:o}", "ok", !k->bad, "name",
                     c->cluster, "version", version, "cgroups", c->cgroups, "accounting",
                     c->accounting, "max_array_size", c->max_array, "rpc", rpc_of(k), "allocations",
                     allocations, "findings", findings_json(k));
}
