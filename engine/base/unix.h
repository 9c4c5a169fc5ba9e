/* Unix sockets for the real fr_sys: its listen_unix, connect_unix, tell_unix and peer_uid, whose
 * comments (sys.h) hold. */
#ifndef FR_BASE_UNIX_H
#define FR_BASE_UNIX_H

#include <stddef.h>
#include <sys/types.h>

int fr_unix_listen(const char *path);
int fr_unix_connect(const char *path);
int fr_unix_tell(const char *path, const void *p, size_t n);
int fr_unix_peer_uid(int fd, uid_t *out);

#endif
