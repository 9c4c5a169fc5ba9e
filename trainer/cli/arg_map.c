#include "trainer/cli/arg_map.h"

#include "engine/base/log.h"

#include <string.h>

void tr_arg_map_tell(const struct tr_call *call)
{
    if (call->notes.n > 0)
        fr_complain("%s", call->notes.p);
}

static const struct tr_arg_rule *rule_of(const struct tr_command *c, const struct tr_arg *arg)
{
    for (size_t i = 0; i < c->nrules; i++)
        if (strcmp(c->rules[i].arg, arg->name) == 0)
            return &c->rules[i];
    return NULL;
}

/* Where the command keeps an argument's value; NULL: it has no flag for it. */
static const char **text_of(struct tr_call *call, const struct tr_arg *arg,
                            const struct tr_arg_rule *rule)
{
    const char *name = rule == NULL ? arg->name : rule->effect == TR_ARG_GIVES ? rule->to : "";

    for (size_t i = 0; i < call->command->nflags; i++)
        if (strcmp(call->command->flags[i].name, name) == 0)
            return &call->text[i];
    return NULL;
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

enum fr_rc tr_arg_map_flag(struct tr_call *call, const struct tr_arg *arg, const char *value,
                           struct fr_err *err)
{
    const struct tr_arg_rule *rule = rule_of(call->command, arg);
    const char **text = text_of(call, arg, rule);
    const char *given = value == NULL && arg->kind == TR_ARG_BOOL ? "true" : value;
    enum fr_rc rc = check_value(arg, rule != NULL || text != NULL, value, err);

    if (rc != FR_OK)
        return rc;
    if (text != NULL) {
        *text = given;
        if (given != NULL &&
            (*text = fr_arena_fmt(&call->arena, "%s%s", given,
                                  rule != NULL && rule->unit != NULL ? rule->unit : "")) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for --%s", arg->name);
        return FR_OK;
    }
    if (tr_arg_is_default(arg, value))
        return FR_OK;
    if (rule != NULL && rule->effect == TR_ARG_BARRED)
        return fr_fail(err, FR_UNSUPPORTED, "--%s %.80s is not done: %s", arg->name,
                       value == NULL ? "true" : value, rule->to);
    fr_buf_fmt(&call->notes, "--%s has no effect: %s\n", arg->name,
               rule != NULL               ? rule->to
               : arg->use == TR_ARG_WORKS ? "it belongs to flowtrain train"
                                          : arg->help);
    return FR_OK;
}

/* Null leaves the default, or comes back to it. */
static enum fr_rc take_word(void *self, const struct tr_arg *arg, const char *value,
                            struct fr_err *err)
{
    struct tr_call *call = self;
    const char **text = text_of(call, arg, rule_of(call->command, arg));

    if (value != NULL)
        return tr_arg_map_flag(call, arg, value, err);
    if (text != NULL)
        *text = NULL;
    return FR_OK;
}

/* In a file of a training the data sets for evaluation go before those that are trained on. */
static enum fr_rc take_entry(void *self, const struct tr_arg *arg, const char *value,
                             struct fr_err *err)
{
    struct tr_call *call = self;
    bool evals = strcmp(arg->name, "eval_dataset") == 0 && value != NULL;

    if (strcmp(arg->name, "dataset") == 0 && call->evals)
        return FR_OK;
    call->evals = call->evals || evals;
    return take_word(call, arg, value, err);
}

enum fr_rc tr_arg_map_file(struct tr_call *call, const char *path, struct fr_err *err)
{
    call->file = path;
    return tr_args_visit(path, take_entry, call, err);
}

enum fr_rc tr_arg_map_word(struct tr_call *call, const char *word, struct fr_err *err)
{
    return tr_arg_word(word, call->file, take_word, call, err);
}
