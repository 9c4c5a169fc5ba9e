/* What the shells of runs gave. */
#include "engine/runs/private.h"

#include <stdlib.h>

enum { AGENTS_MAX = 16 };

static const char *given(const struct host_run *h, const char *what, const char *name)
{
    return json_string_value(json_object_get(json_object_get(h->shell, what), name));
}

const char *shell_env(void *self, const char *name)
{
    const struct host_run *h = self;
    const char *value = h->own_shell ? h->own.getenv(h->own.self, name) : given(h, "env", name);
    const char *secret = h->own_shell && value != NULL ? NULL : given(h, "secrets", name);

    return secret != NULL ? secret : value;
}

void shell_agents(struct fr_host *host)
{
    const char *own = getenv("SSH_AUTH_SOCK"), *paths[AGENTS_MAX + 1];
    size_t n = 0;

    for (size_t i = host->n; i-- > 0 && n < AGENTS_MAX;) {
        paths[n] = json_string_value(json_object_get(host->runs[i]->shell, "agent"));
        n += paths[n] != NULL;
    }
    if (own != NULL && own[0] == '/')
        paths[n++] = own;
    (void)fr_nodes_agents(host->env.nodes, paths, n, NULL); /* no memory: those of before */
}

enum fr_rc host_give(struct host_run *h, json_t *shell, struct fr_err *err)
{
    json_t *more = json_object_get(shell, "secrets"), *secrets;
    json_t *agent = json_object_get(shell, "agent");

    if (h->shell == NULL)
        h->shell = json_object();
    if (agent != NULL && json_object_set(h->shell, "agent", agent) == 0)
        shell_agents(h->host);
    if (json_object_size(more) == 0)
        return FR_OK;
    secrets = json_object_get(h->shell, "secrets");
    if (secrets == NULL && json_object_set_new(h->shell, "secrets", json_object()) == 0)
        secrets = json_object_get(h->shell, "secrets");
    if (secrets == NULL || json_object_update(secrets, more) != 0)
        return fr_fail(err, FR_NOMEM, "no memory for secrets");
    fr_run_shell_changed(h->run);
    return FR_OK;
}

struct fr_id shell_granted(const struct host_run *h)
{
    const char *run = json_string_value(json_object_get(h->shell, "parent_run"));
    const char *attempt = json_string_value(json_object_get(h->shell, "parent_attempt"));
    struct fr_id run_id, id, home = {{0}};
    struct fr_attempt_rows rows = {0};
    struct fr_arena arena = {0};

    if (run == NULL || attempt == NULL || !fr_id_parse(fr_str_of(run), &run_id) ||
        !fr_id_parse(fr_str_of(attempt), &id) ||
        fr_store_attempts(h->host->env.store, run_id, &arena, &rows, NULL) != FR_OK)
        rows.n = 0;
    for (size_t i = 0; i < rows.n; i++)
        if (fr_id_eq(rows.rows[i].id, id) && rows.rows[i].ended_wall == 0)
            home = rows.rows[i].home_id;
    fr_arena_finish(&arena);
    return home;
}

void shell_find(struct host_run *h, const char *run)
{
    const struct fr_run_shell *own = NULL;
    struct fr_arena arena = {0};
    struct fr_run_row row;

    if (h->shell == NULL &&
        fr_store_run_find(h->host->env.store, run, &arena, &row, NULL) == FR_OK) {
        if (row.schedule != 0 && h->host->config.schedule_shell.getenv != NULL)
            own = &h->host->config.schedule_shell;
        else if (row.origin == FR_ORIGIN_API && h->host->config.shell.getenv != NULL)
            own = &h->host->config.shell;
    }
    if (own != NULL) {
        h->own = *own;
        h->own_shell = true;
    }
    fr_arena_finish(&arena);
}
