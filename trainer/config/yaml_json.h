/*
 * Values of a YAML file of arguments, as LLaMA-Factory reads them: PyYAML's YAML 1.1 with
 * OmegaConf's numbers (1e-5 is one). tests/golden/yaml_values.py recorded both.
 */
#ifndef TR_CONFIG_YAML_JSON_H
#define TR_CONFIG_YAML_JSON_H

#include "engine/base/yaml.h"

enum tr_yaml_type { TR_YAML_TEXT, TR_YAML_NONE, TR_YAML_BOOL, TR_YAML_WHOLE, TR_YAML_REAL };

struct tr_yaml_plain {
    enum tr_yaml_type type;
    bool yes;
    int64_t whole;
    double real; /* of a whole number, too */
};

/* The value of an unquoted scalar: 017 is 15, 1_024 is 1024, 1:30 is 90, off is false. */
struct tr_yaml_plain tr_yaml_plain(struct fr_str text);

/* Appends v as JSON. Used if a file of arguments has a map or a list where a flag takes a JSON
 * string or a path. Unquoted scalars keep their type; quoted ones are strings. */
enum fr_rc tr_yaml_json(const struct fr_yaml *v, struct fr_buf *out, struct fr_err *err);

#endif
