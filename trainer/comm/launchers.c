#include "trainer/comm/launchers.h"

#include "engine/base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 1 << 20, LOCALS = 4096, LAUNCHERS = 5 };

enum fr_rc tr_env_int(const struct tr_env_int *e, int *out, const char **name, struct fr_err *err)
{
    *out = e->preset;
    if (name != NULL)
        *name = NULL;
    for (size_t i = 0; i < 3 && e->names[i] != NULL; i++) {
        const char *text = getenv(e->names[i]);
        int64_t v;
        if (text == NULL)
            continue;
        if (fr_parse_i64(fr_str_of(text), &v, err) != FR_OK || v < e->low || v > e->high)
            return fr_fail(err, FR_USAGE, "environment variable %s is '%s', expected %d..%d",
                           e->names[i], text, e->low, e->high);
        *out = (int)v;
        if (name != NULL)
            *name = e->names[i];
        return FR_OK;
    }
    return FR_OK;
}

/* The count of a node in Slurm's list of counts ("2(x3),1"); 0: not in the list. */
static int count_of(const char *list, int node)
{
    while (list != NULL && *list != '\0' && node >= 0) {
        char *end;
        long count = strtol(list, &end, 10), times = 1;

        if (end == list || count < 1 || count > LOCALS)
            return 0;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        if (times < 1 || (*end != ',' && *end != '\0'))
            return 0;
        if (node < times)
            return (int)count;
        node -= (int)times;
        list = end + (*end == ',');
    }
    return 0;
}

/* The first name of Slurm's list of hosts: "n[03-05,9]-ib,m1" is n03-ib. */
static void first_host(const char *list, char *out, size_t size)
{
    size_t n = 0;

    for (; *list != '\0' && *list != ',' && n + 1 < size; list++) {
        if (*list != '[') {
            out[n++] = *list;
            continue;
        }
        size_t digits = strcspn(++list, ",-]");
        for (size_t i = 0; i < digits && n + 1 < size; i++)
            out[n++] = list[i];
        list += strcspn(list, "]");
        if (*list == '\0')
            break;
    }
    out[n] = '\0';
}

/* A port derived from the job, so that two jobs of a machine rarely collide; below the ephemeral
 * ports. */
static int port_of(const char *job)
{
    uint32_t h = 2166136261u;

    for (; *job != '\0'; job++)
        h = (h ^ (uint32_t)(unsigned char)*job) * 16777619u; /* FNV-1a */
    return 20000 + (int)(h % 9000);
}

/*
 * Whether srun started this process as a task. A job's script has SLURM_PROCID and SLURM_GTIDS (0),
 * a shell of salloc neither, and only tasks have variables of a step. But sbatch passes on the
 * variables of a step in which it was called: then they do not fit those of the script.
 */
static bool is_task(void)
{
    const char *step = getenv("SLURM_STEP_ID"), *tasks = getenv("SLURM_STEP_NUM_TASKS");
    const char *all = getenv("SLURM_NTASKS"), *ids = getenv("SLURM_GTIDS");
    const char *node = getenv("SLURM_NODEID"), *per_node = getenv("SLURM_STEP_TASKS_PER_NODE");
    int here = 1;

    if (step == NULL || getenv("SLURM_PROCID") == NULL)
        return false;
    if (tasks != NULL && all != NULL && strcmp(tasks, all) != 0)
        return false;
    if (ids == NULL || node == NULL || per_node == NULL)
        return true;
    for (; *ids != '\0'; ids++)
        here += *ids == ',';
    return count_of(per_node, (int)strtol(node, NULL, 10)) == here;
}

static enum fr_rc slurm_script(struct tr_launched *o, struct fr_err *err)
{
    static const struct tr_env_int tasks = {{"SLURM_NTASKS"}, 1, 1, RANKS};

    return getenv("SLURM_JOB_ID") != NULL ? tr_env_int(&tasks, &o->script_tasks, NULL, err) : FR_OK;
}

static enum fr_rc slurm_task(struct tr_launched *o, struct fr_err *err)
{
    static const struct tr_env_int rank = {{"SLURM_PROCID"}, 0, 0, RANKS},
                                   size = {{"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, -1, 1, RANKS},
                                   local = {{"SLURM_LOCALID"}, -1, 0, LOCALS},
                                   node = {{"SLURM_NODEID"}, -1, 0, RANKS},
                                   nodes = {{"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}, -1, 1, RANKS};
    const char *counts = getenv("SLURM_STEP_TASKS_PER_NODE"), *hosts, *job;
    enum fr_rc rc;

    if (!is_task())
        return slurm_script(o, err);
    if ((rc = tr_env_int(&rank, &o->rank, &o->rank_name, err)) != FR_OK ||
        (rc = tr_env_int(&size, &o->size, &o->size_name, err)) != FR_OK ||
        (rc = tr_env_int(&local, &o->local_rank, NULL, err)) != FR_OK ||
        (rc = tr_env_int(&node, &o->node, NULL, err)) != FR_OK ||
        (rc = tr_env_int(&nodes, &o->nodes, NULL, err)) != FR_OK)
        return rc;
    if (counts == NULL)
        counts = getenv("SLURM_TASKS_PER_NODE");
    o->local_size = o->nodes == 1 ? o->size : count_of(counts, o->node);
    if (o->local_size == 0)
        o->local_size = -1;
    hosts = getenv("SLURM_STEP_NODELIST");
    if (hosts != NULL && o->nodes > 1)
        first_host(hosts, o->addr, sizeof(o->addr));
    job = getenv("SLURM_JOB_ID");
    (void)snprintf(o->job, sizeof(o->job), "%s.%s", job != NULL ? job : "",
                   getenv("SLURM_STEP_ID"));
    o->port = port_of(o->job);
    return FR_OK;
}

/* Launchers whose variables are plain numbers. */
static const struct plain {
    struct tr_env_int rank, size, local_rank, local_size;
} plains[LAUNCHERS - 1] = {
    {{{"RANK"}, -1, 0, RANKS},
     {{"WORLD_SIZE"}, -1, 1, RANKS},
     {{"LOCAL_RANK"}, -1, 0, LOCALS},
     {{"LOCAL_WORLD_SIZE"}, -1, 1, LOCALS}},
    {{{"OMPI_COMM_WORLD_RANK"}, -1, 0, RANKS},
     {{"OMPI_COMM_WORLD_SIZE"}, -1, 1, RANKS},
     {{"OMPI_COMM_WORLD_LOCAL_RANK"}, -1, 0, LOCALS},
     {{"OMPI_COMM_WORLD_LOCAL_SIZE"}, -1, 1, LOCALS}},
    {{{"MV2_COMM_WORLD_RANK"}, -1, 0, RANKS},
     {{"MV2_COMM_WORLD_SIZE"}, -1, 1, RANKS},
     {{"MV2_COMM_WORLD_LOCAL_RANK"}, -1, 0, LOCALS},
     {{"MV2_COMM_WORLD_LOCAL_SIZE"}, -1, 1, LOCALS}},
    {{{"PMI_RANK"}, -1, 0, RANKS},
     {{"PMI_SIZE"}, -1, 1, RANKS},
     {{"MPI_LOCALRANKID", "PMI_LOCAL_RANK"}, -1, 0, LOCALS},
     {{"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}, -1, 1, LOCALS}},
};

static enum fr_rc read_one(int which, struct tr_launched *o, struct fr_err *err)
{
    const struct plain *p = which < LAUNCHERS - 1 ? &plains[which] : NULL;
    enum fr_rc rc;

    *o = (struct tr_launched){.local_rank = -1, .local_size = -1, .node = -1, .nodes = -1};
    if (p == NULL)
        rc = slurm_task(o, err);
    else if ((rc = tr_env_int(&p->rank, &o->rank, &o->rank_name, err)) == FR_OK &&
             (rc = tr_env_int(&p->size, &o->size, &o->size_name, err)) == FR_OK &&
             (o->rank_name != NULL || o->size_name != NULL) &&
             (rc = tr_env_int(&p->local_rank, &o->local_rank, NULL, err)) == FR_OK)
        rc = tr_env_int(&p->local_size, &o->local_size, NULL, err);
    if (rc != FR_OK || (o->rank_name == NULL) == (o->size_name == NULL))
        return rc;
    return fr_fail(err, FR_USAGE, "%s and %s must be set both or neither",
                   p != NULL ? p->rank.names[0] : "SLURM_PROCID",
                   p != NULL ? p->size.names[0] : "SLURM_STEP_NUM_TASKS");
}

/* Fills unknown values of o from another launcher with the same rank and size. */
static void complete(struct tr_launched *o, const struct tr_launched *other)
{
    if (other->rank_name == NULL || other->rank != o->rank || other->size != o->size)
        return;
    if (o->local_rank < 0)
        o->local_rank = other->local_rank;
    if (o->local_size < 0)
        o->local_size = other->local_size;
    if (o->node < 0 && o->nodes < 0) {
        o->node = other->node;
        o->nodes = other->nodes;
    }
    if (o->addr[0] == '\0')
        memcpy(o->addr, other->addr, sizeof(o->addr));
    if (o->port == 0)
        o->port = other->port;
    if (o->job[0] == '\0')
        memcpy(o->job, other->job, sizeof(o->job));
}

/* The first launcher with a rank. Errors in variables of the others are ignored. */
static enum fr_rc find(struct tr_launched *o, struct fr_err *err)
{
    struct tr_launched one;
    int tasks = 0;

    *o = (struct tr_launched){.rank_name = NULL};
    for (int i = 0; i < LAUNCHERS; i++) {
        enum fr_rc rc = read_one(i, &one, o->rank_name == NULL ? err : NULL);

        if (rc != FR_OK && o->rank_name == NULL)
            return rc;
        if (rc == FR_OK && o->rank_name == NULL && one.rank_name != NULL)
            *o = one;
        else if (rc == FR_OK && o->rank_name != NULL)
            complete(o, &one);
        tasks = one.script_tasks;
    }
    if (o->rank_name == NULL)
        *o = (struct tr_launched){.size = 1,
                                  .local_rank = -1,
                                  .local_size = -1,
                                  .node = -1,
                                  .nodes = -1,
                                  .script_tasks = tasks};
    return FR_OK;
}

/* Refuses launchers that give a rank without a size: each process would be a world of its own. */
static enum fr_rc unknown(struct fr_err *err)
{
    static const char *const names[] = {"PMIX_RANK", "PALS_RANKID", "FLUX_TASK_RANK"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]) != NULL)
            return fr_fail(err, FR_USAGE,
                           "%s is set, so a launcher started this process, but nothing says as one "
                           "of how many: set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and "
                           "MASTER_ADDR (RANK=0 WORLD_SIZE=1 for a process alone)",
                           names[i]);
    return FR_OK;
}

/* The local rank and local size. */
static enum fr_rc place(struct tr_launched *o, struct fr_err *err)
{
    enum fr_rc rc;
    int v;

    if ((rc = tr_env_int(&plains[0].local_rank, &v, NULL, err)) != FR_OK)
        return rc;
    o->local_rank = v >= 0 ? v : o->local_rank;
    if ((rc = tr_env_int(&plains[0].local_size, &v, NULL, err)) != FR_OK)
        return rc;
    o->local_size = v >= 0 ? v : o->local_size;
    /* RANK and WORLD_SIZE alone, as containers set them, mean one process a machine. */
    bool alone = o->size == 1 || (o->rank_name == plains[0].rank.names[0] && o->local_rank <= 0);
    if (o->local_size < 0 && alone)
        o->local_size = 1;
    if (o->local_rank < 0 && o->local_size == 1)
        o->local_rank = 0;
    if (o->local_size < 0 || o->local_rank < 0)
        return fr_fail(err, FR_USAGE,
                       "this is rank %d of %d, and nothing says which of the ranks of this "
                       "machine: set LOCAL_RANK and LOCAL_WORLD_SIZE",
                       o->rank, o->size);
    if (o->local_rank >= o->local_size || o->local_size > o->size)
        return fr_fail(err, FR_USAGE,
                       "LOCAL_RANK %d, LOCAL_WORLD_SIZE %d and WORLD_SIZE %d do not fit together",
                       o->local_rank, o->local_size, o->size);
    return FR_OK;
}

/* Open MPI's name of a job, which all of its ranks share. */
static void name_job(struct tr_launched *o)
{
    const char *name = getenv("PMIX_NAMESPACE");

    if (o->rank_name == NULL || o->rank_name == plains[0].rank.names[0] || o->job[0] != '\0' ||
        name == NULL)
        return;
    (void)snprintf(o->job, sizeof(o->job), "%s", name);
    o->port = port_of(o->job);
}

enum fr_rc tr_launched(struct tr_launched *o, struct fr_err *err)
{
    enum fr_rc rc = find(o, err);

    if (rc == FR_OK && o->rank_name == NULL)
        rc = unknown(err);
    if (rc != FR_OK)
        return rc;
    if (o->rank >= o->size)
        return fr_fail(err, FR_USAGE, "%s %d is not below %s %d", o->rank_name, o->rank,
                       o->size_name, o->size);
    name_job(o);
    return place(o, err);
}
