/* What a pipeline names of this machine: is it here, before the run begins? */
#include "engine/base/file.h"
#include "engine/base/proc.h"
#include "engine/run/folders.h"
#include "engine/run/inside.h"

#include <errno.h>
#include <string.h>

enum {
    MISTAKES_MAX = 200,
    DESCRIPTORS_OWN = 24, /* of flowrun: its store, streams, and short-lived ones */
    SCRIPT_MAX = 120000,  /* below the kernel's limit of one argument … */
    TEXT_MAX = 128 << 10, /* … or variable, as NAME=VALUE with its NUL (MAX_ARG_STRLEN) */
};

/* Marks of a task: it runs on this machine; it waits, directly or not, for one that does. */
enum { HERE = 1, BEHIND = 2 };

struct check {
    const struct fr_plan *plan;
    const struct fr_run_shell *shell;
    const struct fr_file_rows *kept; /* NULL: nothing */
    unsigned char *marks;            /* a task each */
    struct fr_issues *issues;
    struct fr_pos *at; /* where each line of issues stands; in their arena */
    size_t all;        /* mistakes, also those that are only counted */
    struct fr_err *err;
    enum fr_rc rc; /* FR_NOMEM ends it */
};

static bool is_before(struct fr_pos a, struct fr_pos b)
{
    return a.file != b.file ? a.file < b.file : a.line < b.line;
}

/* A place among the lines, which are in the order of the file; the first MISTAKES_MAX are kept.
 * NULL: there is none. */
static const char **take_place(struct check *c, struct fr_pos pos)
{
    struct fr_issues *is = c->issues;
    size_t i = is->n;

    c->all++;
    if (i < MISTAKES_MAX)
        is->n++;
    else if (!is_before(pos, c->at[--i]))
        return NULL;
    for (; i > 0 && is_before(pos, c->at[i - 1]); i--) {
        is->lines[i] = is->lines[i - 1];
        c->at[i] = c->at[i - 1];
    }
    c->at[i] = pos;
    return &is->lines[i];
}

__attribute__((format(printf, 3, 4))) static void wrong(struct check *c, struct fr_pos pos,
                                                        const char *fmt, ...)
{
    struct fr_buf b = {0}, safe = {0};
    const char **line = take_place(c, pos);
    va_list ap;

    if (line == NULL)
        return;
    fr_buf_fmt(&b, "%s:%d:%d: ", c->plan->spec->sources[pos.file].path, pos.line, pos.col);
    va_start(ap, fmt);
    fr_buf_vfmt(&b, fmt, ap);
    va_end(ap);
    fr_buf_visible(&safe, b.p != NULL ? b.p : "", b.n);
    *line = b.bad || safe.bad ? NULL : fr_arena_text(&c->issues->arena, safe.p, safe.n);
    if (*line == NULL)
        c->rc = fr_fail(c->err, FR_NOMEM, "no memory for the list of mistakes");
    fr_buf_finish(&b);
    fr_buf_finish(&safe);
}

/* What lies at a path of this machine. */
struct found {
    int failed; /* errno: nothing is here; 0: something is */
    bool folder;
    const char *kind; /* "a FIFO": it can neither be read nor shipped; NULL: a file or folder */
};

/* False: it cannot be known, and that is reported. */
static bool look(struct check *c, struct fr_pos pos, const char *path, struct found *out)
{
    struct fr_err err = {0};
    struct stat st = {0};
    enum fr_rc rc = fr_file_look_soon(path, &st, &out->failed, &err);

    out->folder = out->failed == 0 && S_ISDIR(st.st_mode);
    out->kind = out->failed == 0 && !S_ISDIR(st.st_mode) ? fr_file_kind(st.st_mode) : NULL;
    if (rc == FR_TIMEOUT)
        wrong(c, pos, "%s", err.msg);
    else if (rc != FR_OK)
        c->rc = fr_fail(c->err, rc, "%s", err.msg);
    return rc == FR_OK;
}

/* ---- files of tasks ---- */

/* A task that waits for one on this machine may find files that are not here yet; hooks wait for
 * all. */
static void mark_tasks(const struct fr_plan *plan, unsigned char *marks)
{
    uint32_t n = plan->n_tasks - plan->n_hooks;
    bool any = false;

    for (uint32_t i = 0; i < plan->n_tasks; i++)
        for (uint32_t k = 0; k < plan->tasks[i].count && (marks[i] & HERE) == 0; k++)
            if (run_local(plan, plan->insts[plan->tasks[i].first + k].node))
                marks[i] |= HERE;
    for (uint32_t i = 0; i < n; i++) {
        const struct fr_plan_task *task = &plan->tasks[plan->order[i]];

        for (uint32_t k = 0; k < task->n_needs && (marks[plan->order[i]] & BEHIND) == 0; k++)
            if (marks[task->needs[k]] != 0)
                marks[plan->order[i]] |= BEHIND;
        any = any || (marks[plan->order[i]] & HERE) != 0;
    }
    for (uint32_t i = n; any && i < plan->n_tasks; i++)
        marks[i] |= BEHIND;
}

static bool is_kept(const struct check *c, const char *path)
{
    for (size_t i = 0; c->kept != NULL && i < c->kept->n; i++)
        if (strcmp(c->kept->rows[i].path, path) == 0)
            return true;
    return false;
}

static void check_file(struct check *c, uint32_t task, const struct fr_text *text)
{
    struct found f;

    if (text->expr != NULL || text->s == NULL || fr_has_prefix(text->s, "node:") ||
        is_kept(c, text->s) || !look(c, text->pos, text->s, &f))
        return;
    if (f.kind != NULL)
        wrong(c, text->pos, "%s is %s; expected a file or folder", text->s, f.kind);
    else if (f.failed != 0 && (c->marks[task] & BEHIND) == 0)
        wrong(c, text->pos,
              "%s: %s; expected a file or folder on this machine (node:PATH names one of the "
              "node's own)",
              text->s, strerror(f.failed));
}

/* The value of an expression is not known yet: the node checks its length later. */
static void check_length(struct check *c, const struct fr_text *text, const char *name)
{
    size_t n = text->s != NULL && text->expr == NULL ? strlen(text->s) : 0;

    if (n + (name != NULL ? strlen(name) + 1 : 0) < TEXT_MAX)
        return;
    wrong(c, text->pos,
          "%s%s has %zu bytes; the kernel takes less than %d in one %s: ship it with "
          "`files:`",
          name != NULL ? "env " : "an argument", name != NULL ? name : "", n, (int)TEXT_MAX,
          name != NULL ? "variable" : "argument");
}

static void check_script(struct check *c, const struct fr_action *act)
{
    for (size_t i = 0; i < act->n_env; i++)
        check_length(c, &act->env[i].value, act->env[i].name);
    for (size_t i = 0; act->what == FR_ARGV && i < act->n_argv; i++)
        check_length(c, &act->argv[i], NULL);
    if (act->what == FR_RUN && strlen(act->run) > SCRIPT_MAX)
        wrong(c, act->pos,
              "the script of %s has more than %d bytes; ship it with `files:` and run that",
              act->name, (int)SCRIPT_MAX);
}

static void check_task(struct check *c, uint32_t t)
{
    const struct fr_task *task = c->plan->tasks[t].spec;

    check_script(c, &task->act);
    for (size_t i = 0; i < task->n_sidecars; i++)
        check_script(c, &task->sidecars[i]);
    for (size_t i = 0; i < task->n_files; i++)
        check_file(c, t, &task->files[i].value);
    for (size_t i = 0; i < task->act.n_with; i++)
        if (task->act.with[i].key->type == FR_T_PATH && task->act.with[i].n == 1)
            check_file(c, t, &task->act.with[i].items[0].value);
}

/* ---- gangs ---- */

/* flowrun holds a link to each node of a gang at once: a socket, or the pipes of a program. */
static void check_gang(struct check *c, const struct fr_plan_task *gang)
{
    size_t limit = fr_proc_raise_descriptors(), needs = DESCRIPTORS_OWN;

    for (uint32_t k = 0; k < gang->width; k++) {
        const struct fr_node *node = c->plan->nodes[c->plan->insts[gang->first + k].node].spec;

        needs += node->executor != FR_EXECUTOR_SSH || node->transport == FR_VIA_OPENSSH ? 3 : 1;
    }
    if (limit != 0 && needs > limit)
        wrong(c, gang->spec->act.pos,
              "gang '%s' needs %u nodes at once, which takes flowrun %zu open files; the limit is "
              "%zu: raise it (ulimit -Hn), or let the gang run on fewer nodes",
              gang->spec->act.name, gang->width, needs, limit);
}

/* ---- nodes and secrets ---- */

static void check_node(struct check *c, const struct fr_node *node)
{
    const char *const paths[] = {node->key, node->known_hosts, node->ssh_config};
    static const char *const names[] = {"key", "known_hosts", "ssh_config"};

    if (node->executor != FR_EXECUTOR_SSH)
        return;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct found f;

        if (paths[i] == NULL || !look(c, node->pos, paths[i], &f))
            continue;
        if (f.kind != NULL)
            wrong(c, node->pos, "%s of node '%s': %s is %s, expected a file", names[i], node->name,
                  paths[i], f.kind);
        else if (f.failed != 0)
            wrong(c, node->pos, "%s of node '%s': %s: %s", names[i], node->name, paths[i],
                  strerror(f.failed));
    }
}

static void on_folder(void *arg, const struct fr_slurm_finding *f)
{
    struct check *c = arg;
    const struct fr_slurm_spec *s = c->plan->spec->slurm;

    wrong(c, f->key == FR_SLURM_KEY_PATH ? s->path_pos : s->work_pos, "%s", f->text);
}

static void check_slurm(struct check *c, const struct fr_slurm_spec *s)
{
    if (s->login != NULL)
        check_node(c, s->login);
    else if (c->rc == FR_OK)
        c->rc = fr_run_check_folders(s, (struct fr_slurm_sink){on_folder, c}, c->err);
}

static void check_secret(struct check *c, const struct fr_secret *s)
{
    struct fr_buf value = {0};
    struct fr_err err;
    enum fr_rc rc = FR_OK;

    if (s->from != FR_SECRET_COMMAND)
        rc = run_secret_read(s, c->shell, &value, &err);
    if (rc == FR_STOPPED)
        c->rc = fr_fail(c->err, rc, "%s", err.msg);
    else if (rc != FR_OK)
        wrong(c, s->pos, "%s", err.msg);
    fr_buf_finish(&value);
}

enum fr_rc fr_run_check(const struct fr_plan *plan, const struct fr_run_shell *shell,
                        const struct fr_file_rows *kept, struct fr_issues *issues,
                        struct fr_err *err)
{
    const struct fr_spec *spec = plan->spec;
    struct check c = {.plan = plan, .shell = shell, .kept = kept, .issues = issues, .err = err};
    struct fr_arena *arena = &issues->arena;

    c.marks = fr_arena_array(arena, plan->n_tasks, sizeof(*c.marks));
    c.at = fr_arena_array(arena, MISTAKES_MAX, sizeof(*c.at));
    issues->lines = fr_arena_array(arena, MISTAKES_MAX + 1, sizeof(*issues->lines));
    if (c.marks == NULL || c.at == NULL || issues->lines == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the plan");
    mark_tasks(plan, c.marks);
    for (size_t i = 0; c.rc == FR_OK && i < spec->n_nodes; i++)
        check_node(&c, &spec->nodes[i]);
    if (c.rc == FR_OK && spec->slurm != NULL)
        check_slurm(&c, spec->slurm);
    for (size_t i = 0; c.rc == FR_OK && i < spec->n_secrets; i++)
        check_secret(&c, &spec->secrets[i]);
    for (uint32_t t = 0; c.rc == FR_OK && t < plan->n_tasks; t++) {
        check_task(&c, t);
        if (plan->tasks[t].gang)
            check_gang(&c, &plan->tasks[t]);
    }
    if (c.rc != FR_OK)
        issues->n = 0;
    if (issues->n == 0)
        return c.rc;
    if (c.all > issues->n) {
        issues->lines[issues->n++] =
            fr_arena_fmt(arena, "and %zu more mistakes", c.all - MISTAKES_MAX);
        if (issues->lines[issues->n - 1] == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the list of mistakes");
    }
    return fr_fail(err, FR_USAGE, "%s", issues->lines[0]);
}
