/*
 * Every key of a pipeline file, in static tables: its name, shape, place in the struct and meaning.
 * The reader walks them, the schema is printed from them. Internal to engine/spec.
 */
#ifndef FR_SPEC_FIELDS_H
#define FR_SPEC_FIELDS_H

#include "engine/spec/spec.h"

#include <stddef.h>

/* X(shape of a value, its reader (load.h, read.c), its schema of a field f, in schema_value.c) */
#define SHAPES(X)                                                                                  \
    X(STRING, read_string, schema_ref("scalar")) /* const char *; known when the file is read */   \
    X(PATH, read_string, schema_ref("scalar"))   /* const char *, made absolute on control */      \
    X(INT, read_number, integer(f))              /* int within min..max */                         \
    X(FLOAT, read_number, number(f))             /* double within min..max */                      \
    X(BOOL, read_bool, schema_ref("bool"))       /* bool */                                        \
    X(DURATION, read_number, schema_ref("duration")) /* int64_t ms */                              \
    X(LIMIT, read_number, limit())                   /* int64_t ms, "never" is 0 */                \
    X(SIZE, read_number, schema_ref("size"))         /* int64_t bytes */                           \
    X(CHOICE, read_choice, choice(f->choices))       /* an enum (int): index in choices + first */ \
    X(TRANSPORT, read_choice, choice(f->choices))    /* a choice, into the defaults of nodes */    \
    X(TEXT, read_one_text, schema_ref("text"))       /* struct fr_text */                          \
    X(TEXTS, read_texts,                                                                           \
      some(schema_ref("text"), "minItems", 1)) /* struct fr_text array and count */                \
    X(STRINGS, read_string_list, scalars())    /* const char * array and count; or one alone */    \
    X(NAMES, read_string_list, scalars())      /* the same, of names */                            \
    X(ENV, read_variables,                                                                         \
      schema_ref("env")) /* struct fr_kv array and count, added to those there */                  \
    X(ENV_FILE, read_variables, scalars()) /* the same, from files of this machine */              \
    X(OBJECT, read_inner, inner(f))        /* a struct in place, described by object */            \
    X(SCRIPT, read_script, script())       /* of struct fr_action */                               \
    X(USES, read_uses, kinds())                                                                    \
    X(WITH, read_with, json_pack("{s:[s, s]}", "type", "object", "null"))                          \
    X(PROGRAMS, read_programs, one_or_list(json_pack("{s:s}", "const", "flowtrain")))              \
    X(MATRIX, read_matrix, schema_matrix())    /* of struct fr_task; before what uses its names */ \
    X(FOREACH, read_foreach, schema_foreach()) /* likewise, after matrix */                        \
    X(NEEDS, read_needs, schema_needs())                                                           \
    X(EXTENDS, read_extends, scalars())                                                            \
    X(TEMPLATES, read_templates, named(f))                                                         \
    X(SKIP_WITH, read_skip_with, scalars()) /* after needs */                                      \
    X(ON, read_on, scalars())                                                                      \
    X(WHEN, read_when, schema_ref("scalar"))                                                       \
    X(IN, read_in, schema_ref("scalar"))                                                           \
    X(METRICS, read_metrics, schema_ref("text"))                                                   \
    X(FILES, read_files,                                                                           \
      schema_map(json_pack("{s:[o, o]}", "anyOf", schema_ref("text"), inner(f)), "^[^/]"))         \
    X(SIDECARS, read_sidecars, some(inner(f), "maxItems", 16))                                     \
    X(RETRY_ON, read_retry_on, retry_on())                                                         \
    X(EVENTS, read_events, events(f)) /* of rules: unsigned, the names before first in choices */  \
    X(QUIET, read_quiet, quiet())     /* of rules: struct fr_quiet */                              \
    X(RULES, read_rules, inners(f))   /* struct fr_notify array and count; or one alone */         \
    X(POOLS, read_pools, schema_map(integer(f), LABEL_PATTERN)) /* of struct fr_limits, by name */ \
    X(CHANNELS, read_channels,                                                                     \
      schema_map(inner(f), LABEL_PATTERN))     /* struct fr_channel array, count */                \
    X(GIVEN_TEXT, read_given_text, given(f))   /* struct fr_given */                               \
    X(GIVEN_SECRET, read_given_text, inner(f)) /* the same, without its text */                    \
    X(TIMES, read_times, scalars())            /* of a schedule */                                 \
    X(GIVEN, read_given, schema_map(schema_ref("scalar"), NAME_PATTERN)) /* checked as -p is */    \
    X(PARAMS, NULL, params(f)) /* of struct fr_spec; read before everything else */                \
    X(SECRETS, read_secrets, named(f))                                                             \
    X(NODES, read_nodes, nodes())                                                                  \
    X(TASKS, read_tasks, tasks(f))                                                                 \
    X(HOOKS, read_hooks, some(inner(f), "maxItems", 100))                                          \
    /* these are read into the loader's own struct fr_task or fr_node */                           \
    X(DEFAULTS, read_inner, inner(f))                                                              \
    X(NODE_DEFAULTS, read_inner, inner(f))                                                         \
    X(PIPELINE_ENV, read_variables, schema_ref("env"))                                             \
    X(PIPELINE_ENV_FILE, read_variables, scalars())                                                \
    X(KEEP, read_inner, inner(f))                                                                  \
    X(NODE_LIST, read_node_list, schema_ref("node_list"))                                          \
    X(DEFAULT, read_param_default, schema_ref("scalar")) /* of a param: a text, number or bool */  \
    X(PARAM_TYPE, read_choice, one_of(f->choices))       /* enum fr_type by name */                \
    X(SCHEDULE, read_schedules, inners(f))                                                         \
    X(LOGIN, read_login, inner(f)) /* of struct fr_slurm_spec */                                   \
    X(SLURM, read_slurm, inner(f)) /* of struct fr_spec */                                         \
    X(ALLOCATIONS, read_allocations, allocations(f))                                               \
    X(SLURM_FOLDER, read_slurm_folder,                                                             \
      json_pack("{s:s, s:s}", "type", "string", "pattern",                                         \
                "^/[^/]|" EXPR))                           /* const char *; absolute as written */ \
    X(SLURM_WORD, read_slurm_word, schema_ref("scalar"))   /* const char *, one argument */        \
    X(SLURM_TIME, read_slurm_time, schema_ref("duration")) /* int64_t ms, above zero */            \
    X(SLURM_MEMORY, read_slurm_memory, schema_ref("size")) /* int64_t bytes, with their unit */    \
    /* of struct allocation_entry */                                                               \
    X(SLURM_GPUS, read_slurm_gpus, typed_count(f))                                                 \
    X(SLURM_OPTIONS, read_slurm_options, scalars())                                                \
    X(SLURM_CONTAINER, read_slurm_container, inner(f))                                             \
    /* of struct fr_slurm_container */                                                             \
    X(SLURM_IMAGE, read_slurm_image, schema_ref("scalar"))                                         \
    X(SLURM_PROGRAM, read_slurm_program, schema_ref("scalar"))                                     \
    X(SLURM_MOUNTS, read_slurm_mounts, scalars())
#define SHAPE_ID(name, reader, schema) SHAPE_##name,
enum shape { SHAPES(SHAPE_ID) SHAPE_N };
#undef SHAPE_ID

/* Which references may stand in a text; bits. Outside: params and env alone. */
enum allow {
    ALLOW_RUN = 1, /* node head nodes run attempt, matrix, item and index in a task that has them */
    ALLOW_OUTPUTS = 2, /* tasks.t.outputs.k */
    ALLOW_SECRETS = 4,
    ALLOW_STATE = 8 /* success() failure() always() */
};

struct secret_entry { /* a secret: exactly one is given; their order is enum fr_secret_from's */
    const char *from[3];
};

struct file_entry { /* a file of `files:`; its path is read as a text */
    struct fr_text path;
    const char *const *exclude;
    size_t n_exclude;
};

/* An allocation of `slurm:`, and what its places have in common. */
struct allocation_entry {
    struct fr_node place; /* first member: some keys are as of a node */
    struct fr_allocation_spec spec;
};

struct object;

struct field {
    const char *name;
    enum shape shape;
    size_t at, n_at; /* offsets of the value and of its count in the struct */
    const char *help;
    const char *preset; /* default as written, for the schema; NULL: none */
    double min, max;
    const char *const *choices; /* NULL-ended */
    int first;                  /* value of choices[0] */
    const struct object *object;
    unsigned allow; /* enum allow */
    bool of_host;   /* SHAPE_STRING: names something of the host; see guard_name() */
    bool required;
    const char *expected; /* said where a required one is missing, or a choice is wrong; NULL */
};

struct object {
    const char *name;           /* in messages: "a task" */
    const char *id;             /* in the schema: "task" */
    const struct field *fields; /* ended by a NULL name; read in this order */
    const char *lone;           /* the key that a value alone was meant for; NULL: none */
};

/* One place in a struct, and one with its count beside it. */
#define AT(type, member) .at = offsetof(struct type, member)
#define ATN(type, member) AT(type, member), .n_at = offsetof(struct type, n_##member)

extern const struct object object_pipeline, object_task, object_hook, object_sidecar;
extern const struct object object_defaults, object_node, object_inventory, object_param;
extern const struct object object_secret, object_config, object_schedule, object_keep_runs;
extern const struct object object_file, object_notify, object_home_notify, object_channel,
    object_given, object_slurm, object_allocation, object_template;

const struct field *field_find(const struct object *object, const char *name);

#endif
