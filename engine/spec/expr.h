/*
 * Text of a pipeline file that may hold ${{ expressions }}, and their evaluation at start time.
 *
 *   params.x  env.X                       put in at load; no caller sees them afterwards
 *   tasks.t.outputs.k                     t's instance on the same node, else its only instance
 *   tasks.t.on('node').outputs.k   tasks.t.on_head.outputs.k
 *   tasks.t.all.k                         a JSON list: of each instance its output, or null
 *   tasks.t.items                         a JSON list of {key, state, node, matrix | item,
 *                                         outputs}
 *   best(tasks.t.items, 'k')              that of them of which k, a number, is smallest ('-k':
 *                                         largest); .key .state .node .matrix.x .item .item.x
 *                                         .outputs.k of it
 *   matrix.x                              of the row of the instance; null is the empty text
 *   item  item.x.y                        the element of the instance (foreach), a member of it
 *   index                                 its number in the list, from 0 on
 *   node.name  .address .user .index .gpus .slots .labels .work .executor
 *   head.name  head.address  nodes.count  attempt  run.id  run.name  run.status (hooks)
 *   schedule.time  .unix .date .name .zone .origin .interval_start .interval_end
 *   .previous_success
 *   secrets.x                             only in env: and where the key table says so (notify)
 *   success()  failure()  always()        in when:
 *   'text' "text" 12 1.5 true false   ==  !=  <  <=  >  >=  &&  ||  !  ( )
 *
 * Every value is a text; a list or a map is JSON. == and != compare numbers when both sides read as
 * numbers. A text that is empty, false or the number 0 is false. a && b is a where a is false, else
 * b; a || b is a where a is true, else b; && binds closer than ||. Names were checked at load:
 * evaluation can only fail because the resolver has no value, or on memory.
 */
#ifndef FR_SPEC_EXPR_H
#define FR_SPEC_EXPR_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

struct fr_expr; /* a parsed expression or template, in the spec's arena */

struct fr_pos {
    int file;      /* index into fr_spec.sources: 0 the pipeline file, 1 the inventory */
    int line, col; /* 1-based; 0 0: nowhere in a file (a default, a flag) */
};

/* One value as written. Zero is absent. */
struct fr_text {
    const char *s; /* expr == NULL: the value, params already put in; else as written */
    const struct fr_expr *expr; /* NULL: nothing left to evaluate */
    struct fr_pos pos;
    bool secret; /* its value holds a secret: never stored, never logged */
};

enum fr_ref_kind {
    FR_REF_OUTPUT,   /* task, name (the output), where, node */
    FR_REF_ALL,      /* task, name: that output of all its instances, a JSON list */
    FR_REF_ITEMS,    /* task: its instances, a JSON list of maps */
    FR_REF_BEST,     /* task, name, largest: of these the one that is best by output name; pick */
    FR_REF_MATRIX,   /* name, index: a value of the instance's item */
    FR_REF_ITEM,     /* name: a member of the instance's element, "x.y"; NULL: the element */
    FR_REF_INDEX,    /* its number */
    FR_REF_NODE,     /* name: "name", "address", "index" …, of the instance's own node */
    FR_REF_HEAD,     /* name: "name", "address" */
    FR_REF_NODES,    /* name: "count" */
    FR_REF_RUN,      /* name: "id", "name", "status" */
    FR_REF_SCHEDULE, /* name: "time", "unix" …: the logical time of the run, and its schedule */
    FR_REF_ATTEMPT,  /* 1, 2, … */
    FR_REF_SECRET,   /* name */
    FR_REF_SUCCESS,  /* all needs succeeded: "true" or "false" */
    FR_REF_FAILURE   /* some need failed: "true" or "false" */
};

/* The names below schedule. */
#define FR_OCCASIONS(X)                                                                            \
    X(TIME, "time")                                                                                \
    X(UNIX, "unix")                                                                                \
    X(DATE, "date")                                                                                \
    X(NAME, "name")                                                                                \
    X(ZONE, "zone")                                                                                \
    X(ORIGIN, "origin")                                                                            \
    X(FROM, "interval_start") X(TO, "interval_end") X(PREVIOUS, "previous_success")

enum fr_ref_where { FR_WHERE_SAME, FR_WHERE_NODE, FR_WHERE_HEAD };

/* What of an instance is meant: all of it as a JSON map, or a member of that. */
enum fr_pick {
    FR_PICK_WHOLE,
    FR_PICK_KEY,
    FR_PICK_STATE,
    FR_PICK_NODE,
    FR_PICK_MATRIX, /* pick_name: a name of the task's items */
    FR_PICK_ITEM,   /* pick_name: a member of its element; NULL: the element */
    FR_PICK_OUTPUT  /* pick_name: an output */
};

struct fr_ref {
    enum fr_ref_kind kind;
    const char *name;
    int task;                /* OUTPUT: index into fr_spec.tasks */
    enum fr_ref_where where; /* OUTPUT: which instance */
    int node;                /* OUTPUT with FR_WHERE_NODE: index into fr_spec.nodes */
    int index;               /* MATRIX: of the name, in the task's items */
    bool largest;            /* BEST: the largest, not the smallest */
    enum fr_pick pick;       /* BEST */
    const char *pick_name;
};

/* Who knows the values when an instance starts. get appends ref's value to out; FR_NOTFOUND (with a
 * text in err) when it has none. Texts and err never hold a secret. */
struct fr_resolver {
    void *self;
    enum fr_rc (*get)(void *self, const struct fr_ref *ref, struct fr_buf *out, struct fr_err *err);
};

/* Appends t's value to out. Errors name the expression. r may be NULL when t->expr is. */
enum fr_rc fr_text_eval(const struct fr_text *t, const struct fr_resolver *r, struct fr_buf *out,
                        struct fr_err *err);

/* t as a condition; an absent t is true. */
enum fr_rc fr_text_true(const struct fr_text *t, const struct fr_resolver *r, bool *out,
                        struct fr_err *err);

/* Calls each for every reference left in t, in the order written; stops when it returns false. */
void fr_text_refs(const struct fr_text *t, bool (*each)(void *arg, const struct fr_ref *ref),
                  void *arg);

#endif
