/*
 * Attempts inside a container: serve has the container runtime start `flownode shim` in it, which
 * becomes the supervisor there. The attempt is handed over through HOME/s/ATTEMPT, a socket in the
 * mounted home, so that no secret is on a disk.
 */
#ifndef FR_NODE_SHIM_H
#define FR_NODE_SHIM_H

#include "engine/base/err.h"
#include "engine/base/str.h"

struct fr_shim_args {
    const char *home; /* as mounted in the container */
    struct fr_id attempt;
    const char *self;           /* path of this program in the container */
    const char *const *environ; /* of the container */
};

/* Detaches a process that waits up to 30 s for its attempt, and supervises it. */
enum fr_rc fr_shim(const struct fr_shim_args *a, struct fr_err *err);

#endif
