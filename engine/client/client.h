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
    const char *range;   /* "0-99", "100-"; NULL: none */
    int64_t deadline_ms; /* for the whole answer; 0: 30 s */
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
    /* Once: it cannot be opened, it broke, the host ended it (FR_STOPPED), or no byte came for 40 s
     * (FR_TIMEOUT). Closed by then. */
    void (*on_end)(void *arg, const struct fr_err *why);
    void *arg;
};

/* Opens GET path, a stream of server-sent events. Calls come from the loop's turn, never from
 * inside this one; both may close the stream, neither may ask. last_id: NULL, or where to go on. */
enum fr_rc client_stream(struct cli_client *c, const char *path, const char *last_id,
                         const struct client_listener *listener, struct client_stream **out,
                         struct fr_err *err);
void client_stream_close(struct client_stream *s); /* no further calls; NULL is fine */
/* In place of 40 s. */
void client_stream_patience(struct client_stream *s, int64_t ms);

/* Whether the host of the home is stopped (Ctrl-Z, SIGSTOP): then nothing of the home goes on.
 * *pid: its. Who waits for the host looks so often. */
enum { CLI_LOOK_MS = 1000 };
bool cli_host_stopped(const char *home, int64_t *pid);

#endif
