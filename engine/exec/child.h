/*
 * A link whose command is a child process of ours over three pipes: flownode itself (local), or the
 * system's ssh. Both are this one thing with another argument vector.
 */
#ifndef FR_EXEC_CHILD_H
#define FR_EXEC_CHILD_H

#include "engine/exec/link.h"

struct fr_child_args {
    const char *kind;        /* the ops' name: static */
    const char *what;        /* stands in front of errors: "node n1 (local)" */
    const char *const *argv; /* copied */
    bool die_with_parent;
    /* What an exit status means for the link, by the end of stderr; adds advice. NULL: unreachable.
     */
    enum fr_rc (*judge)(int code, struct fr_str tail, struct fr_buf *advice);
};

enum fr_rc fr_link_child_create(struct fr_link *link, struct fr_loop *loop,
                                const struct fr_child_args *args, struct fr_err *err);

#endif
