/* Asking the home's host. */
#ifndef FR_CLIENT_ASK_H
#define FR_CLIENT_ASK_H

#include "engine/base/json.h"
#include "engine/spec/spec.h"
#include "engine/store/store.h"

struct cli_question {
    const char *method, *path; /* "POST", "/api/v1/runs" */
    json_t *body;              /* borrows; NULL: none */
    int64_t deadline_ms;       /* for the answer; 0: 30 s */
};
/* The secrets of variables that this shell has, by the variable's name: for the host. */
json_t *cli_secrets(const struct fr_spec *spec);
json_t *cli_agent(void); /* the socket of its ssh agent; NULL: it has none */

/* One request to the host of home. FR_UNREACHABLE: it has none, or it went; else what the host
 * answers, and FR_DENIED or FR_UNSUPPORTED where this process may not ask it. *answer: the caller's
 * to drop; NULL: not wanted. */
enum fr_rc cli_ask(const char *home, const struct cli_question *q, json_t **answer,
                   struct fr_err *err);
/* The same; what it answers is appended to answer as it came. */
enum fr_rc cli_ask_text(const char *home, const struct cli_question *q, struct fr_buf *answer,
                        struct fr_err *err);
/* Whether there is a host that this process may ask, likewise. */
enum fr_rc cli_may_ask(const char *home, struct fr_err *err);

/* Who writes to the home: this process, which is its host meanwhile, or the host that there is. */
struct cli_writer {
    struct fr_store *st;
    int lock_fd; /* -1: the host writes */
};
enum fr_rc cli_writer_open(struct cli_writer *w, struct fr_err *err);
void cli_writer_close(struct cli_writer *w);
/* Asks the host for it: rest is of the path behind the run. Drops body. */
enum fr_rc cli_writer_ask(const struct cli_writer *w, const char *method, struct fr_id run,
                          const char *rest, json_t *body, struct fr_err *err);

struct cli_client; /* client.h: one request on it; *answer is to be finished in any case */
struct client_answer;
enum fr_rc cli_question(struct cli_client *c, const struct cli_question *q,
                        struct client_answer *answer, struct fr_err *err);

#endif
