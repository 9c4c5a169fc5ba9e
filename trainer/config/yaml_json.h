/*
 * A value of a YAML file as JSON text: where a file of arguments has a map or a list in the place
 * of a JSON string or a path.
 */
#ifndef TR_CONFIG_YAML_JSON_H
#define TR_CONFIG_YAML_JSON_H

#include "engine/base/yaml.h"

/* Appends v as JSON. Plain true, false, yes, no, on, off (as YAML 1.1 reads them) and numbers keep
 * their type; everything else is a string. */
enum fr_rc tr_yaml_json(const struct fr_yaml *v, struct fr_buf *out, struct fr_err *err);

#endif
