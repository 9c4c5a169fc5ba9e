/*
 * The variables that NCCL reads: which are set, and which turn off the links inside a node.
 */
#ifndef TR_COMM_NCCL_ENV_H
#define TR_COMM_NCCL_ENV_H

#include "engine/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Where they come from. A file has a line NAME=VALUE for each; what is set before it stays. Source:
 * NCCL user guide, "Environment Variables". */
struct tr_nccl_vars {
    char *const *env;          /* ends at NULL */
    const char *user, *system; /* files that may be absent */
};

/* This process's: environ, $NCCL_CONF_FILE or ~/.nccl.conf (into room), /etc/nccl.conf. */
struct tr_nccl_vars tr_nccl_vars_here(char *room, size_t bytes);

/* Whether the variable is set in one of them. */
bool tr_nccl_set(const struct tr_nccl_vars *vars, const char *name);

/* Logs every NCCL_ variable, and the file that it comes from. local_size: ranks of this node.
 * FR_USAGE, naming the variable, when it turns off NVLink or shared memory between them and allow
 * is false. */
enum fr_rc tr_nccl_env(const struct tr_nccl_vars *vars, int local_size, bool allow,
                       struct fr_err *err);

#endif
