/* JSON Schema of single values. Internal to engine/spec. */
#ifndef FR_SPEC_SCHEMA_H
#define FR_SPEC_SCHEMA_H

#include "engine/spec/fields.h"

#include <jansson.h>

/* Where a value may come from an expression, any text with one is right in the file. */
#define EXPR "\\$\\{\\{"

json_t *schema_field(const struct field *f);          /* of a key of the file */
json_t *schema_input(const struct fr_key *k);         /* of a key under with: */
json_t *schema_ref(const char *id);                   /* to $defs */
json_t *schema_map(json_t *value, const char *names); /* of names that match a pattern */
/* A type of YAML's own, or a text of that form, or one with an expression. */
json_t *schema_loose(const char *type, const char *pattern);

#endif
