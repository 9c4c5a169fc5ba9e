/* The login node of a cluster: as its inventory has it, as a row keeps it, and whether it is there.
 */
#include "engine/allocate/private.h"

#include "engine/base/json.h"
#include "engine/base/log.h"

#include <jansson.h>

/* ---- as a row keeps it ---- */

const char *alloc_login_text(const struct fr_node *login, struct fr_arena *arena)
{
    struct fr_buf out = {0};
    json_t *all;
    const char *text = NULL;

    if (login == NULL)
        return "";
    all = json_pack("{s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:i, s:i, s:I, s:I}", "address",
                    login->address, "user", login->user, "key", login->key, "known_hosts",
                    login->known_hosts, "ssh_config", login->ssh_config, "work", login->work,
                    "port", login->port, "transport", (int)login->transport, "timeout_ms",
                    (json_int_t)login->connect.timeout_ms, "retry_for_ms",
                    (json_int_t)login->connect.retry_for_ms);
    if (all != NULL)
        fr_json_add(&out, all, JSON_COMPACT | JSON_SORT_KEYS);
    if (all != NULL && !out.bad)
        text = fr_arena_text(arena, out.p, out.n);
    json_decref(all);
    fr_buf_finish(&out);
    return text;
}

/* The texts of *out are borrowed from all. */
static bool read_login(json_t *all, struct fr_node *out)
{
    int transport = 0;
    json_int_t timeout_ms = 0, retry_for_ms = 0;

    *out = (struct fr_node){.executor = FR_EXECUTOR_SSH};
    if (json_unpack(all, "{s:s, s?s, s?s, s?s, s?s, s?s, s:i, s:i, s:I, s:I}", "address",
                    &out->address, "user", &out->user, "key", &out->key, "known_hosts",
                    &out->known_hosts, "ssh_config", &out->ssh_config, "work", &out->work, "port",
                    &out->port, "transport", &transport, "timeout_ms", &timeout_ms, "retry_for_ms",
                    &retry_for_ms) != 0)
        return false;
    out->name = out->address;
    out->transport = transport == FR_VIA_LIBSSH2   ? FR_VIA_LIBSSH2
                     : transport == FR_VIA_OPENSSH ? FR_VIA_OPENSSH
                                                   : FR_VIA_AUTO;
    out->connect = (struct fr_connect){timeout_ms, retry_for_ms};
    return true;
}

/* ---- whether it is there ---- */

static void give_up(struct host_cluster *c, const char *why)
{
    snprintf(c->broken, sizeof(c->broken), "the login node: %.380s", why);
    c->known = true;
}

/* Places were nowhere while it was away; what keepers write was not read. */
static void came_up(struct host_cluster *c)
{
    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next)
        if (al->cluster == c && al->job == NULL && al->look_ms != INT64_MAX)
            al->look_ms = 0;
    if (c->broken[0] != '\0')
        alloc_cluster_again(c);
    fr_cluster_ready(c->cluster);
    fr_nodes_moved(c->host->env.nodes);
}

static void on_changed(void *arg)
{
    struct host_cluster *c = arg;
    struct fr_login_state now = fr_login_is(c->login);
    bool late = now.until_ms >= 0 && fr_sys.mono_ms() >= now.until_ms;

    c->host->woken = true;
    if (now.up)
        came_up(c);
    else if (!c->known && (now.final || late))
        give_up(c, now.why);
}

enum fr_rc alloc_login_create(struct host_cluster *c, const char *text, struct fr_err *err)
{
    struct fr_login_args args = {
        .nodes = c->host->env.nodes, .path = c->path, .changed = on_changed, .arg = c};
    struct fr_exec_node node;
    struct fr_node login;
    json_t *all = NULL;
    enum fr_rc rc = fr_json_parse(fr_str_of(text), "a login node", &all, err);

    if (rc == FR_OK && !read_login(all, &login))
        rc = fr_fail(err, FR_CORRUPT, "the row of an allocation has no login node");
    if (rc == FR_OK) {
        node = fr_exec_node_of(&login, (struct fr_id){0});
        args.node = &node;
        rc = fr_login_create(&args, &c->login, err);
    }
    json_decref(all);
    return rc;
}
