/*
 * Reads a stream of server-sent events (WHATWG HTML, 9.2.6), given in pieces of any size. Pure.
 * Comments are skipped; an event that the end of the stream cuts is not delivered. A name or an id
 * with a NUL is ignored.
 */
#ifndef FR_WEB_SSE_H
#define FR_WEB_SSE_H

#include "engine/base/str.h"

enum { FR_SSE_MAX = 1 << 20 }; /* bytes of one event */

struct fr_sse_event {
    const char *event; /* "message" when it is not named */
    struct fr_str data;
    const char *id; /* the last that came, of this event or an earlier one; "" before */
};

struct fr_sse { /* zero it to start */
    struct fr_buf line, data, event, id;
    int64_t retry_ms; /* the last that came; 0: none */
    bool begun, after_cr;
};

/* Calls fn for each event that p completes. FR_FULL: an event is too long; FR_NOMEM. After an error
 * the parser cannot continue. */
enum fr_rc fr_sse_feed(struct fr_sse *s, struct fr_str p,
                       void (*fn)(void *arg, const struct fr_sse_event *e), void *arg,
                       struct fr_err *err);
void fr_sse_finish(struct fr_sse *s);

#endif
