/* From a file to a spec. */
#include "engine/spec/extends.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <string.h>

enum { DEFAULT_GRACE_MS = 10000, DEFAULT_SLOTS = 8 };

int fr_spec_task(const struct fr_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_tasks; i++)
        if (strcmp(spec->tasks[i].act.name, name) == 0)
            return (int)i;
    return -1;
}

int fr_spec_node(const struct fr_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_nodes; i++)
        if (strcmp(spec->nodes[i].name, name) == 0)
            return (int)i;
    return -1;
}

enum fr_rc read_source(struct loader *l, const char *path, struct fr_source *out,
                       struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc;

    out->path = load_keep(l, fr_arena_dup(l->arena, path));
    for (size_t i = 0; i < l->opts->n_sources; i++)
        if (strcmp(l->opts->sources[i].path, path) == 0) {
            out->text.n = l->opts->sources[i].text.n;
            out->text.p =
                load_keep(l, fr_arena_text(l->arena, l->opts->sources[i].text.p, out->text.n));
            return l->no_memory ? fr_fail(err, FR_NOMEM, "no memory for %s", path) : FR_OK;
        }
    rc = fr_file_read_soon(path, FR_YAML_MAX_BYTES, &b, err);
    if (rc == FR_OK) {
        out->text.n = b.n;
        out->text.p = load_keep(l, fr_arena_text(l->arena, b.p ? b.p : "", b.n));
        if (out->path == NULL || out->text.p == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for %s", path);
    }
    fr_buf_finish(&b);
    return rc;
}

static void set_defaults(struct loader *l)
{
    l->base = (struct fr_task){
        .act = {.shell = "sh"},
        .retry = {.delay_ms = 10000,
                  .max_delay_ms = 600000,
                  .backoff = 2,
                  .jitter = 0.1,
                  .causes = fr_causes_preset()},
        .grace_ms = DEFAULT_GRACE_MS,
        .log = {.max_bytes = (int64_t)1 << 30},
        .slots = 1,
        .in = -1,
    };
    l->node_base = (struct fr_node){.slots = DEFAULT_SLOTS,
                                    .become = FR_BECOME_NONE,
                                    .keep = {.days = 14, .bytes = (int64_t)20 << 30},
                                    .connect = {.timeout_ms = 60000, .retry_for_ms = 120000}};
    l->spec->max_parallel = 16;
    l->spec->rerun = (struct fr_rerun){.when.causes = l->base.retry.causes, .after_ms = 600000};
}

/* "pipelines/deepseek-lora.yaml": deepseek-lora. */
static const char *name_of_file(struct loader *l, const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(base, '.');

    char *name =
        fr_arena_text(l->arena, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));

    for (size_t i = 0; name != NULL && name[i] != '\0'; i++)
        if (!label_ok((const char[]){name[i], '\0'}))
            name[i] = '-';
    return load_keep(l, name);
}

static void check_name(struct loader *l, const struct fr_yaml *root)
{
    const struct fr_yaml *name = fr_yaml_get(root, "name");

    if (name != NULL && l->spec->name != NULL && !label_ok(l->spec->name))
        wrong_value(l, name, "name", LABEL);
}

static void set_folder(struct loader *l)
{
    const char *path = absolute_in(l, l->opts->cwd, l->opts->path);

    if (path == NULL)
        return;
    l->folder[0] = l->opts->rules == 1 ? l->opts->cwd
                   : l->opts->folder   ? l->opts->folder
                                       : folder_of(l, path);
    l->spec->folder = load_keep(l, fr_arena_dup(l->arena, l->folder[0]));
}

static void read_pipeline(struct loader *l, const struct fr_yaml *root, void *spec)
{
    static const struct fr_yaml absent = {.kind = FR_YAML_NULL};
    const struct fr_yaml *params = fr_yaml_get(root, "params");
    const struct fr_yaml *tasks = fr_yaml_get(root, "tasks");

    if (tasks != NULL && tasks->kind == FR_YAML_MAP)
        l->tasks = tasks;
    set_defaults(l);
    set_folder(l);
    if (l->no_memory)
        return;
    l->spec->name = name_of_file(l, l->opts->path);
    if (l->opts->scheduled)
        l->schedules = fr_yaml_get(root, "schedule");
    read_params(l, params ? params : &absent);
    if (fr_yaml_get(root, "nodes") == NULL)
        default_node(l);
    expand_templates(l, root);
    read_object(l, &object_pipeline, root, spec);
    check_name(l, root);
    if (l->spec->n_nodes == 0 || l->spec->n_tasks == 0)
        return;
    check_cycles(l);
    check_joins(l);
    check_fail_fast(l);
    check_uses(l);
    check_hook_names(l);
    check_written(l);
    check_containers(l);
    check_gangs(l);
    check_notices(l);
}

static enum fr_rc load(struct loader *l, const struct load_job *job, struct fr_issues *issues,
                       struct fr_err *err)
{
    struct fr_source *source = &l->spec->sources[0];
    struct fr_yaml *root;
    enum fr_rc rc = read_source(l, l->opts->path, source, err);

    if (rc != FR_OK)
        return rc;
    l->spec->n_sources = 1;
    rc = fr_yaml_parse(source->text, l->opts->path, &l->scratch, l->arena, &root, err);
    if (rc == FR_NOMEM)
        return rc;
    if (rc != FR_OK)
        complain(l, (struct fr_pos){0}, NULL, "%s", err->msg); /* it names its place */
    else
        job->read(l, root, job->target);
    if (l->no_memory)
        return fr_fail(err, FR_NOMEM, "no memory for %s", l->opts->path);
    if (l->mistakes != NULL)
        return issues_take(l, issues, err);
    return FR_OK;
}

enum fr_rc load_file(const struct load_job *job, struct fr_issues *issues, struct fr_err *err)
{
    static const struct fr_yaml no_tasks = {.kind = FR_YAML_MAP};
    struct loader *l = fr_sys.alloc(sizeof(*l));
    struct fr_err local = {0};
    enum fr_rc rc;

    if (err == NULL)
        err = &local;
    if (l == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", job->opts->path);
    *l = (struct loader){
        .opts = job->opts, .spec = job->spec, .arena = job->arena, .tasks = &no_tasks};
    rc = load(l, job, issues, err);
    fr_arena_finish(&l->scratch);
    fr_sys.free(l);
    return rc;
}

enum fr_rc fr_spec_load(const struct fr_spec_opts *opts, struct fr_spec **out,
                        struct fr_issues *issues, struct fr_err *err)
{
    struct fr_spec *spec = fr_sys.alloc(sizeof(*spec));
    enum fr_rc rc;

    *out = NULL;
    if (spec == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", opts->path);
    *spec = (struct fr_spec){0};
    rc = load_file(&(struct load_job){opts, spec, &spec->arena, read_pipeline, spec}, issues, err);
    if (rc == FR_OK)
        *out = spec;
    else
        fr_spec_destroy(spec);
    return rc;
}

void fr_spec_destroy(struct fr_spec *spec)
{
    if (spec == NULL)
        return;
    fr_arena_finish(&spec->arena);
    fr_sys.free(spec);
}
