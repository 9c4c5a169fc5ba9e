/* What a run has of the shell that it was submitted, or resumed, in: stored with it, so that it
 * goes on alike under a host that no shell gave it to. */
#include "engine/run/inside.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const *fr_run_inherited(void)
{
    static const char *const names[] = {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "XDG_RUNTIME_DIR", NULL};

    return names;
}

static bool add(struct fr_run *run, const char *name, const char *value)
{
    return value == NULL || run_add(&run->arena, &run->shell_env, "%s=%s", name, value);
}

enum fr_rc run_shell_take(struct fr_run *run, struct fr_err *err)
{
    const struct fr_run_shell *shell = &run->env.shell;
    bool ok = true;

    if (shell->stored || shell->getenv == NULL)
        return FR_OK;
    run->shell_umask = shell->umask;
    for (const char *const *name = fr_run_inherited(); ok && *name != NULL; name++)
        ok = add(run, *name, shell->getenv(shell->self, *name));
    return ok ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for the shell of a run");
}

json_t *run_shell_json(const struct fr_run *run)
{
    json_t *doc = json_object(), *env = json_object();

    for (size_t i = 0; i < run->shell_env.n; i++) {
        const char *kv = run->shell_env.v[i].p, *eq = strchr(kv, '=');
        char name[32] = "";

        if ((size_t)(eq - kv) < sizeof(name))
            memcpy(name, kv, (size_t)(eq - kv));
        json_object_set_new(env, name, json_string(eq + 1));
    }
    json_object_set_new(doc, "env", env);
    if (run->shell_umask != 0)
        json_object_set_new(doc, "umask", json_integer(run->shell_umask & 0777));
    return doc;
}

static enum fr_rc load(struct fr_run *run, const json_t *doc, struct fr_err *err)
{
    const json_t *env = json_object_get(doc, "env"), *mask = json_object_get(doc, "umask");
    bool ok = true;

    if (mask != NULL)
        run->shell_umask = FR_UMASK_SET | ((uint32_t)json_integer_value(mask) & 0777);
    for (const char *const *name = fr_run_inherited(); ok && *name != NULL; name++)
        ok = add(run, *name, json_string_value(json_object_get(env, *name)));
    return ok ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for the shell of a run");
}

static enum fr_rc store(struct fr_run *run, const json_t *doc, struct fr_err *err)
{
    run->row.params = run_json_text(run, doc);
    return run->row.params != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for parameters");
}

/* With the state of a retry that waits, or has not reset all instances. */
static enum fr_rc store_retry(struct fr_run *run, json_t *doc, bool resets, struct fr_err *err)
{
    const char *from = run->retry_from != NULL ? run->retry_from : "";

    json_object_del(doc, "retry");
    json_object_del(doc, "resets");
    if (run->retries || resets)
        json_object_set_new(doc, run->retries ? "retry" : "resets", json_string(from));
    return store(run, doc, err);
}

enum fr_rc run_shell_load(struct fr_run *run, struct fr_err *err)
{
    json_t *doc = NULL, *shell = NULL;
    enum fr_rc rc = fr_json_parse(fr_str_of(run->row.params), "stored parameters", &doc, err);

    if (rc == FR_OK && run->env.shell.stored)
        rc = load(run, json_object_get(doc, "shell"), err);
    else if (rc == FR_OK && (rc = run_shell_take(run, err)) == FR_OK)
        shell = run_shell_json(run);
    if (shell != NULL)
        json_object_set(doc, "shell", shell);
    if (rc == FR_OK)
        rc = store_retry(run, doc, run->resetting, err);
    json_decref(shell);
    json_decref(doc);
    return rc;
}

static enum fr_rc mark(struct fr_run *run, bool resets, struct fr_err *err)
{
    json_t *doc = NULL;
    enum fr_rc rc = fr_json_parse(fr_str_of(run->row.params), "stored parameters", &doc, err);

    if (rc == FR_OK)
        rc = store_retry(run, doc, resets, err);
    json_decref(doc);
    return rc;
}

bool run_reset_mark(struct fr_run *run)
{
    if (!fr_sched_resets(run->sched))
        return true;
    run->resetting = true;
    return mark(run, true, NULL) == FR_OK;
}

enum fr_rc run_reset_write(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc;

    if (!run->resetting || fr_sched_resets(run->sched))
        return FR_OK;
    rc = mark(run, false, err);
    return rc == FR_OK ? fr_store_run_set(run->env.store, &run->row, err) : rc;
}

static bool is_inherited(const char *kv)
{
    for (const char *const *name = fr_run_inherited(); *name != NULL; name++)
        if (fr_has_prefix(kv, *name) && kv[strlen(*name)] == '=')
            return true;
    return false;
}

const char **run_shell_environ(const struct fr_run *run, struct fr_arena *arena)
{
    size_t n = 0, all = 0;
    const char **out;

    while (environ[all] != NULL)
        all++;
    out = fr_arena_array(arena, all + run->shell_env.n + 1, sizeof(*out));
    for (size_t i = 0; out != NULL && i < all; i++)
        if (run->shell_env.n == 0 || !is_inherited(environ[i]))
            out[n++] = environ[i];
    for (size_t i = 0; out != NULL && i < run->shell_env.n; i++)
        out[n++] = run->shell_env.v[i].p;
    return out;
}
