#include "trainer/comm/link.h"

#include "engine/base/sys.h"
#include "trainer/comm/join.h"

#include <errno.h>
#include <sys/socket.h>

enum { SEND_MAX = 1024 * 1024 };

static ssize_t tcp_send(struct tr_link *l, const void *p, size_t n)
{
    ssize_t k = send(l->fd, p, n < SEND_MAX ? n : SEND_MAX, MSG_DONTWAIT | MSG_NOSIGNAL);

    return k < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : k;
}

static ssize_t tcp_recv(struct tr_link *l, void *p, size_t n)
{
    ssize_t k = recv(l->fd, p, n, MSG_DONTWAIT);

    if (k == 0) {
        errno = ECONNRESET;
        return -1;
    }
    return k < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : k;
}

static bool tcp_arm(struct tr_link *l, bool want_send, bool want_recv, struct pollfd *pfd)
{
    *pfd = (struct pollfd){.fd = l->fd,
                           .events = (short)((want_send ? POLLOUT : 0) | (want_recv ? POLLIN : 0))};
    return true;
}

static void tcp_disarm(struct tr_link *l)
{
    (void)l;
}

static void tcp_destroy(struct tr_link *l)
{
    fr_sys.close(l->fd);
}

enum fr_rc tr_link_tcp(int fd, struct tr_link *out, struct fr_err *err)
{
    static const struct tr_link_ops ops = {.name = "tcp",
                                           .send = tcp_send,
                                           .recv = tcp_recv,
                                           .arm = tcp_arm,
                                           .disarm = tcp_disarm,
                                           .destroy = tcp_destroy};

    (void)err;
    tr_tune_socket(fd);
    *out = (struct tr_link){.ops = &ops, .fd = fd};
    return FR_OK;
}

void tr_link_finish(struct tr_link *l)
{
    if (l != NULL && l->ops != NULL)
        l->ops->destroy(l);
}
