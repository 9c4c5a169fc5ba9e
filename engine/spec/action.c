/* What a task, hook or sidecar does. */
#include "engine/spec/load.h"

#include <ctype.h>
#include <string.h>

enum { SIDECARS_MAX = 16 };

/* "${{ params.max_steps }}" as the name of a variable: MAX_STEPS. */
static void variable_for(const char *expr, size_t n, char out[32])
{
    size_t from = 0, used = 0;

    while (n > 0 && isspace((unsigned char)expr[n - 1]))
        n--;
    for (size_t i = 0; i < n; i++)
        if (expr[i] == '.')
            from = i + 1;
    for (size_t i = from; i < n && used < 31; i++)
        if (isalnum((unsigned char)expr[i]) || expr[i] == '_' || expr[i] == '-')
            out[used++] = expr[i] == '-' ? '_' : (char)toupper((unsigned char)expr[i]);
    out[used] = '\0';
    if (used == 0 || isdigit((unsigned char)out[0]))
        memcpy(out, "VALUE", sizeof("VALUE"));
}

/* Values reach scripts as environment variables, never pasted into shell text. */
void read_script(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_action *act = target;
    struct text_reader r = {.l = l, .y = y};
    const char *end;
    char name[32];
    size_t at;

    (void)f;
    if (y->kind != FR_YAML_SCALAR || y->text.n == 0) {
        wrong_value(l, y, "run", "a shell script");
        return;
    }
    act->run = y->text.p;
    for (size_t from = 0; expr_next(y->text.p, from, &at); from = at + 3) {
        const char *expr = y->text.p + at;

        end = strstr(expr, "}}");
        if (end == NULL)
            continue; /* the shell's own business */
        variable_for(expr + 3, (size_t)(end - expr) - 3, name);
        complain(l, pos_inside(&r, at),
                 fr_arena_fmt(l->arena, "env: {%s: \"%.*s\"} and \"$%s\" in the script", name,
                              (int)(end - expr) + 2, expr, name),
                 "an expression cannot stand in run:");
    }
}

void read_uses(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_action *act = target;
    const char *text = read_now(l, y), *names[32];
    size_t n = 0;

    (void)f;
    if (text == NULL || (act->uses = fr_kind_find(text)) != NULL)
        return;
    for (const struct fr_kind *k = fr_kinds; k->name != NULL && n < 32; k++)
        names[n++] = k->name;
    complain_near(l, pos_of(l, y), &(struct hint){word_list(l, names, n), text, names, n},
                  "unknown built-in task '%s'", text);
}

/* One text of a with key; what is known already is checked now. */
static void read_item(struct loader *l, const struct fr_yaml *y, const struct fr_key *key,
                      struct fr_kv *out)
{
    unsigned allow = ALLOW_RUN | ALLOW_OUTPUTS | (key->secret_ok ? ALLOW_SECRETS : 0u);
    const char *expected;

    if (!read_text(l, y, allow, &out->value))
        return;
    if (key->type == FR_T_PATH && (out->value.expr != NULL || out->value.s[0] != '\0'))
        absolute_text(l, &out->value);
    if (out->value.expr != NULL)
        return;
    if (!with_value_ok(key, out->value.s, &expected)) {
        if (key->type == FR_T_CHOICE) {
            size_t n = 0;
            while (key->choices[n] != NULL)
                n++;
            expected = word_list(l, key->choices, n);
        }
        wrong_value(l, y, key->name, expected);
    }
}

static void read_with_value(struct loader *l, const struct fr_yaml *y, struct fr_with *with)
{
    enum fr_type type = with->key->type;
    struct fr_kv *items = load_alloc(l, y->n + 1, sizeof(*items));

    if (items == NULL)
        return;
    with->items = items;
    l->key = with->key->name;
    if (type == FR_T_MAP && y->kind == FR_YAML_MAP) {
        for (; with->n < y->n; with->n++) {
            l->key = items[with->n].name = y->pairs[with->n].key.p;
            read_item(l, y->pairs[with->n].value, with->key, &items[with->n]);
        }
    } else if (type == FR_T_LIST && y->kind == FR_YAML_LIST) {
        for (; with->n < y->n; with->n++)
            read_item(l, y->items[with->n], with->key, &items[with->n]);
    } else if (type != FR_T_MAP && y->kind == FR_YAML_SCALAR) {
        with->n = 1;
        read_item(l, y, with->key, &items[0]);
    } else {
        wrong_value(l, y, with->key->name, fr_type_name(type));
    }
}

static void unknown_with(struct loader *l, const struct fr_yaml_pair *pair,
                         const struct fr_kind *kind)
{
    const char *names[64];
    size_t n = 0;

    for (const struct fr_key *k = kind->keys; k->name != NULL && n < 64; k++)
        names[n++] = k->name;

    struct hint hint = {.word = pair->key.p, .words = names, .n_words = n};
    if (fr_suggest(hint.word, names, n) == NULL)
        hint.expected = word_list(l, names, n);
    complain_near(l, pos_of_key(l, pair), &hint, "%s has no input '%s'", kind->name, pair->key.p);
}

void read_with(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_action *act = target;
    struct fr_with *list;

    (void)f;
    if (act->uses == NULL) /* reported by finish_action, or by read_uses */
        return;
    if (y->kind == FR_YAML_NULL || !is_map(l, y, "with", "a map of inputs") ||
        (list = load_alloc(l, y->n, sizeof(*list))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        struct fr_with *with = &list[act->n_with];

        with->key = fr_kind_key(act->uses, y->pairs[i].key.p);
        with->pos = pos_of_key(l, &y->pairs[i]);
        if (with->key == NULL) {
            unknown_with(l, &y->pairs[i], act->uses);
        } else if (y->pairs[i].value->kind != FR_YAML_NULL) {
            read_with_value(l, y->pairs[i].value, with);
            act->n_with++;
        }
    }
    act->with = list;
}

void read_programs(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_action *act = target;
    static const char *const known[] = {"flowtrain"};
    size_t n;
    const char **list = read_strings(l, y, true, &n);

    (void)f;
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], known[0]) != 0)
            complain_near(l, pos_of(l, y), &(struct hint){known[0], list[i], known, 1},
                          "unknown program '%s'", list[i]);
    act->programs = list;
    act->n_programs = n > 0 ? 1 : 0;
}

static bool has_with(const struct fr_action *act, const char *name)
{
    for (size_t i = 0; i < act->n_with; i++)
        if (strcmp(act->with[i].key->name, name) == 0)
            return true;
    return false;
}

static void check_kind(struct loader *l, struct fr_pos pos, struct fr_action *act, enum place place)
{
    const struct fr_kind *kind = act->uses;

    if (kind->hook_only && place != PLACE_HOOK)
        complain(l, pos, "it under on_success, on_failure, on_cancel or on_exit",
                 "%s cannot stand here", kind->name);
    if (kind->sidecar != (place == PLACE_SIDECAR))
        complain(l, pos, kind->sidecar ? "it under sidecars: of a task" : "janitor, run: or argv:",
                 "%s cannot stand here", kind->name);
    for (const struct fr_key *k = kind->keys; k->name != NULL; k++)
        if (k->required && !has_with(act, k->name))
            complain(l, pos, NULL, "%s needs the input '%s' (%s)", kind->name, k->name, k->help);
    if (kind->control && has_with(act, "url") == has_with(act, "command"))
        complain(l, pos, NULL, "%s needs the input 'url' or 'command', one of them", kind->name);
    if (act->n_programs == 0) {
        act->programs = kind->programs;
        while (kind->programs[act->n_programs] != NULL)
            act->n_programs++;
    }
}

void finish_action(struct loader *l, const struct fr_yaml *y, struct fr_action *act,
                   enum place place)
{
    const struct fr_yaml *uses = fr_yaml_get(y, "uses"), *run = fr_yaml_get(y, "run");
    const struct fr_yaml *argv = fr_yaml_get(y, "argv"), *with = fr_yaml_get(y, "with");

    if (y->kind != FR_YAML_MAP || fr_yaml_get(y, "extends") != NULL)
        return; /* reported already */
    if ((uses != NULL) + (run != NULL) + (argv != NULL) != 1)
        complain(l, act->pos, "one of uses, run or argv", "'%s' does %s", act->name,
                 uses || run || argv ? "more than one thing" : "nothing");
    if (with != NULL && uses == NULL)
        complain(l, pos_of(l, with), "env: for scripts and programs", "with: belongs to uses:");
    if (act->login && uses != NULL)
        complain(l, act->pos, "run: or argv:", "login: is not for uses:");
    act->what = run ? FR_RUN : argv ? FR_ARGV : FR_USES;
    if (act->uses != NULL)
        check_kind(l, pos_of(l, uses), act, place);
}

void read_sidecars(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;
    struct fr_action *list;

    (void)f;
    if (y->kind != FR_YAML_LIST || y->n > SIDECARS_MAX) {
        wrong_value(l, y, "sidecars", "a list of at most 16 maps with uses, run or argv");
        return;
    }
    if ((list = load_alloc(l, y->n, sizeof(*list))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        struct fr_action *act = &list[i];

        *act = (struct fr_action){.pos = pos_of(l, y->items[i]),
                                  .shell = task->act.shell,
                                  .env = task->act.env,
                                  .n_env = task->act.n_env,
                                  .cwd = task->act.cwd};
        read_object(l, &object_sidecar, y->items[i], act);
        if (act->name == NULL)
            act->name = act->uses ? act->uses->name
                                  : load_keep(l, fr_arena_fmt(l->arena, "sidecar.%zu", i));
        else if (!label_ok(act->name))
            complain(l, act->pos, LABEL, "'%s' cannot be the name of a sidecar", act->name);
        finish_action(l, y->items[i], act, PLACE_SIDECAR);
    }
    task->sidecars = list;
    task->n_sidecars = y->n;
}
