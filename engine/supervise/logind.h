/* Whether systemd-logind ends what a login leaves behind: logind.conf(5). */
#ifndef FR_SUPERVISE_LOGIND_H
#define FR_SUPERVISE_LOGIND_H

#include <stdbool.h>

/*
 * True if tasks of user, started in a login whose cgroup is cgroup (a line of /proc/self/cgroup),
 * are ended with it: KillUserProcesses=yes, and neither KillExcludeUsers nor KillOnlyUsers spares
 * the user. Lingering spares what runs under the user's own manager alone, not what a login
 * started. root: where etc/systemd and the others are, "" for the machine's. What cannot be read
 * counts as not set.
 */
bool fr_logind_kills(const char *root, const char *user, const char *cgroup);

#endif
