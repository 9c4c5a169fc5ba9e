#include "engine/base/sys.h"

#include "engine/base/proc.h"
#include "engine/base/tcp.h"
#include "engine/base/unix.h"
#include "engine/base/within.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_ms(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t real_mono_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

static int64_t real_boot_ms(void)
{
    return clock_ms(CLOCK_BOOTTIME);
}

static int64_t real_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

static int real_random(void *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = getrandom((char *)p + done, n - done, 0);
        if (k < 0 && errno != EINTR)
            return -1;
        done += k > 0 ? (size_t)k : 0;
    }
    return 0;
}

static int real_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags | O_CLOEXEC, mode);
}

static int set_lock(int fd, int type)
{
    struct flock l = {.l_type = (short)type, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &l) == 0 ? 0 : -1;
}

static int real_lock(int fd)
{
    return set_lock(fd, F_WRLCK);
}

static int real_lock_shared(int fd)
{
    return set_lock(fd, F_RDLCK);
}

static int real_touch(const char *path)
{
    return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}

static int real_locked(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(fd, F_OFD_GETLK, &l) != 0)
        return -1;
    return l.l_type != F_UNLCK;
}

void fr_sys_names_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fr_sys.free(names[i]);
    fr_sys.free(names);
}

char *fr_sys_dup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = fr_sys.alloc(n);

    return p != NULL ? memcpy(p, s, n) : NULL;
}

static int real_list(const char *dir, char ***names, size_t *n)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    size_t cap = 0;

    *names = NULL;
    *n = 0;
    if (d == NULL)
        return -1;
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (*n == cap) {
            cap = cap == 0 ? 16 : 2 * cap;
            char **more = fr_sys.realloc(*names, cap * sizeof(char *));
            if (more == NULL)
                break;
            *names = more;
        }
        if (((*names)[*n] = fr_sys_dup(e->d_name)) == NULL)
            break;
        ++*n;
    }
    closedir(d);
    if (e == NULL)
        return 0;
    fr_sys_names_free(*names, *n);
    *names = NULL;
    *n = 0;
    errno = ENOMEM;
    return -1;
}

static int real_pipe(int fds[2])
{
    return pipe2(fds, O_CLOEXEC);
}

static int real_socketpair(int fds[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
}

static int real_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -1;
    return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

static int real_accept(int fd)
{
    return accept4(fd, NULL, NULL, SOCK_CLOEXEC);
}

/* Connections of an earlier job that only wait for their time do not count as holders; whoever
 * listens does. A socket that has listened shares its port with nobody, even when it no longer
 * does. */
static int take_port(int fd, const struct sockaddr *a, socklen_t n)
{
    int yes = 1, no = 0;

    if (bind(fd, a, n) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, a, n) != 0 || listen(fd, 1) != 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &no, sizeof(no));
    shutdown(fd, SHUT_RDWR);
    return 0;
}

/* Both families by one IPv6 socket where there is IPv6. */
static int real_hold_port(int port, int *held)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), no = 0;
    struct sockaddr *a = fd >= 0 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    socklen_t n = fd >= 0 ? sizeof(six) : sizeof(four);

    if (fd >= 0)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    else if ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return -1;
    if (take_port(fd, a, n) != 0 || getsockname(fd, a, &n) != 0)
        return fr_proc_close(fd);
    *held = ntohs(a->sa_family == AF_INET6 ? six.sin6_port : four.sin_port);
    return fd;
}

/* A name in the abstract namespace, which is one for each network namespace, as ports are: unix(7)
 */
static int real_claim_port(int port)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "flowrun/port/%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
        return fd;
    return fr_proc_close(fd);
}

/* A folder that cannot be watched gives no news; inotify(7) misses changes on network file systems
 * too. */
static int real_dir_news(const char *const *dirs, size_t n)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    for (size_t i = 0; fd >= 0 && i < n; i++)
        (void)inotify_add_watch(fd, dirs[i],
                                IN_CLOSE_WRITE | IN_MOVE | IN_CREATE | IN_DELETE | IN_ATTRIB);
    return fd;
}

/* Reading it fails with ECANCELED once the clock was set: timerfd_create(2). */
static int real_clock_news(void)
{
    struct itimerspec never = {.it_value = {.tv_sec = 9000000000 /* the year 2255 */}};
    int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);

    if (fd >= 0 &&
        timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int64_t real_disk_free(const char *path)
{
    struct statvfs v;

    return statvfs(path, &v) == 0 ? (int64_t)v.f_bavail * (int64_t)v.f_frsize : -1;
}

static int64_t real_fs_type(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 ? (int64_t)((uint64_t)fs.f_type & 0xffffffffU) : -1;
}

static int real_subreaper(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static int real_boot_id(char out[40])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, 36) : -1;

    if (fd >= 0)
        close(fd);
    out[n == 36 ? 36 : 0] = '\0';
    return n == 36 ? 0 : -1;
}

static int real_reserve(int fd, off_t size)
{
    int rc;

    do
        rc = fallocate(fd, 0, 0, size);
    while (rc != 0 && errno == EINTR);
    return rc;
}

#define REAL_TABLE                                                                                 \
    {                                                                                              \
        .mono_ms = real_mono_ms, .boot_ms = real_boot_ms, .wall_ms = real_wall_ms,                 \
        .random = real_random, .alloc = malloc, .realloc = realloc, .free = free,                  \
        .open = real_open, .close = close, .read = read, .write = write, .pread = pread,           \
        .pwrite = pwrite, .fdatasync = fdatasync, .ftruncate = ftruncate, .reserve = real_reserve, \
        .fstat = fstat, .lstat = lstat, .mkdir = mkdir, .rename = rename, .unlink = unlink,        \
        .rmdir = rmdir, .list = real_list, .disk_free = real_disk_free, .fs_type = real_fs_type,   \
        .lock = real_lock, .lock_shared = real_lock_shared, .locked = real_locked,                 \
        .touch = real_touch, .pipe = real_pipe, .socketpair = real_socketpair,                     \
        .listen_unix = fr_unix_listen, .connect_unix = fr_unix_connect, .accept = real_accept,     \
        .tell_unix = fr_unix_tell, .peer_uid = fr_unix_peer_uid, .listen_tcp = fr_tcp_listen,      \
        .endpoint = fr_tcp_endpoint, .hold_port = real_hold_port, .claim_port = real_claim_port,   \
        .set_nonblock = real_set_nonblock, .poll = poll, .dir_news = real_dir_news,                \
        .clock_news = real_clock_news, .spawn = fr_proc_spawn, .detach = fr_proc_detach,           \
        .proc_fd = fr_proc_fd, .wait = fr_proc_wait, .kill = fr_proc_kill,                         \
        .subreaper = real_subreaper, .self = fr_proc_self, .uid = geteuid, .procs = fr_proc_list,  \
        .within = fr_within, .boot_id = real_boot_id, .umask = fr_proc_umask,                      \
    }

const struct fr_sys fr_sys_real = REAL_TABLE;
struct fr_sys fr_sys = REAL_TABLE;
