#include "trainer/cli/arg_map.h"

#include "engine/base/log.h"

#include <string.h>

void tr_arg_map_finish(struct tr_arg_map *m)
{
    fr_buf_finish(&m->notes);
    fr_arena_finish(&m->arena);
}

void tr_arg_map_tell(const struct tr_arg_map *m)
{
    if (m->notes.n > 0)
        fr_complain("%s", m->notes.p);
}

static const struct tr_arg_rule *rule_of(const struct tr_arg_map *m, const struct tr_arg *arg)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->rules[i].arg, arg->name) == 0)
            return &m->rules[i];
    return NULL;
}

static const struct tr_flag *flag_of(const struct tr_flags *f, const struct tr_arg *arg,
                                     const struct tr_arg_rule *rule)
{
    const char *name = rule == NULL ? arg->name : rule->effect == TR_ARG_GIVES ? rule->to : "";

    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->flags[i].name, name) == 0)
            return &f->flags[i];
    return NULL;
}

/* value NULL is null: what the flag was before the file. */
static enum fr_rc give(struct tr_flags *f, const struct tr_flag *flag, const char *value,
                       const char *unit, struct fr_err *err)
{
    bool yes = false;

    if (flag->value == NULL) {
        if (value != NULL)
            (void)fr_parse_bool(fr_str_of(value), &yes, NULL);
        *flag->on = yes;
    } else if (value == NULL)
        *flag->value = f->map->defaults != NULL ? f->map->defaults[flag - f->flags] : NULL;
    else if ((*flag->value =
                  fr_arena_fmt(&f->map->arena, "%s%s", value, unit != NULL ? unit : "")) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for --%s", flag->name);
    return FR_OK;
}

/* The value is one of the argument's type, and not refused by train where no rule is. */
static enum fr_rc check_value(const struct tr_arg *arg, bool ruled, const char *value,
                              struct fr_err *err)
{
    struct tr_args scratch = {.stage = NULL};
    struct tr_arg typed = *arg;
    enum fr_rc rc;

    typed.at = TR_ARG_NOWHERE;
    if (ruled)
        typed.use = TR_ARG_IDLE;
    rc = tr_arg_set(&scratch, &typed, value, err);
    tr_args_finish(&scratch);
    return rc;
}

static void note(struct tr_arg_map *m, const struct tr_arg *arg, const char *why)
{
    fr_buf_fmt(&m->notes, "--%s has no effect: %s\n", arg->name, why);
}

static enum fr_rc take(struct tr_flags *f, const struct tr_arg *arg, const char *value,
                       struct fr_err *err)
{
    const struct tr_arg_rule *rule = rule_of(f->map, arg);
    const struct tr_flag *flag = flag_of(f, arg, rule);
    bool lone = value == NULL && arg->kind == TR_ARG_BOOL;
    enum fr_rc rc = check_value(arg, rule != NULL || flag != NULL, value, err);

    if (rc != FR_OK)
        return rc;
    if (flag != NULL)
        return give(f, flag, lone ? "true" : value, rule != NULL ? rule->unit : NULL, err);
    if (tr_arg_is_default(arg, value))
        return FR_OK;
    if (rule != NULL && rule->effect == TR_ARG_BARRED)
        return fr_fail(err, FR_UNSUPPORTED, "--%s %.80s is not done: %s", arg->name,
                       value == NULL ? "true" : value, rule->to);
    note(f->map, arg,
         rule != NULL               ? rule->to
         : arg->use == TR_ARG_WORKS ? "it belongs to flowtrain train"
                                    : arg->help);
    return FR_OK;
}

/* Null leaves the default, or comes back to it. */
static enum fr_rc take_word(void *self, const struct tr_arg *arg, const char *value,
                            struct fr_err *err)
{
    struct tr_flags *f = self;
    const struct tr_flag *flag = flag_of(f, arg, rule_of(f->map, arg));

    if (value != NULL)
        return take(f, arg, value, err);
    return flag != NULL ? give(f, flag, NULL, NULL, err) : FR_OK;
}

/* In a file of a training the data sets for evaluation go before those that are trained on. */
static enum fr_rc take_entry(void *self, const struct tr_arg *arg, const char *value,
                             struct fr_err *err)
{
    struct tr_flags *f = self;
    bool evals = strcmp(arg->name, "eval_dataset") == 0 && value != NULL;

    if (strcmp(arg->name, "dataset") == 0 && f->map->evals)
        return FR_OK;
    f->map->evals = f->map->evals || evals;
    return take_word(f, arg, value, err);
}

enum fr_rc tr_arg_map_file(struct tr_flags *f, const char *path, struct fr_err *err)
{
    struct tr_arg_map *m = f->map;

    m->file = path;
    if ((m->defaults = fr_arena_array(&m->arena, f->n, sizeof(*m->defaults))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the flags");
    for (size_t i = 0; i < f->n; i++)
        m->defaults[i] = f->flags[i].value != NULL ? *f->flags[i].value : NULL;
    return tr_args_visit(path, take_entry, f, err);
}

enum fr_rc tr_arg_map_word(struct tr_flags *f, const char *word, struct fr_err *err)
{
    return tr_arg_word(word, f->map->file, take_word, f, err);
}

enum fr_rc tr_arg_map_flag(struct tr_flags *f, const struct tr_arg *arg, const char *value,
                           struct fr_err *err)
{
    return take(f, arg, value, err);
}
