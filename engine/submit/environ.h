/* The environment of Slurm's commands on the machine where they run. */
#ifndef FR_SUBMIT_ENVIRON_H
#define FR_SUBMIT_ENVIRON_H

#include "engine/base/arena.h"

/* Of this process's only PATH (behind path, a folder; NULL: none), HOME, USER, LOGNAME, LANG and
 * SLURM_CONF; LC_ALL=C and TZ=UTC. NULL: no memory. */
const char *const *fr_slurm_environ(const char *path, struct fr_arena *arena);

#endif
