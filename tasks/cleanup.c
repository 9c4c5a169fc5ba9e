/*
 * cleanup: ends stale processes and removes leftovers of earlier runs, only those that its inputs
 * name.
 */
#include "tasks/gpu.h"
#include "tasks/owner.h"
#include "tasks/runtime.h"
#include "tasks/stale.h"
#include "tasks/sweep.h"
#include "tasks/task.h"

#include <string.h>

/* Leftovers of NCCL, torch and flowtrain; files in use are spared. */
static const struct {
    const char *key, *pattern;
} leftovers[] = {
    {"shm", "/dev/shm/nccl-*"},     {"shm", "/dev/shm/torch_*"},    {"shm", "/dev/shm/flowtrain*"},
    {"shm", "/dev/shm/cuda.shm.*"}, {"tmp", "/tmp/torchelastic_*"}, {"tmp", "/tmp/torchinductor_*"},
    {"tmp", "/tmp/nccl-*"},         {"tmp", "/tmp/flowtrain*"},     {"tmp", "/tmp/torch_*"},
    {"nv", "~/.nv/ComputeCache/*"}, {"nv", "~/.nv/GLCache/*"},
};

struct cleanup { /* its inputs */
    const char **processes, **globs, **containers, **restart;
    size_t n_processes, n_globs, n_containers, n_restart;
    const char *owner, *runtime, *gpu_reset;
    int64_t port, grace_ms;
};

static enum fr_rc read_inputs(struct fr_job *job, struct cleanup *c, struct fr_err *err)
{
    enum fr_rc rc;

    *c = (struct cleanup){.owner = fr_input_text(job, "owner"),
                          .runtime = fr_input_text(job, "runtime"),
                          .gpu_reset = fr_input_text(job, "gpu_reset"),
                          .port = fr_input_int(job, "port", 0),
                          .grace_ms = fr_input_int(job, "grace", 5000)};
    c->processes = fr_input_list(job, "processes", &c->n_processes);
    c->globs = fr_input_list(job, "globs", &c->n_globs);
    c->containers = fr_input_list(job, "containers", &c->n_containers);
    c->restart = fr_input_list(job, "restart_containers", &c->n_restart);
    if (c->owner == NULL)
        c->owner = "self";
    if (c->runtime == NULL)
        c->runtime = "auto";
    if (c->gpu_reset == NULL)
        c->gpu_reset = "never";
    rc = fr_inputs_ok(job, err);
    if (rc == FR_OK && (c->port < 0 || c->port > 65535))
        rc =
            fr_fail(err, FR_USAGE, "input 'port' is %lld; expected 1 to 65535", (long long)c->port);
    for (size_t i = 0; rc == FR_OK && i < c->n_processes; i++)
        if (c->processes[i][0] == '\0' || strchr(c->processes[i], '/') != NULL)
            rc = fr_fail(err, FR_USAGE, "processes: '%s' is no name of a program", c->processes[i]);
    for (size_t i = 0; rc == FR_OK && i < c->n_globs; i++)
        rc = fr_sweep_check(c->globs[i], err);
    return rc;
}

static enum fr_rc end_processes(struct cleanup *c, struct fr_stale *stale, struct fr_err *err)
{
    enum fr_rc rc = FR_OK, ended;

    for (size_t i = 0; i < c->n_processes; i++)
        fr_stale_named(stale, c->processes[i]);
    if (c->port > 0)
        rc = fr_stale_port(stale, c->port, err);
    ended = fr_stale_end(stale, c->grace_ms, rc == FR_OK ? err : NULL);
    return rc == FR_OK ? ended : rc;
}

static enum fr_rc remove_files(struct fr_job *job, struct cleanup *c, struct fr_sweep *sweep,
                               struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < sizeof(leftovers) / sizeof(leftovers[0]); i++)
        if (fr_input_bool(job, leftovers[i].key, false) &&
            fr_sweep_check(leftovers[i].pattern, NULL) == FR_OK)
            rc = fr_sweep_pattern(sweep, leftovers[i].pattern, err);
    for (size_t i = 0; rc == FR_OK && i < c->n_globs; i++)
        rc = fr_sweep_pattern(sweep, c->globs[i], err);
    json_object_set_new(job->did, "removed", json_integer((json_int_t)sweep->removed));
    return rc;
}

static enum fr_rc one_container(struct fr_job *job, const char *runtime, const char *name,
                                bool restart, struct fr_err *err)
{
    struct fr_box box;
    bool of_run;
    enum fr_rc rc = fr_box_look(runtime, name, &box, err);

    if (rc != FR_OK)
        return rc;
    of_run = box.ours && box.run[0] != '\0' && strcmp(box.run, fr_env("FLOWRUN_RUN", "")) == 0;
    if (box.state == FR_BOX_ABSENT && restart)
        return fr_fail(err, FR_NOTFOUND, "restart_containers: %s knows no container '%s'", runtime,
                       name);
    if (box.state == FR_BOX_ABSENT)
        return FR_OK;
    if (fr_machine_shared() && !box.ours) {
        fr_note(job, "spared",
                "spare container %s: other nodes or jobs share the machine, only this node's own "
                "are touched",
                name);
        return FR_OK;
    }
    if (!restart && box.state == FR_BOX_RUNNING && !of_run) {
        fr_note(job, "spared", "spare container %s: it runs, and another run started it", name);
        return FR_OK;
    }
    fr_note(job, "containers", "%s container %s", restart ? "restart" : "remove", name);
    bool force = of_run && !restart;
    const char *const words[] = {restart ? "restart" : "rm", force ? "--force" : box.id,
                                 force ? box.id : NULL, NULL};
    return job->dry_run ? FR_OK : fr_runtime_run(runtime, words, NULL, err);
}

static enum fr_rc tend_containers(struct fr_job *job, struct cleanup *c, struct fr_err *err)
{
    const char *runtime;
    enum fr_rc rc = FR_OK;

    if (c->n_containers == 0 && c->n_restart == 0)
        return FR_OK;
    rc = fr_runtime_choose(c->runtime, &runtime, err);
    if (rc == FR_OK && runtime == NULL) {
        fr_note(job, "spared", "no container is touched: the runtime is none here");
        return FR_OK;
    }
    for (size_t i = 0; rc == FR_OK && i < c->n_containers; i++)
        rc = one_container(job, runtime, c->containers[i], false, err);
    for (size_t i = 0; rc == FR_OK && i < c->n_restart; i++)
        rc = one_container(job, runtime, c->restart[i], true, err);
    return rc;
}

static enum fr_rc reset_gpus(struct fr_job *job, struct cleanup *c, bool shared, struct fr_err *err)
{
    struct fr_gpus gpus;
    bool always = strcmp(c->gpu_reset, "always") == 0;
    enum fr_rc rc;

    if (strcmp(c->gpu_reset, "never") == 0)
        return FR_OK;
    rc = fr_gpus_read(job, &gpus, err);
    if (rc == FR_NOTFOUND && !always)
        return FR_OK;
    for (size_t i = 0; rc == FR_OK && i < gpus.n; i++) {
        const struct fr_gpu *g = &gpus.v[i];
        const char *index = fr_arena_fmt(&job->arena, "%d", g->index);
        const char *argv[] = {"nvidia-smi", "--gpu-reset", "-i", index, NULL};
        struct fr_command cmd = {.argv = argv, .timeout_ms = 120000};
        struct fr_err why;

        if (g->used || shared) {
            fr_note(job, "spared", "spare GPU %d (%s): %s", g->index, g->bus,
                    g->used ? "a process uses it" : "other nodes or jobs share the machine");
            if (always && g->used)
                rc = fr_fail(err, FR_BUSY, "GPU %d (%s) is in use, so it cannot be reset", g->index,
                             g->bus);
            continue;
        }
        fr_note(job, "gpus", "reset GPU %d (%s)", g->index, g->bus);
        if (!job->dry_run && fr_command_must(&cmd, &why) != FR_OK) {
            if (always)
                rc = fr_fail(err, why.rc, "%s", why.msg);
            else
                fr_note(job, "spared", "GPU %d was not reset: %s", g->index, why.msg);
        }
        fr_command_finish(&cmd);
    }
    return rc;
}

static enum fr_rc cleanup(struct fr_job *job, struct fr_err *err)
{
    struct cleanup c;
    struct fr_stale stale = {.job = job};
    struct fr_sweep sweep = {.job = job, .stale = &stale};
    uid_t owner;
    enum fr_rc rc = read_inputs(job, &c, err);

    if (rc == FR_OK)
        rc = fr_owner_uid(c.owner, &owner, err);
    if (rc == FR_OK)
        rc = fr_stale_open(job, owner, &stale, err);
    if (rc == FR_OK) {
        sweep.owner = owner;
        rc = end_processes(&c, &stale, err);
    }
    if (rc == FR_OK)
        rc = remove_files(job, &c, &sweep, err);
    if (rc == FR_OK)
        rc = tend_containers(job, &c, err);
    if (rc == FR_OK)
        rc = reset_gpus(job, &c, stale.shared, err);
    fr_sweep_finish(&sweep);
    fr_stale_close(&stale);
    return rc;
}

int fr_task_cleanup(int argc, char **argv)
{
    return fr_job_main("cleanup", argc, argv, cleanup);
}
