/*
 * A control group (cgroup v2) for a supervisor and everything that it starts. A process stays in it
 * when it leaves its session, clears its environment or loses its parents. So after the supervisor
 * was killed, every process in the cgroup belongs to its attempt: a supervisor takes the next
 * attempt only when no process of the last one is left. There is one cgroup a supervisor, not one
 * an attempt: a process is born in it at no cost, while moving a process there waits for an RCU
 * grace period (milliseconds).
 *
 * It is made below the cgroup of serve if that is allowed (root, or a delegated cgroup). Otherwise
 * there is none, and its path is "".
 * Files as in https://docs.kernel.org/admin-guide/cgroup-v2.html.
 */
#ifndef FR_SUPERVISE_CGROUP_H
#define FR_SUPERVISE_CGROUP_H

#include "engine/base/str.h"
#include "engine/supervise/home.h"

#include <sys/types.h>

/* Folder of the cgroup that this process is in. False: no cgroup2 file system has it. */
bool fr_cgroup_own(char out[FR_NODE_PATH]);

/* Folder of a supervisor's cgroup below own; "" when own is "", or too long. */
void fr_cgroup_path(struct fr_str own, struct fr_id socket_id, char out[FR_NODE_PATH]);

/* The cgroup above path: `own` of fr_cgroup_path. Borrowed from path. */
struct fr_str fr_cgroup_above(const char *path);

/* Whether this process was born in path, a folder of fr_cgroup_path or "". */
bool fr_cgroup_joined(const char *path);

/* Removes empty cgroups in own that are more than a minute old. Their serve was killed before it
 * could start the supervisor, or their home was removed. */
void fr_cgroup_tidy(const char *own);

/* Called by a process in path just before it ends. If it is alone there, it starts a process in the
 * cgroup above that then removes path: moving itself up would delay every fork on the machine by an
 * RCU grace period (milliseconds). If not, it moves all processes of path to the cgroup above. */
void fr_cgroup_leave(const char *path);

/* Adds to out the processes in path and below it, as pid_t, without zombies and processes of other
 * pid namespaces. Adds none if path is gone, "" or NULL. */
void fr_cgroup_pids(const char *path, struct fr_buf *out);

/* SIGKILL to all processes at once, also to new ones (needs Linux 5.14; does nothing before). */
void fr_cgroup_kill(const char *path);

/* Removes path and the cgroups below it that have no process. NULL and "" are fine. */
void fr_cgroup_remove(const char *path);

#endif
