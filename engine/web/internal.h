/*
 * What the files of the server share; nobody else includes it.
 *
 *   server.c   the listener, connections and their deadlines
 *   conn.c     one connection: what evhttp does with it, watched from outside
 *   answer.c   a request to the handler, its answer to the reader
 *   stream.c   a stream of server-sent events
 *   http.c     messages in memory, for the reader's side
 *   target.c   the target of a request, checked
 *   sse.c      the reader's side of a stream
 *
 * evhttp 2.1.12 has no deadlines, no limit of connections, no word of a connection before its first
 * request, and error pages in HTML. So each connection watches its two buffers: bytes that come
 * tell where a request begins and where its head ends; bytes that evhttp sends on its own account
 * are an error page, which is replaced.
 */
#ifndef FR_WEB_INTERNAL_H
#define FR_WEB_INTERNAL_H

#include "engine/web/server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>

enum {
    WEB_CONNS = 256,
    WEB_STREAMS = 64,
    WEB_HEAD_BYTES = 16 << 10,
    WEB_BODY_BYTES = 1 << 20,
    WEB_AHEAD_BYTES = 1 << 20, /* that a reader may send while it is answered */
    WEB_BLOCK_BYTES = 64 << 10 /* of a file, in memory at once */
};

enum conn_state { CONN_IDLE, CONN_HEAD, CONN_BODY, CONN_ANSWER };

struct conn {
    struct fr_server *server;
    struct conn *next, *prev;
    struct fr_post post;             /* conn_act */
    struct bufferevent *bev;         /* evhttp's; NULL once the connection is closed */
    struct evhttp_connection *evcon; /* evhttp's; NULL before the first turn, and once closed */
    struct evhttp_request *req;      /* evhttp's; the one to answer, until all of it is written */
    uid_t uid;
    enum conn_state state;
    size_t head_bytes, line_bytes; /* of the head so far, of its last line */
    int64_t due_ms;                /* closed then; -1: never */
    /* What happened since the last conn_act(). */
    bool ready, drained, over;
    bool closed;
    bool sending; /* bytes to the reader are ours, not evhttp's */
    bool refused; /* evhttp's error page was replaced */
    /* A part of a file on its way. */
    struct fr_api_response res;
    uint64_t file_sent;
    /* A stream. */
    bool opening, streaming;
    struct fr_api_stream *stream;
    struct fr_buf early; /* sent while opening */
    int64_t comment_ms;  /* -1: none to be sent */
};

struct fr_server {
    struct fr_loop *loop;
    const struct fr_api *api;
    struct fr_server_times times;
    char *path;
    dev_t dev; /* of the socket's file, with ino */
    ino_t ino;
    struct evhttp *http;
    struct evconnlistener *listener;
    int64_t accept_ms; /* accept again then; -1: accepting */
    struct fr_timer *timer;
    int64_t armed_ms; /* -1: off */
    struct conn *conns;
    size_t n_conns, n_streams;
};

/* server.c */
void web_due(struct conn *c, int64_t in_ms);     /* closed then; -1: never */
void web_comment(struct conn *c, int64_t in_ms); /* a comment then; -1: none */

/* conn.c */
struct bufferevent *conn_create(struct event_base *base, void *server); /* evhttp's bevcb */
void conn_request(struct evhttp_request *req, void *server);            /* evhttp's gencb */
void conn_destroy(struct conn *c);
void conn_close(struct conn *c); /* at once */
size_t conn_queued(struct conn *c);
void conn_flush(struct conn *c); /* writes what the reader takes now */
/* What evhttp sends between these two is ours; the reader has to take it in time. */
void conn_begin_send(struct conn *c);
void conn_end_send(struct conn *c);
/* Writes a problem straight to the descriptor and lets the reader see the end. */
void conn_refuse(struct conn *c, int status, const struct fr_err *err);

/* answer.c */
void answer_request(struct conn *c);
void answer_send(struct conn *c, struct fr_api_response *res); /* takes it */
void answer_more(struct conn *c);                              /* the next block of a file */
void answer_header(struct conn *c, const char *name, const char *value);
/* Sends p as the next part of an answer that was begun; conn_act() hears when it is written. */
void answer_part(struct conn *c, struct fr_str p);

/* stream.c */
void stream_open(struct conn *c, const struct fr_api_request *req);
void stream_drained(struct conn *c);
void stream_comment(struct conn *c);
void stream_bye(struct conn *c);
void stream_gone(struct conn *c);

#endif
