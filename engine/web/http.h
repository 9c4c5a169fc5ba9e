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

/* Length of the head at the begin of `in`, with its empty line; 0: incomplete. *looked: bytes that
 * earlier calls have scanned, 0 at first. */
size_t fr_http_head_end(struct fr_str in, size_t *looked);

/* Parses a whole head in place: *out points into p. FR_USAGE: malformed; FR_FULL: too many headers;
 * FR_UNSUPPORTED: another version. */
enum fr_rc fr_http_request(char *p, size_t n, struct fr_http_head *out, struct fr_err *err);
enum fr_rc fr_http_response(char *p, size_t n, struct fr_http_head *out, struct fr_err *err);

/* The value of the first header of that name, in any case; NULL: there is none. */
const char *fr_http_find(const struct fr_http_head *head, const char *name);

/* The body of a message. */
struct fr_http_body {
    enum { FR_BODY_LENGTH, FR_BODY_CHUNKED, FR_BODY_TO_END } kind;
    enum { FR_CHUNK_SIZE, FR_CHUNK_EXTENSION, FR_CHUNK_DATA, FR_CHUNK_END, FR_CHUNK_TRAILER } at;
    uint64_t left;  /* of the body, or of the chunk */
    uint64_t taken; /* bytes consumed, chunk framing included */
    size_t line;    /* bytes of the current framing line */
    size_t framing; /* of extensions and the trailer: at most FR_HTTP_HEAD_MAX */
    bool cr;        /* the line ends: LF is next */
    bool named;     /* the line of the trailer has its ":" */
    bool over;      /* all of it came */
};

/* Begins a chunked body. */
void fr_http_body_chunked(struct fr_http_body *b);
/* Begins the body of a response. */
enum fr_rc fr_http_body_begin(struct fr_http_body *b, const struct fr_http_head *response,
                              struct fr_err *err);
/* Appends the content in `in` to out. Bytes after the body are not read: they begin at b->taken. */
enum fr_rc fr_http_body_feed(struct fr_http_body *b, struct fr_str in, struct fr_buf *out,
                             struct fr_err *err);

#endif
