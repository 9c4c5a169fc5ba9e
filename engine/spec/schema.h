/* JSON Schema of single values. Internal to engine/spec. */
#ifndef FR_SPEC_SCHEMA_H
#define FR_SPEC_SCHEMA_H

#include "engine/base/json.h"
#include "engine/spec/fields.h"

/* Pattern of a text with an expression. It is valid in the file for any value that takes one. */
#define EXPR "\\$\\{\\{"

json_t *schema_field(const struct field *f);          /* of a key of the file */
json_t *schema_input(const struct fr_key *k);         /* of a key under with: */
json_t *schema_ref(const char *id);                   /* to $defs */
json_t *schema_needs(void);                           /* schema_items.c */
json_t *schema_matrix(void);                          /* likewise */
json_t *schema_foreach(void);                         /* likewise */
json_t *schema_map(json_t *value, const char *names); /* of names that match a pattern */
/* A value of that YAML type, a text of that pattern, or a text with an expression. */
json_t *schema_loose(const char *type, const char *pattern);

#endif
