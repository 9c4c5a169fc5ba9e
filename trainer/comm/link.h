/*
 * A byte stream in both directions between two ranks: TCP between nodes, shared memory inside one.
 * Calls do not block: send and recv move the bytes that fit now; a caller that can do neither polls
 * the descriptor of arm().
 */
#ifndef TR_COMM_LINK_H
#define TR_COMM_LINK_H

#include "engine/base/err.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tr_link;

struct tr_link_ops {
    const char *name; /* "tcp", "shm" */
    ssize_t (*send)(struct tr_link *l, const void *p,
                    size_t n);                             /* bytes taken, 0: full, -1 errno */
    ssize_t (*recv)(struct tr_link *l, void *p, size_t n); /* bytes given, 0: none, -1 errno */
    /* Before a sleep until one of the two is possible: fills *pfd; false: one is possible now. */
    bool (*arm)(struct tr_link *l, bool want_send, bool want_recv, struct pollfd *pfd);
    void (*disarm)(struct tr_link *l);
    void (*destroy)(struct tr_link *l);
};

struct tr_link {
    const struct tr_link_ops *ops;
    int fd; /* owns: the TCP connection, or the local socket that carries doorbells */
    void *self;
};

/* Both calls take over fd. */
enum fr_rc tr_link_tcp(int fd, struct tr_link *out, struct fr_err *err);

/* fd: a stream socket to the other process on this machine. The maker allocates the memory and
 * sends it over fd; the other side receives it. */
enum fr_rc tr_link_shm(int fd, bool maker, struct tr_link *out, struct fr_err *err);

size_t tr_link_shm_bytes(void); /* of one link, both directions */

void tr_link_finish(struct tr_link *l);

#endif
