#include "tasks/netline.h"

#include "engine/base/sys.h"
#include "tasks/command.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1 << 20, TRY_MS = 200, CONNECT_MS = 3000, BACKLOG = 256 };

static bool numeric(const char *text, int64_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return true;
    }
    if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
        return false;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    return true;
}

enum fr_rc fr_net_address(const char *name, int64_t port, struct sockaddr_storage *out,
                          struct fr_err *err)
{
    const char *argv[] = {"getent", "ahosts", name, NULL};
    struct fr_command c = {.argv = argv, .timeout_ms = 20000};
    size_t n = strlen(name);
    char text[64];
    enum fr_rc rc;

    if (n > 2 && n < sizeof(text) && name[0] == '[' && name[n - 1] == ']') {
        snprintf(text, sizeof(text), "%.*s", (int)(n - 2), name + 1);
        name = text;
    }
    if (numeric(name, port, out))
        return FR_OK;
    rc = fr_command_must(&c, err);
    if (rc == FR_OK && c.out.p != NULL)
        snprintf(text, sizeof(text), "%.*s", (int)strcspn(c.out.p, " \n"), c.out.p);
    fr_command_finish(&c);
    if (rc != FR_OK || !numeric(text, port, out))
        return fr_fail(err, FR_NOTFOUND, "this node does not know the address of %s", name);
    return FR_OK;
}

socklen_t fr_net_size(const struct sockaddr_storage *a)
{
    return a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

void fr_net_show(const struct sockaddr_storage *a, char out[64])
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;

    out[0] = '\0';
    if (a->ss_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, out, 64);
    else if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], out, 64);
    else
        inet_ntop(AF_INET6, &v6->sin6_addr, out, 64);
}

/* One try; -1 and errno. */
static int connect_once(const struct sockaddr_storage *a, int64_t timeout_ms)
{
    int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), e = 0, one = 1;
    socklen_t n = sizeof(e);

    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)a, fr_net_size(a)) != 0 && errno != EINPROGRESS) {
        e = errno;
    } else {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (fr_sys.poll(&p, 1, (int)timeout_ms) <= 0)
            e = ETIMEDOUT;
        else
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n);
    }
    if (e == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return fd;
    }
    close(fd);
    errno = e;
    return -1;
}

enum fr_rc fr_net_connect(const struct sockaddr_storage *a, int64_t until_ms, int *fd,
                          struct fr_err *err)
{
    char where[64];
    int e;

    for (;;) {
        if ((*fd = connect_once(a, CONNECT_MS)) >= 0)
            return FR_OK;
        e = errno;
        if (fr_sys.mono_ms() >= until_ms)
            break;
        fr_sys.poll(NULL, 0, TRY_MS);
    }
    fr_net_show(a, where);
    return fr_fail(err, FR_UNREACHABLE, "cannot reach %s port %d: %s", where,
                   (int)ntohs(a->ss_family == AF_INET
                                  ? ((const struct sockaddr_in *)a)->sin_port
                                  : ((const struct sockaddr_in6 *)a)->sin6_port),
                   strerror(e));
}

enum fr_rc fr_net_listen(int64_t port, int *fd, struct fr_err *err)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, zero = 0, rc;

    *fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool six = *fd >= 0 && setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) == 0;
    if (*fd < 0)
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return fr_fail_errno(err, errno, "cannot make a socket");
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    rc = six ? bind(*fd, (struct sockaddr *)&v6, sizeof(v6))
             : bind(*fd, (struct sockaddr *)&v4, sizeof(v4));
    if (rc == 0 && listen(*fd, BACKLOG) == 0)
        return FR_OK;
    int e = errno;
    close(*fd);
    *fd = -1;
    return e == EADDRINUSE ? fr_fail(err, FR_BUSY, "port %lld is in use", (long long)port)
                           : fr_fail_errno(err, e, "cannot listen on port %lld", (long long)port);
}

void fr_net_interface(const struct sockaddr_storage *a, char out[32])
{
    struct sockaddr_storage me;
    socklen_t n = sizeof(me);
    struct ifaddrs *list = NULL;
    char mine[64], other[64];
    int fd = socket(a->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    out[0] = '\0';
    if (fd < 0)
        return;
    /* connect() of a datagram socket sends nothing, it only chooses the route: udp(7) */
    bool ok = connect(fd, (const struct sockaddr *)a, fr_net_size(a)) == 0 &&
              getsockname(fd, (struct sockaddr *)&me, &n) == 0 && getifaddrs(&list) == 0;
    close(fd);
    if (!ok)
        return;
    fr_net_show(&me, mine);
    for (struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr == NULL ||
            (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
            continue;
        struct sockaddr_storage s = {.ss_family = AF_UNSPEC};
        memcpy(&s, i->ifa_addr,
               i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                 : sizeof(struct sockaddr_in6));
        fr_net_show(&s, other);
        if (strcmp(mine, other) == 0)
            snprintf(out, 32, "%.31s", i->ifa_name);
    }
    freeifaddrs(list);
}

/* Waits until fd is ready for events. */
static enum fr_rc wait_for(int fd, short events, int64_t until_ms, struct fr_err *err)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left = until_ms - fr_sys.mono_ms();

    if (left <= 0 || fr_sys.poll(&p, 1, (int)left) == 0)
        return fr_fail(err, FR_TIMEOUT, "no answer in time");
    return FR_OK;
}

enum fr_rc fr_netline_send(struct fr_netline *c, const json_t *value, int64_t until_ms,
                           struct fr_err *err)
{
    char *text = json_dumps(value, JSON_COMPACT);
    size_t n = text != NULL ? strlen(text) : 0, at = 0;
    enum fr_rc rc = text != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a message");

    if (text != NULL)
        text[n++] = '\n'; /* in place of the NUL */
    while (rc == FR_OK && at < n) {
        ssize_t k = send(c->fd, text + at, n - at, MSG_NOSIGNAL);
        if (k > 0)
            at += (size_t)k;
        else if (errno == EAGAIN)
            rc = wait_for(c->fd, POLLOUT, until_ms, err);
        else if (errno != EINTR)
            rc = fr_fail(err, FR_PEER, "the connection broke: %s", strerror(errno));
    }
    free(text);
    return rc;
}

enum fr_rc fr_netline_get(struct fr_netline *c, int64_t until_ms, json_t **out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    char *nl = NULL;

    *out = NULL;
    while (rc == FR_OK && (nl = c->in.p != NULL ? memchr(c->in.p, '\n', c->in.n) : NULL) == NULL) {
        char piece[16384];
        ssize_t k = recv(c->fd, piece, sizeof(piece), 0);
        if (k > 0 && c->in.n + (size_t)k > LINE_MAX_BYTES)
            return fr_fail(err, FR_PROTO, "a line of more than %d bytes", LINE_MAX_BYTES);
        if (k > 0)
            fr_buf_add(&c->in, piece, (size_t)k);
        else if (k == 0)
            rc = fr_fail(err, FR_PEER, "the other side closed the connection");
        else if (errno == EAGAIN)
            rc = wait_for(c->fd, POLLIN, until_ms, err);
        else if (errno != EINTR)
            rc = fr_fail(err, FR_PEER, "the connection broke: %s", strerror(errno));
        if (c->in.bad)
            rc = fr_fail(err, FR_NOMEM, "no memory for a message");
    }
    if (rc != FR_OK)
        return rc;
    *out = json_loadb(c->in.p, (size_t)(nl - c->in.p), 0, NULL);
    fr_buf_cut(&c->in, (size_t)(nl - c->in.p) + 1);
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        return fr_fail(err, FR_PROTO, "the other side sent no JSON object");
    }
    return FR_OK;
}

void fr_netline_close(struct fr_netline *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    fr_buf_finish(&c->in);
}
