/* Unix sockets of the real fr_sys: listen_unix, connect_unix, tell_unix and peer_uid. sys.h has
 * their contracts. */
#ifndef FR_BASE_UNIX_H
#define FR_BASE_UNIX_H

#include <stddef.h>
#include <sys/types.h>

/* A descriptor, which the caller closes; -1: an error, in errno. */
int fr_unix_listen(const char *path);
int fr_unix_connect(const char *path);
/* 0; -1: an error, in errno. */
int fr_unix_tell(const char *path, const void *p, size_t n);
int fr_unix_peer_uid(int fd, uid_t *out);

#endif
