/*
 * Requests that change something and come with a key (Idempotency-Key): a second one with the same
 * key and body, within a day, changes nothing and gets the same answer; with another body, 422.
 * Keys are those of their caller. A run that is begun has its id by the key, so that two requests
 * at once, or one behind a crash, begin one run.
 */
#ifndef FR_ANSWER_IDEMPOTENCY_H
#define FR_ANSWER_IDEMPOTENCY_H

#include "engine/answer/call.h"

enum { KEY_MOST = 64 }; /* characters of a key */

/* Whether the request was answered before, or is refused: then c->res is the answer. */
bool idempotency_answered(struct call *c);
/* Keeps the answer; a fault of this host is none. */
void idempotency_keep(struct call *c);
/* The id of a run that this request begins; false: it has no key. */
bool idempotency_run(const struct call *c, char id[FR_ID_TEXT]);

#endif
