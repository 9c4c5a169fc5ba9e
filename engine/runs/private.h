/* What the shells of runs gave, for the files of this folder. */
#ifndef FR_RUNS_PRIVATE_H
#define FR_RUNS_PRIVATE_H

#include "engine/runs/state.h"

/* As fr_run_shell.getenv; self is a struct host_run. A name of env is no secret, and may be stored.
 */
const char *shell_env(void *self, const char *name);
/* Connections are shared by all runs: the agents of all their shells, then this process's own. */
void shell_agents(struct fr_host *host);
/* A run of a flowrun inside a task: where that task runs, its instances need no slots of their own,
 * as the task waits for them. Zero: nowhere. */
struct fr_id shell_granted(const struct host_run *h);
/* A run of a schedule, or one that was asked for over TCP, has this process's own shell where no
 * other brings it. */
void shell_find(struct host_run *h, const char *run);

#endif
