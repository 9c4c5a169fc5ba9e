/* Unix sockets of the real fr_sys, whose comments hold for these. */
#ifndef FR_BASE_UNIX_H
#define FR_BASE_UNIX_H

#include <stddef.h>
#include <sys/types.h>

int fr_unix_listen(const char *path);
int fr_unix_connect(const char *path);
int fr_unix_tell(const char *path, const void *p, size_t n);
int fr_unix_peer_uid(int fd, uid_t *out);

#endif
