/* A link to a keeper: bytes between this process and the keeper's socket. */
#include "engine/node/closing.h"
#include "engine/node/keep_place.h"

#include "engine/base/sys.h"
#include "engine/wire/wire.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { RELAY_PIECE = 64 << 10, BUSY_TICK_MS = 20 };

struct way { /* of the bytes in one direction */
    int from, to;
    size_t at, n; /* bytes[at..n) wait to be written */
    bool swaps;   /* bytes for srun (wire.h) */
    bool ended;   /* from has ended */
    char bytes[RELAY_PIECE];
};

static bool again(int e)
{
    return e == EAGAIN || e == EINTR;
}

/* False: nobody takes the bytes any more. */
static bool move(struct way *w)
{
    ssize_t k;

    if (w->at == w->n && !w->ended) {
        k = fr_sys.read(w->from, w->bytes, sizeof(w->bytes));
        w->ended = k == 0 || (k < 0 && !again(errno)); /* the other side of a terminal has gone */
        w->at = 0;
        w->n = k > 0 ? (size_t)k : 0;
        if (w->swaps)
            fr_wire_swap(w->bytes, w->n);
    }
    if (w->at == w->n)
        return true;
    k = fr_sys.write(w->to, w->bytes + w->at, w->n - w->at);
    w->at += k > 0 ? (size_t)k : 0;
    return k >= 0 || again(errno);
}

static bool is_done(const struct way *w)
{
    return w->ended && w->at == w->n;
}

static struct pollfd wanted(const struct way *w)
{
    if (w->at < w->n)
        return (struct pollfd){.fd = w->to, .events = POLLOUT};
    return (struct pollfd){.fd = w->ended ? -1 : w->from, .events = POLLIN};
}

/* When the input ends, the keeper's serve ends, and then its socket. What serve has sent by then is
 * still passed on. */
static void join(struct way *up, struct way *down)
{
    bool shut = false;

    while (!is_done(down)) {
        struct pollfd p[] = {wanted(up), wanted(down), {.fd = down->to}};
        if (fr_sys.poll(p, 3, -1) < 0 && errno != EINTR)
            return;
        if (p[2].revents != 0 || (p[1].revents != 0 && !move(down)))
            return;
        if (p[0].revents != 0 && !move(up)) {
            up->ended = true;
            up->at = up->n;
        }
        if (is_done(up) && !shut) {
            shut = true;
            shutdown(up->to, SHUT_WR);
        }
    }
}

/* No keeper listens at the place: says whether it left processes. */
static enum fr_rc left_behind(const struct keep_place *p, struct fr_err *err)
{
    struct stat st;
    struct fr_err why;
    size_t live = 0;

    if (fr_sys.lstat(p->home, &st) == 0 && fr_closing_count(p->home, &live, &why) != FR_OK)
        return fr_fail(
            err, FR_BUSY,
            "no keeper listens at place %d (%s); whether it left processes is not known: "
            "%s",
            p->place, p->host, why.msg);
    if (live > 0)
        return fr_fail(err, FR_BUSY,
                       "no keeper listens at place %d (%s); %zu of its attempts have processes",
                       p->place, p->host, live);
    return fr_fail(err, FR_NOTFOUND,
                   "no keeper listens at place %d (%s), and none of its attempts has a process",
                   p->place, p->host);
}

static enum fr_rc connect_keeper(const struct keep_place *p, int *fd, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    uid_t uid;

    keep_socket(p->home, path);
    while ((*fd = fr_sys.connect_unix(path)) < 0 && again(errno))
        fr_sys.poll(NULL, 0, BUSY_TICK_MS);
    if (*fd < 0 && (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR))
        return left_behind(p, err);
    if (*fd < 0)
        return fr_fail_errno(err, errno, "cannot connect to %s", path);
    if (fr_sys.peer_uid(*fd, &uid) == 0 && uid == fr_sys.uid())
        return FR_OK;
    fr_fd_close(fd);
    return fr_fail(err, FR_DENIED, "%s is a socket of another user", path);
}

static enum fr_rc find_keeper(const char *folder, int place, int *fd, struct fr_err *err)
{
    struct keep_place p;
    char host[sizeof(p.host)];
    enum fr_rc rc = keep_folder_check(folder, err);

    if (rc == FR_OK)
        rc = keep_read_place(folder, place, &p, err);
    if (rc != FR_OK)
        return rc;
    if (!keep_host(getenv("SLURMD_NODENAME"), host) || strcmp(host, p.host) != 0)
        return fr_fail(err, FR_USAGE, "place %d is on %s, and this is %s", place, p.host, host);
    return connect_keeper(&p, fd, err);
}

enum fr_rc fr_relay(const char *folder, int place, int in, int out, struct fr_err *err)
{
    static const int ignored[] = {SIGUSR1, SIGUSR2, SIGCONT, SIGTERM, SIGPIPE};
    struct way *ways = fr_sys.alloc(2 * sizeof(*ways));
    int fd = -1;
    enum fr_rc rc;

    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    rc = ways != NULL ? find_keeper(folder, place, &fd, err)
                      : fr_fail(err, FR_NOMEM, "no memory for a link");
    if (rc == FR_OK) {
        fr_sys.set_nonblock(in, true);
        fr_sys.set_nonblock(out, true);
        fr_sys.set_nonblock(fd, true);
        ways[0] = (struct way){.from = in, .to = fd};
        ways[1] = (struct way){.from = fd, .to = out, .swaps = true};
        join(&ways[0], &ways[1]);
    }
    fr_fd_close(&fd);
    fr_sys.free(ways);
    return rc;
}
