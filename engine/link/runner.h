/*
 * A runner runs commands of Slurm, on this machine (here) or on a login node (exec/login.h). Each
 * command is a link: its bytes are the command's stdin and stdout.
 */
#ifndef FR_LINK_RUNNER_H
#define FR_LINK_RUNNER_H

#include "engine/link/link.h"

enum { FR_RUNNER_NO_PROGRAM = 127 }; /* exit status: there is no such program */

struct fr_runner_command {
    const char *what;        /* the subject of errors: "srun to nid003" */
    const char *const *argv; /* NULL-terminated; argv[0] is a name, found in PATH */
    int64_t limit_ms;        /* a remote command that runs longer is killed; 0: no limit */
};

struct fr_runner_ops {
    const char *name; /* "local", "login" */
    /* Makes the link of a command, which its open() starts and its destroy() kills. Copies. */
    enum fr_rc (*make)(void *self, const struct fr_runner_command *command, struct fr_link *out,
                       struct fr_err *err);
    /* How the command of that link ended, from on_down on: its exit status; -1: by a signal, or
     * that is not known. errors: the end of its stderr, until the next open. */
    int (*code)(const struct fr_link *link, struct fr_str *errors);
    bool (*ready)(void *self); /* a command would start at once; NULL: always */
    void (*destroy)(void *self);
};

struct fr_runner {
    const struct fr_runner_ops *ops;
    void *self;
};

/* Commands are children of this process, in that environment. */
enum fr_rc fr_runner_local_create(struct fr_runner *out, struct fr_loop *loop,
                                  const char *const *envp, struct fr_err *err);

bool fr_runner_ready(const struct fr_runner *r);
void fr_runner_destroy(struct fr_runner *r); /* NULL or a zeroed one is fine; zeroes it */

#endif
