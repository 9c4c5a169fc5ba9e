/* Requests that wait until there is news of a run (?seq=N). */
#ifndef FR_ANSWER_LONG_POLL_H
#define FR_ANSWER_LONG_POLL_H

#include "engine/answer/call.h"

/* Whether the request is answered now: its run has an event behind seq, or it has waited for 25 s.
 * false and *rc FR_OK: it waits, c->res says so. */
bool long_poll_over(struct call *c, int64_t seq, enum fr_rc *rc, struct fr_err *err);
/* Asks those again for which there is news, or no time left. */
void long_poll_turn(struct fr_host *host);
int64_t long_poll_due(const struct fr_host *host); /* then; INT64_MAX: never */
void long_poll_forget(struct fr_host *host, const struct fr_api_waiter *w); /* it waits no more */
void long_poll_finish(struct fr_host *host);

#endif
