/* Container runtimes: docker and podman, driven by their command lines. */
#ifndef TASKS_RUNTIME_H
#define TASKS_RUNTIME_H

#include "tasks/command.h"
#include "tasks/job.h"

#define FR_CONTAINER_LABEL "flowrun.home" /* = the node's home, on containers that we started */

/* wish: auto, docker, podman or none. *out: "docker", "podman", or NULL for none (auto: none on a
 * local node, else docker before podman if it answers). FR_NOTFOUND: what was asked for is not
 * there. */
enum fr_rc fr_runtime_choose(const char *wish, const char **out, struct fr_err *err);

enum fr_box_state { FR_BOX_ABSENT, FR_BOX_STOPPED, FR_BOX_RUNNING };

/* The state of the container called name, and whether its label names this node's home. */
enum fr_rc fr_box_look(const char *runtime, const char *name, enum fr_box_state *state, bool *ours,
                       struct fr_err *err);

/* Runs RUNTIME and the NULL-ended words; an error says why. out: its stdout, the caller's to
 * finish; NULL: dropped. */
enum fr_rc fr_runtime_run(const char *runtime, const char *const *words, struct fr_buf *out,
                          struct fr_err *err);

#endif
