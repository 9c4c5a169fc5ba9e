#include "engine/api/body.h"

#include "engine/schedule/decide.h"

#include <string.h>

#define SUBMITS (BODY_SUBMIT | BODY_RERUN)
#define SHELLS (SUBMITS | BODY_RESUME)
#define IN_SUBMIT(member) .at = offsetof(struct fr_submit, member)
#define IN_RESUME(member) .at = offsetof(struct fr_resume_opts, member)
#define ANY_NUMBER .least = INT64_MIN, .most = INT64_MAX

const struct body_key *body_keys(void)
{
    static const struct body_key keys[] = {
        {"id", BODY_ID, SUBMITS, IN_SUBMIT(id)},
        {"pipeline", BODY_PATH, BODY_SUBMIT, BODY_SUBMIT, IN_SUBMIT(spec.path),
         .over_tcp = "\"name\""},
        {"params", BODY_PARAMS, SUBMITS, .over_tcp = "{…}"},
        {"at", BODY_TEXT, BODY_SUBMIT, IN_SUBMIT(occasion.at), .option = "--at",
         .over_tcp = "\"…\""},
        {"priority", BODY_NUMBER, SUBMITS, IN_SUBMIT(priority), ANY_NUMBER, .option = "--priority",
         .over_tcp = "0"},
        {"origin", BODY_ORIGIN, SUBMITS, IN_SUBMIT(origin)},
        {"not_before_wall", BODY_NUMBER, SUBMITS, IN_SUBMIT(not_before_wall), ANY_NUMBER},
        {"file", BODY_PATH, BODY_RESUME, IN_RESUME(file)},
        {"retry", BODY_FLAG, BODY_RESUME, IN_RESUME(retry)},
        {"from", BODY_TEXT, BODY_RESUME, IN_RESUME(retry_from)},
        {"abandon", BODY_NAMES, BODY_RESUME, IN_RESUME(abandon)},
        {"cwd", BODY_PATH, SHELLS, SUBMITS, .shell = true},
        {"env", BODY_TEXTS, SHELLS, .shell = true},
        {"umask", BODY_NUMBER, SHELLS, .shell = true, .least = 0, .most = 0777},
        {"secrets", BODY_TEXTS, SHELLS | BODY_GIVE, .shell = true},
        {"agent", BODY_PATH, SHELLS | BODY_GIVE, .shell = true},
        {"parent_run", BODY_TEXT, SHELLS, .shell = true},
        {"parent_attempt", BODY_TEXT, SHELLS, .shell = true},
        {.name = NULL},
    };

    return keys;
}

static const struct {
    json_type type;
    const char *word;
} kinds[] = {
    [BODY_TEXT] = {JSON_STRING, "a string"},      [BODY_PATH] = {JSON_STRING, "a string"},
    [BODY_ORIGIN] = {JSON_STRING, "a string"},    [BODY_ID] = {JSON_STRING, "a string"},
    [BODY_NUMBER] = {JSON_INTEGER, "an integer"}, [BODY_FLAG] = {JSON_TRUE, "true or false"},
    [BODY_NAMES] = {JSON_ARRAY, "an array"},      [BODY_TEXTS] = {JSON_OBJECT, "an object"},
    [BODY_PARAMS] = {JSON_OBJECT, "an object"},
};

static bool takes(const struct body_key *key, enum body_use use, bool tcp)
{
    return (key->of & use) != 0 && (!tcp || key->over_tcp != NULL);
}

static bool fits(const struct body_key *key, const json_t *value)
{
    return json_typeof(value) == kinds[key->kind].type ||
           (key->kind == BODY_FLAG && json_is_boolean(value));
}

/* ---- write ---- */

/* "lr=0.1", "name=x" as {"lr": "0.1", "name": "x"} */
static json_t *params_json(const struct fr_spec_opts *spec)
{
    json_t *params = json_object();

    for (size_t i = 0; i < spec->n_params; i++) {
        const char *text = spec->params[i], *eq = strchr(text, '=');
        struct fr_buf name = {0};

        fr_buf_add(&name, text, eq != NULL ? (size_t)(eq - text) : strlen(text));
        if (!name.bad)
            json_object_set_new(params, name.p, json_string(eq != NULL ? eq + 1 : ""));
        fr_buf_finish(&name);
    }
    return params;
}

/* NULL: from has no value for the key. */
static json_t *value_json(const struct body_key *key, const void *from, const char *cwd)
{
    const void *at = (const char *)from + key->at;
    const struct fr_resume_opts *resume = from; /* of NAMES */
    const char *text;
    char id[FR_ID_TEXT];

    switch (key->kind) {
    case BODY_ID:
        fr_id_text(*(const struct fr_id *)at, id);
        return fr_id_zero(*(const struct fr_id *)at) ? NULL : json_string(id);
    case BODY_NUMBER: /* of an option also 0 */
        return *(const int64_t *)at != 0 || key->option != NULL ? json_integer(*(const int64_t *)at)
                                                                : NULL;
    case BODY_FLAG:
        return *(const bool *)at ? json_true() : NULL;
    case BODY_ORIGIN:
        return *(const enum fr_origin *)at != FR_ORIGIN_CLI
                   ? json_string(fr_origin_name(*(const enum fr_origin *)at))
                   : NULL;
    case BODY_NAMES:
        return fr_json_texts(resume->abandon, resume->n_abandon);
    case BODY_PARAMS:
        return params_json(&((const struct fr_submit *)from)->spec);
    default:
        text = *(const char *const *)at;
        if (text != NULL && key->kind == BODY_PATH && text[0] != '/')
            return json_sprintf("%s/%s", cwd, text);
        return text != NULL ? json_string(text) : NULL;
    }
}

void body_write(enum body_use use, const void *from, const char *cwd, json_t *body)
{
    for (const struct body_key *key = body_keys(); key->name != NULL; key++) {
        json_t *value = (key->of & use) != 0 && !key->shell ? value_json(key, from, cwd) : NULL;

        if (value != NULL)
            json_object_set_new(body, key->name, value);
    }
}

/* ---- check and read ---- */

/* tcp: only the keys that a request over TCP may have count. */
static enum fr_rc check_keys(json_t *doc, enum body_use use, bool tcp, struct fr_err *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(doc))
        return fr_fail(err, FR_USAGE, "the body is not a JSON object");
    json_object_foreach(doc, name, value)
    {
        const struct body_key *key = body_keys();

        while (key->name != NULL && (!takes(key, use, tcp) || strcmp(key->name, name) != 0))
            key++;
        if (key->name == NULL)
            return fr_fail(err, FR_USAGE, "the body has an unknown key '%s'", name);
        if (!fits(key, value))
            return fr_fail(err, FR_USAGE, "'%s' in the body must be %s", name,
                           kinds[key->kind].word);
    }
    for (const struct body_key *key = body_keys(); key->name != NULL; key++)
        if (takes(key, use, tcp) && (key->needed & use) != 0 &&
            json_object_get(doc, key->name) == NULL)
            return fr_fail(err, FR_USAGE, "the body lacks '%s'", key->name);
    return FR_OK;
}

static enum fr_rc check_texts(json_t *object, const char *what, struct fr_err *err)
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

static enum fr_rc check_value(const struct body_key *key, json_t *value, struct fr_err *err)
{
    const char *text = json_string_value(value);
    json_int_t number = json_integer_value(value);

    if (key->kind == BODY_PATH && text[0] != '/')
        return fr_fail(err, FR_USAGE, "'%s' in the body must be an absolute path, not '%s'",
                       key->name, text);
    if (key->kind == BODY_ORIGIN && fr_word_find(&fr_origin_words, fr_str_of(text)) < 0)
        return fr_fail(err, FR_USAGE, "'%s' in the body is none of runs: '%s'", key->name, text);
    if (key->kind == BODY_NUMBER && (number < key->least || number > key->most))
        return fr_fail(err, FR_USAGE, "'%s' in the body must be %lld to %lld", key->name,
                       (long long)key->least, (long long)key->most);
    return key->kind == BODY_TEXTS ? check_texts(value, key->name, err) : FR_OK;
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
        const char *text = json_is_boolean(value) ? json_is_true(value) ? "true" : "false"
                                                  : json_string_value(value);

        if (text != NULL)
            v[out->n_params] = fr_arena_fmt(arena, "%s=%s", name, text);
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

static enum fr_rc take_names(json_t *list, struct fr_arena *arena, struct fr_resume_opts *out,
                             struct fr_err *err)
{
    const char **names = fr_arena_array(arena, json_array_size(list) + 1, sizeof(*names));

    if (names == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    out->abandon = names;
    for (size_t i = 0; i < json_array_size(list); i++) {
        names[i] = json_string_value(json_array_get(list, i));
        if (names[i] == NULL)
            return fr_fail(err, FR_USAGE, "'abandon' in the body must be a list of names of nodes");
        out->n_abandon++;
    }
    return FR_OK;
}

/* Stores a checked value in to, which is a struct as of body_write(). */
static enum fr_rc take_value(const struct body_key *key, json_t *value, struct fr_arena *arena,
                             void *to, struct fr_err *err)
{
    void *at = (char *)to + key->at;

    switch (key->kind) {
    case BODY_ID:
        if (!fr_id_parse(fr_str_of(json_string_value(value)), at))
            return fr_fail(err, FR_USAGE, "'%s' in the body must be 32 hexadecimal digits",
                           key->name);
        return FR_OK;
    case BODY_NUMBER:
        *(int64_t *)at = json_integer_value(value);
        return FR_OK;
    case BODY_FLAG:
        *(bool *)at = json_is_true(value);
        return FR_OK;
    case BODY_ORIGIN:
        *(enum fr_origin *)at =
            (enum fr_origin)fr_word_find(&fr_origin_words, fr_str_of(json_string_value(value)));
        return FR_OK;
    case BODY_NAMES:
        return take_names(value, arena, to, err);
    case BODY_PARAMS:
        return take_params(value, arena, &((struct fr_submit *)to)->spec, err);
    default:
        *(const char **)at = json_string_value(value);
        return FR_OK;
    }
}

/* Reads doc into to, a struct as of body_write(), and *shell. */
static enum fr_rc take(json_t *doc, enum body_use use, struct fr_arena *arena, void *to,
                       json_t **shell, struct fr_err *err)
{
    json_t *kept = json_object();
    enum fr_rc rc = check_keys(doc, use, false, err);

    for (const struct body_key *key = body_keys(); rc == FR_OK && key->name != NULL; key++) {
        json_t *value = json_object_get(doc, key->name);

        if (value == NULL || (rc = check_value(key, value, err)) != FR_OK)
            continue;
        if (!key->shell)
            rc = take_value(key, value, arena, to, err);
        else if (json_object_set(kept, key->name, value) != 0)
            rc = fr_fail(err, FR_NOMEM, "no memory for a request");
    }
    if (rc != FR_OK) {
        json_decref(kept);
        kept = NULL;
    }
    *shell = kept;
    return rc;
}

enum fr_rc body_submit(json_t *doc, const struct fr_again *again, struct fr_arena *arena,
                       struct fr_submit *out, json_t **shell, struct fr_err *err)
{
    enum fr_rc rc;

    *out = (struct fr_submit){.again = again};
    rc = take(doc, again != NULL ? BODY_RERUN : BODY_SUBMIT, arena, out, shell, err);
    out->spec.cwd = json_string_value(json_object_get(doc, "cwd"));
    if (rc == FR_OK && json_object_get(doc, "id") == NULL &&
        (rc = fr_id_new(&out->id, err)) != FR_OK) {
        json_decref(*shell);
        *shell = NULL;
    }
    return rc;
}

enum fr_rc body_resume(json_t *doc, struct fr_arena *arena, struct fr_resume_opts *out,
                       json_t **shell, struct fr_err *err)
{
    *out = (struct fr_resume_opts){0};
    return take(doc, BODY_RESUME, arena, out, shell, err);
}

enum fr_rc body_give(json_t *doc, json_t **shell, struct fr_err *err)
{
    return take(doc, BODY_GIVE, NULL, NULL, shell, err);
}

/* ---- over TCP ---- */

enum fr_rc body_over_tcp(json_t *doc, enum body_use use, struct fr_err *err)
{
    struct fr_buf form = {0};

    if (check_keys(doc, use, true, NULL) == FR_OK)
        return FR_OK;
    for (const struct body_key *key = body_keys(); key->name != NULL; key++)
        if (takes(key, use, true))
            fr_buf_fmt(&form, "%s\"%s\": %s", form.n > 0 ? ", " : "", key->name, key->over_tcp);
    fr_fail(err, FR_USAGE, "the body must be {%s}%s may be left out", form.p,
            use == BODY_SUBMIT ? "; all but pipeline" : ", both");
    fr_buf_finish(&form);
    return FR_USAGE;
}
