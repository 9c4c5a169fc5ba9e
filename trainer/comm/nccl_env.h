/*
 * The variables of NCCL that are set, and those that turn off the links inside a node.
 */
#ifndef TR_COMM_NCCL_ENV_H
#define TR_COMM_NCCL_ENV_H

#include "engine/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Sources of variables. A file has a line NAME=VALUE for each variable; earlier sources win.
 * Source: NCCL user guide, "Environment Variables". */
struct tr_nccl_vars {
    char *const *env;          /* ends at NULL */
    const char *user, *system; /* files that may be absent */
};

/* Those of this process: environ, $NCCL_CONF_FILE or ~/.nccl.conf (path in room), /etc/nccl.conf.
 */
struct tr_nccl_vars tr_nccl_vars_here(char *room, size_t bytes);

/* Whether the variable is set in one of them. */
bool tr_nccl_set(const struct tr_nccl_vars *vars, const char *name);

/* Logs every NCCL_ variable with its file. local_size: ranks of this node. FR_USAGE, unless allow:
 * a variable, which the error names, turns off NVLink or shared memory between these ranks. */
enum fr_rc tr_nccl_env(const struct tr_nccl_vars *vars, int local_size, bool allow,
                       struct fr_err *err);

#endif
