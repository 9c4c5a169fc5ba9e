/*
 * Shared by the files of the server, private to this folder.
 *
 *   server.c   the listener, deadlines
 *   conn.c     one connection: its bytes, its turns
 *   request.c  a head and its body, checked
 *   answer.c   a request to the handler, its answer to the reader
 *   stream.c   a stream of server-sent events
 *   pages.c    the built-in files for browsers
 *   shell.c    the page of a run, with its head rendered
 *   gate.c     access over TCP
 *   http.c     messages in memory
 *   target.c   the target of a request
 *   gzip.c     a gzip stream
 *   sse.c      the reader's side of a stream
 */
#ifndef FR_WEB_PRIVATE_H
#define FR_WEB_PRIVATE_H

#include "engine/web/gzip.h"
#include "engine/web/http.h"
#include "engine/web/server.h"

enum {
    WEB_CONNS = 256,
    WEB_CONNS_TCP = 224, /* the rest is reserved for the socket */
    WEB_CONNS_OF = 32,   /* of one address */
    WEB_STREAMS = 64,
    WEB_BODY_BYTES = 1 << 20,
    WEB_AHEAD_BYTES = 1 << 20,  /* pipelined by a client during a response */
    WEB_BLOCK_BYTES = 64 << 10, /* read at once, from a socket or of a file */
    WEB_LINGER_MS = 2000,
    CROWDED_MS = 2000 /* Retry-After when there are too many connections */
};

/* LINGER: the response is sent and further input is discarded. Closing a socket with unread input
 * would reset the connection before the client has read the response (RFC 9112, 9.6). */
enum conn_state { CONN_HEAD, CONN_BODY, CONN_ANSWER, CONN_LINGER };

struct conn {
    struct fr_server *server;
    struct conn *next, *prev;
    struct fr_post post; /* its turn */
    int fd;
    struct fr_watch *watch;
    bool tcp;
    bool metrics_only;              /* as that of the listener */
    struct fr_endpoint peer, local; /* of TCP */
    bool tls;                       /* between the user and a proxy */
    struct fr_api_caller caller;    /* of TCP, of the request that is answered */
    char secret[64];                /* of the caller, of that kind; "": none */
    enum fr_api_secret kind;
    enum conn_state state;
    struct fr_buf in; /* received and not parsed */
    size_t looked;    /* of in, scanned for the end of the head */
    struct fr_buf head_text;
    struct fr_http_head head; /* of the request that is read or answered; points into head_text */
    size_t body_bytes;        /* length of the body in `in`; chunked: 0 */
    struct fr_http_body chunks;
    struct fr_buf content; /* of chunks */
    struct fr_buf out;
    size_t written; /* of out */
    bool eof;       /* the reader sends no more */
    bool last;      /* closed once the answer is written */
    bool lingers;   /* afterwards input is discarded for a while */
    bool over;      /* closed at its next turn */
    int64_t due_ms; /* deadline of the connection, mono_ms; -1: none */
    /* later: the request waits for the host; again: repeat it. */
    struct fr_api_waiter waiter;
    bool later, again;
    /* A part of a file on its way. */
    struct fr_api_response res;
    uint64_t file_sent;
    struct web_gzip *gzip; /* owns; NULL: not packed, or finished */
    /* A stream. */
    bool opening, streaming;
    bool behind; /* call api->drained once nothing is queued */
    struct fr_api_stream *stream;
    struct fr_buf early; /* sent while opening */
    int64_t comment_ms;  /* of the next comment; -1: none */
    int64_t checked_ms;  /* last check that the caller still has access */
};

struct listener {
    struct listener *next;
    struct fr_server *server;
    int fd; /* -1: not yet */
    bool tcp;
    bool metrics_only; /* serves /metrics alone, without a token */
    struct fr_watch *watch;
};

struct fr_server {
    struct fr_loop *loop;
    const struct fr_api *api;
    struct fr_server_times times;
    char *path;
    dev_t dev; /* of the socket's file, with ino */
    ino_t ino;
    struct fr_gate gate;
    struct listener *listeners;     /* owns */
    size_t fd_most;                 /* from this descriptor on few are left; 0: unknown */
    int64_t accept_ms;              /* accept again then; -1: accepting */
    int64_t look_ms, look_every_ms; /* checks of the socket's file */
    struct fr_timer *timer;
    int64_t armed_ms; /* -1: off */
    char *space;      /* of WEB_BLOCK_BYTES */
    struct conn *conns;
    size_t n_conns, n_tcp, n_streams;
};

/* server.c */
void web_due(struct conn *c, int64_t in_ms);     /* sets the deadline; -1: none */
void web_comment(struct conn *c, int64_t in_ms); /* schedules a comment; -1: none */

bool web_is_scarce(const struct fr_server *s, int fd);

/* conn.c */
void conn_create(struct listener *l, int fd); /* takes the descriptor */
void conn_destroy(struct conn *c);
/* Queues bytes. conn_flush() writes as much as the socket takes; the client has to read the rest
 * before the deadline. */
void conn_add(struct conn *c, struct fr_str p);
void conn_flush(struct conn *c);
size_t conn_queued(const struct conn *c);

/* request.c: both return whether they made progress. */
bool request_head(struct conn *c);
bool request_body(struct conn *c);
void request_answer(struct conn *c); /* keeps the body until there is a response */

/* answer.c */
void answer_request(struct conn *c, struct fr_str body);                  /* c->later: not yet */
void answer_wait(struct conn *c);                                         /* sends 102 Processing */
void answer_refuse(struct conn *c, int status, const struct fr_err *err); /* the last of c */
void answer_send(struct conn *c, struct fr_api_response *res);            /* takes it */
void answer_more(struct conn *c); /* the next block of a file */
bool answer_is_head(const struct conn *c);

void answer_add_guards(struct conn *c, bool foreign); /* security headers */

/* pages.c */
bool pages_have(const char *path); /* whether the path is a page, not of the interface */
void pages_answer(struct conn *c, const struct fr_api_request *req, struct fr_api_response *res);

/* shell.c */
/* Appends the page `text` (run.html) with the head of run `no` as HTML and the first responses as
 * JSON. false: no such run, or the caller may not see it; out is empty and the plain page is sent.
 */
bool shell_of_run(struct conn *c, const char *no, const char *text, struct fr_buf *out);

/* stream.c */
/* Ends the streams of the session with that hash. */
void stream_end_of(struct fr_server *s, const char *session);
void stream_end_lost(struct fr_server *s); /* ends streams whose caller lost access */
void stream_open(struct conn *c, const struct fr_api_request *req);
void stream_drained(struct conn *c);
void stream_comment(struct conn *c);
void stream_bye(struct conn *c, bool leaves); /* leaves: the host ends; else the session */
void stream_gone(struct conn *c);

#endif
