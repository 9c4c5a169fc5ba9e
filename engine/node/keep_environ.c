/* What attempts get of a keeper's environment. */
#include "engine/node/keep_place.h"

#include <string.h>

const char *const fr_keep_environ[] = {
    "SLURM_JOB_ID",         "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_JOB_PARTITION",
    "SLURM_CLUSTER_NAME",   "SLURMD_NODENAME",    "SLURM_TMPDIR",        "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",   "GPU_DEVICE_ORDINAL",  NULL};

/* Of Slurm, of launchers of ranks, and of what starts containers; pyxis sets RANK and LOCAL_RANK in
 * images of PyTorch. */
static const char *const foreign[] = {"SLURM",       "SRUN",      "SBATCH", "SPANK",  "PMI",
                                      "OMPI_",       "PRTE_",     "ENROOT", "PYXIS_", "APPTAINER",
                                      "SINGULARITY", "BASH_FUNC", NULL};
static const char *const others[] = {
    "RANK",      "LOCAL_RANK",     "WORLD_SIZE",  "LOCAL_WORLD_SIZE",
    "NODE_RANK", "GROUP_RANK",     "MASTER_ADDR", "MASTER_PORT",
    "PWD",       "OLDPWD",         "SHLVL",       "_",
    "PS1",       "PROMPT_COMMAND", "USER_PATH",   NULL};

static bool is_listed(const char *const *names, const char *name)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static bool is_passed(const char *name)
{
    if (is_listed(fr_keep_environ, name))
        return true;
    for (const char *const *p = foreign; *p != NULL; p++)
        if (fr_has_prefix(name, *p))
            return false;
    return !is_listed(others, name);
}

const char *const *keep_inside(const char *const *environ, struct fr_arena *arena)
{
    size_t n = 0, kept = 0;
    const char **names;

    while (environ[n] != NULL)
        n++;
    if ((names = fr_arena_array(arena, n + 1, sizeof(*names))) == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *name = fr_arena_text(arena, environ[i], strcspn(environ[i], "="));

        if (name == NULL)
            return NULL;
        if (name[0] != '\0' && is_passed(name))
            names[kept++] = name;
    }
    return names;
}
