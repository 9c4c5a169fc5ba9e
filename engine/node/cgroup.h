/*
 * A control group (cgroup v2) for a supervisor and all that it starts. No process leaves it by
 * leaving its session, clearing its environment or losing its parents, so when the supervisor was
 * killed, whoever is in it belongs to the attempt that it had: a supervisor takes the next one only
 * when nothing is left of the last. It is one a supervisor, not one an attempt, because a process
 * is born in it for nothing, while moving one there waits for all processors (an RCU grace period,
 * milliseconds).
 *
 * Made below the cgroup that serve is in, where that is allowed (root, or a delegated one);
 * elsewhere there is none, its path is "", and all goes on without.
 * Files as in https://docs.kernel.org/admin-guide/cgroup-v2.html.
 */
#ifndef FR_NODE_CGROUP_H
#define FR_NODE_CGROUP_H

#include "engine/base/str.h"
#include "engine/node/home.h"

#include <sys/types.h>

/* Folder of the cgroup that this process is in. False: no cgroup2 is mounted, or not with it. */
bool fr_cgroup_own(char out[FR_NODE_PATH]);

/* Folder of a supervisor's cgroup below own; "" when own is "", or too long. */
void fr_cgroup_path(struct fr_str own, struct fr_id socket_id, char out[FR_NODE_PATH]);

/* The own that path was made from. Borrowed from it. */
struct fr_str fr_cgroup_above(const char *path);

/* Whether this process was born in path, a folder of fr_cgroup_path or "". */
bool fr_cgroup_joined(const char *path);

/* Removes the empty ones in own that are more than a minute old: whoever made them was killed
 * before it could start the supervisor, or with the home that names them. */
void fr_cgroup_tidy(const char *own);

/* This process, which is in path, ends next, and path is removed then: by a process born above it,
 * since going there itself would hold up whoever forks on this machine for an RCU grace period,
 * milliseconds. Others that are in path go to the cgroup above. */
void fr_cgroup_leave(const char *path);

/* Adds to out, as pid_t, those in path and below it. Zombies are not among them, nor who is in
 * another pid namespace. None when it is gone, "" or NULL. */
void fr_cgroup_pids(const char *path, struct fr_buf *out);

/* SIGKILL to all at once, also to those being born (Linux 5.14; before that nothing happens). */
void fr_cgroup_kill(const char *path);

/* Removes it and those below it, as far as nobody is in them. NULL and "" are fine. */
void fr_cgroup_remove(const char *path);

#endif
