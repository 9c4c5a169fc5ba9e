/*
 * A link to every other rank, and tr_mesh_move, of which all CPU collectives are made: a stream
 * round the ring, or an exchange with two peers. A move fails with the cause when the control plane
 * has failed or the time-out has passed.
 */
#ifndef TR_COMM_MESH_H
#define TR_COMM_MESH_H

#include "trainer/comm/comm.h"
#include "trainer/comm/control.h"
#include "trainer/comm/link.h"

struct tr_mesh {
    int rank, size;
    struct tr_link *links;      /* owns: size; links[rank] is empty */
    struct tr_control *control; /* borrows */
    int64_t timeout_ms;
    size_t bytes; /* memory of all links */
};

/* Connects all pairs: local ranks over opts->local_socks where given, the others over TCP to the
 * addresses in the control plane's table; listener is this rank's data port, borrowed. */
enum fr_rc tr_mesh_connect(struct tr_mesh *m, const struct tr_comm_opts *opts, int listener,
                           struct fr_err *err);
void tr_mesh_finish(struct tr_mesh *m);

/* A run of memory in pieces, read or written front to back. */
struct tr_pieces {
    char **p; /* n pieces */
    const size_t *bytes;
    size_t n;
};

/*
 * Sends all of `out` to rank `to` and receives all of `in` from rank `from`, at the same time. The
 * first `own` bytes of out are complete at the call; byte own+i of out may be sent once byte i of
 * in has arrived (pieces alias), so a stream is forwarded as it arrives. from or to -1: no such
 * side. FR_PROTO, and an abort of all ranks: the received head is not `head`.
 */
struct tr_move {
    int to, from;
    struct tr_pieces out, in;
    size_t own;
    const void *head; /* expected contents of the first piece of in; NULL: any */
    const char *what; /* for messages */
};
enum fr_rc tr_mesh_move(struct tr_mesh *m, const struct tr_move *v, struct fr_err *err);

#endif
