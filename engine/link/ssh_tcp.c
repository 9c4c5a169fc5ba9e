#include "engine/link/ssh.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEAD_MS = 20000 }; /* unacknowledged bytes: the kernel gives the connection up */

/* getaddrinfo() may wait for a name server, so it runs in a thread. */
struct fr_ssh_lookup {
    struct fr_work work;
    struct fr_ssh *owner;
    bool over;
    struct addrinfo *addrs; /* owns */
    int failed, family;
    char host[256], port[8];
};

static void free_lookup(void *arg)
{
    struct fr_ssh_lookup *l = arg;

    if (l->addrs != NULL)
        freeaddrinfo(l->addrs);
    fr_sys.free(l);
}

static void look_up(void *arg)
{
    struct fr_ssh_lookup *l = arg;
    struct addrinfo hints = {
        .ai_family = l->family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};

    l->failed = getaddrinfo(l->host, l->port, &hints, &l->addrs);
}

static void looked_up(void *arg)
{
    struct fr_ssh_lookup *l = arg;

    l->over = true;
    fr_loop_arm_in(l->owner->loop, l->owner->timer, 0);
}

static enum fr_ssh_step took_addresses(struct fr_ssh *s, struct fr_err *err, int failed)
{
    if (failed != 0)
        return fr_ssh_failed(fr_fail(err, FR_UNREACHABLE, "cannot find host '%s': %s",
                                     s->conf->host, gai_strerror(failed)));
    s->addr = s->addrs;
    return FR_SSH_DONE;
}

static enum fr_ssh_step finish_lookup(struct fr_ssh *s, struct fr_err *err)
{
    struct fr_ssh_lookup *l = s->lookup;
    int failed = l->failed;

    if (!l->over)
        return FR_SSH_AGAIN;
    s->lookup = NULL;
    s->addrs = l->addrs;
    l->addrs = NULL;
    free_lookup(l);
    return took_addresses(s, err, failed);
}

enum fr_ssh_step fr_ssh_resolve(struct fr_ssh *s, struct fr_err *err)
{
    struct addrinfo numeric = {
        .ai_family = s->conf->family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct fr_ssh_lookup *l;

    if (s->lookup != NULL)
        return finish_lookup(s, err);
    l = fr_sys.alloc(sizeof(*l));
    if (l == NULL || strlen(s->conf->host) >= sizeof(l->host)) {
        fr_sys.free(l);
        return fr_ssh_failed(fr_fail(err, FR_USAGE, "host name '%s' is too long", s->conf->host));
    }
    *l = (struct fr_ssh_lookup){.owner = s, .family = s->conf->family};
    l->work = (struct fr_work){.run = look_up, .over = looked_up, .drop = free_lookup, .arg = l};
    memcpy(l->host, s->conf->host, strlen(s->conf->host));
    snprintf(l->port, sizeof(l->port), "%d", s->conf->port);
    if (getaddrinfo(l->host, l->port, &numeric, &s->addrs) == 0) {
        free_lookup(l);
        return took_addresses(s, err, 0);
    }
    if (fr_loop_work(s->loop, &l->work) != FR_OK) {
        free_lookup(l);
        return fr_ssh_failed(fr_fail(err, FR_NOMEM, "cannot look up host '%s'", s->conf->host));
    }
    s->lookup = l;
    return FR_SSH_AGAIN;
}

static void note_failure(struct fr_ssh *s, int errnum)
{
    char name[INET6_ADDRSTRLEN + 1] = "?";
    size_t n = strlen(s->tried);

    getnameinfo(s->addr->ai_addr, s->addr->ai_addrlen, name, sizeof(name), NULL, 0, NI_NUMERICHOST);
    snprintf(s->tried + n, sizeof(s->tried) - n, "%s%s: %s", n > 0 ? "; " : "", name,
             strerror(errnum));
}

/* Connects to the address at s->addr. If that fails at once, it tries the next ones. */
static enum fr_ssh_step begin_connect(struct fr_ssh *s, struct fr_err *err)
{
    for (; s->addr != NULL; s->addr = s->addr->ai_next) {
        int fd = socket(s->addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd >= 0 &&
            (connect(fd, s->addr->ai_addr, s->addr->ai_addrlen) == 0 || errno == EINPROGRESS)) {
            if (fr_ssh_watch(s, fd, FR_LOOP_WRITE, err) != FR_OK)
                return FR_SSH_FAILED;
            return FR_SSH_AGAIN;
        }
        note_failure(s, errno);
        if (fd >= 0)
            close(fd);
    }
    return fr_ssh_failed(fr_fail(err, FR_UNREACHABLE, "cannot connect to %s port %d (%s)",
                                 s->conf->host, s->conf->port, s->tried));
}

enum fr_ssh_step fr_ssh_connect(struct fr_ssh *s, struct fr_err *err)
{
    struct sockaddr_storage peer;
    socklen_t n = sizeof(int), peer_n = sizeof(peer);
    int failed = 0, on = 1;
    unsigned dead = DEAD_MS;

    if (s->fd < 0)
        return begin_connect(s, err);
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &failed, &n) != 0)
        failed = errno;
    if (failed != 0) {
        note_failure(s, failed);
        fr_loop_unwatch(s->loop, &s->watch);
        close(s->fd);
        s->fd = -1;
        s->addr = s->addr->ai_next;
        return begin_connect(s, err);
    }
    if (getpeername(s->fd, (struct sockaddr *)&peer, &peer_n) != 0)
        return FR_SSH_AGAIN; /* called before the socket was ready */
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(s->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(s->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, sizeof(dead));
    return FR_SSH_DONE;
}

bool fr_ssh_hung_up(const struct fr_ssh *s)
{
    char byte;
    ssize_t n = recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

void fr_ssh_tcp_finish(struct fr_ssh *s)
{
    if (s->lookup != NULL && (s->lookup->over || fr_loop_forget(s->loop, &s->lookup->work)))
        free_lookup(s->lookup);
    s->lookup = NULL;
    if (s->addrs != NULL)
        freeaddrinfo(s->addrs);
    s->addrs = s->addr = NULL;
    s->tried[0] = '\0';
}
