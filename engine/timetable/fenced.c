#include "engine/timetable/fenced.h"

#include "engine/timetable/schedules.h"

bool fenced_is(const struct fr_api_caller *who)
{
    return who != NULL && who->role < FR_ROLE_ADMIN;
}

struct fr_fence *fenced_make(const struct fr_host *host, struct fr_arena *arena)
{
    const struct host_schedules *all = schedules_of(host);
    size_t n = all->n_folders;
    struct fr_fence *fence = fr_arena_alloc(arena, sizeof(*fence));
    const char **folders = fr_arena_array(arena, n + 1, sizeof(*folders));

    if (fence == NULL || folders == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if ((folders[i] = fr_arena_dup(arena, all->folders[i])) == NULL)
            return NULL;
    *fence = (struct fr_fence){folders, n, "a token of role operate", 0};
    return fence;
}
