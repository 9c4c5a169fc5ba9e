#include "trainer/comm/join.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/comm/frame.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    VERSION = 2,
    HELLO_MS = 10000,
    TRY_MS = 2000,
    REPORT_MS = 10000,
    FIRST_MS = 50,
    TABLE_MS = 1000
};

void tr_tune_socket(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

enum fr_rc tr_listen(int port, int backlog, int *fd, struct fr_err *err)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    int on = 1, off = 0;

    *fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool v6 = *fd >= 0;
    if (!v6)
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return fr_fail_errno(err, errno, "cannot make a socket");
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (v6)
        setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    int rc = v6 ? bind(*fd, (struct sockaddr *)&a, sizeof(a))
                : bind(*fd, (struct sockaddr *)&a4, sizeof(a4));
    if (rc == 0)
        rc = listen(*fd, backlog);
    if (rc == 0)
        return FR_OK;
    int e = errno;
    close(*fd);
    *fd = -1;
    if (e == EADDRINUSE)
        return fr_fail(err, FR_BUSY, "port %d is in use; `ss -ltnp sport = :%d` names who holds it",
                       port, port);
    return fr_fail_errno(err, e, "cannot listen on port %d", port);
}

/* One attempt at one address, at most TRY_MS; -1 with errno. */
static int connect_once(const struct addrinfo *a, int64_t deadline_ms)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), e = 0;
    socklen_t n = sizeof(e);
    int64_t left = deadline_ms - fr_sys.mono_ms();

    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        e = errno;
        if (e == EINPROGRESS) {
            int k, wait = left > TRY_MS ? TRY_MS : left > 0 ? (int)left : 0;
            while ((k = fr_sys.poll(&p, 1, wait)) < 0 && errno == EINTR) {
            }
            if (k <= 0)
                e = ETIMEDOUT;
            else
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n);
        }
    }
    if (e != 0) {
        close(fd);
        errno = e;
        return -1;
    }
    fr_sys.set_nonblock(fd, false);
    tr_tune_socket(fd);
    return fd;
}

struct unreached { /* why there is no connection */
    int resolved;  /* of getaddrinfo */
    int no;        /* errno of the last address */
};

/* One try at each address of host. */
static bool reach(const char *host, int port, int64_t deadline_ms, int *fd, struct unreached *why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *list = NULL;
    char service[16];

    *fd = -1;
    (void)snprintf(service, sizeof(service), "%d", port);
    *why = (struct unreached){.resolved = getaddrinfo(host, service, &hints, &list)};
    if (why->resolved != 0)
        return false;
    for (struct addrinfo *a = list; a != NULL && *fd < 0; a = a->ai_next) {
        *fd = connect_once(a, deadline_ms);
        why->no = *fd < 0 ? errno : 0;
    }
    freeaddrinfo(list);
    return *fd >= 0;
}

static enum fr_rc not_reached(const char *host, int port, const struct unreached *why,
                              struct fr_err *err)
{
    return why->resolved != 0 ? fr_fail(err, FR_TIMEOUT, "cannot resolve '%s': %s", host,
                                        gai_strerror(why->resolved))
                              : fr_fail(err, FR_TIMEOUT, "cannot connect to %s port %d: %s", host,
                                        port, strerror(why->no));
}

static int longer(int pause_ms)
{
    return pause_ms < 1000 ? 2 * pause_ms : 1000;
}

enum fr_rc tr_connect(const char *host, int port, int64_t deadline_ms, int *fd, struct fr_err *err)
{
    struct unreached why;

    for (int pause = FIRST_MS; !reach(host, port, deadline_ms, fd, &why); pause = longer(pause)) {
        if (fr_sys.mono_ms() >= deadline_ms)
            return not_reached(host, port, &why, err);
        fr_sys.poll(NULL, 0, pause);
    }
    return FR_OK;
}

enum waited { NOTHING, READABLE, STOP };

/* Until fd (-1: none) is readable or a request to stop comes, for wait_ms at most. */
static enum waited await(const struct tr_control_opts *o, int fd, int wait_ms)
{
    struct pollfd p[] = {{.fd = fd, .events = POLLIN},
                         {.fd = o->stop_fd != NULL ? *o->stop_fd : -1, .events = POLLIN}};

    if (fr_sys.poll(p, 2, wait_ms) <= 0)
        return NOTHING;
    return p[1].revents != 0 ? STOP : p[0].revents != 0 ? READABLE : NOTHING;
}

/* Converts an address to IPv6 (IPv4 mapped). */
static void as_v6(const struct sockaddr_storage *s, struct sockaddr_in6 *out)
{
    *out = (struct sockaddr_in6){.sin6_family = AF_INET6};
    if (s->ss_family == AF_INET6)
        memcpy(out, s, sizeof(*out));
    else if (s->ss_family == AF_INET) {
        out->sin6_addr.s6_addr[10] = out->sin6_addr.s6_addr[11] = 0xff;
        memcpy(&out->sin6_addr.s6_addr[12], &((const struct sockaddr_in *)s)->sin_addr, 4);
    }
}

bool tr_route_source(const char *host, int port, struct sockaddr_in6 *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_family = AF_UNSPEC}, *list = NULL;
    struct sockaddr_storage s = {0};
    socklen_t n = sizeof(s);
    char service[16];
    bool ok = false;

    snprintf(service, sizeof(service), "%d", port);
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return false;
    int fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&s, &n) == 0) {
        as_v6(&s, out);
        ok = true;
    }
    if (fd >= 0)
        close(fd);
    freeaddrinfo(list);
    return ok;
}

/* The peer's address of fd as IPv6 (IPv4 mapped), with another port. */
static void peer_address(int fd, int port, struct sockaddr_in6 *out)
{
    struct sockaddr_storage s = {0};
    socklen_t n = sizeof(s);

    getpeername(fd, (struct sockaddr *)&s, &n);
    as_v6(&s, out);
    out->sin6_port = htons((uint16_t)port);
}

static void hello_of(const struct tr_control_opts *o, struct tr_hello *h)
{
    *h = (struct tr_hello){.magic = TR_HELLO_MAGIC,
                           .version = VERSION,
                           .job = o->job,
                           .rank = o->rank,
                           .size = o->size,
                           .node = o->node,
                           .local_rank = o->local_rank,
                           .data_port = o->data_port};
    gethostname(h->host, sizeof(h->host) - 1);
}

/* The reason to refuse this hello; NULL: accept. */
static const char *refusal(const struct tr_control_opts *o, const struct tr_hello *h,
                           const int *fds, char text[160])
{
    if (h->magic != TR_HELLO_MAGIC || h->version != VERSION)
        return "it uses another version of the protocol; run the same flowtrain on all nodes";
    if (h->size != o->size)
        snprintf(text, 160, "it has WORLD_SIZE %d, rank 0 has %d", h->size, o->size);
    else if (h->job != o->job)
        snprintf(text, 160, "it belongs to another run or an older try of this one");
    else if (h->rank <= 0 || h->rank >= o->size)
        snprintf(text, 160, "RANK %d is not in 1..%d", h->rank, o->size - 1);
    else if (fds[h->rank] >= 0)
        snprintf(text, 160, "RANK %d has joined already", h->rank);
    else
        return NULL;
    return text;
}

/* Rank 0 reads the hello of a new connection. A connection without one, or a refused rank, is
 * logged and closed. */
static void greet(const struct tr_control_opts *o, int fd, int *fds, struct tr_peer *peers)
{
    enum tr_frame_type type;
    struct fr_buf in = {0}, out = {0};
    struct fr_str p;
    struct tr_hello h;
    char text[160];
    int64_t deadline = fr_sys.mono_ms() + HELLO_MS;
    const char *why = "it sent no hello";
    bool said =
        tr_frame_recv(fd, &in, &type, &p, deadline) && type == TR_FRAME_HELLO && p.n == sizeof(h);

    if (said) {
        memcpy(&h, p.p, sizeof(h));
        h.host[sizeof(h.host) - 1] = '\0';
        why = refusal(o, &h, fds, text);
    }
    if (why == NULL) {
        tr_tune_socket(fd);
        fds[h.rank] = fd;
        peers[h.rank] = (struct tr_peer){.node = h.node, .local_rank = h.local_rank};
        memcpy(peers[h.rank].host, h.host, sizeof(h.host));
        peer_address(fd, h.data_port, &peers[h.rank].data);
    } else {
        fr_log(FR_LOG_WARN, "rendezvous", "refused a connection: %s", why);
        tr_frame_add(&out, TR_FRAME_REFUSE, why, strlen(why));
        tr_frame_send(fd, &out, deadline);
        close(fd);
    }
    fr_buf_finish(&in);
    fr_buf_finish(&out);
}

/* The ranks without a connection, as "1, 4-6". */
static void missing_ranks(const struct tr_control_opts *o, const int *fds, struct fr_buf *out)
{
    for (int r = 1; r < o->size; r++) {
        int first = r;
        while (r < o->size && fds[r] < 0)
            r++;
        if (r == first)
            continue;
        fr_buf_fmt(out, out->n > 0 ? ", %d" : "%d", first);
        if (r - 1 > first)
            fr_buf_fmt(out, "-%d", r - 1);
    }
}

static int joined(const struct tr_control_opts *o, const int *fds)
{
    int n = 1;

    for (int r = 1; r < o->size; r++)
        n += fds[r] >= 0;
    return n;
}

static enum fr_rc gather_ranks(const struct tr_control_opts *o, int *fds, struct tr_peer *peers,
                               struct fr_err *err)
{
    int listener;
    int64_t began = fr_sys.mono_ms(), said = began;
    enum fr_rc rc = tr_listen(o->port, o->size, &listener, err);

    if (rc != FR_OK)
        return rc;
    while (rc == FR_OK && joined(o, fds) < o->size) {
        int64_t now = fr_sys.mono_ms();
        struct fr_buf who = {0};
        enum waited w = await(o, listener, 500);
        if (w == STOP) {
            missing_ranks(o, fds, &who);
            rc = fr_fail(err, FR_STOPPED, "stopped as asked, while ranks %s of %d were awaited",
                         who.p, o->size);
        } else if (w == READABLE) {
            int fd = fr_sys.accept(listener);
            if (fd >= 0)
                greet(o, fd, fds, peers);
        } else if (now - said > REPORT_MS || now - began > o->join_ms) {
            said = now;
            missing_ranks(o, fds, &who);
            if (now - began > o->join_ms)
                rc = fr_fail(err, FR_TIMEOUT, "ranks %s of %d never came to port %d within %lld s",
                             who.p, o->size, o->port, (long long)(o->join_ms / 1000));
            else
                fr_log(FR_LOG_INFO, "rendezvous", "waiting for ranks %s of %d", who.p, o->size);
        }
        fr_buf_finish(&who);
    }
    close(listener);
    return rc;
}

static enum fr_rc send_table(const struct tr_control_opts *o, const int *fds,
                             const struct tr_peer *peers, struct fr_err *err)
{
    struct fr_buf out = {0};
    enum fr_rc rc = FR_OK;

    tr_frame_add(&out, TR_FRAME_TABLE, peers, (size_t)o->size * sizeof(*peers));
    for (int r = 1; r < o->size && rc == FR_OK; r++)
        if (!tr_frame_send(fds[r], &out, fr_sys.mono_ms() + o->join_ms))
            rc = fr_fail(err, FR_PEER, "rank %d left during the rendezvous", r);
    fr_buf_finish(&out);
    return rc;
}

static enum fr_rc connect_rank0(const struct tr_control_opts *o, int64_t deadline_ms, int *fd,
                                struct fr_err *err)
{
    struct unreached why;
    int64_t said = fr_sys.mono_ms();

    for (int p = FIRST_MS; !reach(o->addr, o->port, deadline_ms, fd, &why); p = longer(p)) {
        int64_t now = fr_sys.mono_ms();
        if (now >= deadline_ms)
            return not_reached(o->addr, o->port, &why, err);
        if (now - said > REPORT_MS) {
            said = now;
            fr_log(FR_LOG_INFO, "rendezvous", "rank %d waits for rank 0 at %s port %d", o->rank,
                   o->addr, o->port);
        }
        if (await(o, -1, p) == STOP)
            return fr_fail(err, FR_STOPPED,
                           "stopped as asked, while rank 0 at %s port %d was awaited", o->addr,
                           o->port);
    }
    return FR_OK;
}

/* Until rank 0 answers. */
static enum fr_rc await_table(const struct tr_control_opts *o, int fd, int64_t deadline_ms,
                              struct fr_err *err)
{
    enum waited w = NOTHING;

    while (w == NOTHING && fr_sys.mono_ms() < deadline_ms)
        w = await(o, fd, TABLE_MS);
    return w == STOP ? fr_fail(err, FR_STOPPED, "stopped as asked, while other ranks were awaited")
                     : FR_OK;
}

static enum fr_rc find_rank0(const struct tr_control_opts *o, int *fds, struct tr_peer *peers,
                             struct fr_err *err)
{
    int64_t deadline = fr_sys.mono_ms() + o->join_ms;
    enum tr_frame_type type;
    struct fr_buf in = {0}, out = {0};
    struct fr_str p;
    struct tr_hello h;
    enum fr_rc rc = connect_rank0(o, deadline, &fds[0], err);

    if (rc != FR_OK)
        return rc == FR_STOPPED ? rc : fr_while(err, "rank %d looks for rank 0", o->rank);
    hello_of(o, &h);
    tr_frame_add(&out, TR_FRAME_HELLO, &h, sizeof(h));
    if (tr_frame_send(fds[0], &out, deadline))
        rc = await_table(o, fds[0], deadline, err);
    if (rc != FR_OK)
        goto out;
    if (!tr_frame_recv(fds[0], &in, &type, &p, deadline))
        rc = fr_fail(err, FR_PEER, "rank 0 at %s port %d left during the rendezvous", o->addr,
                     o->port);
    else if (type == TR_FRAME_REFUSE)
        rc = fr_fail(err, FR_PROTO, "rank 0 at %s refused rank %d: %.*s", o->addr, o->rank,
                     (int)p.n, p.p);
    else if (type != TR_FRAME_TABLE || p.n != (size_t)o->size * sizeof(*peers))
        rc = fr_fail(err, FR_PROTO, "rank 0 at %s sent no table of ranks", o->addr);
    else {
        memcpy(peers, p.p, p.n);
        peer_address(fds[0], ntohs(peers[0].data.sin6_port), &peers[0].data);
    }
out:
    fr_buf_finish(&in);
    fr_buf_finish(&out);
    return rc;
}

enum fr_rc tr_join(const struct tr_control_opts *o, int *fds, struct tr_peer *peers,
                   struct fr_err *err)
{
    enum fr_rc rc;

    for (int r = 0; r < o->size; r++)
        fds[r] = -1;
    if (o->rank == 0) {
        peers[0] = (struct tr_peer){.node = o->node, .local_rank = o->local_rank};
        gethostname(peers[0].host, sizeof(peers[0].host) - 1);
        peers[0].data.sin6_port = htons((uint16_t)o->data_port);
        rc = gather_ranks(o, fds, peers, err);
        if (rc == FR_OK)
            rc = send_table(o, fds, peers, err);
    } else
        rc = find_rank0(o, fds, peers, err);
    for (int r = 0; r < o->size && rc != FR_OK; r++)
        if (fds[r] >= 0)
            close(fds[r]);
    return rc;
}
