/* Requests to the home's host over its socket, and who writes to the home. All calls block. */
#ifndef FR_CLIENT_ASK_H
#define FR_CLIENT_ASK_H

#include "engine/base/json.h"
#include "engine/spec/spec.h"
#include "engine/store/store.h"

struct cli_question {
    const char *method;  /* "GET", "POST", "PUT", "DELETE" */
    json_t *body;        /* cli_ask() drops it; NULL: none */
    json_t **answer;     /* the answer, for the caller to drop; NULL: not wanted */
    struct fr_buf *text; /* or the answer's bytes, for the caller to finish; NULL: not wanted */
    int64_t deadline_ms; /* for the answer; 0: 30 s */
};

/* The secrets of spec that come from environment variables of this process: a new object {VARIABLE:
 * value}, which the caller drops. */
json_t *cli_secrets(const struct fr_spec *spec);
json_t *cli_agent(void); /* path of the ssh agent's socket, to drop; NULL: none */

/* Sends one request to the host of home (NULL: the home of this process). path is a format, such as
 * "/api/v1/runs/%s". FR_UNREACHABLE: there is no host, or it ended before it answered. FR_DENIED,
 * FR_UNSUPPORTED: this process may not ask the host. Otherwise the host's own code and message. */
enum fr_rc cli_ask(const char *home, const struct cli_question *q, struct fr_err *err,
                   const char *path, ...) __attribute__((format(printf, 4, 5)));
/* Sends POST /api/v1/runs/RUN/WHAT to the host of the store's home. Drops body. */
enum fr_rc cli_ask_run(struct fr_store *st, struct fr_id run, const char *what, json_t *body,
                       struct fr_err *err);
/* FR_OK: there is a host that this process may ask. Errors as of cli_ask(). */
enum fr_rc cli_may_ask(const char *home, struct fr_err *err);

/* Who writes to the home: its host, or this process, which is the host while the writer is open. */
struct cli_writer {
    struct fr_store *st;
    int lock_fd; /* the home's lock; -1: the host writes, and st is for reading. -1 to start */
};
/* If another process is the host, waits up to 10 s until that process listens. */
enum fr_rc cli_writer_open(struct cli_writer *w, struct fr_err *err);
void cli_writer_close(struct cli_writer *w);

struct cli_client; /* client.h */
struct client_request;
struct client_answer;
/* Sends req with body as JSON on c. Drops body. The caller finishes *answer in any case. */
enum fr_rc cli_request(struct cli_client *c, struct client_request *req, json_t *body,
                       struct client_answer *answer, struct fr_err *err);

#endif
