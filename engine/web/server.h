/*
 * Serves the host's interface (engine/api/api.h) and its pages: HTTP/1.1 (RFC 9112), on a unix
 * socket to the home's owner, and over TCP to whoever has a token (gate.h).
 *
 * Handlers are called from the loop's turn, one at a time, never from inside a callback of the
 * loop. Requests of one connection are answered in order.
 *
 * Refused with an application/problem+json before a handler sees them: what is no HTTP/1.1 (400), a
 * head over 16 KiB (431), a body over 1 MiB (413), Transfer-Encoding (411), a target over 2,048
 * bytes (414) or not a checked path (400, see target.h), anything but one valid Host (400), unknown
 * methods (501), more than 256 connections, 32 of one address (but a proxy's), or 64 streams (503);
 * 32 connections are kept for the socket. Closed without an answer: a process
 * of another user, a head that takes over 10 s, a body over 30 s, an answer or events that the
 * reader does not take within 30 s, a connection idle for 60 s, more than 1 MiB sent ahead. Of a
 * request that is refused the rest is read for 2 s, so that its sender gets to the answer.
 *
 * Over TCP, what is not below /api/ are pages: files that are built in, or for each path of a page
 * the same document. All answers have the headers that let a browser do no more than our pages
 * need.
 *
 * HEAD is answered as GET without the body. A GET whose path ends in "/stream" opens a stream,
 * which gets a comment after 15 s without an event.
 */
#ifndef FR_WEB_SERVER_H
#define FR_WEB_SERVER_H

#include "engine/base/sys.h"
#include "engine/loop/loop.h"
#include "engine/api/api.h"
#include "engine/web/gate.h"

struct fr_server;

/* Listens at path, mode 0600, in place of a socket that is there; again when the socket is gone, or
 * another process's, while api->leads. Borrows loop and *api. */
enum fr_rc fr_server_create(struct fr_loop *loop, const char *path, const struct fr_api *api,
                            struct fr_server **out, struct fr_err *err);

/* How it is reached over TCP; borrowed. To be said before fr_server_listen(). */
void fr_server_gate(struct fr_server *s, const struct fr_gate *gate);

/* Listens there, too; *at is the address with its port. FR_USAGE: it is no numeric address of this
 * machine; FR_BUSY: another process listens there. */
enum fr_rc fr_server_listen(struct fr_server *s, struct fr_endpoint *at, struct fr_err *err);
/* The same for GET /metrics alone, which needs no secret there; nor is there a base path. */
enum fr_rc fr_server_listen_metrics(struct fr_server *s, struct fr_endpoint *at,
                                    struct fr_err *err);

/* Ends each stream with an event "bye" (and api->gone), writes what a reader takes without waiting,
 * closes all connections and removes the socket. NULL is fine. Not from inside a handler. */
void fr_server_destroy(struct fr_server *s);

/* How many descriptors this process may have; the system's limit unless it is said. At 95 % of them
 * a connection over TCP is refused (503), and others wait for a second. */
void fr_server_set_descriptors(struct fr_server *s, size_t n);

struct fr_server_times { /* ms; see above */
    int64_t head, body, drain, idle, comment;
};
/* For connections that begin from now on. */
void fr_server_set_times(struct fr_server *s, const struct fr_server_times *times);
/* How often it looks whether the socket is still its own; every 5 s unless it is said. */
void fr_server_set_look(struct fr_server *s, int64_t every_ms);

#endif
