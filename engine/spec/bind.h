/* What the names of an expression mean. Internal to engine/spec: part of load.h. */
#ifndef FR_SPEC_BIND_H
#define FR_SPEC_BIND_H

#include "engine/base/yaml.h"
#include "engine/spec/expr_tree.h"

struct loader;
struct hint;

/* bind.c: one name of an expression */
struct text_reader {
    struct loader *l;
    const struct fr_yaml *y;
    unsigned allow;
    bool bare; /* the whole text is the expression */
    bool bad;  /* something was reported */
};
/* Records the value of a variable, so that a resumed run sees the same. */
bool note_variable(struct loader *l, const char *name, const char *value);
struct fr_expr *bind_path(void *self, const struct expr_path *path); /* self: struct text_reader */
/* The parts of bind_path. Complaints give the empty text; bind_may: is a reference of that kind
 * allowed here? */
struct fr_expr *bind_wrong(struct text_reader *r, const struct expr_path *path,
                           const char *expected, const char *what);
struct fr_expr *bind_shape_wrong(struct text_reader *r, const struct expr_path *path,
                                 const char *expected);
struct fr_expr *bind_silent(struct text_reader *r); /* after what has been reported before */
struct fr_expr *bind_unknown(struct text_reader *r, const struct expr_path *path,
                             const struct hint *hint, const char *what);
bool bind_may(struct text_reader *r, const struct expr_path *path, unsigned kind);
/* A reference to what another task gave, which check_uses() looks at. */
struct fr_expr *bind_use(struct text_reader *r, const struct expr_path *path, struct fr_ref ref);

/* bind_fan.c: tasks.NAME.all.KEY, tasks.NAME.items and best(tasks.NAME.items, 'KEY') */
struct fr_expr *bind_instances(struct text_reader *r, const struct expr_path *path, int task);
struct fr_expr *bind_best(struct text_reader *r, const struct expr_path *path);
/* item, item.x and index */
struct fr_expr *bind_item(struct text_reader *r, const struct expr_path *path);
/* A reference in the arena of the spec. */
struct fr_expr *bind_reference(struct text_reader *r, const struct expr_path *path,
                               struct fr_ref ref);

#endif
