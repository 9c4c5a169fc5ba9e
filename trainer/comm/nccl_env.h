/*
 * The environment that NCCL reads: what is set, and what gives up the links inside a node.
 */
#ifndef TR_COMM_NCCL_ENV_H
#define TR_COMM_NCCL_ENV_H

#include "engine/base/err.h"

#include <stdbool.h>

/* Logs every NCCL_ variable of env (ends at NULL). local_size: ranks of this node. FR_USAGE, naming
 * the variable, when it turns off NVLink or shared memory between them and allow is false. */
enum fr_rc tr_nccl_env(char *const *env, int local_size, bool allow, struct fr_err *err);

#endif
