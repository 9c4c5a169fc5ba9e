/* The inputs of a built-in task as JSON. */
#include "engine/spec/load.h"

#include <string.h>

bool with_value_ok(const struct fr_key *key, const char *value, const char **expected)
{
    struct fr_str s = fr_str_of(value);
    int64_t i;
    double f;
    bool b;

    *expected = fr_type_name(key->type);
    switch (key->type) {
    case FR_T_INT:
        return fr_parse_i64(s, &i, NULL) == FR_OK;
    case FR_T_FLOAT:
        return fr_parse_f64(s, &f, NULL) == FR_OK;
    case FR_T_BOOL:
        return fr_parse_bool(s, &b, NULL) == FR_OK;
    case FR_T_DURATION:
        return fr_parse_duration(s, &i, NULL) == FR_OK;
    case FR_T_SIZE:
        return fr_parse_size(s, &i, NULL) == FR_OK;
    case FR_T_PATH:
    case FR_T_NODEPATH:
        return s.n > 0;
    case FR_T_CHOICE:
        for (size_t c = 0; key->choices[c] != NULL; c++)
            if (strcmp(key->choices[c], value) == 0)
                return true;
        return false;
    default:
        return true;
    }
}

/* One text as JSON of key's type (of its items, for lists and maps). */
static enum fr_rc to_json(const struct fr_key *key, const char *value, const char *folder,
                          json_t **out, struct fr_err *err)
{
    struct fr_str s = fr_str_of(value);
    struct fr_buf path = {0};
    const char *expected;
    int64_t i = 0;
    double f = 0;
    bool b = false;

    *out = NULL;
    if (!with_value_ok(key, value, &expected))
        return fr_fail(err, FR_USAGE, "input '%s' is '%s'; expected %s", key->name, value,
                       expected);
    if (key->type == FR_T_INT && fr_parse_i64(s, &i, err) == FR_OK)
        *out = json_integer(i);
    else if (key->type == FR_T_FLOAT && fr_parse_f64(s, &f, err) == FR_OK)
        *out = json_real(f);
    else if (key->type == FR_T_BOOL && fr_parse_bool(s, &b, err) == FR_OK)
        *out = json_boolean(b);
    else if (key->type == FR_T_DURATION && fr_parse_duration(s, &i, err) == FR_OK)
        *out = json_integer(i);
    else if (key->type == FR_T_SIZE && fr_parse_size(s, &i, err) == FR_OK)
        *out = json_integer(i);
    else if (key->type == FR_T_PATH && value[0] != '/' && !fr_has_prefix(value, "node:")) {
        fr_buf_fmt(&path, "%s/%s", folder, value);
        *out = path.bad ? NULL : json_string(path.p);
    } else
        *out = json_string(value);
    fr_buf_finish(&path);
    if (*out == NULL)
        return fr_fail(err, FR_USAGE, "input '%s' is no UTF-8 text, or there is no memory",
                       key->name);
    return FR_OK;
}

/* Inputs of the values of one instance. */
struct source {
    const char *folder;
    const struct fr_resolver *r;
};

static enum fr_rc item_json(const struct fr_key *key, const struct fr_text *text,
                            const struct source *from, json_t **out, struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc = fr_text_eval(text, from->r, &b, err);

    *out = NULL;
    if (rc == FR_OK)
        rc = to_json(key, b.p ? b.p : "", from->folder, out, err);
    fr_buf_finish(&b);
    return rc;
}

static enum fr_rc value_json(const struct fr_with *with, const struct source *from, json_t **out,
                             struct fr_err *err)
{
    enum fr_type type = with->key->type;
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (type != FR_T_LIST && type != FR_T_MAP)
        return item_json(with->key, &with->items[0].value, from, out, err);
    *out = type == FR_T_LIST ? json_array() : json_object();
    for (size_t i = 0; *out != NULL && rc == FR_OK && i < with->n; i++) {
        json_t *item;

        rc = item_json(with->key, &with->items[i].value, from, &item, err);
        if (rc == FR_OK &&
            (type == FR_T_LIST ? json_array_append_new(*out, item)
                               : json_object_set_new(*out, with->items[i].name, item)) != 0)
            rc = fr_fail(err, FR_NOMEM, "no memory for input '%s'", with->key->name);
    }
    if (*out == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for input '%s'", with->key->name);
    return rc;
}

static enum fr_rc add(json_t *all, const char *name, json_t *value, enum fr_rc rc,
                      struct fr_err *err)
{
    if (rc != FR_OK) {
        json_decref(value);
        return rc;
    }
    if (json_object_set_new(all, name, value) != 0)
        return fr_fail(err, FR_NOMEM, "no memory for input '%s'", name);
    return FR_OK;
}

static enum fr_rc add_defaults(const struct fr_kind *kind, json_t *all, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (const struct fr_key *k = kind->keys; k->name != NULL && rc == FR_OK; k++) {
        json_t *value = NULL;

        if (k->preset == NULL || json_object_get(all, k->name) != NULL)
            continue;
        rc = to_json(k, k->preset, "", &value, err);
        rc = add(all, k->name, value, rc, err);
    }
    return rc;
}

enum fr_rc fr_with_json(const struct fr_action *act, const char *folder,
                        const struct fr_resolver *r, json_t **out, struct fr_err *err)
{
    struct source from = {folder, r};
    json_t *all = json_object();
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the inputs of '%s'", act->name);
    for (size_t i = 0; i < act->n_with && rc == FR_OK; i++) {
        json_t *value;

        rc = value_json(&act->with[i], &from, &value, err);
        rc = add(all, act->with[i].key->name, value, rc, err);
    }
    if (rc == FR_OK && act->uses != NULL)
        rc = add_defaults(act->uses, all, err);
    if (rc != FR_OK) {
        json_decref(all);
        return fr_while(err, "task '%s'", act->name);
    }
    *out = all;
    return FR_OK;
}

bool fr_with_secret(const struct fr_action *act)
{
    for (size_t i = 0; i < act->n_with; i++)
        for (size_t k = 0; k < act->with[i].n; k++)
            if (act->with[i].items[k].value.secret)
                return true;
    return false;
}
