/*
 * What a case of real processes leaves lying about: files that no row of the store knows, and
 * control groups. A case runs in a cgroup of its own, where cgroups can be had, so that those
 * below it are its own.
 */
#ifndef TESTS_FAULT_LEFT_H
#define TESTS_FAULT_LEFT_H

#include <stdbool.h>

/* Processes whose environment has W=dir. */
int left_running(const char *dir);

/* How many things lie below dir, a home on control or the homes on a node, that are neither part of
 * each home nor named by a line of known; each is printed. What stands in s/, tmp/, spool/ and
 * store/ is never known. */
int left_files(const char *dir, const char *known);

/* Makes the cgroup of a case below this process's own; out is "" where there is none. */
void left_cgroup_make(const char *name, char out[256]);

/* Removes it. How many cgroups of supervisors were in it that a later serve will not remove, and in
 * *later those that it will: a kill may leave an empty one for a minute
 * (engine/supervise/cgroup.h), which is not waited for; its date is set back. */
int left_cgroup_remove(const char *path, int *later);

#endif
