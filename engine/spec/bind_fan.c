/* Names in expressions for what all instances of a task gave. */
#include "engine/spec/load.h"

#include <string.h>

#define BEST "best(tasks.NAME.items, 'OUTPUT'), or '-OUTPUT' for the largest"

struct fr_expr *bind_instances(struct text_reader *r, const struct expr_path *path, int task)
{
    bool all = strcmp(path->part[2].name, "all") == 0;
    struct fr_ref ref = {.kind = all ? FR_REF_ALL : FR_REF_ITEMS, .task = task};

    if (path->n != (all ? 4 : 3) || path->part[path->n - 1].called)
        return bind_shape_wrong(r, path, all ? "tasks.NAME.all.KEY" : "tasks.NAME.items");
    ref.name = all ? path->part[3].name : NULL;
    return bind_use(r, path, ref);
}

/* The task of "tasks.NAME.items", -1 after a complaint. */
static int task_of(struct text_reader *r, const struct expr_path *path, const char *of)
{
    const char *name = fr_has_prefix(of, "tasks.") ? of + 6 : "", *end = strchr(name, '.');
    struct hint hint = {.words = task_names(r->l), .n_words = r->l->tasks->n};
    int task;

    if (end == NULL || strcmp(end, ".items") != 0) {
        bind_shape_wrong(r, path, BEST);
        return -1;
    }
    hint.word = load_keep(r->l, fr_arena_text(r->l->arena, name, (size_t)(end - name)));
    if (hint.word == NULL)
        return -1;
    if ((task = find_task(r->l, hint.word)) < 0)
        bind_unknown(r, path, &hint, "task");
    return task;
}

/* The parts from there on, joined: "x.y"; NULL: there are none. False: one of them is called. */
static bool member_name(struct text_reader *r, const struct expr_path *path, size_t from,
                        const char **out)
{
    *out = NULL;
    for (size_t i = from; i < path->n; i++) {
        const char *name = path->part[i].name;

        if (path->part[i].called)
            return false;
        *out =
            load_keep(r->l, *out == NULL ? name : fr_arena_fmt(r->l->arena, "%s.%s", *out, name));
        if (*out == NULL)
            return true; /* the load fails */
    }
    return true;
}

static bool read_pick(struct text_reader *r, const struct expr_path *path, struct fr_ref *ref)
{
    static const char *const names[] = {
        [FR_PICK_KEY] = "key",       [FR_PICK_STATE] = "state", [FR_PICK_NODE] = "node",
        [FR_PICK_MATRIX] = "matrix", [FR_PICK_ITEM] = "item",   [FR_PICK_OUTPUT] = "outputs"};

    if (path->n == 1)
        return true;
    for (int pick = FR_PICK_KEY; pick <= FR_PICK_OUTPUT; pick++)
        if (strcmp(names[pick], path->part[1].name) == 0)
            ref->pick = (enum fr_pick)pick;
    if (ref->pick == FR_PICK_WHOLE || path->part[1].called)
        return false;
    if (ref->pick == FR_PICK_ITEM)
        return member_name(r, path, 2, &ref->pick_name);
    if (path->part[path->n - 1].called)
        return false;
    if (path->n == 3)
        ref->pick_name = path->part[2].name;
    return path->n == (ref->pick >= FR_PICK_MATRIX ? 3 : 2);
}

struct fr_expr *bind_best(struct text_reader *r, const struct expr_path *path)
{
    const struct expr_part *call = &path->part[0];
    struct fr_ref ref = {.kind = FR_REF_BEST};

    if (!bind_may(r, path, ALLOW_OUTPUTS))
        return expr_literal(r->l->arena, "");
    if (call->of == NULL || call->arg == NULL || call->arg[0] == '\0')
        return bind_shape_wrong(r, path, BEST);
    if ((ref.task = task_of(r, path, call->of)) < 0)
        return expr_literal(r->l->arena, "");
    ref.largest = call->arg[0] == '-';
    ref.name = call->arg + ref.largest;
    if (!read_pick(r, path, &ref))
        return bind_shape_wrong(r, path,
                                "best(…), or .key, .state, .node, .matrix.NAME, .item, .item.NAME "
                                "or .outputs.KEY behind it");
    return bind_use(r, path, ref);
}

struct fr_expr *bind_item(struct text_reader *r, const struct expr_path *path)
{
    const struct fr_items *items = r->l->user != NULL ? r->l->user->items : NULL;
    bool index = strcmp(path->part[0].name, "index") == 0;
    struct fr_ref ref = {.kind = index ? FR_REF_INDEX : FR_REF_ITEM};
    struct fr_expr *e;

    if (path->part[0].called || (index && path->n > 1) || !member_name(r, path, 1, &ref.name))
        return bind_shape_wrong(r, path, index ? "index" : "item or item.NAME");
    if (!bind_may(r, path, ALLOW_RUN))
        return expr_literal(r->l->arena, "");
    if (items == NULL && r->l->bad_items)
        return bind_silent(r); /* its own mistakes were reported */
    if (items == NULL || !items->of_list)
        return bind_wrong(r, path, "it in a task with foreach:",
                          fr_arena_fmt(r->l->arena, "'%s': there is no foreach here", path->text));
    e = bind_reference(r, path, ref);
    if (e != NULL)
        e->fenced = r->l->item_fenced;
    return e;
}
