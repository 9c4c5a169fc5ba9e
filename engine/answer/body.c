/* What stands in the body of a request to submit or to resume. */
#include "engine/answer/call.h"
#include "engine/runs/state.h"
#include "engine/schedule/decide.h"

/* A key of a body, and what its value must be. */
struct key {
    const char *name;
    json_type type;
    bool needed;
};

static const char *word_of(json_type type)
{
    switch (type) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    default:
        return "true or false";
    }
}

static enum fr_rc check_keys(json_t *doc, const struct key *keys, size_t n, struct fr_err *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(doc))
        return fr_fail(err, FR_USAGE, "the body is not a JSON object");
    json_object_foreach(doc, name, value)
    {
        const struct key *key = NULL;

        for (size_t i = 0; i < n && key == NULL; i++)
            key = strcmp(keys[i].name, name) == 0 ? &keys[i] : NULL;
        if (key == NULL)
            return fr_fail(err, FR_USAGE, "the body has an unknown key '%s'", name);
        if (json_typeof(value) != key->type && !(key->type == JSON_TRUE && json_is_boolean(value)))
            return fr_fail(err, FR_USAGE, "'%s' in the body must be %s", name, word_of(key->type));
    }
    for (size_t i = 0; i < n; i++)
        if (keys[i].needed && json_object_get(doc, keys[i].name) == NULL)
            return fr_fail(err, FR_USAGE, "the body lacks '%s'", keys[i].name);
    return FR_OK;
}

static enum fr_rc absolute(json_t *doc, const char *name, struct fr_err *err)
{
    const char *path = json_string_value(json_object_get(doc, name));

    if (path == NULL || path[0] == '/')
        return FR_OK;
    return fr_fail(err, FR_USAGE, "'%s' in the body must be an absolute path, not '%s'", name,
                   path);
}

static enum fr_rc only_texts(json_t *object, const char *what, struct fr_err *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (!json_is_string(value))
            return fr_fail(err, FR_USAGE, "'%s' of %s in the body must be a string", name, what);
    }
    return FR_OK;
}

/* What the run takes of its shell, as host_run.shell has it. */
static enum fr_rc take_shell(json_t *doc, json_t **out, struct fr_err *err)
{
    static const char *const names[] = {"cwd",   "env",        "umask",         "secrets",
                                        "agent", "parent_run", "parent_attempt"};
    enum fr_rc rc = absolute(doc, "cwd", err);

    if (rc == FR_OK)
        rc = absolute(doc, "agent", err);
    if (rc == FR_OK)
        rc = only_texts(json_object_get(doc, "env"), "env", err);
    if (rc == FR_OK)
        rc = only_texts(json_object_get(doc, "secrets"), "secrets", err);
    if (rc != FR_OK)
        return rc;
    if (json_integer_value(json_object_get(doc, "umask")) < 0 ||
        json_integer_value(json_object_get(doc, "umask")) > 0777)
        return fr_fail(err, FR_USAGE, "'umask' in the body must be 0 to 511");
    if ((*out = json_object()) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (json_object_get(doc, names[i]) != NULL)
            json_object_set(*out, names[i], json_object_get(doc, names[i]));
    return FR_OK;
}

enum fr_rc body_give(json_t *doc, json_t **shell, struct fr_err *err)
{
    static const struct key keys[] = {{"secrets", JSON_OBJECT, false},
                                      {"agent", JSON_STRING, false}};
    enum fr_rc rc = check_keys(doc, keys, sizeof(keys) / sizeof(keys[0]), err);

    return rc == FR_OK ? take_shell(doc, shell, err) : rc;
}

/* {"lr": 0.1, "name": "x"} as "lr=0.1", "name=x" */
static enum fr_rc take_params(json_t *params, struct fr_arena *arena, struct fr_spec_opts *out,
                              struct fr_err *err)
{
    const char **v = fr_arena_array(arena, json_object_size(params) + 1, sizeof(*v));
    const char *name;
    json_t *value;

    if (v == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for parameters");
    out->params = v;
    json_object_foreach(params, name, value)
    {
        if (json_is_string(value))
            v[out->n_params] = fr_arena_fmt(arena, "%s=%s", name, json_string_value(value));
        else if (json_is_boolean(value))
            v[out->n_params] =
                fr_arena_fmt(arena, "%s=%s", name, json_is_true(value) ? "true" : "false");
        else if (json_is_integer(value))
            v[out->n_params] = fr_arena_fmt(arena, "%s=%lld", name, json_integer_value(value));
        else if (json_is_real(value))
            v[out->n_params] = fr_arena_fmt(arena, "%s=%.17g", name, json_real_value(value));
        else
            return fr_fail(err, FR_USAGE,
                           "parameter '%s' in the body must be a string, a number, true or false",
                           name);
        if (v[out->n_params++] == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for parameters");
    }
    return FR_OK;
}

enum fr_rc body_submit(json_t *doc, const struct fr_again *again, struct fr_arena *arena,
                       struct fr_submit *out, json_t **shell, struct fr_err *err)
{
    static const struct key keys[] = {
        {"pipeline", JSON_STRING, true}, /* the first two are not of a run that is repeated */
        {"at", JSON_STRING, false},
        {"id", JSON_STRING, false},
        {"params", JSON_OBJECT, false},
        {"cwd", JSON_STRING, true},
        {"env", JSON_OBJECT, false},
        {"umask", JSON_INTEGER, false},
        {"secrets", JSON_OBJECT, false},
        {"agent", JSON_STRING, false},
        {"origin", JSON_STRING, false},
        {"priority", JSON_INTEGER, false},
        {"parent_run", JSON_STRING, false},
        {"parent_attempt", JSON_STRING, false},
        {"not_before_wall", JSON_INTEGER, false},
    };
    size_t skip = again != NULL ? 2 : 0;
    enum fr_rc rc = check_keys(doc, keys + skip, sizeof(keys) / sizeof(keys[0]) - skip, err);
    enum fr_origin origin;
    const char *id;

    *out = (struct fr_submit){.again = again};
    if (rc != FR_OK || (rc = absolute(doc, "pipeline", err)) != FR_OK)
        return rc;
    out->origin = json_string_value(json_object_get(doc, "origin"));
    if (out->origin != NULL && !fr_origin_parse(fr_str_of(out->origin), &origin))
        return fr_fail(err, FR_USAGE, "'origin' in the body is none of runs: '%s'", out->origin);
    id = json_string_value(json_object_get(doc, "id"));
    if (id != NULL && !fr_id_parse(fr_str_of(id), &out->id))
        return fr_fail(err, FR_USAGE, "'id' in the body must be 32 hexadecimal digits");
    if (id == NULL && (rc = fr_id_new(&out->id, err)) != FR_OK)
        return rc;
    out->spec.path = json_string_value(json_object_get(doc, "pipeline"));
    out->spec.cwd = json_string_value(json_object_get(doc, "cwd"));
    out->priority = json_integer_value(json_object_get(doc, "priority"));
    out->occasion.at = json_string_value(json_object_get(doc, "at"));
    out->not_before_wall = json_integer_value(json_object_get(doc, "not_before_wall"));
    rc = take_params(json_object_get(doc, "params"), arena, &out->spec, err);
    return rc == FR_OK ? take_shell(doc, shell, err) : rc;
}

enum fr_rc body_resume(json_t *doc, struct fr_arena *arena, struct fr_resume_opts *out,
                       json_t **shell, struct fr_err *err)
{
    static const struct key keys[] = {
        {"file", JSON_STRING, false},       {"abandon", JSON_ARRAY, false},
        {"retry", JSON_TRUE, false},        {"from", JSON_STRING, false},
        {"cwd", JSON_STRING, false},        {"env", JSON_OBJECT, false},
        {"umask", JSON_INTEGER, false},     {"secrets", JSON_OBJECT, false},
        {"parent_run", JSON_STRING, false}, {"parent_attempt", JSON_STRING, false},
    };
    enum fr_rc rc = check_keys(doc, keys, sizeof(keys) / sizeof(keys[0]), err);
    json_t *list = json_object_get(doc, "abandon");
    const char **names;

    *out = (struct fr_resume_opts){0};
    if (rc != FR_OK || (rc = absolute(doc, "file", err)) != FR_OK)
        return rc;
    out->file = json_string_value(json_object_get(doc, "file"));
    out->retry = json_is_true(json_object_get(doc, "retry"));
    out->retry_from = json_string_value(json_object_get(doc, "from"));
    names = fr_arena_array(arena, json_array_size(list) + 1, sizeof(*names));
    if (names == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    out->abandon = names;
    for (size_t i = 0; i < json_array_size(list); i++) {
        names[i] = json_string_value(json_array_get(list, i));
        if (names[i] == NULL)
            return fr_fail(err, FR_USAGE, "'abandon' in the body must be a list of names of nodes");
        out->n_abandon++;
    }
    return take_shell(doc, shell, err);
}
