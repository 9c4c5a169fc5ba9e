#include "engine/base/tcp.h"

#include "engine/base/proc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 256 }; /* of connections that wait to be accepted */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Bytes of the address; 0: it is none. */
static socklen_t address_of(const struct fr_endpoint *at, union address *out)
{
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, at->host, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons((uint16_t)at->port);
        return sizeof(out->v4);
    }
    if (inet_pton(AF_INET6, at->host, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons((uint16_t)at->port);
        return sizeof(out->v6);
    }
    return 0;
}

static int bind_at(int fd, const union address *a, socklen_t n)
{
    int on = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 || /* as those it accepts */
        (a->any.sa_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0))
        return -1;
    return bind(fd, &a->any, n) == 0 && listen(fd, BACKLOG) == 0 ? 0 : -1;
}

int fr_tcp_listen(const struct fr_endpoint *at)
{
    union address a;
    socklen_t n = address_of(at, &a);
    int fd;

    if (n == 0 || at->port < 0 || at->port > UINT16_MAX) {
        errno = EINVAL;
        return -1;
    }
    fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 && bind_at(fd, &a, n) != 0 ? fr_proc_close(fd) : fd;
}

int fr_tcp_endpoint(int fd, bool peer, struct fr_endpoint *out)
{
    union address a;
    socklen_t n = sizeof(a);

    if ((peer ? getpeername : getsockname)(fd, &a.any, &n) != 0)
        return -1;
    if (a.any.sa_family == AF_INET) {
        out->port = ntohs(a.v4.sin_port);
        return inet_ntop(AF_INET, &a.v4.sin_addr, out->host, sizeof(out->host)) != NULL ? 0 : -1;
    }
    if (a.any.sa_family != AF_INET6) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    out->port = ntohs(a.v6.sin6_port);
    return inet_ntop(AF_INET6, &a.v6.sin6_addr, out->host, sizeof(out->host)) != NULL ? 0 : -1;
}

bool fr_tcp_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}
