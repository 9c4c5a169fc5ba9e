/* Which agent a login uses (exec.h, fr_nodes_agents). */
#include "engine/exec/private.h"

#include "engine/base/sys.h"

#include <stdio.h>
#include <string.h>

static bool has(char *const *list, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], path) == 0)
            return true;
    return false;
}

void fr_agents_finish(struct fr_nodes *ex)
{
    fr_sys_names_free(ex->agents, ex->n_agents);
    ex->agents = NULL;
    ex->n_agents = 0;
}

/* Nodes that refused each login so far. */
static void try_refused(struct fr_nodes *ex)
{
    for (struct fr_chan *ch = ex->chans; ch != NULL; ch = ch->next)
        if (ch->denied)
            fr_chan_connect(ch);
}

enum fr_rc fr_nodes_agents(struct fr_nodes *ex, const char *const *paths, size_t n,
                           struct fr_err *err)
{
    char **list = fr_sys.alloc((n + 1) * sizeof(*list));
    bool more = false;
    size_t k = 0;

    for (size_t i = 0; list != NULL && i < n; i++) {
        size_t bytes = strlen(paths[i]) + 1;

        if (bytes > FR_AGENT_PATH || has(list, k, paths[i]))
            continue;
        if ((list[k] = fr_sys.alloc(bytes)) == NULL) {
            fr_sys_names_free(list, k);
            return fr_fail(err, FR_NOMEM, "no memory for agents");
        }
        memcpy(list[k], paths[i], bytes);
        more = more || !has(ex->agents, ex->n_agents, paths[i]);
        k++;
    }
    if (list == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for agents");
    fr_agents_finish(ex);
    ex->agents = list;
    ex->n_agents = k;
    ex->agents_known = true;
    ex->agents_change += more;
    if (more)
        try_refused(ex);
    return FR_OK;
}

void fr_chan_pick_agent(struct fr_chan *ch)
{
    const struct fr_nodes *ex = ch->ex;
    const char *path = ex->n_agents > 0 ? ex->agents[ch->agent % ex->n_agents] : "";

    ch->agents_seen = ex->agents_change;
    if (!ex->agents_known)
        return;
    if (ch->node.ssh.agent != NULL && strcmp(path, ch->agent_path) == 0)
        return;
    snprintf(ch->agent_path, sizeof(ch->agent_path), "%s", path);
    ch->node.ssh.agent = ch->agent_path;
    if (ch->link.ops != NULL && strcmp(ch->link.ops->name, "openssh") == 0)
        fr_link_destroy(&ch->link); /* it is made with its agent */
}

bool fr_chan_next_agent(struct fr_chan *ch, const struct fr_err *err)
{
    if (ch->state != FR_CHAN_CONNECTING)
        return false;
    ch->agent++;
    if (err->rc == FR_DENIED && ch->agents_seen != ch->ex->agents_change) {
        ch->refused = 0; /* a new one came during this try */
        return true;
    }
    ch->refused = err->rc == FR_DENIED ? ch->refused + 1 : 0;
    return ch->refused > 0 && ch->refused < ch->ex->n_agents;
}
