/* templates: and extends: parts of tasks, put together before the tasks are read. */
#include "engine/spec/extends.h"

enum { CHAIN_MAX = 64 /* templates that extend each other */ };

struct template_state {
    bool open, tried;             /* it is being, or has been put together */
    const struct fr_yaml *merged; /* NULL: not yet */
};

struct templates {
    struct loader *l;
    const struct fr_yaml *map; /* of all templates; NULL: none */
    struct template_state *states;
    size_t depth, pairs; /* pairs made so far */
};

/* A map of at most n pairs, at the place of like; NULL: no memory, or too large. */
static struct fr_yaml *new_map(struct templates *t, const struct fr_yaml *like, size_t n)
{
    struct fr_yaml *map = load_scratch(t->l, 1, sizeof(*map));

    t->pairs += n;
    if (t->pairs > FR_YAML_MAX_VALUES && t->pairs - n <= FR_YAML_MAX_VALUES)
        complain(t->l, pos_of(t->l, like), NULL, "templates give more than %d values",
                 FR_YAML_MAX_VALUES);
    if (map == NULL || t->pairs > FR_YAML_MAX_VALUES)
        return NULL;
    *map = (struct fr_yaml){.kind = FR_YAML_MAP, .line = like->line, .col = like->col};
    map->pairs = load_scratch(t->l, n, sizeof(*map->pairs));
    map->sorted = load_scratch(t->l, n, sizeof(*map->sorted));
    return n == 0 || (map->pairs != NULL && map->sorted != NULL) ? map : NULL;
}

/* A map alone under these keys is a list of one. */
static bool is_list_of_maps(struct fr_str key)
{
    return fr_str_is(key, "needs") || fr_str_is(key, "include") || fr_str_is(key, "exclude");
}

/* The pairs of base, and over them those of over: maps are merged, null removes what there is,
 * anything else replaces. extends: of over is left out. */
static const struct fr_yaml *merge(struct templates *t, const struct fr_yaml *base,
                                   const struct fr_yaml *over)
{
    struct fr_yaml *map = new_map(t, over, base->n + over->n);

    for (size_t i = 0; map != NULL && i < base->n; i++) {
        struct fr_yaml_pair pair = base->pairs[i];
        const struct fr_yaml_pair *other = fr_yaml_find(over, pair.key.p);

        if ((other != NULL ? other : &pair)->value->kind == FR_YAML_NULL)
            continue;
        if (other != NULL && other->value->kind == FR_YAML_MAP && pair.value->kind == FR_YAML_MAP &&
            !is_list_of_maps(pair.key)) {
            pair.value = (struct fr_yaml *)merge(t, pair.value, other->value);
            if (pair.value == NULL)
                return NULL;
        } else if (other != NULL) {
            pair = *other;
        }
        map->pairs[map->n++] = pair;
    }
    for (size_t i = 0; map != NULL && i < over->n; i++)
        if (fr_yaml_find(base, over->pairs[i].key.p) == NULL &&
            over->pairs[i].value->kind != FR_YAML_NULL && !fr_str_is(over->pairs[i].key, "extends"))
            map->pairs[map->n++] = over->pairs[i];
    if (map != NULL)
        fr_yaml_sort(map);
    return map;
}

static const struct fr_yaml *extended(struct templates *t, const struct fr_yaml *map);

/* What the template of that name gives; NULL after a complaint. */
static const struct fr_yaml *template_of(struct templates *t, const struct fr_yaml *y,
                                         const char *name)
{
    const struct fr_yaml_pair *pair = t->map != NULL ? fr_yaml_find(t->map, name) : NULL;
    struct template_state *state;

    if (pair == NULL) {
        complain_near(t->l, pos_of(t->l, y),
                      &(struct hint){"a name under templates:", name,
                                     t->map != NULL ? key_names(t->l, t->map) : NULL,
                                     t->map != NULL ? t->map->n : 0},
                      "there is no template '%s'", name);
        return NULL;
    }
    state = &t->states[pair - t->map->pairs];
    if (state->open || t->depth == CHAIN_MAX) {
        complain(t->l, pos_of(t->l, y), NULL,
                 state->open ? "template '%s' extends itself"
                             : "template '%s' ends a chain of more than 64",
                 name);
        return NULL;
    }
    if (!state->tried && pair->value->kind == FR_YAML_MAP) {
        state->open = state->tried = true;
        t->depth++;
        state->merged = extended(t, pair->value);
        t->depth--;
        state->open = false;
    }
    return state->merged;
}

/* The map with what it extends; NULL after a complaint. */
static const struct fr_yaml *extended(struct templates *t, const struct fr_yaml *map)
{
    const struct fr_yaml *extends = fr_yaml_get(map, "extends"), *base = NULL;
    struct items items;

    if (extends == NULL)
        return map;
    items = items_of(&extends);
    if (items.n == 0 || extends->kind == FR_YAML_NULL)
        wrong_value(t->l, extends, "extends", "a name under templates:, or a list of them");
    t->l->key = "extends";
    for (size_t i = 0; i < items.n; i++) {
        const char *name = extends->kind != FR_YAML_NULL ? read_now(t->l, items.v[i]) : NULL;
        const struct fr_yaml *one = name != NULL ? template_of(t, items.v[i], name) : NULL;

        if (one == NULL || (base != NULL && (one = merge(t, base, one)) == NULL))
            return NULL;
        base = one;
    }
    return base != NULL ? merge(t, base, map) : NULL;
}

void expand_templates(struct loader *l, const struct fr_yaml *root)
{
    struct templates t = {.l = l, .map = fr_yaml_get(root, "templates")};
    struct fr_yaml *tasks = fr_yaml_get(root, "tasks");

    if (t.map != NULL && t.map->kind != FR_YAML_MAP)
        t.map = NULL; /* read_templates() complains */
    if (t.map != NULL && (t.states = load_scratch(l, t.map->n, sizeof(*t.states))) == NULL)
        return;
    for (size_t i = 0; tasks != NULL && tasks->kind == FR_YAML_MAP && i < tasks->n; i++) {
        struct fr_yaml_pair *pair = &tasks->pairs[i];
        const struct fr_yaml *merged;

        if (pair->value->kind == FR_YAML_MAP && fr_yaml_get(pair->value, "extends") != NULL &&
            (merged = extended(&t, pair->value)) != NULL)
            pair->value = (struct fr_yaml *)merged;
    }
    for (size_t i = 0; t.map != NULL && i < t.map->n; i++) /* those that no task extends, too */
        (void)template_of(&t, t.map->pairs[i].value, t.map->pairs[i].key.p);
    l->key = NULL;
}

/* What tasks take of them is read with the tasks. */
void read_templates(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    (void)target;
    if (y->kind == FR_YAML_NULL || !is_map(l, y, f->name, "a map of parts of tasks by name"))
        return;
    for (size_t i = 0; i < y->n; i++) {
        if (!name_ok(y->pairs[i].key.p))
            complain(l, pos_of_key(l, &y->pairs[i]), NAME, "'%s' cannot be the name of a template",
                     y->pairs[i].key.p);
        (void)check_object_keys(l, f->object, y->pairs[i].value);
    }
}

void read_extends(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    (void)l, (void)y, (void)f, (void)target; /* expand_templates() did, or complained */
}
