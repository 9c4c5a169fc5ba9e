#include "trainer/comm/launch_env.h"

#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "trainer/comm/launchers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOIN_MS = 600000, TIMEOUT_MS = 1800000, DEFAULT_PORT = 29500 };

#define FNV_BASIS UINT64_C(14695981039346656037)

static uint64_t hash_more(uint64_t h, const char *s)
{
    for (; s != NULL && *s != '\0'; s++)
        h = (h ^ (uint64_t)(unsigned char)*s) * UINT64_C(1099511628211); /* FNV-1a */
    return (h ^ 0xff) * UINT64_C(1099511628211);
}

/* A number shared by the ranks of one machine alone, from its boot id and its name. */
static int machine(void)
{
    char name[65] = "", boot[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (f != NULL && fgets(boot, sizeof(boot), f) == NULL)
        boot[0] = '\0';
    if (f != NULL)
        (void)fclose(f);
    (void)gethostname(name, sizeof(name) - 1);
    return (int)(hash_more(hash_more(FNV_BASIS, boot), name) & 0x7fffffff);
}

/* Node numbers of the launcher; under MPI, which has none, ids of machines; under torchrun, blocks
 * of equal size in the order of ranks. */
static enum fr_rc number_nodes(struct tr_comm_opts *o, const struct tr_launched *l,
                               struct fr_err *err)
{
    bool torch = l->rank_name != NULL && strcmp(l->rank_name, "RANK") == 0;

    if (o->size == o->local_size) {
        o->node = 0;
        o->nodes = 1;
    } else if (l->node >= 0 && l->nodes >= 0) {
        o->node = l->node;
        o->nodes = l->nodes;
    } else if (!torch) {
        o->node = machine();
        o->nodes = 0;
    } else if (o->size % o->local_size != 0) {
        return fr_fail(err, FR_USAGE,
                       "%d of %d ranks are on this machine, so not all machines have as many: set "
                       "GROUP_RANK and GROUP_WORLD_SIZE, the number of the machine and of all",
                       o->local_size, o->size);
    } else {
        o->node = o->rank / o->local_size;
        o->nodes = o->size / o->local_size;
    }
    return FR_OK;
}

static enum fr_rc nodes(struct tr_comm_opts *o, const struct tr_launched *l, struct fr_err *err)
{
    static const struct tr_env_int group = {{"GROUP_RANK"}, -1, 0, 1 << 20};
    static const struct tr_env_int groups = {{"GROUP_WORLD_SIZE"}, -1, 1, 1 << 20};
    int node, count;
    enum fr_rc rc = tr_env_int(&group, &node, NULL, err);

    if (rc == FR_OK)
        rc = tr_env_int(&groups, &count, NULL, err);
    if (rc == FR_OK && (node < 0 || count < 0))
        rc = number_nodes(o, l, err);
    if (rc != FR_OK)
        return rc;
    o->node = node >= 0 ? node : o->node;
    o->nodes = count >= 0 ? count : o->nodes;
    if (o->nodes > 0 && o->node >= o->nodes)
        return fr_fail(err, FR_USAGE, "GROUP_RANK %d is not below GROUP_WORLD_SIZE %d", o->node,
                       o->nodes);
    return FR_OK;
}

/* The address of rank 0: MASTER_ADDR, else the launcher's, else this machine if it has all ranks.
 */
static enum fr_rc meeting(struct tr_comm_opts *o, const struct tr_launched *l, struct fr_err *err)
{
    const struct tr_env_int port = {
        {"MASTER_PORT"}, l->port > 0 ? l->port : DEFAULT_PORT, 1, 65535};
    const char *addr = getenv("MASTER_ADDR");

    if (addr == NULL && l->addr[0] != '\0')
        addr = l->addr;
    if (addr == NULL && o->local_size < o->size)
        return fr_fail(err, FR_USAGE,
                       "%s is %d but MASTER_ADDR is not set: it names the machine of rank 0",
                       l->size_name, o->size);
    snprintf(o->addr, sizeof(o->addr), "%s", addr != NULL ? addr : "127.0.0.1");
    return tr_env_int(&port, &o->port, NULL, err);
}

static void tell_script(const struct tr_launched *l)
{
    if (l->script_tasks > 1)
        fr_log(FR_LOG_WARN, "launch",
               "Slurm gave this job %d tasks, and this is its script or shell: one process. "
               "srun flowtrain starts a rank in each task",
               l->script_tasks);
}

static enum fr_rc local_socks(struct tr_comm_opts *o, struct fr_err *err)
{
    const char *text = getenv("FLOWTRAIN_LOCAL_SOCKS");

    if (text == NULL || text[0] == '\0')
        return FR_OK;
    o->local_socks = fr_sys.alloc((size_t)o->local_size * sizeof(int));
    if (o->local_socks == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the local ranks");
    for (int j = 0; j < o->local_size; j++) {
        size_t n = strcspn(text, ",");
        int64_t fd = -1;
        if (fr_parse_i64((struct fr_str){text, n}, &fd, err) != FR_OK || fd < -1 || fd > 1 << 20)
            return fr_fail(err, FR_USAGE, "FLOWTRAIN_LOCAL_SOCKS: bad descriptor '%.*s'", (int)n,
                           text);
        o->local_socks[j] = (int)fd;
        text += n + (text[n] == ',');
    }
    unsetenv("FLOWTRAIN_LOCAL_SOCKS"); /* so that child processes do not use them */
    return FR_OK;
}

enum fr_rc tr_launch_env(struct tr_comm_opts *o, struct fr_err *err)
{
    static const struct tr_env_int restarts = {{"TORCHELASTIC_RESTART_COUNT"}, 0, 0, 1 << 20};
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    const char *debug = getenv("TORCH_DISTRIBUTED_DEBUG");
    struct tr_launched l;
    char text[64];
    int restart = 0;

    *o = (struct tr_comm_opts){.join_ms = JOIN_MS, .timeout_ms = TIMEOUT_MS, .exit_code = 4};
    enum fr_rc rc = tr_launched(&l, err);
    if (rc != FR_OK)
        return rc;
    o->rank = l.rank;
    o->size = l.size;
    o->local_rank = l.local_rank;
    o->local_size = l.local_size;
    if ((rc = nodes(o, &l, err)) != FR_OK || (rc = meeting(o, &l, err)) != FR_OK ||
        (rc = tr_env_int(&restarts, &restart, NULL, err)) != FR_OK)
        return rc;
    tell_script(&l);
    o->check = debug != NULL && strcmp(debug, "DETAIL") == 0;
    if (agent != NULL && strcasecmp(agent, "True") == 0)
        o->port += 1 + restart % 8;
    snprintf(text, sizeof(text), "%d %d", o->size, restart);
    o->job = hash_more(FNV_BASIS, text);
    o->job = hash_more(o->job, getenv("TORCHELASTIC_RUN_ID"));
    o->job = hash_more(o->job, getenv("FLOWTRAIN_GENERATION"));
    o->job = hash_more(o->job, l.job);
    return local_socks(o, err);
}

void tr_comm_opts_finish(struct tr_comm_opts *o)
{
    fr_sys.free(o->local_socks);
    o->local_socks = NULL;
}
