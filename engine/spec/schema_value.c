/* JSON Schema of one value: of each shape in fields.h, and of an input of a built-in task. */
#include "engine/spec/schema.h"

#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]"
#define LABEL_PATTERN "^[A-Za-z0-9_.-]{1,64}$"
#define NAME_PATTERN "^[A-Za-z_][A-Za-z0-9_-]{0,63}$"

json_t *schema_ref(const char *id)
{
    return json_pack("{s:s+}", "$ref", "#/$defs/", id);
}

json_t *schema_loose(const char *type, const char *pattern)
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

static json_t *one_of(const char *const *names)
{
    return json_pack("{s:o}", "enum", names_of(names));
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

json_t *schema_map(json_t *value, const char *names)
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
    json_t *list = fr_json_texts(f->choices, (size_t)f->first);

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

static json_t *inner(const struct field *f)
{
    return schema_ref(f->object->id);
}

static json_t *inners(const struct field *f)
{
    return one_or_list(inner(f));
}

static json_t *named(const struct field *f)
{
    return schema_map(inner(f), NAME_PATTERN);
}

static json_t *scalars(void)
{
    return one_or_list(schema_ref("scalar"));
}

/* A list that is bounded. */
static json_t *some(json_t *item, const char *bound, int n)
{
    return json_pack("{s:s, s:o, s:i}", "type", "array", "items", item, bound, n);
}

static json_t *limit(void)
{
    return json_pack("{s:[{s:s}, o]}", "anyOf", "const", "never", schema_ref("duration"));
}

/* N, or TYPE:N. */
static json_t *typed_count(const struct field *f)
{
    return json_pack("{s:[o, {s:s, s:s}]}", "anyOf", integer(f), "type", "string", "pattern",
                     "^[A-Za-z0-9_.][A-Za-z0-9_.-]*:[0-9]+$");
}

static json_t *allocations(const struct field *f)
{
    json_t *map = schema_map(inner(f), "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,58}$");

    json_object_set_new(map, "minProperties", json_integer(1));
    return map;
}

static json_t *script(void)
{
    return json_pack("{s:s, s:i, s:{s:s}}", "type", "string", "minLength", 1, "not", "pattern",
                     EXPR ".*\\}\\}");
}

static json_t *quiet(void)
{
    return json_pack("{s:s, s:s}", "type", "string", "pattern", "^" CLOCK "-" CLOCK "$");
}

static json_t *given(const struct field *f)
{
    return json_pack("{s:[{s:s}, o]}", "anyOf", "type", "string", inner(f));
}

static json_t *params(const struct field *f)
{
    return json_pack("{s:[o, {s:s}]}", "anyOf", named(f), "type", "null");
}

static json_t *nodes(void)
{
    return json_pack("{s:[{s:s}, o, o]}", "anyOf", "type", "string", schema_ref("inventory"),
                     schema_ref("node_list"));
}

static json_t *tasks(const struct field *f)
{
    json_t *map = named(f);

    json_object_set_new(map, "minProperties", json_integer(1));
    json_object_set_new(map, "maxProperties", json_integer(100000));
    return map;
}

json_t *schema_field(const struct field *f)
{
    switch (f->shape) {
#define SCHEMA(name, reader, schema)                                                               \
    case SHAPE_##name:                                                                             \
        return schema;
        SHAPES(SCHEMA)
#undef SCHEMA
    default:
        return NULL;
    }
}

json_t *schema_input(const struct fr_key *k)
{
    switch (k->type) {
    case FR_T_INT:
        return schema_loose("integer", "^-?[0-9]+$");
    case FR_T_FLOAT:
        return schema_loose("number", "^-?[0-9.]+([eE][-+]?[0-9]+)?$");
    case FR_T_BOOL:
        return schema_ref("bool");
    case FR_T_DURATION:
        return schema_ref("duration");
    case FR_T_SIZE:
        return schema_ref("size");
    case FR_T_CHOICE:
        return choice(k->choices);
    case FR_T_LIST:
        return one_or_list(schema_ref("text"));
    case FR_T_MAP:
        return schema_map(schema_ref("text"), "");
    default:
        return schema_ref("text");
    }
}
