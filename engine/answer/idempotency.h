/*
 * Idempotency-Key: a repeated request with the same key and body within a day changes nothing and
 * gets the stored response; with another body it gets 422. Keys belong to their caller. The id of a
 * new run is derived from the key, so that concurrent requests, or one after a crash, begin one
 * run.
 */
#ifndef FR_ANSWER_IDEMPOTENCY_H
#define FR_ANSWER_IDEMPOTENCY_H

#include "engine/answer/call.h"

enum { KEY_MOST = 64 }; /* characters of a key */

/* Whether c->res is the response already: stored, or a refusal. */
bool idempotency_answered(struct call *c);
/* Stores the response, unless it is a fault of this host. */
void idempotency_keep(struct call *c);
/* The id for the run that this request begins; false: it has no key. */
bool idempotency_run(const struct call *c, char id[FR_ID_TEXT]);

#endif
