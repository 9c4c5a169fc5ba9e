/*
 * The host's interface: requests in, answers out, without sockets. engine/web brings requests from
 * a socket here, tests and the simulator bring theirs directly.
 *
 * Bodies are JSON (RFC 8259), ids 32 hex digits, times *_wall in ms since 1970. Every error is an
 * application/problem+json (RFC 9457) with type, title, status, detail, instance, code and, of a
 * pipeline with mistakes, issues [{file, line, col, text}].
 */
#ifndef FR_API_API_H
#define FR_API_API_H

#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fr_api_method { FR_API_GET, FR_API_POST, FR_API_PUT, FR_API_DELETE };

struct fr_api_pair { /* of a query, decoded */
    const char *name, *value;
};

/* A caller that can wait: what takes long is answered with FR_API_LATER, and once it is done the
 * same request is to be asked again. Zero it but for again and arg. It stays until it was called,
 * or is forgotten. */
enum { FR_API_LATER = 1 }; /* a status */
struct fr_api_waiter {
    void (*again)(void *arg);
    void *arg;
    uint64_t ticket; /* the host's, as all below: what it waits for */
    struct fr_api_waiter *next;
};

/* What a caller may do; each role may do what those before it may. OWNER: over the host's socket.
 */
enum fr_role { FR_ROLE_NONE, FR_ROLE_VIEW, FR_ROLE_OPERATE, FR_ROLE_ADMIN, FR_ROLE_OWNER };

enum { FR_TOKEN_NAME = 65, FR_SECRET_HASH = 65 };

struct fr_api_caller {
    enum fr_role role;
    char name[FR_TOKEN_NAME];     /* of the token, "uid 1000", "anonymous" */
    char address[46];             /* ""; over TCP the address of its user */
    char session[FR_SECRET_HASH]; /* SHA-256 of the session's secret; "": it has none */
};

enum fr_api_secret { FR_SECRET_TOKEN, FR_SECRET_SESSION };

/* All borrowed for the call. */
struct fr_api_request {
    enum fr_api_method method;
    const char *path; /* decoded once, checked: begins with "/", no "//", "..", NUL, valid UTF-8 */
    const struct fr_api_pair *query;
    size_t n_query;
    struct fr_str body;
    /* Headers; "" where absent. */
    const char *content_type, *range, *if_none_match, *last_event_id;
    const char *key;                    /* Idempotency-Key; NULL: none */
    const char *if_match;               /* NULL: none */
    const struct fr_api_caller *caller; /* NULL: the home's owner, who may do everything */
    struct fr_api_waiter *waiter;
};

/* What is answered. Zero it, and free what came with fr_api_response_finish(). */
struct fr_api_response {
    int status;       /* 200, 201, 404 …; FR_API_LATER */
    const char *type; /* static: "application/json" */
    struct fr_buf body;
    struct fr_buf location, etag, allow; /* headers; empty: absent */
    struct fr_buf session;               /* the secret of a new session, for the browser to keep */
    bool session_over;                   /* the caller's is; its streams end, too */
    bool access_over;                    /* some token is: streams of those it let in end */
    bool foreign;                        /* what tasks wrote: a browser must not act on it */
    int retry_after_s;                   /* header; 0: absent */
    const char *cache; /* static: how long it may be kept; NULL: it is asked for again each time */
    const char *growing;  /* static: "1": more of the file may come, "0": it is whole; NULL */
    const char *encoding; /* static: "gzip"; NULL: as it is */
    /* A part of a file follows instead of body: fd is the response's and is read with pread. */
    bool file;
    int fd;
    uint64_t offset, bytes, total; /* total: of the whole file, for Content-Range (status 206) */
    bool packed; /* it is packed as gzip on its way, so how much is sent is not known before */
};

void fr_api_response_finish(struct fr_api_response *res);

/* One reader of a stream of server-sent events (text/event-stream). Its owner is who opened it. */
struct fr_api_stream;

struct fr_api_sink {
    /* Takes whole events, each ended by an empty line; never blocks. Returns the bytes that are not
     * yet written to the reader. */
    size_t (*send)(void *arg, struct fr_str events);
    /* No event follows; the stream is gone when this returns. */
    void (*close)(void *arg);
    void *arg;
};

/* What answers. */
struct fr_api {
    void (*answer)(void *self, const struct fr_api_request *req, struct fr_api_response *out);
    void (*forget)(void *self, struct fr_api_waiter *w); /* it is not called any more */
    /* For GET …/stream: *out is the stream, and res.status 200; or an error is answered and *out is
     * NULL. What begins a stream is sent before this returns. */
    void (*open)(void *self, const struct fr_api_request *req, const struct fr_api_sink *sink,
                 struct fr_api_response *res, struct fr_api_stream **out);
    void (*drained)(void *self, struct fr_api_stream *s); /* the reader has all that was sent */
    void (*gone)(void *self, struct fr_api_stream *s);    /* the reader left: frees the stream */
    /* Fills role, name and session of *out for whoever has that secret; false: nobody has. used:
     * its user asks for something now. */
    bool (*identify)(void *self, enum fr_api_secret kind, const char *secret, bool used,
                     struct fr_api_caller *out);
    /* No other process is the home's host now; asked every few seconds, as a lock may be lost. */
    bool (*leads)(void *self);
    void *self;
};

#endif
