/*
 * Two rings of bytes in one memfd, a writer and a reader each. Positions only grow; a side that
 * finds nothing to do sets its sleep flag, looks again, and sleeps on the socket; the other side,
 * after moving its position, rings by one byte when the flag is set. The socket's end is the peer's
 * end.
 */
#include "trainer/comm/link.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RING_BYTES = 1024 * 1024 };

struct ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t taken;
    _Alignas(64) char data[RING_BYTES];
};

struct shared {
    struct ring to_maker, from_maker;
    _Alignas(64) _Atomic uint32_t maker_sleeps, other_sleeps;
};

struct shm {
    struct shared *mem; /* owns: the mapping */
    struct ring *out, *in;
    _Atomic uint32_t *i_sleep, *peer_sleeps;
};

size_t tr_link_shm_bytes(void)
{
    return sizeof(struct shared);
}

static void ring_peer(struct tr_link *l, struct shm *s)
{
    if (atomic_exchange(s->peer_sleeps, 0) != 0)
        (void)!send(l->fd, "", 1,
                    MSG_DONTWAIT | MSG_NOSIGNAL); /* a full socket has rings already */
}

static ssize_t shm_send(struct tr_link *l, const void *p, size_t n)
{
    struct shm *s = l->self;
    uint64_t at = atomic_load_explicit(&s->out->written, memory_order_relaxed);
    uint64_t room = RING_BYTES - (at - atomic_load_explicit(&s->out->taken, memory_order_acquire));
    size_t from = (size_t)(at % RING_BYTES), first;

    if (n > room)
        n = (size_t)room;
    first = n < RING_BYTES - from ? n : RING_BYTES - from;
    memcpy(s->out->data + from, p, first);
    memcpy(s->out->data, (const char *)p + first, n - first);
    atomic_store(&s->out->written, at + n);
    if (n > 0)
        ring_peer(l, s);
    return (ssize_t)n;
}

static ssize_t shm_recv(struct tr_link *l, void *p, size_t n)
{
    struct shm *s = l->self;
    uint64_t at = atomic_load_explicit(&s->in->taken, memory_order_relaxed);
    uint64_t there = atomic_load_explicit(&s->in->written, memory_order_acquire) - at;
    size_t from = (size_t)(at % RING_BYTES), first;

    if (there > RING_BYTES) {
        errno = EPROTO;
        return -1;
    }
    if (n > there)
        n = (size_t)there;
    first = n < RING_BYTES - from ? n : RING_BYTES - from;
    memcpy(p, s->in->data + from, first);
    memcpy((char *)p + first, s->in->data, n - first);
    atomic_store(&s->in->taken, at + n);
    if (n > 0)
        ring_peer(l, s);
    return (ssize_t)n;
}

static bool possible(const struct shm *s, bool want_send, bool want_recv)
{
    uint64_t queued = atomic_load(&s->out->written) - atomic_load(&s->out->taken);

    return (want_send && queued < RING_BYTES) ||
           (want_recv && atomic_load(&s->in->written) != atomic_load(&s->in->taken));
}

static bool shm_arm(struct tr_link *l, bool want_send, bool want_recv, struct pollfd *pfd)
{
    struct shm *s = l->self;

    *pfd = (struct pollfd){.fd = l->fd, .events = POLLIN};
    atomic_store(s->i_sleep, 1);
    if (!possible(s, want_send, want_recv))
        return true;
    atomic_store(s->i_sleep, 0);
    return false;
}

/* Drains the doorbells. A closed socket is not reported: the control plane watches every rank. */
static void shm_disarm(struct tr_link *l)
{
    struct shm *s = l->self;
    char bells[64];

    atomic_store(s->i_sleep, 0);
    while (recv(l->fd, bells, sizeof(bells), MSG_DONTWAIT) > 0) {
    }
}

static void shm_destroy(struct tr_link *l)
{
    struct shm *s = l->self;

    munmap(s->mem, sizeof(*s->mem));
    fr_sys.free(s);
    fr_sys.close(l->fd);
}

static bool send_fd(int sock, int fd)
{
    char one = 'm';
    struct iovec v = {&one, 1};
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } u = {{0}};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = u.buf, .msg_controllen = sizeof(u.buf)};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);

    *h = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(h), &fd, sizeof(fd));
    return sendmsg(sock, &m, MSG_NOSIGNAL) == 1;
}

static int recv_fd(int sock)
{
    char one;
    struct iovec v = {&one, 1};
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } u;
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = u.buf, .msg_controllen = sizeof(u.buf)};
    int fd = -1;

    if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h != NULL && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(h), sizeof(fd));
    return fd;
}

enum fr_rc tr_link_shm(int fd, bool maker, struct tr_link *out, struct fr_err *err)
{
    static const struct tr_link_ops ops = {.name = "shm",
                                           .send = shm_send,
                                           .recv = shm_recv,
                                           .arm = shm_arm,
                                           .disarm = shm_disarm,
                                           .destroy = shm_destroy};
    struct shm *s = fr_sys.alloc(sizeof(*s));
    int mem = maker ? memfd_create("flowtrain-link", MFD_CLOEXEC) : recv_fd(fd);
    bool ok = s != NULL && mem >= 0 && (!maker || ftruncate(mem, sizeof(struct shared)) == 0) &&
              (!maker || send_fd(fd, mem));
    struct shared *m =
        ok ? mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0) : MAP_FAILED;
    int e = errno;

    if (mem >= 0)
        fr_sys.close(mem);
    if (m == MAP_FAILED) {
        fr_sys.free(s);
        return fr_fail_errno(err, e, "shared memory between local ranks");
    }
    *s = (struct shm){.mem = m,
                      .out = maker ? &m->from_maker : &m->to_maker,
                      .in = maker ? &m->to_maker : &m->from_maker,
                      .i_sleep = maker ? &m->maker_sleeps : &m->other_sleeps,
                      .peer_sleeps = maker ? &m->other_sleeps : &m->maker_sleeps};
    *out = (struct tr_link){.ops = &ops, .fd = fd, .self = s};
    return FR_OK;
}
