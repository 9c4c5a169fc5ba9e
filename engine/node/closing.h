/*
 * The end of a home: for a keeper, whose job ends. A closing is a serve without a connection. It
 * has the same view of supervisors and ends the attempts of dead ones in the same way.
 */
#ifndef FR_NODE_CLOSING_H
#define FR_NODE_CLOSING_H

#include "engine/node/serve.h"

#include <stdbool.h>
#include <stdint.h>

struct fr_closing;

/* Opens the home, which is made if it is missing. a is borrowed until fr_closing_end. */
enum fr_rc fr_closing_begin(const struct fr_serve_args *a, struct fr_closing **out,
                            struct fr_err *err);
void fr_closing_end(struct fr_closing *c); /* NULL is fine */

/* Does what is due, without waiting: attempts that have not started are given up, those whose
 * supervisor is dead are stopped. *live: attempts that may still have processes. */
enum fr_rc fr_closing_step(struct fr_closing *c, size_t *live, struct fr_err *err);

/* Attempts that asked for a notice of the end are stopped now, with the cause node_lost, and have
 * until kill_ms (mono_ms). */
void fr_closing_notice(struct fr_closing *c, int64_t kill_ms);
/* From now on ends all attempts by SIGKILL, with the cause node_lost. */
void fr_closing_kill(struct fr_closing *c);

/* How many attempts have ended and are not acknowledged by an engine. */
size_t fr_closing_unacked(const struct fr_closing *c);

/* Waits until until_ms (mono_ms) at most for the proof that no attempt has a process and no
 * supervisor lives; kills what it finds. FR_BUSY names what is left. Nobody may start an attempt
 * meanwhile. */
enum fr_rc fr_closing_prove(struct fr_closing *c, int64_t until_ms, struct fr_err *err);

/* How many attempts of the home may have processes; ends none. */
enum fr_rc fr_closing_count(const char *home, size_t *live, struct fr_err *err);
/* How many were launched and may have processes, or have ended and wait for an engine to fetch
 * their ends and logs. */
enum fr_rc fr_closing_owed(const char *home, size_t *owed, struct fr_err *err);

#endif
