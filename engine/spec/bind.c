/* What the names in expressions mean. */
#include "engine/spec/load.h"

#include <string.h>

static const char *const node_names[] = {"name",  "address", "user", "index",   "gpus",
                                         "slots", "labels",  "work", "executor"};
static const char *const head_names[] = {"name", "address"};
static const char *const nodes_names[] = {"count"};
static const char *const schedule_names[] = {FR_OCCASIONS(FR_WORD_TEXT)};
static const char *const run_names[] = {"id", "name", "status"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct fr_expr *literal(struct text_reader *r, const char *text)
{
    struct fr_expr *e = expr_literal(r->l->arena, text);

    r->l->no_memory |= e == NULL;
    return e;
}

/* After a complaint about path the empty text stands for its value. */
struct fr_expr *bind_silent(struct text_reader *r)
{
    r->bad = true;
    return literal(r, "");
}

struct fr_expr *bind_wrong(struct text_reader *r, const struct expr_path *path,
                           const char *expected, const char *what)
{
    complain(r->l, pos_inside(r, path->at), expected, "%s", what != NULL ? what : "");
    return bind_silent(r);
}

struct fr_expr *bind_shape_wrong(struct text_reader *r, const struct expr_path *path,
                                 const char *expected)
{
    return bind_wrong(r, path, expected,
                      fr_arena_fmt(r->l->arena, "'%s' is not complete", path->text));
}

struct fr_expr *bind_unknown(struct text_reader *r, const struct expr_path *path,
                             const struct hint *hint, const char *what)
{
    complain_near(r->l, pos_inside(r, path->at), hint, "unknown %s '%s'", what, hint->word);
    return bind_silent(r);
}

struct fr_expr *bind_reference(struct text_reader *r, const struct expr_path *path,
                               struct fr_ref ref)
{
    struct fr_expr *e = load_alloc(r->l, 1, sizeof(*e));

    if (e != NULL)
        *e = (struct fr_expr){.op = EX_REF, .text = path->text, .ref = ref};
    return e;
}

/* Names that are known when the task starts may stand here only if allowed. */
bool bind_may(struct text_reader *r, const struct expr_path *path, unsigned kind)
{
    const char *expected = kind == ALLOW_SECRETS ? "it in env: of a task or in with: of notify"
                           : kind == ALLOW_STATE ? "it in when:"
                           : r->allow == ALLOW_OUTPUTS
                               ? "params, env, or what tasks gave that this one needs"
                           : r->allow != 0 ? "it in a task"
                                           : "params or env";
    bool early = r->allow == 0 && kind != ALLOW_SECRETS && kind != ALLOW_STATE;

    if ((r->allow & kind) != 0)
        return true;
    bind_wrong(
        r, path, expected,
        fr_arena_fmt(r->l->arena,
                     early ? "'%s' is not known when the file is read" : "'%s' cannot stand here",
                     path->text));
    return false;
}

static struct fr_expr *bind_param(struct text_reader *r, const struct expr_path *path)
{
    const struct fr_spec *spec = r->l->spec;
    const char **names;

    if (path->n != 2 || path->part[1].called)
        return bind_shape_wrong(r, path, "params.NAME");
    for (size_t i = 0; i < spec->n_params; i++)
        if (strcmp(spec->params[i].name, path->part[1].name) == 0) {
            struct fr_expr *e = literal(r, spec->params[i].value ? spec->params[i].value : "");

            r->bad |= spec->params[i].value == NULL; /* reported already */
            if (e != NULL) {
                e->given = spec->params[i].given;
                e->fenced = spec->params[i].fenced;
            }
            return e;
        }
    if ((names = load_alloc(r->l, spec->n_params, sizeof(*names))) == NULL)
        return NULL;
    for (size_t i = 0; i < spec->n_params; i++)
        names[i] = spec->params[i].name;
    return bind_unknown(
        r, path, &(struct hint){"a name under params:", path->part[1].name, names, spec->n_params},
        "param");
}

bool note_variable(struct loader *l, const char *name, const char *value)
{
    size_t n = l->spec->n_env_used;
    struct fr_kv *grown = l->env_used;

    for (size_t i = 0; i < n; i++)
        if (strcmp(grown[i].name, name) == 0)
            return true;
    if ((grown = fr_arena_grow(l->arena, l->env_used, n, sizeof(*grown))) == NULL) {
        l->no_memory = true;
        return false;
    }
    l->env_used = grown;
    l->spec->env_used = grown;
    grown[n] = (struct fr_kv){.name = name, .value = {.s = value}};
    l->spec->n_env_used++;
    return true;
}

static struct fr_expr *bind_variable(struct text_reader *r, const struct expr_path *path)
{
    const struct fr_spec_opts *opts = r->l->opts;
    const char *name = path->part[1].name, *value;

    if (path->n != 2 || path->part[1].called)
        return bind_shape_wrong(r, path, "env.NAME");
    value = opts->getenv ? opts->getenv(opts->getenv_self, name) : NULL;
    if (value == NULL)
        return bind_wrong(r, path, "it in the environment of flowrun, or a param",
                          fr_arena_fmt(r->l->arena, "variable %s is not set", name));
    value = load_keep(r->l, fr_arena_dup(r->l->arena, value));
    return value != NULL && note_variable(r->l, name, value) ? literal(r, value) : NULL;
}

/* Fills where and node from on('name') or on_head; *outputs is the part that must be "outputs". */
static bool bind_where(struct text_reader *r, const struct expr_path *path, struct fr_ref *ref,
                       size_t *outputs)
{
    const struct expr_part *on = &path->part[2];
    const struct fr_spec *spec = r->l->spec;
    const char **names;

    *outputs = 2;
    if (path->n > 2 && strcmp(on->name, "on_head") == 0 && !on->called) {
        ref->where = FR_WHERE_HEAD;
        *outputs = 3;
    }
    if (path->n <= 2 || strcmp(on->name, "on") != 0 || on->arg == NULL)
        return true;
    *outputs = 3;
    ref->where = FR_WHERE_NODE;
    ref->node = fr_spec_node(spec, on->arg);
    if (ref->node < 0 && r->l->any_node)
        ref->node = 0;
    if (ref->node >= 0)
        return true;
    if ((names = load_alloc(r->l, spec->n_nodes, sizeof(*names))) == NULL)
        return false;
    for (size_t i = 0; i < spec->n_nodes; i++)
        names[i] = spec->nodes[i].name;
    bind_unknown(r, path, &(struct hint){"a name of the inventory", on->arg, names, spec->n_nodes},
                 "node");
    return false;
}

struct fr_expr *bind_use(struct text_reader *r, const struct expr_path *path, struct fr_ref ref)
{
    struct fr_expr *e = bind_reference(r, path, ref);
    struct output_use *use = load_alloc(r->l, 1, sizeof(*use));

    if (e == NULL || use == NULL)
        return NULL;
    *use = (struct output_use){.next = r->l->uses,
                               .ref = &e->ref,
                               .user = r->l->user,
                               .hook = r->l->hook,
                               .pos = pos_inside(r, path->at)};
    r->l->uses = use;
    return e;
}

static struct fr_expr *bind_output(struct text_reader *r, const struct expr_path *path)
{
    struct fr_ref ref = {.kind = FR_REF_OUTPUT, .task = -1};
    size_t at;

    if (!bind_may(r, path, ALLOW_OUTPUTS))
        return literal(r, "");
    if (path->n > 1)
        ref.task = find_task(r->l, path->part[1].name);
    if (path->n > 1 && ref.task < 0)
        return bind_unknown(r, path,
                            &(struct hint){.word = path->part[1].name,
                                           .words = task_names(r->l),
                                           .n_words = r->l->tasks->n},
                            "task");
    if (path->n > 2 && !path->part[2].called &&
        (strcmp(path->part[2].name, "all") == 0 || strcmp(path->part[2].name, "items") == 0))
        return bind_instances(r, path, ref.task);
    if (!bind_where(r, path, &ref, &at))
        return literal(r, "");
    if (path->n != at + 2 || strcmp(path->part[at].name, "outputs") != 0 || path->part[at].called ||
        path->part[at + 1].called)
        return bind_shape_wrong(
            r, path,
            "tasks.NAME.outputs.KEY, tasks.NAME.on('NODE').outputs.KEY, "
            "tasks.NAME.on_head.outputs.KEY, tasks.NAME.all.KEY or tasks.NAME.items");
    ref.name = path->part[at + 1].name;
    return bind_use(r, path, ref);
}

static struct fr_expr *bind_matrix(struct text_reader *r, const struct expr_path *path)
{
    const struct fr_items *items = r->l->user != NULL ? r->l->user->items : NULL;
    struct fr_expr *e;
    int at;

    if (path->n != 2 || path->part[1].called)
        return bind_shape_wrong(r, path, "matrix.NAME");
    if (!bind_may(r, path, ALLOW_RUN))
        return literal(r, "");
    if (items == NULL && r->l->bad_items)
        return bind_silent(r); /* its own mistakes were reported */
    if (items == NULL || items->of_list)
        return bind_wrong(r, path, "it in a task with matrix:",
                          fr_arena_fmt(r->l->arena, "'%s': there is no matrix here", path->text));
    if ((at = fr_items_name(items, path->part[1].name)) < 0)
        return bind_unknown(r, path,
                            &(struct hint){"a name of the matrix", path->part[1].name, items->names,
                                           items->n_names},
                            "name");
    e = bind_reference(
        r, path, (struct fr_ref){.kind = FR_REF_MATRIX, .name = items->names[at], .index = at});
    if (e != NULL)
        e->fenced = r->l->item_fenced;
    return e;
}

static struct fr_expr *bind_secret(struct text_reader *r, const struct expr_path *path)
{
    const struct fr_spec *spec = r->l->spec;
    const char **names = load_alloc(r->l, spec->n_secrets, sizeof(*names));

    if (path->n != 2 || path->part[1].called)
        return bind_shape_wrong(r, path, "secrets.NAME");
    if (!bind_may(r, path, ALLOW_SECRETS))
        return literal(r, "");
    for (size_t i = 0; names != NULL && i < spec->n_secrets; i++) {
        names[i] = spec->secrets[i].name;
        if (strcmp(names[i], path->part[1].name) == 0)
            return bind_reference(r, path,
                                  (struct fr_ref){.kind = FR_REF_SECRET, .name = names[i]});
    }
    return bind_unknown(
        r, path,
        &(struct hint){"a name under secrets:", path->part[1].name, names, spec->n_secrets},
        "secret");
}

/* What a path begins with: a function binds it, or one of names follows. */
struct root {
    const char *name;
    struct fr_expr *(*bind)(struct text_reader *r, const struct expr_path *path);
    enum fr_ref_kind kind;
    const char *const *names;
    size_t n;
};

static struct fr_expr *bind_member(struct text_reader *r, const struct expr_path *path,
                                   const struct root *root)
{
    /* a run has its status when it has ended */
    size_t n = root->kind == FR_REF_RUN && !r->l->hook ? root->n - 1 : root->n;
    const char *expected = word_list(r->l, root->names, n);

    if (path->n != 2 || path->part[1].called)
        return bind_shape_wrong(r, path,
                                fr_arena_fmt(r->l->arena, "one of %s behind it", expected));
    if (!bind_may(r, path, ALLOW_RUN))
        return literal(r, "");
    for (size_t i = 0; i < n; i++)
        if (strcmp(root->names[i], path->part[1].name) == 0)
            return bind_reference(r, path,
                                  (struct fr_ref){.kind = root->kind, .name = root->names[i]});
    return bind_unknown(r, path, &(struct hint){expected, path->part[1].name, root->names, n},
                        "name");
}

/* attempt, success(), failure(), always() */
static struct fr_expr *bind_single(struct text_reader *r, const struct expr_path *path)
{
    const char *name = path->part[0].name;
    bool attempt = strcmp(name, "attempt") == 0;

    if (path->n != 1 || path->part[0].called == attempt || path->part[0].arg != NULL)
        return bind_shape_wrong(r, path,
                                fr_arena_fmt(r->l->arena, "%s%s", name, attempt ? "" : "()"));
    if (!bind_may(r, path, attempt ? ALLOW_RUN : ALLOW_STATE))
        return literal(r, "");
    if (attempt)
        return bind_reference(r, path, (struct fr_ref){.kind = FR_REF_ATTEMPT, .name = name});
    if (strcmp(name, "success") == 0)
        return bind_reference(r, path, (struct fr_ref){.kind = FR_REF_SUCCESS, .name = name});
    r->l->ended = true;
    if (strcmp(name, "always") == 0)
        return literal(r, "true");
    return bind_reference(r, path, (struct fr_ref){.kind = FR_REF_FAILURE, .name = name});
}

#define MEMBERS(name, kind, names)                                                                 \
    {                                                                                              \
        name, NULL, FR_REF_##kind, names, COUNT(names)                                             \
    }

static const struct root roots[] = {
    {.name = "params", .bind = bind_param},
    {.name = "env", .bind = bind_variable},
    {.name = "tasks", .bind = bind_output},
    {.name = "best", .bind = bind_best},
    {.name = "matrix", .bind = bind_matrix},
    {.name = "item", .bind = bind_item},
    {.name = "index", .bind = bind_item},
    MEMBERS("node", NODE, node_names),
    MEMBERS("head", HEAD, head_names),
    MEMBERS("nodes", NODES, nodes_names),
    MEMBERS("run", RUN, run_names),
    {.name = "secrets", .bind = bind_secret},
    MEMBERS("schedule", SCHEDULE, schedule_names),
    {.name = "attempt", .bind = bind_single},
    {.name = "success", .bind = bind_single},
    {.name = "failure", .bind = bind_single},
    {.name = "always", .bind = bind_single},
};

struct fr_expr *bind_path(void *self, const struct expr_path *path)
{
    struct text_reader *r = self;
    const char *words[COUNT(roots)];

    for (size_t i = 0; i < COUNT(roots); i++) {
        const struct root *root = &roots[i];

        words[i] = root->name;
        if (strcmp(root->name, path->part[0].name) != 0)
            continue;
        if (path->part[0].called && root->bind != bind_single && root->bind != bind_best)
            return bind_shape_wrong(r, path, "no '(' behind it");
        return root->bind != NULL ? root->bind(r, path) : bind_member(r, path, root);
    }
    return bind_unknown(r, path,
                        &(struct hint){"params, tasks, node, run, env or a 'text'",
                                       path->part[0].name, words, COUNT(roots)},
                        "name");
}
