/* Parameters, with what -p gives them, and secrets. */
#include "engine/spec/load.h"

#include <string.h>

void read_param_default(struct loader *l, const struct fr_yaml *y, const struct field *f,
                        void *target)
{
    (void)f;
    ((struct fr_param *)target)->preset = read_now(l, y);
}

/* The value of the last -p for name, or NULL. *fenced: it is of a request with a fence. */
static const char *given(const struct loader *l, const char *name, bool *fenced)
{
    size_t n = strlen(name);

    for (size_t i = l->opts->n_params; i-- > 0;)
        if (strncmp(l->opts->params[i], name, n) == 0 && l->opts->params[i][n] == '=') {
            *fenced = l->opts->fence != NULL && i + l->opts->fence->n_params >= l->opts->n_params;
            return l->opts->params[i] + n + 1;
        }
    return NULL;
}

/* Whether the given value of p says what its preset does. */
static bool is_preset(struct loader *l, const struct fr_param *p)
{
    const char *preset = p->preset;

    if (p->type == FR_T_PATH && preset != NULL && !fr_has_prefix(preset, "node:"))
        preset = absolute_in(l, l->folder[0], preset);
    return preset != NULL && p->value != NULL && strcmp(preset, p->value) == 0;
}

static bool has_type(struct loader *l, struct fr_pos pos, const struct fr_param *param,
                     const char *value)
{
    const char *expected;
    bool ok = with_value_ok(&(struct fr_key){.type = param->type}, value, &expected);

    if (!ok)
        complain(l, pos, expected, "param '%s' is '%s'", param->name, value);
    return ok;
}

bool param_allows(struct loader *l, struct fr_pos pos, const struct fr_param *param,
                  const char *value)
{
    for (size_t i = 0; i < param->n_choices; i++)
        if (strcmp(param->choices[i], value) == 0)
            return true;
    if (param->n_choices == 0)
        return has_type(l, pos, param, value);
    complain_near(l, pos,
                  &(struct hint){word_list(l, param->choices, param->n_choices), value,
                                 param->choices, param->n_choices},
                  "param '%s' is '%s'", param->name, value);
    return false;
}

/* The value that the first schedule gives it, where each gives one; else NULL. */
static const struct fr_yaml *scheduled(const struct loader *l, const char *name)
{
    struct items all = {NULL, 0};
    const struct fr_yaml *first = NULL;

    if (l->schedules != NULL)
        all = items_of(&l->schedules);
    for (size_t i = 0; i < all.n; i++) {
        const struct fr_yaml *one = all.v[i];
        const struct fr_yaml *params = one->kind == FR_YAML_MAP ? fr_yaml_get(one, "params") : NULL;
        const struct fr_yaml *value =
            params != NULL && params->kind == FR_YAML_MAP ? fr_yaml_get(params, name) : NULL;

        if (value == NULL)
            return NULL;
        first = first != NULL ? first : value;
    }
    return first;
}

/* Neither -p nor a default gives it a value. */
static void complain_unset(struct loader *l, const struct fr_param *p)
{
    complain(l, p->pos,
             l->schedules != NULL ? "a default, or a value in params: of each schedule"
                                  : "-p NAME=VALUE or a default",
             "param '%s' has no value", p->name);
}

/* Chooses between -p, preset and what schedules give; value stays NULL after a complaint. */
static void settle(struct loader *l, const struct fr_yaml *y, struct fr_param *p)
{
    const struct fr_yaml *preset = fr_yaml_get(y, "default"), *by_schedule = NULL;
    bool fenced = false, yes;
    const char *flag = given(l, p->name, &fenced), *value = flag;
    struct fr_pos pos = {0};

    p->given = flag != NULL;
    if (flag == NULL && preset == NULL && (by_schedule = scheduled(l, p->name)) == NULL) {
        complain_unset(l, p);
        return;
    }
    l->key = p->name;
    if (flag == NULL) {
        value = by_schedule != NULL ? read_now(l, by_schedule) : p->preset;
        pos = pos_of(l, by_schedule != NULL ? by_schedule : preset);
    }
    if (value == NULL || !param_allows(l, pos, p, value))
        return;
    if (p->type == FR_T_BOOL && l->opts->rules != 1)
        value = fr_parse_bool(fr_str_of(value), &yes, NULL) == FR_OK && yes ? "true" : "false";
    value = load_keep(l, fr_arena_dup(l->arena, value));
    p->value = value != NULL && p->type == FR_T_PATH && !fr_has_prefix(value, "node:")
                   ? absolute_in(l, flag != NULL ? l->opts->cwd : l->folder[0], value)
                   : value;
    p->fenced = fenced && p->n_choices == 0 && !is_preset(l, p) &&
                (p->type == FR_T_STRING || p->type == FR_T_PATH);
}

static void check_flags(struct loader *l, const struct fr_yaml *y)
{
    for (size_t i = 0; i < l->opts->n_params; i++) {
        const char *flag = l->opts->params[i], *equals = strchr(flag, '=');
        struct hint hint = {.n_words = y->n};
        bool known = false;

        if (equals == NULL || equals == flag) {
            complain(l, (struct fr_pos){0}, "-p NAME=VALUE", "-p '%s' is not right", flag);
            continue;
        }
        if (!fr_utf8_valid(flag, strlen(flag)))
            complain(l, (struct fr_pos){0}, "text in UTF-8", "-p '%s' is no text", flag);
        hint.word = fr_arena_text(l->arena, flag, (size_t)(equals - flag));
        hint.words = key_names(l, y);
        for (size_t j = 0; hint.word != NULL && hint.words != NULL && j < y->n && !known; j++)
            known = strcmp(hint.words[j], hint.word) == 0;
        if (!known && hint.word != NULL && hint.words != NULL)
            complain_near(l, (struct fr_pos){0}, &hint, "-p '%s': the pipeline has no such param",
                          hint.word);
    }
}

void read_params(struct loader *l, const struct fr_yaml *y)
{
    struct fr_param *list;

    if (y->kind != FR_YAML_MAP) {
        if (y->kind != FR_YAML_NULL)
            wrong_value(l, y, "params", "a map of names");
        check_flags(l, &(struct fr_yaml){.kind = FR_YAML_MAP});
        return;
    }
    check_flags(l, y);
    if ((list = load_alloc(l, y->n, sizeof(*list))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        struct fr_param *p = &list[i];

        *p = (struct fr_param){
            .name = y->pairs[i].key.p, .type = FR_T_STRING, .pos = pos_of_key(l, &y->pairs[i])};
        if (!name_ok(p->name))
            complain(l, p->pos, NAME, "'%s' cannot be the name of a param", p->name);
        read_object(l, &object_param, y->pairs[i].value, p);
        if (y->pairs[i].value->kind == FR_YAML_MAP)
            settle(l, y->pairs[i].value, p);
    }
    l->spec->params = list;
    l->spec->n_params = y->n;
}

void read_secrets(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_secret *list;

    if (!is_map(l, y, "secrets", "a map of names") ||
        (list = load_alloc(l, y->n, sizeof(*list))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        struct secret_entry e = {0};
        struct fr_secret *s = &list[i];
        int n = 0;

        *s = (struct fr_secret){.name = y->pairs[i].key.p, .pos = pos_of_key(l, &y->pairs[i])};
        read_object(l, &object_secret, y->pairs[i].value, &e);
        for (int from = 0; from < 3; from++)
            if (e.from[from] != NULL) {
                s->from = (enum fr_secret_from)from;
                s->arg = e.from[from];
                n++;
            }
        if (!name_ok(s->name))
            complain(l, s->pos, NAME, "'%s' cannot be the name of a secret", s->name);
        if (n != 1 && y->pairs[i].value->kind == FR_YAML_MAP)
            complain(l, s->pos, "one of env, file or command", "secret '%s' is not complete",
                     s->name);
        if (s->arg == NULL)
            s->arg = "";
    }
    put_list(f, target, list, y->n);
}
