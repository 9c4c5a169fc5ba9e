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

/* A caller that can wait: FR_API_LATER is the status of a request that takes long. `again` is
 * called once the request is to be repeated. Set again and arg, zero the rest. The waiter must live
 * until it was called or forgotten. */
enum { FR_API_LATER = 1 }; /* a status */
struct fr_api_waiter {
    void (*again)(void *arg);
    void *arg;
    uint64_t ticket; /* of the job it waits for; this and all below belong to the host */
    struct fr_api_waiter *next;
};

/* Rights of a caller, each including those before it. OWNER: over the host's socket. */
enum fr_role { FR_ROLE_NONE, FR_ROLE_VIEW, FR_ROLE_OPERATE, FR_ROLE_ADMIN, FR_ROLE_OWNER };

enum { FR_TOKEN_NAME = 65, FR_SECRET_HASH = 65 };

struct fr_api_caller {
    enum fr_role role;
    char name[FR_TOKEN_NAME];     /* name of the token, "uid 1000", "anonymous" */
    char address[46];             /* IP address of the user; "" over the unix socket */
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

/* A response. Zero it; free its contents with fr_api_response_finish(). */
struct fr_api_response {
    int status;       /* 200, 201, 404 …; FR_API_LATER */
    const char *type; /* static: "application/json" */
    struct fr_buf body;
    struct fr_buf location, etag, allow; /* headers; empty: absent */
    struct fr_buf session;               /* the secret of a new session, for the browser to keep */
    bool session_over;                   /* the caller's session ends, and its streams */
    bool access_over;                    /* a token ended: streams opened by it end */
    bool foreign;                        /* bytes of tasks: a browser must not run them */
    int retry_after_s;                   /* header; 0: absent */
    const char *cache;                   /* static: Cache-Control; NULL: revalidate each time */
    const char *growing;  /* static: "1": the file may grow, "0": it is whole; NULL: no file */
    const char *encoding; /* static: "gzip"; NULL: body is not encoded */
    /* A part of a file follows instead of body: the response owns fd, which is read
     * with pread. */
    bool file;
    int fd;
    uint64_t offset, bytes, total; /* total: of the whole file, for Content-Range (status 206) */
    bool packed;                   /* sent as gzip: the length is not known in advance */
};

void fr_api_response_finish(struct fr_api_response *res);

/* A reader's stream of server-sent events (text/event-stream); owned by whoever opened it. */
struct fr_api_stream;

struct fr_api_sink {
    /* Queues whole events, each ended by an empty line; never blocks. Returns the bytes that are
     * still queued for the reader. */
    size_t (*send)(void *arg, struct fr_str events);
    /* No event follows. The stream is freed when this returns. */
    void (*close)(void *arg);
    void *arg;
};

/* The interface, implemented by the host. */
struct fr_api {
    void (*answer)(void *self, const struct fr_api_request *req, struct fr_api_response *out);
    void (*forget)(void *self, struct fr_api_waiter *w); /* the host drops the waiter */
    /* GET …/stream: *out is the stream and res->status 200, or res is an error and *out NULL. The
     * first events are sent before this returns. */
    void (*open)(void *self, const struct fr_api_request *req, const struct fr_api_sink *sink,
                 struct fr_api_response *res, struct fr_api_stream **out);
    void (*drained)(void *self, struct fr_api_stream *s); /* the reader took all that was queued */
    void (*gone)(void *self, struct fr_api_stream *s);    /* the reader left: frees the stream */
    /* Fills role, name and session of *out from a secret; false: unknown secret. used: counts as a
     * use, which prolongs a session. */
    bool (*identify)(void *self, enum fr_api_secret kind, const char *secret, bool used,
                     struct fr_api_caller *out);
    /* Whether this process is still the home's host; called every few seconds. */
    bool (*leads)(void *self);
    void *self;
};

#endif
