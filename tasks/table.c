#include "tasks/task.h"

#include <stddef.h>
#include <string.h>

static const struct fr_task table[] = {
    {"cleanup", "end stale processes, remove leftovers of earlier runs", fr_task_cleanup, false},
    {"container", "start the container in which later tasks run", fr_task_container, false},
    {"gather-adapters", "put the trained adapter into a folder and check it", fr_task_gather,
     false},
    {"janitor", "keep an output folder within limits (a sidecar)", fr_task_janitor, true},
    {"nccl-probe", "join all nodes, check and time an all-reduce", fr_task_nccl_probe, false},
    {"preflight", "compare drivers, GPUs, disks, limits, clocks and ports of nodes",
     fr_task_preflight, false},
    {"publish", "put a folder under a version, switch latest to it", fr_task_publish, false},
    {"train", "train with flowtrain, one launcher a node", fr_task_train, false},
    {NULL, NULL, NULL, false},
};

const struct fr_task *fr_task_table(void)
{
    return table;
}

const struct fr_task *fr_task_find(const char *name)
{
    for (const struct fr_task *t = table; t->name != NULL; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}
