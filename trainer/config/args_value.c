#include "trainer/config/args_table.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tr_args tr_args_absent = {.max_samples = -1,
                                       .data_seed = -1,
                                       .preprocessing_num_workers = -1,
                                       .save_total_limit = -1,
                                       .early_stopping_steps = -1,
                                       .loraplus_lr_ratio = TR_RATIO_ABSENT,
                                       .warmup_ratio = TR_RATIO_ABSENT};

const struct tr_arg *tr_arg_find(const char *name, size_t n)
{
    for (size_t i = 0; i < tr_arg_count; i++) {
        const char *want = tr_arg_table[i].name;
        size_t k = 0;
        while (k < n && want[k] != '\0' && (name[k] == '-' ? '_' : name[k]) == want[k])
            k++;
        if (k == n && want[k] == '\0')
            return &tr_arg_table[i];
    }
    return NULL;
}

static bool is_none(const char *value)
{
    return strcmp(value, "null") == 0 || strcmp(value, "none") == 0 || strcmp(value, "None") == 0;
}

static bool is_word(const char *const *words, const char *value)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++)
        if (strcmp(words[i], value) == 0)
            return true;
    return false;
}

/* 0: value is no size. */
static int64_t size_of(const char *value)
{
    int64_t bytes = 0;

    return fr_parse_size(fr_str_of(value), &bytes, NULL) == FR_OK ? bytes : 0;
}

bool tr_arg_is_default(const struct tr_arg *arg, const char *value)
{
    bool b = false, want = false;
    double x = 0, y = 0;

    if (arg->def == NULL)
        return value != NULL && (value[0] == '\0' || is_none(value));
    if (value == NULL)
        return arg->kind == TR_ARG_BOOL && strcmp(arg->def, "true") == 0;
    if (strcmp(arg->def, value) == 0)
        return true;
    if (arg->kind == TR_ARG_BOOL)
        return fr_parse_bool(fr_str_of(value), &b, NULL) == FR_OK &&
               fr_parse_bool(fr_str_of(arg->def), &want, NULL) == FR_OK && b == want;
    if (arg->kind == TR_ARG_SIZE)
        return size_of(value) >= 1 && size_of(value) == size_of(arg->def);
    if (arg->kind == TR_ARG_INT || arg->kind == TR_ARG_FLOAT)
        return fr_parse_f64(fr_str_of(value), &x, NULL) == FR_OK &&
               fr_parse_f64(fr_str_of(arg->def), &y, NULL) == FR_OK && x == y;
    return false;
}

static enum fr_rc bad(const struct tr_arg *arg, const char *value, const char *want,
                      struct fr_err *err)
{
    return fr_fail(err, FR_USAGE, "--%s %.80s: expected %s", arg->name, value, want);
}

static enum fr_rc set_choice(void *at, const struct tr_arg *arg, const char *value,
                             struct fr_err *err)
{
    struct fr_buf words = {0};
    int i = 0;

    for (; arg->choices[i] != NULL; i++)
        if (strcmp(arg->choices[i], value) == 0) {
            memcpy(at, &i, sizeof(i));
            return FR_OK;
        }
    for (i = 0; arg->choices[i] != NULL; i++)
        fr_buf_fmt(&words, "%s%s", i > 0 ? ", " : "one of ", arg->choices[i]);
    bad(arg, value, words.bad ? "another word" : words.p, err);
    fr_buf_finish(&words);
    return FR_USAGE;
}

static enum fr_rc set_maybe(void *at, const struct tr_arg *arg, const char *value,
                            struct fr_err *err)
{
    enum tr_maybe maybe = TR_MAYBE_UNSET;
    bool yes;

    if (!is_none(value)) {
        if (fr_parse_bool(fr_str_of(value), &yes, NULL) != FR_OK)
            return bad(arg, value, "true, false or none", err);
        maybe = yes ? TR_MAYBE_TRUE : TR_MAYBE_FALSE;
    }
    memcpy(at, &maybe, sizeof(maybe));
    return FR_OK;
}

/* value is not that of a lone flag. */
static enum fr_rc set_value(struct tr_args *a, const struct tr_arg *arg, char *at,
                            const char *value, struct fr_err *err)
{
    bool none = arg->def == NULL && is_none(value);
    const char *absent = (const char *)&tr_args_absent + (arg->at == TR_ARG_NOWHERE ? 0 : arg->at);

    switch (arg->kind) {
    case TR_ARG_BOOL:
        if (none)
            memcpy(at, &(bool){false}, sizeof(bool));
        else if (fr_parse_bool(fr_str_of(value), (bool *)(void *)at, NULL) != FR_OK)
            return bad(arg, value, "true or false", err);
        return FR_OK;
    case TR_ARG_INT:
        if (none)
            memcpy(at, absent, sizeof(int64_t));
        else if (fr_parse_i64(fr_str_of(value), (int64_t *)(void *)at, NULL) != FR_OK)
            return bad(arg, value, "an integer", err);
        return FR_OK;
    case TR_ARG_FLOAT:
        if (none)
            memcpy(at, absent, sizeof(double));
        else if (fr_parse_f64(fr_str_of(value), (double *)(void *)at, NULL) != FR_OK)
            return bad(arg, value, "a number", err);
        return FR_OK;
    case TR_ARG_SIZE:
        *(int64_t *)(void *)at = size_of(value);
        return size_of(value) >= 1 ? FR_OK : bad(arg, value, "bytes, as 5GB or 100KB", err);
    case TR_ARG_TEXT:
    case TR_ARG_JSON:
        *(const char **)(void *)at = none ? NULL : fr_arena_dup(&a->arena, value);
        if (!none && *(const char **)(void *)at == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for --%s", arg->name);
        return FR_OK;
    case TR_ARG_MAYBE:
        return set_maybe(at, arg, value, err);
    case TR_ARG_CHOICE:
        break;
    }
    return set_choice(at, arg, value, err);
}

/* value is a JSON object, all of whose members are among choices. */
static bool has_only(const char *const *choices, const char *value)
{
    json_t *root = json_loads(value, 0, NULL), *v;
    bool only = json_is_object(root);
    const char *key;

    json_object_foreach(root, key, v)
    {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT), member[96];

        (void)snprintf(member, sizeof(member), "%s %s", key, text != NULL ? text : "");
        only = only && is_word(choices, member);
        free(text);
    }
    json_decref(root);
    return only;
}

static bool is_allowed(const struct tr_arg *arg, const char *value)
{
    if (value == NULL || arg->choices == NULL)
        return false;
    return arg->kind == TR_ARG_JSON ? has_only(arg->choices, value) : is_word(arg->choices, value);
}

enum fr_rc tr_arg_set(struct tr_args *a, const struct tr_arg *arg, const char *value,
                      struct fr_err *err)
{
    int64_t nowhere = 0; /* as wide as any value */
    char *at = arg->at == TR_ARG_NOWHERE ? (char *)&nowhere : (char *)a + arg->at;
    enum fr_rc rc;

    if (value == NULL && arg->kind != TR_ARG_BOOL && arg->kind != TR_ARG_MAYBE)
        return fr_fail(err, FR_USAGE, "--%s needs a value", arg->name);
    if ((rc = set_value(a, arg, at, value == NULL ? "true" : value, err)) != FR_OK)
        return rc;
    if (arg->use == TR_ARG_REFUSED && !tr_arg_is_default(arg, value) && !is_allowed(arg, value))
        return fr_fail(err, FR_UNSUPPORTED, "--%s %.80s is not done: %s", arg->name,
                       value == NULL ? "true" : value, arg->help);
    return FR_OK;
}
