/* JSON Schema of needs:, matrix: and foreach:. */
#include "engine/spec/schema.h"

#define NAME_PATTERN "^[A-Za-z_][A-Za-z0-9_-]{0,63}$"

static json_t *one_or_list(json_t *item)
{
    json_t *one = json_deep_copy(item);

    return json_pack("{s:[o, {s:s, s:o}]}", "anyOf", one, "type", "array", "items", item);
}

json_t *schema_needs(void)
{
    json_t *states = json_array(), *need, *any;

    for (int s = FR_ST_SUCCEEDED; s < FR_ST_N; s++)
        json_array_append_new(states, json_string(fr_state_name((enum fr_state_of)s)));
    need = json_pack("{s:[o, {s:s, s:[s], s:{s:b}, s:b, s:{s:o, s:{s:s}, s:o}}]}", "anyOf",
                     schema_ref("scalar"), "type", "object", "required", "task",
                     "patternProperties", "^x-", 1, "additionalProperties", 0, "properties", "task",
                     schema_ref("scalar"), "item", "const", "same", "states",
                     one_or_list(json_pack("{s:o}", "enum", states)));
    any = one_or_list(need);

    json_array_append_new(json_object_get(any, "anyOf"), json_pack("{s:s}", "type", "null"));
    return any;
}

/* A value of an item, or null. */
static json_t *item_value(void)
{
    return json_pack("{s:[o, {s:s}]}", "anyOf", schema_ref("scalar"), "type", "null");
}

static json_t *item_maps(void)
{
    json_t *map = schema_map(item_value(), NAME_PATTERN);

    json_object_set_new(map, "minProperties", json_integer(1));
    return one_or_list(map);
}

json_t *schema_matrix(void)
{
    json_t *map = schema_map(json_pack("{s:[o, {s:s, s:o, s:i}]}", "anyOf", schema_ref("scalar"),
                                       "type", "array", "items", item_value(), "minItems", 1),
                             NAME_PATTERN);

    json_object_set_new(map, "minProperties", json_integer(1));
    json_object_set_new(map, "properties",
                        json_pack("{s:o, s:o}", "exclude", item_maps(), "include", item_maps()));
    return map;
}

json_t *schema_foreach(void)
{
    return json_pack("{s:[{s:[s, s]}, {s:s, s:s}]}", "anyOf", "type", "array", "object", "type",
                     "string", "pattern", EXPR "|^\\s*[\\[{]");
}
