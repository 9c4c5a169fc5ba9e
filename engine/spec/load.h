/*
 * The loader of a pipeline file: state and functions that its parts share. Internal to engine/spec.
 *
 * A reader that meets a mistake reports it and goes on, so that one pass finds all; the value it
 * leaves is the default or empty. Without memory, loader.no_memory is set and the load fails.
 */
#ifndef FR_SPEC_LOAD_H
#define FR_SPEC_LOAD_H

#include "engine/base/yaml.h"
#include "engine/spec/bind.h"
#include "engine/spec/expr_tree.h"
#include "engine/spec/fence.h"
#include "engine/spec/fields.h"

struct mistake {
    struct mistake *next;
    struct fr_pos pos;
    const char *text;
    size_t order; /* of reporting, among equals */
};

/* A reference to another task's output, checked when all tasks are read. */
struct output_use {
    struct output_use *next;
    const struct fr_ref *ref;
    const struct fr_task *user;
    bool hook;
    struct fr_pos pos;
};

/* A place in the source being read. */
struct spot {
    int file, line, col; /* line 0: nowhere yet */
    size_t at;           /* byte */
};

struct loader {
    const struct fr_spec_opts *opts;
    struct fr_spec *spec;    /* being made */
    struct fr_arena *arena;  /* of the spec */
    struct fr_arena scratch; /* freed when the spec is loaded: the YAML trees */
    bool no_memory;
    int file;              /* index of the source being read */
    const char *folder[2]; /* absolute: where the paths in each source count from */
    bool from_flag;        /* the text read last begins with the value of a -p */
    bool fenced;           /* it holds one of a request with a fence; it stands at text_pos */
    struct fr_pos text_pos;
    const char *key;  /* whose value is being read; NULL: none */
    bool bad_items;   /* the task being read has a matrix that is wrong */
    bool item_fenced; /* a value of the matrix read last holds one of a request with a fence */
    bool any_node;    /* the inventory is not known: each name of a node is taken */
    struct spot spot;
    struct mistake *mistakes;
    size_t n_mistakes;
    size_t n_compared; /* words looked at for suggestions */

    const struct fr_yaml *schedules; /* NULL: the file has none, or its runs do not matter */
    const struct fr_yaml *tasks;     /* the map of tasks: their names, in order */
    const char *const *task_names;   /* the same; NULL until a mistake needs them */
    uint32_t place;                  /* of the task being read, from 1 on */
    uint32_t *needed_by;             /* one a task: the place of the newest task that needs it */
    struct output_use *uses;
    struct fr_kv *env_used; /* of the spec, to be added to */

    const struct fr_task *user; /* task or hook being read, or NULL */
    bool hook;
    bool cyclic; /* tasks wait for each other */
    bool ended;  /* set by binding failure() or always() */

    struct fr_task base;      /* a task with all defaults */
    struct fr_node node_base; /* a node with all defaults */
    const struct fr_kv *env;  /* of the pipeline */
    size_t n_env;
};

/* issues.c */
/* Reports a mistake, followed by "; expected …" unless that is NULL. */
void complain(struct loader *l, struct fr_pos pos, const char *expected, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, followed by "; did you mean 'x'?" if one of the words is near. */
struct hint {
    const char *expected; /* NULL: none */
    const char *word;     /* as written; NULL: no word is looked for */
    const char *const *words;
    size_t n_words;
};
void complain_near(struct loader *l, struct fr_pos pos, const struct hint *hint, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));
void wrong_value(struct loader *l, const struct fr_yaml *y, const char *what, const char *expected);
struct fr_pos pos_of(const struct loader *l, const struct fr_yaml *y);
struct fr_pos pos_of_key(const struct loader *l, const struct fr_yaml_pair *pair);
/* All mistakes so far, sorted, as lines. */
enum fr_rc issues_take(const struct loader *l, struct fr_issues *issues, struct fr_err *err);

/* For the spec, and for the time of loading; NULL sets no_memory. */
void *load_alloc(struct loader *l, size_t count, size_t size);
void *load_scratch(struct loader *l, size_t count, size_t size);
const char *load_keep(struct loader *l,
                      const char *text); /* passes text through, NULL: no_memory */

/* The names of a map's keys, and of all tasks, for suggestions; NULL without memory. */
const char *const *key_names(struct loader *l, const struct fr_yaml *map);
const char *const *task_names(struct loader *l);
/* name, name or name */
const char *word_list(struct loader *l, const char *const *words, size_t n);

/* text.c */
struct fr_pos pos_inside(const struct text_reader *r, size_t at); /* of byte at of the text */

/* Parses y's text and binds its names; params and env are put in. allow: enum allow. False after a
 * complaint. */
bool read_text(struct loader *l, const struct fr_yaml *y, unsigned allow, struct fr_text *out);
/* A text that is known now, or NULL after a complaint. */
const char *read_now(struct loader *l, const struct fr_yaml *y);
/* The parts of read_text and read_condition: the parser for r's text, and the value or tree of e.
 * text_take is false after a complaint. */
struct expr_parser text_parser(struct text_reader *r);
bool text_take(struct text_reader *r, struct fr_expr *e, struct fr_text *out);

/* condition.c: when:, one expression with or without ${{ }} around it. False after a complaint. */
bool read_condition(struct loader *l, const struct fr_yaml *y, unsigned allow, struct fr_text *out);

/* foreign.c: our key for a key of another tool; NULL: unknown. */
const char *foreign_key(const struct object *object, const char *word);

/* uses.c */
/* All output_use of the file: is it needed, declared, on one node? */
void check_uses(struct loader *l);
/* Answers whether one task needs another, directly or through others. All that is asked of the same
 * task in a row costs one walk over the graph. */
struct needs_walk {
    const struct fr_task *tasks;
    bool cyclic;    /* there is a cycle: a task that was left on one path may be on another */
    int to;         /* the task of the last question; -1: none yet */
    uint32_t stamp; /* seen[t] == stamp: does not need it; stamp + 1: does */
    uint32_t *seen; /* one a task */
    int *path;      /* scratch */
    size_t *next;
};
bool needs_walk_init(struct loader *l, struct needs_walk *w); /* false: no memory */
bool needs_task(struct needs_walk *w, const struct fr_task *from, int to);

/* cycle.c: the first cycle of needs. */
void check_cycles(struct loader *l);

void check_joins(struct loader *l); /* matrix.c: tasks joined item by item have the same items */
void check_fail_fast(struct loader *l);
/* foreach.c: it has no matrix beside it. y: the task. */
void finish_foreach(struct loader *l, const struct fr_yaml *y, struct fr_task *task);

/* needs.c: run_if: of the task read last, beside its needs and its when. */
void finish_needs(struct loader *l, const struct fr_yaml *y, struct fr_task *task);

/* written.c: notes on outputs that scripts write and their tasks do not declare. */
void check_written(struct loader *l);
void add_note(struct loader *l, struct fr_pos pos, const char *text); /* NULL: no memory */

/* read.c */
/* Reads y, the value of key f, into the struct at target. One for each shape; read_field picks it.
 */
typedef void shape_reader(struct loader *l, const struct fr_yaml *y, const struct field *f,
                          void *target);
shape_reader read_field;
shape_reader read_script, read_uses, read_with, read_programs, read_sidecars; /* action.c */
shape_reader read_on, read_when, read_in, read_metrics, read_files, read_retry_on;
shape_reader read_tasks, read_hooks;       /* these two lines: task.c */
shape_reader read_matrix, read_foreach;    /* matrix.c, foreach.c */
shape_reader read_needs, read_skip_with;   /* needs.c */
shape_reader read_extends, read_templates; /* extends.c */
shape_reader read_events, read_quiet, read_rules, read_channels, read_given_text; /* notify.c */
shape_reader read_schedules, read_times, read_given;                              /* schedule.c */
shape_reader read_secrets, read_param_default;                                    /* params.c */
shape_reader read_nodes, read_node_list, read_login, read_pools; /* nodes.c, config.c */
shape_reader read_slurm, read_allocations, read_slurm_folder, read_slurm_word, read_slurm_time;
shape_reader read_slurm_memory, read_slurm_gpus, read_slurm_options; /* these two lines: slurm.c */
shape_reader read_slurm_container, read_slurm_image, read_slurm_program; /* slurm_container.c */
shape_reader read_slurm_mounts;                                          /* slurm_container.c */
/* An absolute path for scripts, arguments of Slurm's commands, which expand some signs, and PATH.
 */
bool slurm_path_ok(struct fr_str path);
/* Puts a list and its count where f has them. */
void put_list(const struct field *f, void *target, const void *list, size_t n);
/* The items of a list, or one value as a list of one; *y must outlive them. */
struct items {
    const struct fr_yaml *const *v;
    size_t n;
};
struct items items_of(const struct fr_yaml *const *y);
bool is_extension(const struct fr_yaml_pair *pair); /* x-…: such a key is ignored */
bool is_map(struct loader *l, const struct fr_yaml *y, const char *what, const char *expected);
/* Complains about keys that object does not have. False when y is no map. */
bool check_object_keys(struct loader *l, const struct object *object, const struct fr_yaml *y);
/* Reads map y by object's table into the struct at target. */
void read_object(struct loader *l, const struct object *object, const struct fr_yaml *y,
                 void *target);
/* One text or a list of them; *n texts. NULL when there are none. */
const char **read_strings(struct loader *l, const struct fr_yaml *y, bool names, size_t *n);
bool name_ok(const char *name);  /* of tasks, params, secrets */
bool label_ok(const char *name); /* of nodes, labels, outputs */
/* Their expectations in words. */
#define NAME "a letter, then letters, digits, '_' and '-', at most 64"
#define LABEL "letters, digits, '_', '-' and '.', at most 64"
/* The text read last as an absolute path: of its file's folder, or of opts.cwd when from_flag. */
const char *absolute(struct loader *l, const char *path);
const char *absolute_in(struct loader *l, const char *folder, const char *path);
const char *folder_of(struct loader *l, const char *path); /* of an absolute path */
/* The same for a text that is known at the start only, as far as its beginning is known now. */
void absolute_text(struct loader *l, struct fr_text *text);
/* fence.c: complain where the text read last may not be given by the request that gave it.
 * absolute() and absolute_text() call guard_path() and guard_late() for all paths of this machine.
 */
void guard_path(struct loader *l, const char *path); /* absolute: the value of the text */
void guard_late(struct loader *l);                   /* the text is a path, and not known yet */
void guard_name(struct loader *l,
                const char *what); /* refuses a name of something of the host that is no file */
/* The same of variables that are read already: those that are there stay where none has their name.
 */
struct env_list {
    const struct fr_kv *v;
    size_t n;
};
void add_env(struct loader *l, const struct fr_yaml *y, struct env_list added,
             const struct fr_kv **out, size_t *n);
bool variable_ok(const char *name); /* of the environment, and not ours */

/* envfile.c: the file that y names, or the files of a list, likewise. */
void read_env_file(struct loader *l, const struct fr_yaml *y, const struct fr_kv **out, size_t *n);

/* params.c */
void read_params(struct loader *l, const struct fr_yaml *y);
/* Whether param may have that value; false after a complaint. */
bool param_allows(struct loader *l, struct fr_pos pos, const struct fr_param *param,
                  const char *value);

/* nodes.c */
void default_node(struct loader *l);       /* one local node, where the file has none */
bool node_name_reserved(const char *name); /* all, head, control */

/* slurm.c */
void check_gangs(struct loader *l);   /* a gang with a place has one allocation */
void check_notices(struct loader *l); /* notice: is less than the time of each allocation */

/* action.c */
enum place { PLACE_TASK, PLACE_HOOK, PLACE_SIDECAR };
/* Checks the parts against each other. */
void finish_action(struct loader *l, const struct fr_yaml *y, struct fr_action *act,
                   enum place place);

/* task.c */
int find_task(const struct loader *l, const char *name); /* its place from 0 on; -1: none */
void unknown_task(struct loader *l, const struct fr_yaml *y, const char *name);
void check_hook_names(struct loader *l);
void check_containers(struct loader *l);

/* load.c */

/* Loads the file at opts->path, and what it names, into target. FR_USAGE: issues has all mistakes.
 */
struct load_job {
    const struct fr_spec_opts *opts;
    struct fr_spec *spec;   /* has the sources */
    struct fr_arena *arena; /* of the result */
    void (*read)(struct loader *l, const struct fr_yaml *root, void *target);
    void *target;
};
enum fr_rc load_file(const struct load_job *job, struct fr_issues *issues, struct fr_err *err);
/* The text of a file: opts.sources, else read. */
enum fr_rc read_source(struct loader *l, const char *path, struct fr_source *out,
                       struct fr_err *err);

/* with.c */
/* Checks value as key wants it; false with *expected set, when it is not good. */
bool with_value_ok(const struct fr_key *key, const char *value, const char **expected);

#endif
