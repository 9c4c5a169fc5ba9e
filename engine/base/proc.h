/* Processes of the real machine, beneath fr_sys (engine/base/sys.h says what each call means). */
#ifndef FR_BASE_PROC_H
#define FR_BASE_PROC_H

#include "engine/base/sys.h"

uint32_t fr_proc_umask(void);
int fr_proc_spawn(const struct fr_spawn *s, struct fr_proc *out);
int fr_proc_detach(const struct fr_detach *d);
int fr_proc_fd(pid_t child);
int fr_proc_wait(pid_t pid, struct fr_wait *w, int flags);
int fr_proc_kill(struct fr_proc proc, int sig);
int fr_proc_self(struct fr_proc *out);

/* Raises the soft limit of open descriptors (RLIMIT_NOFILE) to the hard limit, for this process
 * alone: processes that it starts get the old limit back. Returns the limit; 0: not known. */
size_t fr_proc_raise_descriptors(void);
/* The soft limit now; 0: not known. */
size_t fr_proc_max_descriptors(void);
int fr_proc_list(struct fr_procinfo **list, size_t *n);

/* Closes fd and returns -1, with errno as it was. */
int fr_proc_close(int fd);

/* Opens path's folder into *dir_fd and writes "/proc/self/fd/N" + slash to out. */
int fr_proc_long_path(const char *path, const char *slash, char *out, size_t cap, int *dir_fd);

#endif
