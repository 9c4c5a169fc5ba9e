/* The process of a supervisor. It takes one attempt after another from the serve that started it,
 * and ends when that serve has closed the socket. */
#include "engine/supervise/cgroup.h"
#include "engine/supervise/private.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { READ_PIECE = 16 << 10 };

struct flat { /* what fr_sys.detach copies */
    int sock;
    struct fr_id socket_id;
    char home[FR_HOME_MAX], cgroup[FR_NODE_PATH];
};

static enum fr_rc open_process(struct sup_process *p, const struct flat *f, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    enum fr_rc rc = fr_home_open(&p->home, f->home, err);

    if (rc != FR_OK)
        return rc;
    fr_home_path(f->home, FR_HOME_SOCKET, f->socket_id, path);
    p->socket_fd = fr_sys.listen_unix(path);
    if (p->socket_fd < 0)
        return fr_fail_errno(err, errno, "cannot listen on %s", path);
    fr_sys.set_nonblock(p->socket_fd, true);
    fr_sys.set_nonblock(p->sock, true);
    return FR_OK;
}

static void close_process(struct sup_process *p)
{
    char path[FR_NODE_PATH];

    if (!fr_id_zero(p->spare_dir)) {
        fr_home_path(p->home.path, FR_HOME_DIR, p->spare_dir, path);
        fr_sys.rmdir(path);
    }
    if (p->socket_fd >= 0)
        fr_home_unlink(p->home.path, FR_HOME_SOCKET, p->socket_id);
    fr_fd_close(&p->socket_fd);
    fr_fd_close(&p->sock);
    fr_wire_finish(&p->in);
    fr_home_close(&p->home);
    fr_cgroup_leave(p->cgroup);
}

/* Finds the next whole handover in the input. Other messages came too late for an attempt that is
 * over. */
static enum fr_rc find_order(struct sup_process *p, struct fr_arena *arena,
                             struct fr_supervise *out, bool *found)
{
    enum fr_rc rc = FR_OK;
    struct fr_err err;
    bool got = true;

    *found = false;
    while (rc == FR_OK && got && !*found) {
        struct fr_arena one = {0};
        struct fr_msg m;
        rc = fr_wire_next(&p->in, &one, &m, &got, &err);
        if (rc == FR_OK && got && m.type == FR_MSG_HANDOVER) {
            rc = fr_supervise_get(m.handover.bytes, arena, out, &err);
            *found = rc == FR_OK;
        }
        fr_arena_finish(&one);
    }
    return rc;
}

/* Waits for an attempt; false: there will be none. */
static bool next_order(struct sup_process *p, struct fr_arena *arena, struct fr_supervise *out)
{
    char piece[READ_PIECE];
    bool found = false;

    while (find_order(p, arena, out, &found) == FR_OK && !found) {
        struct pollfd fds[] = {{.fd = p->sock, .events = POLLIN},
                               {.fd = p->socket_fd, .events = POLLIN}};
        if (fr_sys.poll(fds, 2, -1) <= 0)
            continue;
        int late = fds[1].revents != 0 ? fr_sys.accept(p->socket_fd) : -1;
        if (late >= 0)
            fr_sys.close(late); /* the attempt it asks for is over: the journal has its end */
        if (fds[0].revents == 0)
            continue;
        ssize_t k = fr_sys.read(p->sock, piece, sizeof(piece));
        if (k > 0)
            fr_wire_feed(&p->in, piece, (size_t)k);
        else if (k == 0 || (errno != EAGAIN && errno != EINTR))
            return false;
    }
    return found;
}

static int body(void *arg)
{
    const struct flat *f = arg;
    struct sup_process p = {.home = {.journal = -1, .lock = -1},
                            .socket_fd = -1,
                            .socket_id = f->socket_id,
                            .sock = f->sock};
    struct fr_err err;
    enum fr_rc rc = open_process(&p, f, &err);

    if (fr_cgroup_joined(f->cgroup))
        memcpy(p.cgroup, f->cgroup, sizeof(p.cgroup));
    else
        fr_cgroup_remove(f->cgroup);
    while (rc == FR_OK && p.sock >= 0) {
        struct fr_arena arena = {0};
        struct fr_supervise a;
        if (next_order(&p, &arena, &a))
            sup_attempt(&p, &a);
        else
            rc = FR_STOPPED;
        fr_arena_finish(&arena);
    }
    close_process(&p);
    return rc == FR_OK || rc == FR_STOPPED ? 0 : 1;
}

enum fr_rc fr_supervisor_start(const struct fr_supervisor_args *a, int *sock, struct fr_err *err)
{
    struct flat f = {.socket_id = a->socket_id};
    enum fr_rc rc = FR_OK;
    int fds[2];

    *sock = -1;
    if (strlen(a->home) >= sizeof(f.home) || strlen(a->cgroup) >= sizeof(f.cgroup))
        return fr_fail(err, FR_USAGE, "too long a path: %s", a->home);
    memcpy(f.home, a->home, strlen(a->home));
    memcpy(f.cgroup, a->cgroup, strlen(a->cgroup));
    if (fr_sys.socketpair(fds) != 0)
        return fr_fail_errno(err, errno, "cannot make a socket");
    f.sock = fds[1];
    struct fr_detach d = {body, &f, sizeof(f), &fds[1], 1, f.cgroup[0] != '\0' ? f.cgroup : NULL};
    if (fr_sys.detach(&d) != 0)
        rc = fr_fail_errno(err, errno, "cannot start a supervisor");
    fr_sys.close(fds[1]);
    if (rc == FR_OK)
        *sock = fds[0];
    else
        fr_sys.close(fds[0]);
    return rc;
}

int fr_supervise_run(const struct fr_supervise *s, int sock)
{
    struct sup_process p = {.home = {.journal = -1, .lock = -1}, .socket_fd = -1, .sock = sock};
    int code = sup_attempt(&p, s);

    close_process(&p);
    return code;
}
