/* Long polling: requests that wait for an event of a run (?seq=N). */
#ifndef FR_ANSWER_LONG_POLL_H
#define FR_ANSWER_LONG_POLL_H

#include "engine/answer/call.h"

/* Whether to respond now: the run has an event after seq, or 25 s have passed. false and *rc FR_OK:
 * the request waits, and c->res is FR_API_LATER. */
bool long_poll_over(struct call *c, int64_t seq, enum fr_rc *rc, struct fr_err *err);
/* Repeats the requests whose run has an event, or whose time is over. */
void long_poll_turn(struct fr_host *host);
int64_t long_poll_due(const struct fr_host *host); /* mono_ms; INT64_MAX: never */
void long_poll_forget(struct fr_host *host, const struct fr_api_waiter *w); /* w no longer waits */
void long_poll_finish(struct fr_host *host);

#endif
