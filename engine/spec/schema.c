/*
 * The JSON Schema of pipeline files and inventories, printed from the tables that the reader walks.
 * Format: JSON Schema draft 2020-12, https://json-schema.org/draft/2020-12.
 */
#include "engine/spec/config.h"
#include "engine/spec/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a value may come from an expression, any text with one is right in the file. */
#define EXPR "\\$\\{\\{"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]"
#define LABEL_PATTERN "^[A-Za-z0-9_.-]{1,64}$"
#define NAME_PATTERN "^[A-Za-z_][A-Za-z0-9_-]{0,63}$"

static json_t *ref(const char *id)
{
    return json_pack("{s:s+}", "$ref", "#/$defs/", id);
}

/* A type of YAML's own, or a text of that form, or one with an expression. */
static json_t *loose(const char *type, const char *pattern)
{
    return json_pack("{s:[{s:s}, {s:s, s:s}, {s:s, s:s}]}", "anyOf", "type", type, "type", "string",
                     "pattern", pattern, "type", "string", "pattern", EXPR);
}

static json_t *names_of(const char *const *names)
{
    json_t *list = json_array();

    for (; *names != NULL; names++)
        json_array_append_new(list, json_string(*names));
    return list;
}

static json_t *choice(const char *const *names)
{
    return json_pack("{s:[{s:o}, {s:s, s:s}]}", "anyOf", "enum", names_of(names), "type", "string",
                     "pattern", EXPR);
}

static json_t *list_of(json_t *item)
{
    return json_pack("{s:s, s:o}", "type", "array", "items", item);
}

static json_t *map_of(json_t *value, const char *names)
{
    return json_pack("{s:s, s:{s:s}, s:o}", "type", "object", "propertyNames", "pattern", names,
                     "additionalProperties", value);
}

static json_t *one_or_list(json_t *item)
{
    json_t *list = list_of(json_deep_copy(item));

    return json_pack("{s:[o, o]}", "anyOf", item, list);
}

static json_t *integer(const struct field *f)
{
    return json_pack("{s:[{s:s, s:I, s:I}, {s:s, s:s}, {s:s, s:s}]}", "anyOf", "type", "integer",
                     "minimum", (json_int_t)f->min, "maximum", (json_int_t)f->max, "type", "string",
                     "pattern", "^[0-9]+$", "type", "string", "pattern", EXPR);
}

static json_t *number(const struct field *f)
{
    return json_pack("{s:[{s:s, s:f, s:f}, {s:s, s:s}, {s:s, s:s}]}", "anyOf", "type", "number",
                     "minimum", f->min, "maximum", f->max, "type", "string", "pattern",
                     "^[0-9.]+([eE][-+]?[0-9]+)?$", "type", "string", "pattern", EXPR);
}

static json_t *retry_on(void)
{
    const char *names[FR_CAUSE_N] = {NULL};
    size_t n = 0;

    for (int c = FR_CAUSE_EXIT; c < FR_CAUSE_N; c++)
        if (fr_cause_retryable((enum fr_cause)c))
            names[n++] = fr_cause_name((enum fr_cause)c);
    return one_or_list(json_pack("{s:[{s:o}, {s:s, s:i, s:i}]}", "anyOf", "enum", names_of(names),
                                 "type", "integer", "minimum", 1, "maximum", 255));
}

static json_t *events(const struct field *f)
{
    json_t *list = json_array();

    for (int i = 0; i < f->first; i++)
        json_array_append_new(list, json_string(f->choices[i]));
    return one_or_list(json_pack("{s:o}", "enum", list));
}

static json_t *kinds(void)
{
    json_t *list = json_array();

    for (const struct fr_kind *k = fr_kinds; k->name != NULL; k++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "const", k->name, "description", k->help));
    return json_pack("{s:o}", "oneOf", list);
}

/* What may stand under a key of shape f->shape; part 1: plain values. */
static json_t *plain_shape(const struct field *f)
{
    switch (f->shape) {
    case SHAPE_INT:
        return integer(f);
    case SHAPE_FLOAT:
        return number(f);
    case SHAPE_BOOL:
        return ref("bool");
    case SHAPE_DURATION:
        return ref("duration");
    case SHAPE_LIMIT:
        return json_pack("{s:[{s:s}, o]}", "anyOf", "const", "never", ref("duration"));
    case SHAPE_SIZE:
        return ref("size");
    case SHAPE_CHOICE:
    case SHAPE_TRANSPORT:
        return choice(f->choices);
    case SHAPE_TEXTS:
        return json_pack("{s:s, s:o, s:i}", "type", "array", "items", ref("text"), "minItems", 1);
    case SHAPE_STRINGS:
    case SHAPE_NAMES:
    case SHAPE_ENV_FILE:
    case SHAPE_PIPELINE_ENV_FILE:
    case SHAPE_ON:
    case SHAPE_TIMES:
        return one_or_list(ref("scalar"));
    case SHAPE_NEEDS:
        return json_pack("{s:[o, o, {s:s}]}", "anyOf", ref("scalar"), list_of(ref("scalar")),
                         "type", "null");
    case SHAPE_PARAM_TYPE:
        return json_pack("{s:[s, s, s, s, s, s, s]}", "enum", "string", "int", "float", "bool",
                         "duration", "path", "size");
    case SHAPE_PROGRAMS:
        return one_or_list(json_pack("{s:s}", "const", "flowtrain"));
    case SHAPE_TEXT:
    case SHAPE_METRICS:
        return ref("text");
    default:
        return ref("scalar");
    }
}

static json_t *shape(const struct field *f)
{
    switch (f->shape) {
    case SHAPE_OBJECT:
    case SHAPE_KEEP:
    case SHAPE_DEFAULTS:
    case SHAPE_NODE_DEFAULTS:
        return ref(f->object->id);
    case SHAPE_ENV:
    case SHAPE_PIPELINE_ENV:
        return ref("env");
    case SHAPE_SCRIPT:
        return json_pack("{s:s, s:i, s:{s:s}}", "type", "string", "minLength", 1, "not", "pattern",
                         EXPR ".*\\}\\}");
    case SHAPE_USES:
        return kinds();
    case SHAPE_WITH:
        return json_pack("{s:[s, s]}", "type", "object", "null");
    case SHAPE_FILES:
        return map_of(json_pack("{s:[o, o]}", "anyOf", ref("text"), ref(f->object->id)), "^[^/]");
    case SHAPE_SIDECARS:
        return json_pack("{s:s, s:o, s:i}", "type", "array", "items", ref(f->object->id),
                         "maxItems", 16);
    case SHAPE_HOOKS:
        return json_pack("{s:s, s:o, s:i}", "type", "array", "items", ref(f->object->id),
                         "maxItems", 100);
    case SHAPE_RETRY_ON:
        return retry_on();
    case SHAPE_PARAMS:
        return json_pack("{s:[o, {s:s}]}", "anyOf", map_of(ref(f->object->id), NAME_PATTERN),
                         "type", "null");
    case SHAPE_SECRETS:
        return map_of(ref(f->object->id), NAME_PATTERN);
    case SHAPE_TASKS:
        return json_pack("{s:s, s:{s:s}, s:o, s:i, s:i}", "type", "object", "propertyNames",
                         "pattern", NAME_PATTERN, "additionalProperties", ref(f->object->id),
                         "minProperties", 1, "maxProperties", 100000);
    case SHAPE_NODES:
        return json_pack("{s:[{s:s}, o, o]}", "anyOf", "type", "string", ref("inventory"),
                         ref("node_list"));
    case SHAPE_NODE_LIST:
        return ref("node_list");
    case SHAPE_SCHEDULE:
    case SHAPE_RULES:
        return one_or_list(ref(f->object->id));
    case SHAPE_EVENTS:
        return events(f);
    case SHAPE_QUIET:
        return json_pack("{s:s, s:s}", "type", "string", "pattern", "^" CLOCK "-" CLOCK "$");
    case SHAPE_POOLS:
        return map_of(integer(f), LABEL_PATTERN);
    case SHAPE_CHANNELS:
        return map_of(ref(f->object->id), LABEL_PATTERN);
    case SHAPE_GIVEN_TEXT:
        return json_pack("{s:[{s:s}, o]}", "anyOf", "type", "string", ref(f->object->id));
    case SHAPE_GIVEN_SECRET:
        return ref(f->object->id);
    case SHAPE_GIVEN:
        return map_of(ref("scalar"), NAME_PATTERN);
    default:
        return plain_shape(f);
    }
}

static json_t *with_value(const struct fr_key *k)
{
    switch (k->type) {
    case FR_T_INT:
        return loose("integer", "^-?[0-9]+$");
    case FR_T_FLOAT:
        return loose("number", "^-?[0-9.]+([eE][-+]?[0-9]+)?$");
    case FR_T_BOOL:
        return ref("bool");
    case FR_T_DURATION:
        return ref("duration");
    case FR_T_SIZE:
        return ref("size");
    case FR_T_CHOICE:
        return choice(k->choices);
    case FR_T_LIST:
        return one_or_list(ref("text"));
    case FR_T_MAP:
        return map_of(ref("text"), "");
    default:
        return ref("text");
    }
}

static void describe(json_t *value, const char *help, const char *preset)
{
    json_object_set_new(value, "description", json_string(help));
    if (preset != NULL)
        json_object_set_new(value, "default", json_string(preset));
}

/* The inputs of a built-in task, under $defs/with_NAME. */
static json_t *with_schema(const struct fr_kind *kind)
{
    json_t *keys = json_object(), *required = json_array();

    for (const struct fr_key *k = kind->keys; k->name != NULL; k++) {
        json_t *value = json_pack("{s:[o, {s:s}]}", "anyOf", with_value(k), "type", "null");

        describe(value, k->help, k->preset);
        json_object_set_new(keys, k->name, value);
        if (k->required)
            json_array_append_new(required, json_string(k->name));
    }
    return json_pack("{s:o, s:o, s:b, s:o}", "type",
                     json_array_size(required) > 0 ? json_pack("[s]", "object")
                                                   : json_pack("[s, s]", "object", "null"),
                     "properties", keys, "additionalProperties", 0, "required", required);
}

/* {"uses": NAME} then {"with": its inputs}. */
static json_t *kind_rule(const struct fr_kind *kind)
{
    json_t *then =
        json_pack("{s:{s:{s:s+}}}", "properties", "with", "$ref", "#/$defs/with_", kind->name);

    for (const struct fr_key *k = kind->keys; k->name != NULL; k++)
        if (k->required) {
            json_object_set_new(then, "required", json_pack("[s]", "with"));
            break;
        }
    return json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:o}", "if", "properties", "uses", "const",
                     kind->name, "required", "uses", "then", then);
}

/* Which built-in tasks may stand in an object, and that it does one thing. */
static void add_action_rules(json_t *schema, const struct object *object)
{
    json_t *rules = json_array(), *refused = json_array();

    for (const struct fr_kind *k = fr_kinds; k->name != NULL; k++) {
        bool ok =
            k->sidecar == (object == &object_sidecar) && (!k->hook_only || object == &object_hook);

        if (ok)
            json_array_append_new(rules, kind_rule(k));
        else
            json_array_append_new(refused, json_string(k->name));
    }
    json_array_append_new(rules, json_pack("{s:{s:{s:{s:o}}, s:[s]}}", "not", "properties", "uses",
                                           "enum", refused, "required", "uses"));
    json_array_append_new(rules, json_pack("{s:{s:[s]}, s:{s:[s]}}", "if", "required", "with",
                                           "then", "required", "uses"));
    json_object_set_new(schema, "allOf", rules);
    json_object_set_new(schema, "oneOf",
                        json_pack("[{s:[s]}, {s:[s]}, {s:[s]}]", "required", "uses", "required",
                                  "run", "required", "argv"));
}

static json_t *object_schema(const struct object *object)
{
    json_t *keys = json_object(), *required = json_array();
    json_t *schema;

    for (const struct field *f = object->fields; f->name != NULL; f++) {
        json_t *value;

        value = shape(f);
        describe(value, f->help, f->preset);
        json_object_set_new(keys, f->name, value);
        if (f->required)
            json_array_append_new(required, json_string(f->name));
    }
    schema = json_pack("{s:s, s:o, s:b, s:o}", "type", "object", "properties", keys,
                       "additionalProperties", 0, "required", required);
    if (object == &object_task || object == &object_hook || object == &object_sidecar)
        add_action_rules(schema, object);
    if (object == &object_schedule)
        json_object_set_new(schema, "oneOf",
                            json_pack("[{s:[s]}, {s:[s]}, {s:[s]}]", "required", "cron", "required",
                                      "every", "required", "at"));
    if (object == &object_secret || object == &object_given) {
        json_object_set_new(schema, "minProperties", json_integer(1));
        json_object_set_new(schema, "maxProperties", json_integer(1));
    }
    return schema;
}

/* Adds object, and those that its fields point to, under their ids. */
static void add_object(json_t *defs, const struct object *object)
{
    if (json_object_get(defs, object->id) != NULL)
        return;
    json_object_set_new(defs, object->id, json_true()); /* begun: objects may point back */
    for (const struct field *f = object->fields; f->name != NULL; f++)
        if (f->object != NULL)
            add_object(defs, f->object);
    json_object_set_new(defs, object->id, object_schema(object));
}

/* Plain values, which all files have. */
static void add_values(json_t *defs)
{
    json_object_set_new(defs, "scalar",
                        json_pack("{s:[s, s, s]}", "type", "string", "number", "boolean"));
    json_object_set_new(defs, "bool",
                        json_pack("{s:[{s:s}, {s:[i, i]}, {s:s, s:s}, {s:s, s:s}]}", "anyOf",
                                  "type", "boolean", "enum", 0, 1, "type", "string", "pattern",
                                  "^([Tt]([Rr][Uu][Ee])?|[Ff]([Aa][Ll][Ss][Ee])?|[Yy]([Ee][Ss])?|"
                                  "[Nn][Oo]?|0|1)$",
                                  "type", "string", "pattern", EXPR));
    json_object_set_new(defs, "duration",
                        json_pack("{s:s, s:s}", "type", "string", "pattern",
                                  "^([0-9]+(\\.[0-9]*)?([Mm][Ss]|[SsMmHhDd]))+$|" EXPR));
    json_object_set_new(defs, "size",
                        loose("number", "^[0-9]+(\\.[0-9]*)?([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?$"));
}

static void add_pipeline_values(json_t *defs)
{
    add_values(defs);
    json_object_set_new(
        defs, "text", json_pack("{s:[s, s, s, s]}", "type", "string", "number", "boolean", "null"));
    json_object_set_new(defs, "env", map_of(ref("text"), "^(?!FLOWRUN_)[A-Za-z_][A-Za-z0-9_]*$"));
    json_object_set_new(defs, "node_list",
                        json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items", ref("node"),
                                  "minItems", 1, "maxItems", 4096));
}

/* Appends the schema of a file that is what object says, and drops defs. */
static enum fr_rc print(struct fr_buf *out, const struct object *object, const char *help,
                        json_t *defs, struct fr_err *err)
{
    json_t *root =
        json_pack("{s:s, s:s+, s:s, s:s+, s:o}", "$schema",
                  "https://json-schema.org/draft/2020-12/schema", "title", "flowrun ", object->id,
                  "description", help, "$ref", "#/$defs/", object->id, "$defs", defs);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;

    json_decref(root);
    if (text == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the schema");
    fr_buf_text(out, text);
    fr_buf_text(out, "\n");
    free(text);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for the schema") : FR_OK;
}

enum fr_rc fr_config_schema(struct fr_buf *out, struct fr_err *err)
{
    json_t *defs = json_object();

    add_values(defs);
    add_object(defs, &object_config);
    return print(out, &object_config, "The configuration of a home: config.yaml in it.", defs, err);
}

enum fr_rc fr_spec_schema(struct fr_buf *out, struct fr_err *err)
{
    json_t *defs = json_object();

    add_pipeline_values(defs);
    add_object(defs, &object_pipeline);
    for (const struct fr_kind *k = fr_kinds; k->name != NULL; k++) {
        char id[64];

        snprintf(id, sizeof(id), "with_%s", k->name);
        json_object_set_new(defs, id, with_schema(k));
    }
    return print(out, &object_pipeline,
                 "A pipeline file of flowrun, or, under $defs/inventory, a file of nodes.", defs,
                 err);
}
