/* Container runtimes: docker and podman, driven by their command lines. */
#ifndef TASKS_RUNTIME_H
#define TASKS_RUNTIME_H

#include "tasks/command.h"
#include "tasks/job.h"

#define FR_CONTAINER_LABEL "flowrun.home" /* = the node's home, on containers that we started */

/* wanted: auto, docker, podman or none. *out: "docker", "podman", or NULL for none (auto: none on a
 * local node, else docker before podman if it answers). FR_NOTFOUND: what was asked for is not
 * there. */
enum fr_rc fr_runtime_choose(const char *wanted, const char **out, struct fr_err *err);

#define FR_RUN_LABEL "flowrun.run"         /* = the run that started it */
#define FR_ATTEMPT_LABEL "flowrun.attempt" /* = the attempt of the container task that did */

enum fr_box_state { FR_BOX_ABSENT, FR_BOX_STOPPED, FR_BOX_RUNNING };

struct fr_box {
    enum fr_box_state state;
    char id[80]; /* the runtime's id: removal by id hits only the container that was inspected */
    bool ours;   /* its label is this node's home */
    char run[40], attempt[40]; /* its labels; "" where it has none */
};

/* Looks at the container of exactly that name. */
enum fr_rc fr_box_look(const char *runtime, const char *name, struct fr_box *out,
                       struct fr_err *err);

/* Whether a running container of ours is in use by another run than this one: a flowrun drives that
 * run, or more than its first process runs inside. */
enum fr_rc fr_box_used(const char *runtime, const struct fr_box *box, bool *used,
                       struct fr_err *err);

/* Runs RUNTIME and the NULL-ended words; an error says why. out: its stdout, the caller's to
 * finish; NULL: dropped. */
enum fr_rc fr_runtime_run(const char *runtime, const char *const *words, struct fr_buf *out,
                          struct fr_err *err);

#endif
