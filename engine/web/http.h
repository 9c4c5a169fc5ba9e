/*
 * HTTP/1.1 messages (RFC 9112) in memory: heads and bodies. Pure.
 *
 * Read strictly: a line ends with CR LF or LF alone; no other control character but a tab in a
 * value, no line that continues another, no blank in front of a colon, names are tokens.
 */
#ifndef FR_WEB_HTTP_H
#define FR_WEB_HTTP_H

#include "engine/base/str.h"

enum { FR_HTTP_HEAD_MAX = 16 << 10, FR_HTTP_HEADERS = 100 };

struct fr_http_header {
    const char *name, *value; /* without blanks around it */
};

struct fr_http_head {
    const char *method, *target; /* of a request */
    int status;                  /* of a response: 100 to 599 */
    int minor;                   /* of the version: HTTP/1.minor */
    struct fr_http_header headers[FR_HTTP_HEADERS];
    size_t n_headers;
};

/* Bytes of the head that in begins with, the empty line included. 0: its end is not there yet.
 * *looked: how far earlier calls have looked, 0 at first. */
size_t fr_http_head_end(struct fr_str in, size_t *looked);

/* Reads a whole head, which is changed: names and values become NUL-terminated and *out points into
 * p. FR_USAGE: it is wrong; FR_FULL: too many headers; FR_UNSUPPORTED: of
 * another version. */
enum fr_rc fr_http_request(char *p, size_t n, struct fr_http_head *out, struct fr_err *err);
enum fr_rc fr_http_response(char *p, size_t n, struct fr_http_head *out, struct fr_err *err);

/* The value of the first header of that name, in any case; NULL: there is none. */
const char *fr_http_find(const struct fr_http_head *head, const char *name);

/* The body of a message. */
struct fr_http_body {
    enum { FR_BODY_LENGTH, FR_BODY_CHUNKED, FR_BODY_TO_END } kind;
    enum { FR_CHUNK_SIZE, FR_CHUNK_EXTENSION, FR_CHUNK_DATA, FR_CHUNK_END, FR_CHUNK_TRAILER } at;
    uint64_t left;  /* of the body, or of the chunk */
    uint64_t taken; /* bytes of what came, what parts chunks included */
    size_t line;    /* bytes of a line that parts chunks */
    size_t framing; /* of extensions and the trailer: at most FR_HTTP_HEAD_MAX */
    bool cr;        /* the line ends: LF is next */
    bool named;     /* the line of the trailer has its ":" */
    bool over;      /* all of it came */
};

/* A body that comes in chunks, as one of a request that says so. */
void fr_http_body_chunked(struct fr_http_body *b);
/* The body of a response. */

enum fr_rc fr_http_body_begin(struct fr_http_body *b, const struct fr_http_head *response,
                              struct fr_err *err);
/* Adds to out what in has of the content. What follows the body is not looked at: b->taken says
 * where that begins. */
enum fr_rc fr_http_body_feed(struct fr_http_body *b, struct fr_str in, struct fr_buf *out,
                             struct fr_err *err);

#endif
