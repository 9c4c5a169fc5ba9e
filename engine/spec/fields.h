/*
 * Every key of a pipeline file, in static tables: its name, shape, place in the struct and meaning.
 * The reader walks them, the schema is printed from them. Internal to engine/spec.
 */
#ifndef FR_SPEC_FIELDS_H
#define FR_SPEC_FIELDS_H

#include "engine/spec/spec.h"

#include <stddef.h>

/* What stands under a key: how it is read, and how the schema says it. */
enum shape {
    SHAPE_STRING,    /* const char *; known when the file is read (params and env only) */
    SHAPE_PATH,      /* const char *, made absolute on control */
    SHAPE_INT,       /* int within min..max */
    SHAPE_FLOAT,     /* double within min..max */
    SHAPE_BOOL,      /* bool */
    SHAPE_DURATION,  /* int64_t ms */
    SHAPE_LIMIT,     /* int64_t ms, "never" is 0 */
    SHAPE_SIZE,      /* int64_t bytes */
    SHAPE_CHOICE,    /* an enum (int): index in choices + first */
    SHAPE_TRANSPORT, /* a choice, into the defaults of nodes */
    SHAPE_TEXT,      /* struct fr_text */
    SHAPE_TEXTS,     /* struct fr_text array and count */
    SHAPE_STRINGS,   /* const char * array and count; one text stands for a list of one */
    SHAPE_NAMES,     /* the same, of names */
    SHAPE_ENV,       /* struct fr_kv array and count, names of variables, on top of what is there */
    SHAPE_ENV_FILE,  /* the same, from files of this machine */
    SHAPE_OBJECT,    /* a struct in place, described by object */

    SHAPE_SCRIPT, /* of struct fr_action */
    SHAPE_USES,
    SHAPE_WITH,
    SHAPE_PROGRAMS,

    SHAPE_NEEDS, /* of struct fr_task */
    SHAPE_ON,
    SHAPE_WHEN,
    SHAPE_IN,
    SHAPE_METRICS,
    SHAPE_FILES,
    SHAPE_SIDECARS,
    SHAPE_RETRY_ON,

    SHAPE_EVENTS,       /* of rules: unsigned, the names before first in choices */
    SHAPE_QUIET,        /* of rules: struct fr_quiet */
    SHAPE_RULES,        /* struct fr_notify array and count; one stands for a list of one */
    SHAPE_POOLS,        /* struct fr_limits: its pools, by name */
    SHAPE_CHANNELS,     /* struct fr_channel array and count, by name */
    SHAPE_GIVEN_TEXT,   /* struct fr_given */
    SHAPE_GIVEN_SECRET, /* the same, without its text */

    SHAPE_TIMES, /* of a schedule */
    SHAPE_GIVEN, /* "name=value" array and count, checked as -p is */

    SHAPE_PARAMS, /* of struct fr_spec */
    SHAPE_SECRETS,
    SHAPE_NODES,
    SHAPE_TASKS,
    SHAPE_HOOKS,
    SHAPE_DEFAULTS, /* these are read into the loader's own struct fr_task or fr_node */
    SHAPE_NODE_DEFAULTS,
    SHAPE_PIPELINE_ENV,
    SHAPE_PIPELINE_ENV_FILE,
    SHAPE_KEEP,
    SHAPE_NODE_LIST,
    SHAPE_DEFAULT,    /* of a param: a text, number or bool */
    SHAPE_PARAM_TYPE, /* enum fr_type by name */
    SHAPE_SCHEDULE
};

/* Which references may stand in a text; bits. Outside: params and env alone. */
enum allow {
    ALLOW_RUN = 1,     /* node head nodes run attempt */
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
    object_given;

const struct field *field_find(const struct object *object, const char *name);

#endif
