/*
 * The host's interface: requests in, answers out, without sockets. engine/web brings requests from
 * a socket here, tests and the simulator bring theirs directly.
 *
 * Bodies are JSON (RFC 8259), ids 32 hex digits, times *_wall in ms since 1970. Every error is an
 * application/problem+json (RFC 9457) with type, title, status, detail, instance, code and, of a
 * pipeline with mistakes, issues [{file, line, col, text}].
 */
#ifndef FR_HOST_API_H
#define FR_HOST_API_H

#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* All borrowed for the call. */
struct fr_api_request {
    enum fr_api_method method;
    const char *path; /* decoded once, checked: begins with "/", no "//", "..", NUL, valid UTF-8 */
    const struct fr_api_pair *query;
    size_t n_query;
    struct fr_str body;
    /* Headers; "" where absent. */
    const char *content_type, *range, *if_none_match, *last_event_id;
    uid_t uid; /* of the process at the other end of a unix socket */
    struct fr_api_waiter *waiter;
};

/* What is answered. Zero it, and free what came with fr_api_response_finish(). */
struct fr_api_response {
    int status;       /* 200, 201, 404 …; FR_API_LATER */
    const char *type; /* static: "application/json" */
    struct fr_buf body;
    struct fr_buf location, etag, allow; /* headers; empty: absent */
    /* A part of a file follows instead of body: fd is the response's and is read with pread. */
    bool file;
    int fd;
    uint64_t offset, bytes, total; /* total: of the whole file, for Content-Range (status 206) */
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
    void *self;
};

#endif
