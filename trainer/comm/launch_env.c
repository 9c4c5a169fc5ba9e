#include "trainer/comm/launch_env.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOIN_MS = 600000, TIMEOUT_MS = 1800000, DEFAULT_PORT = 29500 };

/* One number of the environment under several names; the first that is set counts. */
struct env_int {
    const char *names[4];
    int preset, low, high;
};

static enum fr_rc env_int(const struct env_int *e, int *out, bool *set, struct fr_err *err)
{
    *out = e->preset;
    if (set != NULL)
        *set = false;
    for (size_t i = 0; i < 4 && e->names[i] != NULL; i++) {
        const char *text = getenv(e->names[i]);
        int64_t v;
        if (text == NULL)
            continue;
        if (fr_parse_i64(fr_str_of(text), &v, err) != FR_OK || v < e->low || v > e->high)
            return fr_fail(err, FR_USAGE, "environment variable %s is '%s', expected %d..%d",
                           e->names[i], text, e->low, e->high);
        *out = (int)v;
        if (set != NULL)
            *set = true;
        return FR_OK;
    }
    return FR_OK;
}

static uint64_t hash_more(uint64_t h, const char *s)
{
    for (; s != NULL && *s != '\0'; s++)
        h = (h ^ (uint64_t)(unsigned char)*s) * UINT64_C(1099511628211); /* FNV-1a */
    return (h ^ 0xff) * UINT64_C(1099511628211);
}

static enum fr_rc ranks(struct tr_comm_opts *o, struct fr_err *err)
{
    static const struct env_int rank = {
        {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}, 0, 0, 1 << 20};
    static const struct env_int size = {
        {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 1, 1, 1 << 20};
    static const struct env_int local = {
        {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0, 0, 4096};
    static const struct env_int locals = {
        {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}, 1, 1, 4096};
    bool has_rank, has_size;
    enum fr_rc rc = env_int(&rank, &o->rank, &has_rank, err);

    if (rc == FR_OK)
        rc = env_int(&size, &o->size, &has_size, err);
    if (rc == FR_OK)
        rc = env_int(&local, &o->local_rank, NULL, err);
    if (rc == FR_OK)
        rc = env_int(&locals, &o->local_size, NULL, err);
    if (rc != FR_OK)
        return rc;
    if (has_rank != has_size)
        return fr_fail(err, FR_USAGE, "RANK and WORLD_SIZE must be set both or neither");
    if (o->rank >= o->size)
        return fr_fail(err, FR_USAGE, "RANK %d is not below WORLD_SIZE %d", o->rank, o->size);
    if (o->local_rank >= o->local_size || o->local_size > o->size)
        return fr_fail(err, FR_USAGE,
                       "LOCAL_RANK %d, LOCAL_WORLD_SIZE %d and WORLD_SIZE %d do not fit together",
                       o->local_rank, o->local_size, o->size);
    return FR_OK;
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
    unsetenv("FLOWTRAIN_LOCAL_SOCKS"); /* no child of ours shall think they are its own */
    return FR_OK;
}

enum fr_rc tr_launch_env(struct tr_comm_opts *o, struct fr_err *err)
{
    static const struct env_int port = {{"MASTER_PORT"}, DEFAULT_PORT, 1, 65535};
    static const struct env_int restarts = {{"TORCHELASTIC_RESTART_COUNT"}, 0, 0, 1 << 20};
    static const struct env_int group = {{"GROUP_RANK"}, -1, 0, 1 << 20};
    static const struct env_int groups = {{"GROUP_WORLD_SIZE"}, 0, 1, 1 << 20};
    const char *addr = getenv("MASTER_ADDR"), *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    const char *debug = getenv("TORCH_DISTRIBUTED_DEBUG");
    char text[64];
    int restart = 0;

    *o = (struct tr_comm_opts){.join_ms = JOIN_MS, .timeout_ms = TIMEOUT_MS, .exit_code = 4};
    enum fr_rc rc = ranks(o, err);
    if (rc == FR_OK)
        rc = env_int(&port, &o->port, NULL, err);
    if (rc == FR_OK)
        rc = env_int(&restarts, &restart, NULL, err);
    if (rc == FR_OK)
        rc = env_int(&group, &o->node, NULL, err);
    if (rc == FR_OK)
        rc = env_int(&groups, &o->nodes, NULL, err);
    if (rc != FR_OK)
        return rc;
    if (o->node < 0)
        o->node = o->rank / o->local_size;
    if (o->nodes == 0)
        o->nodes = (o->size + o->local_size - 1) / o->local_size;
    if (o->size > 1 && addr == NULL)
        return fr_fail(err, FR_USAGE, "WORLD_SIZE is %d but MASTER_ADDR is not set", o->size);
    snprintf(o->addr, sizeof(o->addr), "%s", addr != NULL ? addr : "127.0.0.1");
    o->check = debug != NULL && strcmp(debug, "DETAIL") == 0;
    if (agent != NULL && strcasecmp(agent, "True") == 0)
        o->port += 1 + restart % 8;
    snprintf(text, sizeof(text), "%d %d", o->size, restart);
    o->job = hash_more(UINT64_C(14695981039346656037), text);
    o->job = hash_more(o->job, getenv("TORCHELASTIC_RUN_ID"));
    o->job = hash_more(o->job, getenv("FLOWTRAIN_GENERATION"));
    return local_socks(o, err);
}

void tr_comm_opts_finish(struct tr_comm_opts *o)
{
    fr_sys.free(o->local_socks);
    o->local_socks = NULL;
}
