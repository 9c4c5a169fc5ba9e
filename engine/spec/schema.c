/*
 * The JSON Schema of pipeline files and inventories, printed from the tables that the reader walks.
 * Format: JSON Schema draft 2020-12, https://json-schema.org/draft/2020-12.
 */
#include "engine/spec/config.h"
#include "engine/spec/schema.h"

#include <stdio.h>

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
        json_t *value = json_pack("{s:[o, {s:s}]}", "anyOf", schema_input(k), "type", "null");

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

/* A task has the keys of a template. Without extends: it is whole: nothing gives what it lacks. */
static json_t *task_schema(void)
{
    json_t *whole = json_object();

    add_action_rules(whole, &object_task);
    return json_pack("{s:s, s:{s:[s]}, s:o}", "$ref", "#/$defs/template", "if", "required",
                     "extends", "else", whole);
}

/* Exactly one of its keys. */
static json_t *one_key(const struct object *object)
{
    json_t *list = json_array();

    for (const struct field *f = object->fields; f->name != NULL; f++)
        json_array_append_new(list, json_pack("{s:[s]}", "required", f->name));
    return list;
}

static json_t *object_schema(const struct object *object)
{
    json_t *keys, *required, *schema;

    if (object == &object_task)
        return task_schema();
    keys = json_object();
    required = json_array();
    for (const struct field *f = object->fields; f->name != NULL; f++) {
        json_t *value;

        value = schema_field(f);
        if (object == &object_template) /* null removes the key */
            value = json_pack("{s:[o, {s:s}]}", "anyOf", value, "type", "null");
        describe(value, f->help, f->preset);
        json_object_set_new(keys, f->name, value);
        if (f->required)
            json_array_append_new(required, json_string(f->name));
    }
    schema =
        json_pack("{s:s, s:o, s:{s:b}, s:b, s:o}", "type", "object", "properties", keys,
                  "patternProperties", "^x-", 1, "additionalProperties", 0, "required", required);
    if (object == &object_hook || object == &object_sidecar)
        add_action_rules(schema, object);
    if (object == &object_schedule)
        json_object_set_new(schema, "oneOf",
                            json_pack("[{s:[s]}, {s:[s]}, {s:[s]}]", "required", "cron", "required",
                                      "every", "required", "at"));
    if (object == &object_inventory)
        json_object_set_new(
            schema, "anyOf",
            json_pack("[{s:[s]}, {s:[s]}]", "required", "nodes", "required", "slurm"));
    if (object == &object_secret || object == &object_given)
        json_object_set_new(schema, "oneOf", one_key(object));
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
    json_object_set_new(
        defs, "size", schema_loose("number", "^[0-9]+(\\.[0-9]*)?([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?$"));
}

static void add_pipeline_values(json_t *defs)
{
    add_values(defs);
    json_object_set_new(
        defs, "text", json_pack("{s:[s, s, s, s]}", "type", "string", "number", "boolean", "null"));
    json_object_set_new(defs, "env",
                        schema_map(schema_ref("text"), "^(?!FLOWRUN_)[A-Za-z_][A-Za-z0-9_]*$"));
    json_object_set_new(defs, "node_list",
                        json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items",
                                  schema_ref("node"), "minItems", 1, "maxItems", 4096));
}

/* Appends the schema of a file that is what object says, and drops defs. */
static enum fr_rc print(struct fr_buf *out, const struct object *object, const char *help,
                        json_t *defs, struct fr_err *err)
{
    json_t *root =
        json_pack("{s:s, s:s+, s:s, s:s+, s:o}", "$schema",
                  "https://json-schema.org/draft/2020-12/schema", "title", "flowrun ", object->id,
                  "description", help, "$ref", "#/$defs/", object->id, "$defs", defs);

    fr_json_add(out, root, JSON_INDENT(1));
    fr_buf_text(out, "\n");
    json_decref(root);
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
