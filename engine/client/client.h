/*
 * HTTP/1.1 client for the host's API over the home's socket. Each request has its own connection
 * and is sent once.
 */
#ifndef FR_CLIENT_CLIENT_H
#define FR_CLIENT_CLIENT_H

#include "engine/loop/loop.h"
#include "engine/spec/spec.h"
#include "engine/web/sse.h"

struct cli_client;

/* Borrows loop, copies socket_path. Does not connect yet. */
enum fr_rc client_create(struct fr_loop *loop, const char *socket_path, struct cli_client **out,
                         struct fr_err *err);
void client_destroy(struct cli_client *c); /* closes all streams; NULL is fine */

struct client_request {
    const char *method;  /* "GET", "POST", "PUT", "DELETE" */
    const char *path;    /* "/api/v1/runs?limit=5", encoded */
    struct fr_str body;  /* JSON; empty: none */
    const char *range;   /* bytes: "0-99", "100-"; NULL: all */
    int64_t deadline_ms; /* longest time for the whole answer; 0: 30 s */
};

struct client_answer {
    int status;              /* of HTTP; 0: there was no answer */
    struct fr_buf body;      /* of a status below 400 */
    struct fr_issues issues; /* of a problem */
};

void client_answer_finish(struct client_answer *a);

/*
 * Sends req and turns the loop until the answer is complete. Never call it from a callback of the
 * loop. Zeroes *out first; the caller finishes *out in any case.
 *
 * FR_UNREACHABLE: nobody listens, or the host closed the connection early; the request may have had
 * its effect. FR_TIMEOUT: no answer in time. A problem document gives its own code, message and
 * issues. FR_PROTO: the answer is malformed.
 */
enum fr_rc client_ask(struct cli_client *c, const struct client_request *req,
                      struct client_answer *out, struct fr_err *err);

struct client_stream;
struct client_listener {
    void (*on_event)(void *arg, const struct fr_sse_event *e);
    /* Called once, last: the stream cannot be opened, broke, was ended by the host (FR_STOPPED), or
     * was silent for 40 s (FR_TIMEOUT). The connection is closed; the caller still closes s. */
    void (*on_end)(void *arg, const struct fr_err *why);
    void *arg;
};

/* Opens GET path, a stream of server-sent events. The listener is called from a turn of the loop,
 * never inside client_stream; its functions may close the stream, but not call client_ask. last_id:
 * of the newest event that was seen; NULL: none. */
enum fr_rc client_stream(struct cli_client *c, const char *path, const char *last_id,
                         const struct client_listener *listener, struct client_stream **out,
                         struct fr_err *err);
void client_stream_close(struct client_stream *s); /* no further calls; NULL is fine */
/* How long the stream may be silent, in place of 40 s. */
void client_stream_patience(struct client_stream *s, int64_t ms);

enum { CLI_LOOK_MS = 1000 }; /* how often a process that waits for the host calls the next one */
/* Whether the host of the home is stopped (Ctrl-Z, SIGSTOP): no run of the home goes on meanwhile.
 * *pid: of the host. */
bool cli_host_stopped(const char *home, int64_t *pid);

#endif
