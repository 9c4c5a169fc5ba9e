/* Files that a task takes from another node: node -> spool in the home -> node. */
#include "engine/run/gather.h"
#include "engine/run/inside.h"

#include <fcntl.h>
#include <string.h>

enum { HELD_MAX = 16 /* files of a spool that are closed after its removal */ };

static const char *const default_files[] = {"adapter_config.json", "adapter_model.safetensors"};

/* Either is there where a whole model was saved. */
static const char *const model_files[] = {"model.safetensors", "model.safetensors.index.json"};

/* A relative path of the node is below its work folder. */
static const char *on_node(struct fr_run *run, uint32_t node, const char *path,
                           struct fr_arena *arena)
{
    const struct fr_node *spec = run->plan->nodes[node].spec;

    if (path[0] == '/')
        return fr_arena_dup(arena, path);
    if (spec == NULL || spec->work == NULL)
        return fr_arena_fmt(arena, "work/%s", path); /* below the node's home */
    return fr_arena_fmt(arena, "%s/%s", spec->work, path);
}

static enum fr_rc add_name(struct run_gather *g, const char *name, struct fr_arena *arena,
                           struct fr_err *err)
{
    const char **names = fr_arena_grow(arena, g->names, g->n, sizeof(*names));
    char *copy = fr_arena_dup(arena, name);

    if (name[0] == '/' || name[0] == '\0' || strstr(name, "..") != NULL)
        return fr_fail(err, FR_USAGE, "files: '%s' is not a path below the folder `from`", name);
    if (names == NULL || copy == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for names of files");
    g->names = names;
    g->names[g->n++] = copy;
    return FR_OK;
}

static enum fr_rc make_folder(struct fr_run *run, const char *path, struct fr_err *err)
{
    enum fr_rc rc =
        path != NULL ? fr_mkdirs(path, 0700, err) : fr_fail(err, FR_NOMEM, "no memory for a path");

    return rc == FR_OK ? fr_check_unlinked(path, strlen(run->home), err) : rc;
}

static enum fr_rc make_spool(struct fr_run *run, const struct run_attempt *at,
                             struct fr_arena *arena, struct run_gather *g, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc;

    fr_home_at(run->home, FR_HOME_SPOOL, at->id, &path);
    g->spool = path.bad ? NULL : fr_arena_text(arena, path.p, path.n);
    fr_buf_finish(&path);
    g->files = fr_arena_array(arena, g->n, sizeof(*g->files));
    if (g->spool == NULL || g->files == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for files to move");
    rc = make_folder(run, g->spool, err);
    for (size_t i = 0; rc == FR_OK && i < g->n; i++) {
        const char *slash = strrchr(g->names[i], '/');

        if (slash != NULL)
            rc = make_folder(
                run,
                fr_arena_fmt(arena, "%s/%.*s", g->spool, (int)(slash - g->names[i]), g->names[i]),
                err);
    }
    return rc;
}

enum fr_rc run_gather_plan(struct fr_run *run, const struct run_attempt *at, json_t *with,
                           struct run_gather *g, struct fr_err *err)
{
    const struct fr_action *act = &run_task_of(run, at->inst)->spec->act;
    struct fr_arena *arena = g->arena;
    const char *node, *from, *text;
    json_int_t most = json_integer_value(json_object_get(with, "max_size"));
    json_t *list, *item;
    size_t i;
    enum fr_rc rc = FR_OK;

    if (act->what != FR_USES || strcmp(act->uses->name, "gather-adapters") != 0)
        return FR_OK;
    node = json_string_value(json_object_get(with, "node"));
    from = json_string_value(json_object_get(with, "from"));
    if (node == NULL || from == NULL)
        return FR_OK;
    g->max_bytes = most > 0 ? (uint64_t)most : 0;
    g->source = fr_plan_node(run->plan, node);
    if (g->source == FR_PLAN_NONE)
        return fr_fail(err, FR_USAGE, "node: the run has no node '%s'", node);
    if (g->source == run_node_of(run, at->inst))
        return FR_OK;
    if ((g->from = on_node(run, g->source, from, arena)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    list = json_object_get(with, "files");
    text = json_string_value(json_object_get(with, "what"));
    if (text != NULL && strcmp(text, "model") == 0 && json_array_size(list) == 0)
        return fr_fail(err, FR_USAGE,
                       "what: a model is gathered on the node that has it (`on: %s`), or its "
                       "`files` are named",
                       node);
    json_array_foreach(list, i, item)
    {
        text = json_string_value(item);
        if (rc == FR_OK && text != NULL)
            rc = add_name(g, text, arena, err);
    }
    g->by_default = json_array_size(list) == 0;
    if (g->by_default)
        for (i = 0; rc == FR_OK && i < sizeof(default_files) / sizeof(default_files[0]); i++)
            rc = add_name(g, default_files[i], arena, err);
    return rc == FR_OK ? make_spool(run, at, arena, g, err) : rc;
}

const char *run_gather_next(const struct run_gather *g)
{
    if (g->lacks.rc != FR_OK)
        return model_files[g->looked];
    return g->have < g->n ? g->names[g->have] : NULL;
}

/* A file of a model may be large: no byte of it is allowed, so that it ends with FR_USAGE. */
bool run_gather_looks(const struct fr_run *run, struct run_gather *g, bool came, struct fr_err *err)
{
    const char *node;

    if (g->lacks.rc == FR_OK) {
        if (came || !g->by_default || err->rc != FR_NOTFOUND)
            return false;
        g->lacks = *err;
        g->max_bytes = 0;
        return true;
    }
    if (came || err->rc == FR_USAGE) {
        node = run->plan->nodes[g->source].name;
        fr_fail(err, FR_NOTFOUND,
                "node %s: %s has no %s but a whole model: gather it by `what: model` on that node "
                "(`on: %s`)",
                node, g->from, g->names[g->have], node);
        return false;
    }
    if (err->rc == FR_NOTFOUND && ++g->looked < sizeof(model_files) / sizeof(model_files[0]))
        return true;
    *err = g->lacks;
    return false;
}

/* The bytes of a file go with its last descriptor. */
void run_gather_remove(struct fr_run *run, const struct run_gather *g)
{
    int fds[HELD_MAX];
    size_t n = 0;

    if (g->spool == NULL)
        return;
    for (size_t i = 0; i < g->have && n < HELD_MAX; i++) {
        fds[n] = fr_sys.open(g->files[i].local, O_RDONLY | O_NOFOLLOW, 0);
        n += fds[n] >= 0;
    }
    (void)fr_remove_tree(g->spool, NULL);
    while (n > 0)
        fr_loop_close(run->env.loop, fds[--n]);
}
