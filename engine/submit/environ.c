#include "engine/submit/environ.h"

#include <stdbool.h>
#include <stdlib.h>

const char *const *fr_slurm_environ(const char *path, struct fr_arena *arena)
{
    static const char *const names[] = {"HOME", "USER", "LOGNAME", "LANG", "SLURM_CONF"};
    const char *here = getenv("PATH"), *value;
    size_t n = 0, most = sizeof(names) / sizeof(names[0]);
    const char **envp = fr_arena_array(arena, most + 4, sizeof(*envp));
    bool whole = envp != NULL;

    here = here != NULL ? here : "/usr/local/bin:/usr/bin:/bin";
    if (whole)
        whole = (envp[n++] = path != NULL ? fr_arena_fmt(arena, "PATH=%s:%s", path, here)
                                          : fr_arena_fmt(arena, "PATH=%s", here)) != NULL;
    for (size_t i = 0; i < most && whole; i++)
        if ((value = getenv(names[i])) != NULL)
            whole = (envp[n++] = fr_arena_fmt(arena, "%s=%s", names[i], value)) != NULL;
    if (!whole)
        return NULL;
    envp[n++] = "LC_ALL=C";
    envp[n] = "TZ=UTC";
    return envp;
}
