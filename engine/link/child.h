/*
 * A link to a child process over three pipes: flownode (local), or the system's ssh.
 */
#ifndef FR_LINK_CHILD_H
#define FR_LINK_CHILD_H

#include "engine/link/link.h"

struct fr_child_args {
    const char *what;        /* the subject of errors: "ssh to HOST" */
    const char *const *argv; /* copied */
    bool die_with_parent;
    const char *agent; /* SSH_AUTH_SOCK of the child; "": unset; NULL: this process's. Copied */
    const char *const *envp; /* its whole environment, without an agent; NULL: this process's.
                              * Copied */
    int own_failure; /* exit status by which argv[0] reports its own failure, not its command's; or
                      * -1
                      */
    /* Gives the result code for an exit status and the end of stderr, and may add advice. NULL:
     * every end is FR_UNREACHABLE. */
    enum fr_rc (*judge)(int code, struct fr_str tail, struct fr_buf *advice);
    const char *key; /* the private key of the login. An error FR_DENIED says what is wrong with
                      * this file. NULL: none is named. Copied */
};

enum fr_rc fr_link_child_create(struct fr_link *link, struct fr_loop *loop,
                                const struct fr_child_args *args, struct fr_err *err);

/* How the child of the newest open ended, from on_down on: its exit status; -1: by a signal, or it
 * only closed its output. errors: the last 2 KiB of its stderr, until the next open. */
int fr_link_child_code(const struct fr_link *link, struct fr_str *errors);

#endif
