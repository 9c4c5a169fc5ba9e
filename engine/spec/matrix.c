/* matrix: of a task: the product of its lists, without what exclude: names, with include:. */
#include "engine/spec/load.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 32, COMPARED_MAX = 100000000 /* entries x rows */ };

struct entry { /* of exclude: or include:, or a row: its values by the place of their names */
    struct fr_scalar values[NAMES_MAX];
    struct fr_pos pos;
};

struct row {
    struct fr_scalar *values; /* n_names */
    struct fr_pos pos;        /* of the include: that made it, else of matrix: */
    bool gone;                /* excluded */
};

struct axis {
    const struct fr_scalar *v;
    size_t n;
};

struct grid {
    struct loader *l;
    const struct fr_yaml *y; /* matrix: */
    const char *names[NAMES_MAX];
    struct axis axes[NAMES_MAX]; /* of the first n_axes names */
    size_t n_names, n_axes;
    struct row *rows;
    size_t n_rows, n_product; /* the first n_product rows are those of the product */
};

static bool read_scalar(struct loader *l, const struct fr_yaml *y, struct fr_scalar *out)
{
    bool quoted = y->quoted && strstr(y->text.p, "${{") == NULL;
    const char *text = y->kind == FR_YAML_SCALAR ? read_now(l, y) : "";
    struct fr_buf b = {0};
    bool good;

    if (y->kind != FR_YAML_SCALAR && y->kind != FR_YAML_NULL) {
        complain(l, pos_of(l, y), "a text, a number, true, false or null",
                 "a value of the matrix is no scalar");
        return false;
    }
    if (text == NULL)
        return false;
    l->item_fenced = l->item_fenced || (y->kind == FR_YAML_SCALAR && l->fenced);
    good = fr_scalar_read(fr_str_of(text), quoted, &out->type, &b);
    out->text = load_keep(l, fr_arena_text(l->arena, b.p != NULL ? b.p : "", b.n));
    l->no_memory = l->no_memory || b.bad;
    fr_buf_finish(&b);
    if (!good)
        complain(l, pos_of(l, y), "a finite number of at most 64 bits, or quotes around it",
                 "'%s' cannot be a value of the matrix", text);
    return good && out->text != NULL;
}

static bool is_number(const struct fr_scalar *s)
{
    return s->type == FR_SCALAR_INT || s->type == FR_SCALAR_FLOAT;
}

static bool equal(const struct fr_scalar *a, const struct fr_scalar *b)
{
    if (is_number(a) && is_number(b) && a->type != b->type)
        return strtod(a->text, NULL) == strtod(b->text, NULL);
    return a->type == b->type && strcmp(a->text, b->text) == 0;
}

static int name_at(const struct grid *g, const char *name)
{
    for (size_t i = 0; i < g->n_names; i++)
        if (strcmp(g->names[i], name) == 0)
            return (int)i;
    return -1;
}

/* Its place, after it was added if it is new; -1 after a complaint. */
static int add_name(struct grid *g, const struct fr_yaml_pair *pair)
{
    int at = name_at(g, pair->key.p);

    if (at >= 0)
        return at;
    if (!name_ok(pair->key.p)) {
        complain(g->l, pos_of_key(g->l, pair), NAME, "'%s' cannot be a name of the matrix",
                 pair->key.p);
        return -1;
    }
    if (g->n_names == NAMES_MAX) {
        complain(g->l, pos_of_key(g->l, pair), NULL, "more than %d names in a matrix", NAMES_MAX);
        return -1;
    }
    g->names[g->n_names] = load_keep(g->l, fr_arena_dup(g->l->arena, pair->key.p));
    return g->names[g->n_names] != NULL ? (int)g->n_names++ : -1;
}

static bool read_axis(struct grid *g, const struct fr_yaml_pair *pair)
{
    const struct fr_yaml *y = pair->value;
    struct items list = items_of(&y);
    struct fr_scalar *v = load_alloc(g->l, list.n, sizeof(*v));
    int at = add_name(g, pair);
    bool good = at >= 0 && v != NULL;

    if (list.n == 0 || y->kind == FR_YAML_NULL || y->kind == FR_YAML_MAP) {
        complain(g->l, pos_of(g->l, y), "a list of values", "'%s' of the matrix has none",
                 pair->key.p);
        return false;
    }
    for (size_t i = 0; i < list.n && v != NULL; i++)
        good = read_scalar(g->l, list.v[i], &v[i]) && good;
    if (good)
        g->axes[at] = (struct axis){v, list.n};
    g->n_axes = g->n_names;
    return good;
}

static bool is_rule(const struct fr_yaml_pair *pair)
{
    return strcmp(pair->key.p, "include") == 0 || strcmp(pair->key.p, "exclude") == 0;
}

/* One map of include: or exclude:. Names of the latter are those of the product. */
static bool read_entry(struct grid *g, const struct fr_yaml *y, bool include, struct entry *out)
{
    bool good =
        is_map(g->l, y, include ? "include" : "exclude", "a map of names and values") && y->n > 0;

    *out = (struct entry){.pos = pos_of(g->l, y)};
    if (y->kind == FR_YAML_MAP && y->n == 0)
        complain(g->l, out->pos, "a map of names and values", "it names nothing");
    for (size_t i = 0; i < y->n && y->kind == FR_YAML_MAP; i++) {
        const struct fr_yaml_pair *pair = &y->pairs[i];
        int at = include ? add_name(g, pair) : name_at(g, pair->key.p);

        if (at < 0 && !include)
            complain_near(g->l, pos_of_key(g->l, pair),
                          &(struct hint){"a name of the matrix", pair->key.p, g->names, g->n_axes},
                          "exclude: the matrix has no '%s'", pair->key.p);
        good = at >= 0 && read_scalar(g->l, pair->value, &out->values[at]) && good;
    }
    return good;
}

/* The maps below a key of the matrix; NULL: it has none, or after a complaint (*good false). */
static struct entry *read_entries(struct grid *g, const char *key, size_t *n, bool *good)
{
    const struct fr_yaml *y = fr_yaml_get(g->y, key);
    struct items list = y != NULL ? items_of(&y) : (struct items){0};
    struct entry *out = load_scratch(g->l, list.n + 1, sizeof(*out));

    *n = y != NULL && y->kind != FR_YAML_NULL ? list.n : 0;
    if (*n > FR_ITEMS_MAX) {
        complain(g->l, pos_of(g->l, y), NULL, "%s: has more than %d entries", key, FR_ITEMS_MAX);
        *n = 0;
        *good = false;
    }
    for (size_t i = 0; i < *n && out != NULL; i++)
        *good = read_entry(g, list.v[i], key[0] == 'i', &out[i]) && *good;
    return out;
}

/* Rows of the product: the last name changes fastest. */
static bool multiply(struct grid *g, size_t more)
{
    size_t n = g->n_axes > 0 ? 1 : 0;
    struct fr_scalar *values;

    for (size_t k = 0; k < g->n_axes; k++)
        n = n > FR_ITEMS_MAX ? n : n * g->axes[k].n;
    if (n > FR_ITEMS_MAX) {
        complain(g->l, pos_of(g->l, g->y), NULL, "the matrix has more than %d rows", FR_ITEMS_MAX);
        return false;
    }
    g->rows = load_scratch(g->l, n + more + 1, sizeof(*g->rows));
    values = load_alloc(g->l, (n + more) * g->n_names + 1, sizeof(*values));
    if (g->rows == NULL || values == NULL)
        return false;
    for (size_t i = 0; i < n + more; i++)
        g->rows[i] = (struct row){.values = values + i * g->n_names, .pos = pos_of(g->l, g->y)};
    for (size_t i = 0; i < n; i++)
        for (size_t k = g->n_axes, left = i; k-- > 0; left /= g->axes[k].n)
            g->rows[i].values[k] = g->axes[k].v[left % g->axes[k].n];
    g->n_rows = g->n_product = n;
    return true;
}

/* Whether the row has the entry's values, of names of the product. */
static bool agrees(const struct grid *g, const struct row *row, const struct entry *e)
{
    for (size_t k = 0; k < g->n_axes; k++)
        if (e->values[k].type != FR_SCALAR_NONE && !equal(&row->values[k], &e->values[k]))
            return false;
    return true;
}

static void exclude(struct grid *g, const struct entry *e)
{
    bool any = false;

    for (size_t i = 0; i < g->n_product; i++)
        if (agrees(g, &g->rows[i], e))
            g->rows[i].gone = any = true;
    if (!any)
        add_note(g->l, e->pos, "exclude: no row of the matrix agrees with it");
}

static void include(struct grid *g, const struct entry *e)
{
    bool any = false;

    for (size_t i = 0; i < g->n_product; i++) {
        if (g->rows[i].gone || !agrees(g, &g->rows[i], e))
            continue;
        any = true;
        for (size_t k = g->n_axes; k < g->n_names; k++)
            if (e->values[k].type != FR_SCALAR_NONE)
                g->rows[i].values[k] = e->values[k];
    }
    if (any)
        return;
    memcpy(g->rows[g->n_rows].values, e->values, g->n_names * sizeof(e->values[0]));
    g->rows[g->n_rows++].pos = e->pos;
}

static const char *key_of(struct grid *g, const struct row *row)
{
    struct fr_buf b = {0};
    const char *key;

    for (size_t k = 0; k < g->n_names; k++) {
        if (row->values[k].type == FR_SCALAR_NONE)
            continue;
        fr_buf_fmt(&b, "%s%s=", b.n > 0 ? "," : "", g->names[k]);
        fr_scalar_key(&row->values[k], &b);
    }
    key = load_keep(g->l, b.bad ? NULL : fr_arena_text(g->l->arena, b.p != NULL ? b.p : "", b.n));
    if (key != NULL && b.n > FR_ITEM_KEY_MAX)
        complain(g->l, row->pos,
                 "short values that stand for the long ones, which a script looks up",
                 "the key of a row has %zu bytes, more than %d: %.40s…", b.n, FR_ITEM_KEY_MAX, key);
    fr_buf_finish(&b);
    return key;
}

static int by_key(const void *a, const void *b)
{
    const struct fr_item *x = *(const struct fr_item *const *)a;
    const struct fr_item *y = *(const struct fr_item *const *)b;
    int order = strcmp(x->key, y->key);

    return order != 0 ? order : (x > y) - (x < y);
}

/* Two rows of one key would be one instance. */
static void check_keys(struct grid *g, const struct fr_items *items, const struct fr_pos *where)
{
    const struct fr_item **sorted = load_scratch(g->l, items->n + 1, sizeof(*sorted));

    for (size_t i = 0; sorted != NULL && i < items->n; i++)
        sorted[i] = &items->v[i];
    if (sorted == NULL)
        return;
    qsort(sorted, items->n, sizeof(*sorted), by_key);
    for (size_t i = 1; i < items->n; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0) {
            complain(g->l, where[sorted[i] - items->v], "values of which each row is unlike",
                     "rows %zu and %zu of the matrix have the same key '%s'",
                     (size_t)(sorted[i - 1] - items->v) + 1, (size_t)(sorted[i] - items->v) + 1,
                     sorted[i]->key);
            return;
        }
}

static const struct fr_items *finish(struct grid *g)
{
    struct fr_items *items = load_alloc(g->l, 1, sizeof(*items));
    struct fr_item *v = load_alloc(g->l, g->n_rows, sizeof(*v));
    struct fr_pos *where = load_scratch(g->l, g->n_rows + 1, sizeof(*where));
    const char **names = load_alloc(g->l, g->n_names, sizeof(*names));

    if (items == NULL || v == NULL || where == NULL || names == NULL)
        return NULL;
    memcpy(names, g->names, g->n_names * sizeof(*names));
    *items = (struct fr_items){.names = names, .n_names = g->n_names, .v = v};
    for (size_t i = 0; i < g->n_rows; i++) {
        if (g->rows[i].gone)
            continue;
        for (size_t k = 0; k < g->n_names; k++)
            if (g->rows[i].values[k].type == FR_SCALAR_NONE)
                g->rows[i].values[k].text = "";
        v[items->n] = (struct fr_item){.key = key_of(g, &g->rows[i]), .values = g->rows[i].values};
        where[items->n] = g->rows[i].pos;
        if (v[items->n++].key == NULL)
            return NULL;
    }
    check_keys(g, items, where);
    return items;
}

void read_matrix(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;
    struct grid *g = load_scratch(l, 1, sizeof(*g));
    struct entry *out, *in;
    size_t n_out, n_in;
    bool good = true;

    (void)f;
    l->item_fenced = false;
    l->bad_items = true;
    if (g == NULL || !is_map(l, y, "matrix", "a map of names and lists of values"))
        return;
    *g = (struct grid){.l = l, .y = y};
    for (size_t i = 0; i < y->n; i++)
        if (!is_rule(&y->pairs[i]))
            good = read_axis(g, &y->pairs[i]) && good;
    out = read_entries(g, "exclude", &n_out, &good);
    in = read_entries(g, "include", &n_in, &good);
    if (good && g->n_names == 0)
        wrong_value(l, y, "matrix", "names and lists of values, or include:");
    if (!good || g->n_names == 0 || out == NULL || in == NULL || !multiply(g, n_in))
        return;
    if (g->n_product * (n_out + n_in) > COMPARED_MAX) {
        complain(l, pos_of(l, y), "fewer of either",
                 "%zu entries of exclude and include against %zu rows are too many", n_out + n_in,
                 g->n_product);
        return;
    }
    for (size_t i = 0; i < n_out; i++)
        exclude(g, &out[i]);
    for (size_t i = 0; i < n_in; i++)
        include(g, &in[i]);
    task->items = finish(g);
    l->bad_items = task->items == NULL;
}

/* ---- items of several tasks ---- */

static bool same_keys(const struct fr_items *a, const struct fr_items *b, const char **missing)
{
    for (size_t i = 0; i < a->n || i < b->n; i++) {
        *missing = i < a->n ? a->v[i].key : b->v[i].key;
        if (i >= a->n || i >= b->n || strcmp(a->v[i].key, b->v[i].key) != 0)
            return false;
    }
    return true;
}

static const struct fr_yaml *need_at(const struct loader *l, size_t task, int need)
{
    const struct fr_yaml *needs = fr_yaml_get(l->tasks->pairs[task].value, "needs");
    struct items list = items_of(&needs);

    for (size_t i = 0; i < list.n; i++) {
        const struct fr_yaml *name =
            list.v[i]->kind == FR_YAML_MAP ? fr_yaml_get(list.v[i], "task") : NULL;

        if (name != NULL && strcmp(name->text.p, l->spec->tasks[need].act.name) == 0)
            return list.v[i];
    }
    return needs;
}

static bool has_matrix(const struct fr_task *task)
{
    return task->items != NULL && !task->items->of_list;
}

/* item: same, between tasks of which the items have the same keys in the same order. */
void check_joins(struct loader *l)
{
    for (size_t t = 0; t < l->spec->n_tasks; t++) {
        const struct fr_task *task = &l->spec->tasks[t];

        for (size_t i = 0; i < task->n_same; i++) {
            const struct fr_task *need = &l->spec->tasks[task->same[i]];
            const struct fr_pos pos = pos_of(l, need_at(l, t, task->same[i]));
            const char *key = "";

            if (!has_matrix(task) || !has_matrix(need))
                complain(l, pos, "tasks that both have a matrix", "item: same: '%s' has no matrix",
                         !has_matrix(task) ? task->act.name : need->act.name);
            else if (!same_keys(task->items, need->items, &key))
                complain(l, pos, "the same matrix in both",
                         "item: same: '%s' and '%s' do not have the same items; the first that "
                         "differs is [%s]",
                         task->act.name, need->act.name, key);
        }
    }
}

/* fail_fast: has a meaning only where a failure leaves other instances. */
void check_fail_fast(struct loader *l)
{
    for (size_t t = 0; t < l->spec->n_tasks; t++) {
        const struct fr_task *task = &l->spec->tasks[t];
        const struct fr_yaml *y = fr_yaml_get(l->tasks->pairs[t].value, "fail_fast");
        bool single = task->on == FR_ON_HEAD || task->on == FR_ON_CONTROL;

        if (!task->fail_fast || task->items != NULL)
            continue;
        if (task->gang && !single)
            complain(l, pos_of(l, y), "matrix: or foreach: beside it, or no fail_fast:",
                     "the instances of '%s' are one gang, which fails as a whole", task->act.name);
        else if (single)
            complain(l, pos_of(l, y), "matrix:, foreach: or on: several nodes, or no fail_fast:",
                     "'%s' has one instance, so none is left when it fails", task->act.name);
    }
}
