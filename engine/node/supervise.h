/*
 * A supervisor: the process that is parent of one attempt's command. It holds the attempt's lock
 * and its output, enforces time-out, lease and stop, and goes on when nobody is connected. Its body
 * asks the machine only through fr_sys and keeps no state outside its own frames, so that the
 * simulator can run many.
 *
 *   waiting   prepared (files, folder, port); go within FR_PREPARED_EXPIRES_MS, else start_failed
 *   running   the journal has LAUNCHED, the command runs
 *   leaving   the command ended, or is being stopped: what is left of its tree is stopped (SIGTERM,
 * grace, SIGKILL) closing   the same for sidecars and whatever else there is; then outputs, the end
 * of the log, ENDED
 *
 * Over its sockets (the one it was born with, and HOME/s/ATTEMPT) it takes go, stop, leased, and
 * tells prepared, launched, grew. An end is not told: the socket closes and the journal has it.
 */
#ifndef FR_NODE_SUPERVISE_H
#define FR_NODE_SUPERVISE_H

#include "engine/base/err.h"
#include "engine/wire/wire.h"

struct fr_supervise {
    struct fr_str home, self; /* the node's home; the flownode program, for FR_ARGV_FLOWNODE */
    struct fr_str boot;
    uint64_t journal_at;    /* the attempt's records begin here or later */
    int64_t lease_from_ms;  /* boot_ms when prepare was taken */
    struct fr_strs environ; /* fr_environ_base */
    struct fr_prepare prepare;
};

/* Starts the supervisor detached; *sock is this side of its first socket (the caller's to close).
 */
enum fr_rc fr_supervise_start(const struct fr_supervise *s, int *sock, struct fr_err *err);

/* What the detached process runs; also the shim's body in a container. sock -1: none yet.
 * Returns 0, or 1 when it could not even begin. */
int fr_supervise_run(const struct fr_supervise *s, int sock);

/* The same as bytes: for handing it to a process that was not forked (the shim). */
void fr_supervise_put(const struct fr_supervise *s, struct fr_buf *out);
enum fr_rc fr_supervise_get(struct fr_str bytes, struct fr_arena *arena, struct fr_supervise *s,
                            struct fr_err *err);

#endif
