#include "engine/base/unix.h"

#include "engine/base/proc.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A path longer than sun_path is reached through /proc/self/fd of its folder. */
static int unix_address(const char *path, struct sockaddr_un *a, int *dir_fd)
{
    const char *slash = strrchr(path, '/');

    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    *dir_fd = -1;
    if (strlen(path) < sizeof(a->sun_path)) {
        memcpy(a->sun_path, path, strlen(path) + 1);
        return 0;
    }
    if (slash == NULL || strlen(slash) > 64) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return fr_proc_long_path(path, slash, a->sun_path, sizeof(a->sun_path), dir_fd);
}

static int unix_socket(const char *path, int (*join)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_un a;
    int dir_fd, fd = -1;

    if (unix_address(path, &a, &dir_fd) == 0) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        /* bound, its file has the socket's mode, less the umask */
        if (fd >= 0 && ((join == bind && fchmod(fd, 0600) != 0) ||
                        join(fd, (struct sockaddr *)&a, sizeof(a)) != 0))
            fd = fr_proc_close(fd);
    }
    if (dir_fd >= 0)
        close(dir_fd);
    return fd;
}

enum { BACKLOG = 256 }; /* of connections that wait to be accepted */

/* Under its name only once it listens: one by that name that refuses is a dead one's. */
static int listen_once(const char *tmp, const char *path)
{
    int fd, e;

    unlink(tmp);
    if ((fd = unix_socket(tmp, bind)) < 0)
        return -1;
    if (listen(fd, BACKLOG) == 0 && fr_sys_real.set_nonblock(fd, false) == 0 &&
        rename(tmp, path) == 0)
        return fd;
    e = errno;
    unlink(tmp);
    close(fd);
    errno = e == ENOENT ? EAGAIN : e; /* whoever tidies up took the new name */
    return -1;
}

int fr_unix_listen(const char *path)
{
    enum { TRIES = 16 };
    char tmp[PATH_MAX];
    int fd = -1, n = snprintf(tmp, sizeof(tmp), "%s.new", path);

    if (n < 0 || (size_t)n >= sizeof(tmp)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (int i = 0; i == 0 || (fd < 0 && errno == EAGAIN && i < TRIES); i++)
        fd = listen_once(tmp, path);
    return fd;
}

/* To a listener who is stopped it must not wait: EAGAIN when too many already do. */
int fr_unix_connect(const char *path)
{
    int fd = unix_socket(path, connect);

    if (fd >= 0 && fr_sys_real.set_nonblock(fd, false) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int fr_unix_tell(const char *path, const void *p, size_t n)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd;
    ssize_t sent;

    if (len == 0 || len >= sizeof(a.sun_path)) {
        errno = len == 0 ? ENOENT : ENAMETOOLONG;
        return -1;
    }
    memcpy(a.sun_path, path, len);
    if (path[0] == '@')
        a.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    sent = sendto(fd, p, n, MSG_NOSIGNAL, (struct sockaddr *)&a,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    (void)fr_proc_close(fd);
    return sent < 0 ? -1 : 0;
}

int fr_unix_peer_uid(int fd, uid_t *out)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0)
        return -1;
    *out = peer.uid;
    return 0;
}
