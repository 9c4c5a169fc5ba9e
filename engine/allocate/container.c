/* Containers of allocations: whether a cluster has the plugin that starts them. */
#include "engine/allocate/private.h"

static void on_help(void *arg, const struct fr_command_end *end)
{
    struct host_cluster *c = arg;

    c->host->woken = true;
    if (end->code == 0)
        c->pyxis = fr_srun_has_pyxis(end->out) ? PYXIS_THERE : PYXIS_ABSENT;
    else
        c->pyxis = PYXIS_UNKNOWN; /* asked again; without srun there is no scontrol either */
}

static enum fr_rc ask(struct host_cluster *c, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_command command = {
        .argv = fr_srun_help_args(&arena), .repeat = true, .ended = on_help, .arg = c};
    enum fr_rc rc = command.argv != NULL
                        ? fr_cluster_run(c->cluster, &command, err)
                        : fr_fail(err, FR_NOMEM, "no memory for a command of Slurm");

    c->pyxis = rc == FR_OK ? PYXIS_ASKED : PYXIS_UNKNOWN;
    fr_arena_finish(&arena);
    return rc == FR_OK ? fr_fail(err, FR_BUSY, "srun is asked for its options") : rc;
}

enum fr_rc alloc_container_ok(struct host_allocation *al, struct fr_err *err)
{
    const struct fr_slurm_container *container = &al->spec->container;
    const struct fr_spec *spec = fr_run_spec(al->h->run);

    if (container->pyxis == NULL || al->cluster->pyxis == PYXIS_THERE)
        return FR_OK;
    if (al->cluster->pyxis == PYXIS_ASKED)
        return fr_fail(err, FR_BUSY, "srun is asked for its options");
    if (al->cluster->pyxis == PYXIS_UNKNOWN)
        return ask(al->cluster, err);
    al->cluster->pyxis = PYXIS_UNKNOWN; /* the next allocation asks anew */
    return fr_fail(err, FR_UNSUPPORTED, "%s:%d:%d: " FR_SLURM_NO_PYXIS,
                   spec->sources[container->pos.file].path, container->pos.line, container->pos.col,
                   al->spec->name);
}

bool alloc_container_copy(const struct fr_slurm_container *from, struct fr_arena *arena,
                          struct fr_slurm_container *to)
{
    const char **mounts = fr_arena_array(arena, from->n_mounts + 1, sizeof(*mounts));

    *to = (struct fr_slurm_container){.pos = from->pos};
    for (size_t i = 0; mounts != NULL && i < from->n_mounts; i++)
        if ((mounts[i] = fr_arena_dup(arena, from->mounts[i])) == NULL)
            return false;
    to->mounts = mounts;
    to->n_mounts = from->n_mounts;
    if (from->pyxis != NULL)
        to->pyxis = fr_arena_dup(arena, from->pyxis);
    if (from->apptainer != NULL)
        to->apptainer = fr_arena_dup(arena, from->apptainer);
    if (from->program != NULL)
        to->program = fr_arena_dup(arena, from->program);
    return mounts != NULL && !to->pyxis == !from->pyxis && !to->apptainer == !from->apptainer &&
           !to->program == !from->program;
}
