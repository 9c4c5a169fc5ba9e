/* Whether systemd-logind kills the processes of a login at its end: logind.conf(5). */
#ifndef FR_SUPERVISE_LOGIND_H
#define FR_SUPERVISE_LOGIND_H

#include <stdbool.h>

/*
 * True if tasks of user, started in a login whose cgroup is cgroup (a line of /proc/self/cgroup),
 * are ended with it: KillUserProcesses=yes, and neither KillExcludeUsers nor KillOnlyUsers spares
 * the user. Lingering spares only processes of the user's own manager, not those of a login.
 * root: folder that has etc/systemd and the others; "": the machine's. A file that cannot be read
 * sets nothing.
 */
bool fr_logind_kills(const char *root, const char *user, const char *cgroup);

#endif
