/* Tasks and hooks. */
#include "engine/spec/load.h"

#include <string.h>

enum { TASKS_MAX = 100000, HOOKS_MAX = 100 };

int find_task(const struct loader *l, const char *name)
{
    const struct fr_yaml_pair *pair = fr_yaml_find(l->tasks, name);

    return pair != NULL ? (int)(pair - l->tasks->pairs) : -1;
}

void unknown_task(struct loader *l, const struct fr_yaml *y, const char *name)
{
    complain_near(l, pos_of(l, y),
                  &(struct hint){.word = name, .words = task_names(l), .n_words = l->tasks->n},
                  "task '%s' needs unknown task '%s'", l->user->act.name, name);
}

/* Marks the nodes that name means: a node, or all that carry it as a label. */
static bool mark(const struct loader *l, const char *name, bool *marked)
{
    const struct fr_spec *spec = l->spec;
    int node = fr_spec_node(spec, name);
    bool found;

    if (node < 0 && l->any_node)
        node = 0;
    found = node >= 0;

    if (found)
        marked[node] = true;
    for (size_t i = 0; !found || i < spec->n_nodes; i++) {
        if (i == spec->n_nodes)
            return false;
        for (size_t k = 0; k < spec->nodes[i].n_labels; k++)
            if (strcmp(spec->nodes[i].labels[k], name) == 0)
                marked[i] = found = true;
    }
    return true;
}

static void unknown_place(struct loader *l, const struct fr_yaml *y, const char *name)
{
    const struct fr_spec *spec = l->spec;
    size_t n_allocations = spec->slurm != NULL ? spec->slurm->n_allocations : 0, n = 0;
    const char **names = load_alloc(l, spec->n_nodes + n_allocations + 3, sizeof(*names));

    if (names == NULL)
        return;
    names[n++] = "all";
    names[n++] = "head";
    names[n++] = "control";
    for (size_t i = 0; i < n_allocations; i++)
        names[n++] = spec->slurm->allocations[i].name;
    for (size_t i = 0; i < spec->n_nodes; i++)
        names[n++] = spec->nodes[i].name;
    complain_near(
        l, pos_of(l, y),
        &(struct hint){"all, head, control, or a node or label of the inventory", name, names, n},
        "on: there is no node or label '%s'", name);
}

static void set_nodes(struct loader *l, struct fr_task *task, enum fr_on on, const bool *marked)
{
    static const int head[] = {0}, control[] = {FR_NODE_CONTROL};
    bool one = on == FR_ON_HEAD || on == FR_ON_CONTROL;
    int *nodes = one ? NULL : load_alloc(l, l->spec->n_nodes, sizeof(*nodes));

    task->on = on;
    task->nodes = on == FR_ON_HEAD ? head : on == FR_ON_CONTROL ? control : nodes;
    task->n_nodes = one;
    for (size_t i = 0; nodes != NULL && i < l->spec->n_nodes; i++)
        if (on != FR_ON_NAMED || marked[i])
            nodes[task->n_nodes++] = (int)i;
}

void read_on(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;
    static const struct {
        const char *name;
        enum fr_on on;
    } places[] = {{"head", FR_ON_HEAD}, {"all", FR_ON_ALL}, {"control", FR_ON_CONTROL}};
    bool *marked = load_scratch(l, l->spec->n_nodes, sizeof(*marked));
    size_t n;
    const char **names = read_strings(l, y, false, &n);

    (void)f;
    if (marked == NULL || names == NULL)
        return;
    for (size_t i = 0; n == 1 && i < sizeof(places) / sizeof(places[0]); i++)
        if (strcmp(names[0], places[i].name) == 0) {
            set_nodes(l, task, places[i].on, NULL);
            return;
        }
    if (n == 0 && y->kind != FR_YAML_SCALAR)
        wrong_value(l, y, "on", "all, head, control, nodes or labels");
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], "head") == 0)
            marked[0] = true;
        else if (l->spec->n_nodes > 0 && !mark(l, names[i], marked))
            unknown_place(l, y->kind == FR_YAML_LIST ? y->items[i] : y, names[i]);
    set_nodes(l, task, FR_ON_NAMED, marked);
}

void read_in(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;
    const char *name = read_now(l, y);

    (void)f;
    if (name != NULL && (task->in = find_task(l, name)) < 0)
        unknown_task(l, y, name);
}

/* "node:PATH" is copied by the node, which may be this machine, or a place that shares its files.
 */
static void guard_node_file(struct loader *l, const struct fr_task *task, const struct fr_text *t)
{
    const struct fr_expr *first = t->expr != NULL ? expr_first(t->expr) : NULL;
    const char *begin = t->expr == NULL ? t->s : first != NULL ? first->text : "";
    bool here = task->on == FR_ON_CONTROL;

    for (size_t i = 0; i < l->spec->n_nodes; i++)
        here |= l->spec->nodes[i].executor != FR_EXECUTOR_SSH;
    if (!here || !fr_has_prefix(begin, "node:"))
        return;
    if (t->expr != NULL)
        guard_late(l);
    else
        guard_path(l, t->s + 5);
}

/* {path: PATH, exclude: [PATTERN]}; or the path alone. */
static bool read_file(struct loader *l, const struct fr_yaml *y, const struct field *f,
                      struct fr_text *source, struct fr_excludes *exclude)
{
    struct file_entry entry = {0};

    if (y->kind != FR_YAML_MAP)
        return read_text(l, y, f->allow, source);
    read_object(l, &object_file, y, &entry);
    *source = entry.path;
    *exclude = (struct fr_excludes){entry.exclude, entry.n_exclude};
    return entry.path.s != NULL || entry.path.expr != NULL;
}

void read_files(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;
    struct fr_kv *files;
    struct fr_excludes *excludes;

    if (y->kind == FR_YAML_NULL || !is_map(l, y, "files", "a map of names and paths"))
        return;
    if ((files = load_alloc(l, y->n, sizeof(*files))) == NULL ||
        (excludes = load_alloc(l, y->n, sizeof(*excludes))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        struct fr_text *source = &files[i].value;

        l->key = files[i].name = y->pairs[i].key.p;
        if (!read_file(l, y->pairs[i].value, f, source, &excludes[i]))
            continue;
        if (strlen(files[i].name) > FR_PATH_INNER_MAX)
            complain(l, pos_of_key(l, &y->pairs[i]), NULL,
                     "the file's place is %zu bytes long; a node takes at most %d",
                     strlen(files[i].name), FR_PATH_INNER_MAX);
        else if (!fr_path_is_inner(fr_str_of(files[i].name)))
            complain(l, pos_of_key(l, &y->pairs[i]),
                     "a path inside it, without '.', '..' and needless slashes",
                     "'%s' is not in the attempt's folder", files[i].name);
        if (source->expr == NULL && source->s[0] == '\0')
            complain(l, source->pos, "a path, or node:/path", "file '%s' comes from nowhere",
                     files[i].name);
        else
            absolute_text(l, source);
        guard_node_file(l, task, source);
    }
    task->files = files;
    task->excludes = excludes;
    task->n_files = y->n;
}

void read_retry_on(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_retry *retry = target;
    size_t n;
    const char **words = read_strings(l, y, false, &n), *names[FR_CAUSE_N];
    int *codes = load_alloc(l, n, sizeof(*codes));
    size_t n_names = 0;

    (void)f;
    for (int c = FR_CAUSE_EXIT; c < FR_CAUSE_N; c++)
        if (fr_cause_retryable((enum fr_cause)c))
            names[n_names++] = fr_cause_name((enum fr_cause)c);
    if (words == NULL || codes == NULL)
        return;
    retry->causes = 0;
    retry->n_codes = 0;
    retry->codes = codes;
    for (size_t i = 0; i < n; i++) {
        enum fr_cause cause;
        int64_t code;

        if (fr_parse_i64(fr_str_of(words[i]), &code, NULL) == FR_OK && code > 0 && code < 256)
            codes[retry->n_codes++] = (int)code;
        else if (fr_cause_parse(fr_str_of(words[i]), &cause) && fr_cause_retryable(cause))
            retry->causes |= 1u << cause;
        else
            complain_near(l, pos_of(l, y->kind == FR_YAML_LIST && y->n == n ? y->items[i] : y),
                          &(struct hint){fr_arena_fmt(l->arena, "an exit code from 1 to 255, %s",
                                                      word_list(l, names, n_names)),
                                         words[i], names, n_names},
                          "'%s' is no cause to try again", words[i]);
    }
}

/* Later checks see an empty path only where it comes from an expression. */
void read_metrics(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;
    const char *path;

    if (!read_text(l, y, f->allow, &task->metrics) || task->metrics.expr != NULL)
        return;
    path = task->metrics.s;
    if (path[0] == '\0' || (path[0] == '$' && !fr_has_prefix(path, "$FLOWRUN_WORK/") &&
                            !fr_has_prefix(path, "$FLOWRUN_DIR/")))
        wrong_value(l, y, "metrics",
                    "the path of a file: FILE in its working folder, $FLOWRUN_WORK/FILE or "
                    "$FLOWRUN_DIR/FILE");
}

bool fr_task_has_metrics(const struct fr_task *task)
{
    return task->metrics.s != NULL || task->metrics.expr != NULL ||
           (task->act.uses != NULL && task->act.uses->metrics != NULL);
}

void read_when(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;

    read_condition(l, y, f->allow, &task->when);
}

static void begin_task(struct loader *l, struct fr_task *task, const char *name, struct fr_pos pos)
{
    *task = l->base;
    task->act.name = name;
    task->act.pos = pos;
    task->act.env = l->env;
    task->act.n_env = l->n_env;
    l->user = task;
    l->bad_items = l->item_fenced = l->ended = false;
    set_nodes(l, task, l->hook ? FR_ON_CONTROL : FR_ON_HEAD, NULL);
}

static void finish_task(struct loader *l, const struct fr_yaml *y, struct fr_task *task)
{
    const struct fr_kind *kind = task->act.uses;
    const struct fr_yaml *outputs = fr_yaml_get(y, "outputs"), *on = fr_yaml_get(y, "on");

    finish_action(l, y, &task->act, l->hook ? PLACE_HOOK : PLACE_TASK);
    if (!l->hook)
        finish_needs(l, y, task);
    finish_foreach(l, y, task);
    if (kind == NULL)
        return;
    if (outputs != NULL)
        complain(l, pos_of(l, outputs), "it beside run: or argv:", "outputs of %s are fixed",
                 kind->name);
    task->outputs = kind->outputs;
    for (task->n_outputs = 0; kind->outputs[task->n_outputs] != NULL;)
        task->n_outputs++;
    if (fr_yaml_get(y, "gang") == NULL && !l->hook)
        task->gang = kind->gang;
    if (kind->control && on != NULL && l->hook && task->on != FR_ON_CONTROL)
        complain(l, pos_of(l, on), "on: control, or no on:", "%s is done on control", kind->name);
}

void read_tasks(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *tasks;

    if (y->kind != FR_YAML_MAP || y->n == 0 || y->n > TASKS_MAX) {
        wrong_value(l, y, "tasks", "a map of 1 to 100000 tasks by name");
        return;
    }
    tasks = load_alloc(l, y->n, sizeof(*tasks));
    l->needed_by = load_scratch(l, y->n, sizeof(*l->needed_by));
    if (tasks == NULL || l->needed_by == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        const char *name = y->pairs[i].key.p;

        l->place = (uint32_t)i + 1;
        begin_task(l, &tasks[i], name, pos_of_key(l, &y->pairs[i]));
        if (!name_ok(name))
            complain(l, tasks[i].act.pos, NAME, "'%s' cannot be the name of a task", name);
        read_object(l, &object_task, y->pairs[i].value, &tasks[i]);
        finish_task(l, y->pairs[i].value, &tasks[i]);
    }
    l->user = NULL;
    put_list(f, target, tasks, y->n);
}

void read_hooks(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *hooks;

    if (y->kind != FR_YAML_LIST || y->n > HOOKS_MAX) {
        wrong_value(l, y, f->name, "a list of at most 100 maps with uses, run or argv");
        return;
    }
    if ((hooks = load_alloc(l, y->n, sizeof(*hooks))) == NULL)
        return;
    l->hook = true;
    for (size_t i = 0; i < y->n; i++) {
        const char *name = load_keep(l, fr_arena_fmt(l->arena, "%s.%zu", f->name, i));

        begin_task(l, &hooks[i], name ? name : "", pos_of(l, y->items[i]));
        read_object(l, &object_hook, y->items[i], &hooks[i]);
        finish_task(l, y->items[i], &hooks[i]);
    }
    l->hook = false;
    l->user = NULL;
    put_list(f, target, hooks, y->n);
}

/* Their logs are files named after the hook and its node. */
void check_hook_names(struct loader *l)
{
    const struct fr_spec *spec = l->spec;

    for (int a = 0; a < FR_HOOK_N && l->opts->rules != 1; a++)
        for (size_t i = 0; i < spec->n_hooks[a]; i++) {
            const struct fr_action *hook = &spec->hooks[a][i].act, *other = NULL;
            int task = find_task(l, hook->name);

            if (!label_ok(hook->name))
                complain(l, hook->pos, LABEL, "'%s' cannot be the name of a hook", hook->name);
            if (task >= 0)
                other = &spec->tasks[task].act;
            for (int b = 0; b <= a && other == NULL; b++)
                for (size_t k = 0; k < (b < a ? spec->n_hooks[b] : i) && other == NULL; k++)
                    if (strcmp(spec->hooks[b][k].act.name, hook->name) == 0)
                        other = &spec->hooks[b][k].act;
            if (other != NULL)
                complain(l, hook->pos, "a name of its own",
                         "'%s' is the name of another hook or task, at line %d", hook->name,
                         other->pos.line);
        }
}

/* in: must name a container task that is needed and runs wherever the task does. */
void check_containers(struct loader *l)
{
    struct needs_walk walk;

    if (!needs_walk_init(l, &walk))
        return;
    for (size_t i = 0; i < l->spec->n_tasks; i++) {
        const struct fr_task *task = &l->spec->tasks[i], *box;
        const struct fr_yaml *in = fr_yaml_get(l->tasks->pairs[i].value, "in");
        size_t found = 0;

        if (in == NULL || task->in < 0)
            continue;
        box = &l->spec->tasks[task->in];
        if (box->act.uses == NULL || strcmp(box->act.uses->name, "container") != 0)
            complain(l, pos_of(l, in), "a task with uses: container", "task '%s' is no container",
                     box->act.name);
        else if (box->items != NULL)
            complain(l, pos_of(l, in), "a container without matrix and foreach",
                     "'%s' has items: which container is meant?", box->act.name);
        else if (!needs_task(&walk, task, task->in))
            complain(l, pos_of(l, in),
                     fr_arena_fmt(l->arena, "'%s' under its needs:", box->act.name),
                     "task '%s' runs in '%s' but does not need it", task->act.name, box->act.name);
        for (size_t k = 0; k < task->n_nodes; k++)
            for (size_t m = 0; m < box->n_nodes; m++)
                found += box->nodes[m] == task->nodes[k];
        if (found < task->n_nodes)
            complain(l, pos_of(l, in), "a container on all nodes of the task",
                     "'%s' runs on fewer nodes than '%s'", box->act.name, task->act.name);
    }
}
