/* Values of all shapes, read by the tables of fields.c. */
#include "engine/spec/load.h"

#include <ctype.h>
#include <string.h>

enum { ENV_MAX = 500 };

bool name_ok(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > 64 || !(isalpha((unsigned char)name[0]) || name[0] == '_'))
        return false;
    for (size_t i = 1; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("_-", name[i]) == NULL)
            return false;
    return true;
}

bool label_ok(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("_-.", name[i]) == NULL)
            return false;
    return n > 0 && n <= 64;
}

const char *absolute_in(struct loader *l, const char *folder, const char *path)
{
    const char *home = l->opts->getenv ? l->opts->getenv(l->opts->getenv_self, "HOME") : NULL;

    if (path[0] == '/')
        return path;
    if (home != NULL && path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
        return load_keep(l, fr_arena_fmt(l->arena, "%s%s", home, path + 1));
    if (path[0] == '.' && path[1] == '/')
        path += 2;
    return load_keep(
        l, fr_arena_fmt(l->arena, "%s%s%s", folder, strcmp(folder, "/") == 0 ? "" : "/", path));
}

/* Where a path in the text read last counts from. */
static const char *base_of(const struct loader *l)
{
    return l->from_flag ? l->opts->cwd : l->folder[l->file];
}

const char *absolute(struct loader *l, const char *path)
{
    path = absolute_in(l, base_of(l), path);
    if (path != NULL)
        guard_path(l, path);
    return path;
}

const char *folder_of(struct loader *l, const char *path)
{
    size_t n = (size_t)(strrchr(path, '/') - path);

    return load_keep(l, fr_arena_text(l->arena, path, n > 0 ? n : 1));
}

void absolute_text(struct loader *l, struct fr_text *text)
{
    const struct fr_expr *first = text->expr != NULL ? expr_first(text->expr) : NULL;
    const char *begin = text->expr == NULL ? text->s : first != NULL ? first->text : "node:";

    if (text->expr != NULL && !(first != NULL && fr_has_prefix(begin, "node:")))
        guard_late(l);
    if (fr_has_prefix(begin, "node:"))
        return;
    if (text->expr == NULL) {
        text->s = absolute(l, text->s);
    } else if (begin[0] != '/') {
        const char *folder = absolute_in(l, base_of(l), "");

        text->expr = expr_join(l->arena, expr_literal(l->arena, folder), text->expr);
        l->no_memory |= text->expr == NULL;
    }
}

bool is_extension(const struct fr_yaml_pair *pair)
{
    return fr_has_prefix(pair->key.p, "x-");
}

bool check_object_keys(struct loader *l, const struct object *object, const struct fr_yaml *y)
{
    const char *names[64];
    size_t n = 0;

    if (y->kind != FR_YAML_MAP) {
        bool lone = object->lone != NULL && y->kind == FR_YAML_SCALAR && y->text.n <= 60;

        wrong_value(l, y, object->name,
                    lone ? fr_arena_fmt(l->arena, "a map of its keys, like {%s: %s}", object->lone,
                                        y->text.p)
                         : "a map of its keys");
        return false;
    }
    for (const struct field *f = object->fields; f->name != NULL && n < 64; f++)
        names[n++] = f->name;
    for (size_t i = 0; i < y->n; i++)
        if (field_find(object, y->pairs[i].key.p) == NULL && !is_extension(&y->pairs[i])) {
            struct hint hint = {.word = y->pairs[i].key.p, .words = names, .n_words = n};

            if ((hint.expected = foreign_key(object, hint.word)) != NULL)
                hint.n_words = 0;
            else if (fr_suggest(hint.word, names, n) == NULL)
                hint.expected = word_list(l, names, n);
            complain_near(l, pos_of_key(l, &y->pairs[i]), &hint, "%s has no key '%s'", object->name,
                          y->pairs[i].key.p);
        }
    return true;
}

bool is_map(struct loader *l, const struct fr_yaml *y, const char *what, const char *expected)
{
    if (y->kind != FR_YAML_MAP)
        wrong_value(l, y, what, expected);
    return y->kind == FR_YAML_MAP;
}

struct items items_of(const struct fr_yaml *const *y)
{
    if ((*y)->kind == FR_YAML_LIST)
        return (struct items){(const struct fr_yaml *const *)(*y)->items, (*y)->n};
    return (struct items){y, 1};
}

const char **read_strings(struct loader *l, const struct fr_yaml *y, bool names, size_t *n)
{
    struct items items = items_of(&y);
    size_t count = y->kind == FR_YAML_NULL ? 0 : items.n;
    const char **out = load_alloc(l, count, sizeof(*out));

    *n = 0;
    for (size_t i = 0; out != NULL && i < count; i++) {
        const char *text = read_now(l, items.v[i]);

        if (text != NULL && names && !label_ok(text))
            wrong_value(l, items.v[i], "the name", LABEL);
        else if (text != NULL)
            out[(*n)++] = text;
    }
    return out;
}

static void *place_of(const struct field *f, void *target)
{
    return (char *)target + f->at;
}

static size_t *count_of(const struct field *f, void *target)
{
    return (size_t *)(void *)((char *)target + f->n_at);
}

void put_list(const struct field *f, void *target, const void *list, size_t n)
{
    memcpy(place_of(f, target), &list, sizeof(list));
    *count_of(f, target) = n;
}

static void read_texts(struct loader *l, const struct fr_yaml *y, const struct field *f,
                       void *target)
{
    struct fr_text *out;

    if (y->kind != FR_YAML_LIST || y->n == 0) {
        wrong_value(l, y, f->name, "a list of at least one text");
        return;
    }
    if ((out = load_alloc(l, y->n, sizeof(*out))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++)
        read_text(l, y->items[i], f->allow, &out[i]);
    put_list(f, target, out, y->n);
}

static void read_map(struct loader *l, const struct fr_yaml *y, unsigned allow,
                     const struct fr_kv **out, size_t *n)
{
    struct fr_kv *list;

    if (y->kind == FR_YAML_NULL || !is_map(l, y, "env", "a map of names and texts") ||
        (list = load_alloc(l, y->n, sizeof(*list))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        l->key = list[i].name = y->pairs[i].key.p;
        read_text(l, y->pairs[i].value, allow, &list[i].value);
    }
    l->key = "env";
    *out = list;
    *n = y->n;
}

bool variable_ok(const char *name)
{
    if (fr_has_prefix(name, "FLOWRUN_") || (!isalpha((unsigned char)name[0]) && name[0] != '_'))
        return false;
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return *name == '\0';
}

void add_env(struct loader *l, const struct fr_yaml *y, struct env_list added,
             const struct fr_kv **out, size_t *n)
{
    size_t n_all = 0;
    struct fr_kv *all;

    if (*n + added.n > ENV_MAX) {
        wrong_value(l, y, "env", "at most 500 variables");
        return;
    }
    if ((all = load_alloc(l, *n + added.n, sizeof(*all))) == NULL)
        return;
    for (size_t i = 0; i < *n; i++) {
        bool again = false;

        for (size_t j = 0; j < added.n && !again; j++)
            again = strcmp((*out)[i].name, added.v[j].name) == 0;
        if (!again)
            all[n_all++] = (*out)[i];
    }
    for (size_t i = 0; i < added.n; i++)
        all[n_all++] = added.v[i];
    *out = all;
    *n = n_all;
}

/* y on top of the n variables that are there. */
static void read_env(struct loader *l, const struct fr_yaml *y, unsigned allow,
                     const struct fr_kv **out, size_t *n)
{
    struct env_list added = {0};

    read_map(l, y, allow, &added.v, &added.n);
    for (size_t i = 0; i < added.n; i++) {
        const char *name = added.v[i].name;
        bool odd = strpbrk(name, "-.") != NULL;

        if (!variable_ok(name))
            complain(l, pos_of_key(l, &y->pairs[i]),
                     odd ? "letters, digits and '_': no shell reads a "
                           "variable with '-' or '.'"
                         : "letters, digits and '_'; FLOWRUN_ is ours",
                     "'%s' cannot be the name of a variable", name);
    }
    add_env(l, y, added, out, n);
}

static void read_number(struct loader *l, const struct fr_yaml *y, const struct field *f,
                        void *target)
{
    void *at = place_of(f, target);
    const char *text = read_now(l, y), *expected = "never or a duration like 10s, above zero";
    struct fr_str s = fr_str_of(text);
    int64_t v = 0;
    double d = 0;
    bool ok;

    if (text == NULL)
        return;
    if (f->shape == SHAPE_INT) {
        ok = fr_parse_i64(s, &v, NULL) == FR_OK && (double)v >= f->min && (double)v <= f->max;
        expected = fr_arena_fmt(l->arena, "a whole number from %.0f to %.0f", f->min, f->max);
        if (ok)
            *(int *)at = (int)v;
    } else if (f->shape == SHAPE_FLOAT) {
        ok = fr_parse_f64(s, &d, NULL) == FR_OK && d >= f->min && d <= f->max;
        expected = fr_arena_fmt(l->arena, "a number from %g to %g", f->min, f->max);
        if (ok)
            *(double *)at = d;
    } else {
        double least = f->shape == SHAPE_LIMIT && l->opts->rules != 1 ? 1 : f->min;

        if (f->shape == SHAPE_SIZE)
            expected = fr_type_name(FR_T_SIZE);
        else if (f->shape == SHAPE_DURATION)
            expected = f->min > 0
                           ? fr_arena_fmt(l->arena, "a duration of %.0fs or more, like 1h30m",
                                          f->min / 1000)
                           : fr_type_name(FR_T_DURATION);
        ok = f->shape == SHAPE_SIZE ? fr_parse_size(s, &v, NULL) == FR_OK
             : f->shape == SHAPE_LIMIT && fr_str_is(s, "never")
                 ? true
                 : fr_parse_duration(s, &v, NULL) == FR_OK && (double)v >= least;
        if (ok)
            *(int64_t *)at = v;
    }
    if (!ok)
        wrong_value(l, y, f->name, expected);
}

static void read_choice(struct loader *l, const struct fr_yaml *y, const struct field *f,
                        void *target)
{
    int *at = f->shape == SHAPE_TRANSPORT ? (int *)&l->node_base.transport : place_of(f, target);
    const char *text = read_now(l, y);
    size_t n = 0;

    for (; text != NULL && f->choices[n] != NULL; n++)
        if (strcmp(f->choices[n], text) == 0) {
            *at = f->first + (int)n;
            return;
        }
    if (text != NULL)
        complain_near(
            l, pos_of(l, y),
            &(struct hint){f->expected != NULL ? f->expected : word_list(l, f->choices, n), text,
                           f->choices, n},
            "%s is '%s'", f->name, text);
}

static void read_string(struct loader *l, const struct fr_yaml *y, const struct field *f,
                        void *target)
{
    const char *text = read_now(l, y);

    if (text != NULL)
        *(const char **)place_of(f, target) = f->shape == SHAPE_PATH ? absolute(l, text) : text;
    if (f->of_host)
        guard_name(l, f->name);
}

static void read_bool(struct loader *l, const struct fr_yaml *y, const struct field *f,
                      void *target)
{
    const char *text = read_now(l, y);
    bool b;

    if (text != NULL && fr_parse_bool(fr_str_of(text), &b, NULL) == FR_OK)
        *(bool *)place_of(f, target) = b;
    else if (text != NULL)
        wrong_value(l, y, f->name, fr_type_name(FR_T_BOOL));
}

static void read_one_text(struct loader *l, const struct fr_yaml *y, const struct field *f,
                          void *target)
{
    struct fr_text t;

    if (read_text(l, y, f->allow, &t))
        *(struct fr_text *)place_of(f, target) = t;
}

static void read_string_list(struct loader *l, const struct fr_yaml *y, const struct field *f,
                             void *target)
{
    size_t n;
    const char **list = read_strings(l, y, f->shape == SHAPE_NAMES, &n);

    put_list(f, target, list, n);
}

/* Of the struct, or of the whole pipeline. */
static void read_variables(struct loader *l, const struct fr_yaml *y, const struct field *f,
                           void *target)
{
    bool all = f->shape == SHAPE_PIPELINE_ENV || f->shape == SHAPE_PIPELINE_ENV_FILE;
    const struct fr_kv **out = all ? &l->env : place_of(f, target);
    size_t *n = all ? &l->n_env : count_of(f, target);

    if (f->shape == SHAPE_ENV || f->shape == SHAPE_PIPELINE_ENV)
        read_env(l, y, f->allow, out, n);
    else
        read_env_file(l, y, out, n);
}

static void read_inner(struct loader *l, const struct fr_yaml *y, const struct field *f,
                       void *target)
{
    void *into = f->shape == SHAPE_KEEP            ? &l->node_base.keep
                 : f->shape == SHAPE_DEFAULTS      ? (void *)&l->base
                 : f->shape == SHAPE_NODE_DEFAULTS ? (void *)&l->node_base
                                                   : place_of(f, target);

    read_object(l, f->object, y, into);
}

#define READER(name, reader, schema) reader,
static shape_reader *const readers[SHAPE_N] = {SHAPES(READER)};
#undef READER

void read_field(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    const char *outer = l->key;

    l->key = f->name;
    if (readers[f->shape] != NULL)
        readers[f->shape](l, y, f, target);
    l->key = outer;
}

void read_object(struct loader *l, const struct object *object, const struct fr_yaml *y,
                 void *target)
{
    if (!check_object_keys(l, object, y))
        return;
    for (const struct field *f = object->fields; f->name != NULL; f++) {
        const struct fr_yaml *value = fr_yaml_get(y, f->name);

        if (value != NULL)
            read_field(l, value, f, target);
        else if (f->required)
            complain(l, pos_of(l, y), f->expected, "%s needs the key '%s'", object->name, f->name);
    }
}
