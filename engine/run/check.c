/* What a pipeline names of this machine: is it here, before the run begins? */
#include "engine/run/inside.h"

#include <errno.h>
#include <string.h>

struct check {
    const struct fr_plan *plan;
    bool *marks; /* a task each: scratch */
    struct fr_issues *issues;
    struct fr_pos *at; /* where each line of issues stands; in their arena */
    struct fr_err *err;
    enum fr_rc rc; /* FR_NOMEM ends it */
};

/* Lines are kept in the order of the file. */
__attribute__((format(printf, 3, 4))) static void wrong(struct check *c, struct fr_pos pos,
                                                        const char *fmt, ...)
{
    struct fr_issues *is = c->issues;
    struct fr_buf b = {0}, safe = {0};
    const char **lines = run_grow(&is->arena, is->lines, is->n, sizeof(*lines));
    struct fr_pos *at = run_grow(&is->arena, c->at, is->n, sizeof(*at));
    const char *text = NULL;
    size_t i = is->n;
    va_list ap;

    fr_buf_fmt(&b, "%s:%d:%d: ", c->plan->spec->sources[pos.file].path, pos.line, pos.col);
    va_start(ap, fmt);
    fr_buf_vfmt(&b, fmt, ap);
    va_end(ap);
    fr_buf_visible(&safe, b.p != NULL ? b.p : "", b.n);
    if (!b.bad && !safe.bad)
        text = fr_arena_text(&is->arena, safe.p, safe.n);
    fr_buf_finish(&b);
    fr_buf_finish(&safe);
    if (lines == NULL || at == NULL || text == NULL) {
        c->rc = fr_fail(c->err, FR_NOMEM, "no memory for the list of mistakes");
        return;
    }
    is->lines = lines;
    c->at = at;
    for (; i > 0 &&
           (at[i - 1].file > pos.file || (at[i - 1].file == pos.file && at[i - 1].line > pos.line));
         i--) {
        lines[i] = lines[i - 1];
        at[i] = at[i - 1];
    }
    lines[i] = text;
    at[i] = pos;
    is->n++;
}

static bool is_here(const char *path)
{
    struct stat st;

    return fr_sys.lstat(path, &st) == 0;
}

/* ---- files of tasks ---- */

/* A task that waits for one on this machine may find files that are not here yet. */
static bool may_come(struct check *c, uint32_t task)
{
    const struct fr_plan *plan = c->plan;

    memset(c->marks, 0, plan->n_tasks * sizeof(*c->marks));
    fr_plan_mark_needs(plan, task, c->marks);
    for (uint32_t t = 0; t < plan->n_tasks; t++) {
        const struct fr_plan_task *need = &plan->tasks[t];

        for (uint32_t i = 0; c->marks[t] && t != task && i < need->count; i++)
            if (run_local(plan, plan->insts[need->first + i].node))
                return true;
    }
    return false;
}

static void check_file(struct check *c, uint32_t task, const struct fr_text *text)
{
    int missing;

    if (text->expr != NULL || text->s == NULL || fr_has_prefix(text->s, "node:") ||
        is_here(text->s))
        return;
    missing = errno;
    if (!may_come(c, task))
        wrong(c, text->pos,
              "%s: %s; expected a file or folder on this machine (node:PATH names one of the "
              "node's own)",
              text->s, strerror(missing));
}

static void check_task(struct check *c, uint32_t t)
{
    const struct fr_task *task = c->plan->tasks[t].spec;

    for (size_t i = 0; i < task->n_files; i++)
        check_file(c, t, &task->files[i].value);
    for (size_t i = 0; i < task->act.n_with; i++)
        if (task->act.with[i].key->type == FR_T_PATH && task->act.with[i].n == 1)
            check_file(c, t, &task->act.with[i].items[0].value);
}

/* ---- nodes and secrets ---- */

static void check_node(struct check *c, const struct fr_node *node)
{
    const char *const paths[] = {node->key, node->known_hosts, node->ssh_config};
    static const char *const names[] = {"key", "known_hosts", "ssh_config"};

    if (node->executor != FR_EXECUTOR_SSH)
        return;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (paths[i] != NULL && !is_here(paths[i]))
            wrong(c, node->pos, "%s of node '%s': %s: %s", names[i], node->name, paths[i],
                  strerror(errno));
}

static void check_secret(struct check *c, const struct fr_secret *s)
{
    struct fr_buf value = {0};
    struct fr_err err;

    if (s->from != FR_SECRET_COMMAND && run_secret_read(s, &value, &err) != FR_OK)
        wrong(c, s->pos, "%s", err.msg);
    fr_buf_finish(&value);
}

enum fr_rc fr_run_check(const struct fr_plan *plan, struct fr_issues *issues, struct fr_err *err)
{
    const struct fr_spec *spec = plan->spec;
    struct check c = {.plan = plan, .issues = issues, .err = err};

    c.marks = fr_arena_array(&issues->arena, plan->n_tasks, sizeof(*c.marks));
    if (c.marks == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the plan");
    for (size_t i = 0; c.rc == FR_OK && i < spec->n_nodes; i++)
        check_node(&c, &spec->nodes[i]);
    for (size_t i = 0; c.rc == FR_OK && i < spec->n_secrets; i++)
        check_secret(&c, &spec->secrets[i]);
    for (uint32_t t = 0; c.rc == FR_OK && t < plan->n_tasks; t++)
        check_task(&c, t);
    if (c.rc == FR_OK && issues->n > 0)
        return fr_fail(err, FR_USAGE, "%s", issues->lines[0]);
    return c.rc;
}
