/*
 * The rendezvous: rank 0 accepts a connection from every rank; the other ranks connect to rank 0.
 * Blocking; runs before the control thread.
 */
#ifndef TR_COMM_JOIN_H
#define TR_COMM_JOIN_H

#include "trainer/comm/control.h"

#include <stdbool.h>

/* fds (size): rank 0: the connection of each rank, -1 at its own place; others: fds[0] is rank 0's,
 * the rest -1. peers (size) is filled. On failure everything is closed. */
enum fr_rc tr_join(const struct tr_control_opts *o, int *fds, struct tr_peer *peers,
                   struct fr_err *err);

/* A listening TCP socket on port (0: any), all addresses of both families. */
enum fr_rc tr_listen(int port, int backlog, int *fd, struct fr_err *err);

/* A connection to host:port; retries until deadline_ms (clock: fr_sys.mono_ms). */
enum fr_rc tr_connect(const char *host, int port, int64_t deadline_ms, int *fd, struct fr_err *err);

/* The local address of the route to host (IPv4 mapped); sends nothing. */
bool tr_route_source(const char *host, int port, struct sockaddr_in6 *out);

/* Sets TCP_NODELAY and SO_KEEPALIVE. */
void tr_tune_socket(int fd);

#endif
