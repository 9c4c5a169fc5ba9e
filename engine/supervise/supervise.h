/* clang-format off */
/*
 * A supervisor: the process that is parent of an attempt's command. It holds the attempt's lock
 * and its output, enforces time-out, lease and stop, and goes on without a connection. It has
 * one attempt at a time. Once no process of the attempt is left, it can take the next one from the
 * serve that started it, which costs less than a new process. Its body uses only fr_sys and keeps
 * its state in its own frames, so that the simulator can run many.
 *
 *   waiting   the attempt is prepared (folder, files, port); go has to come within
 *             FR_PREPARED_EXPIRES_MS, else it ends as start_failed
 *   running   the journal has LAUNCHED, and the command runs
 *   leaving   the command ended, or is being stopped; its remaining processes are stopped
 *             (SIGTERM, grace, SIGKILL)
 *   closing   the same for sidecars and all other processes; then outputs, log and ENDED
 *
 * Over its sockets (the one it was started with; HOME/s/SOCKET_ID, which LAUNCHED names; and
 * HOME/s/ATTEMPT while it waits for go) it takes go, stop and leased, and sends prepared, launched
 * and grew. A later connection first gets STATE, which names the attempt. No message carries the
 * end: the journal has it, and the socket closes or STATE follows.
 */
/* clang-format on */
#ifndef FR_SUPERVISE_SUPERVISE_H
#define FR_SUPERVISE_SUPERVISE_H

#include "engine/base/err.h"
#include "engine/wire/wire.h"

/* The arguments of a new supervisor process. */
struct fr_supervisor_args {
    const char *home;
    struct fr_id socket_id; /* a new id: names its listening socket, and its cgroup */
    const char *cgroup;     /* of fr_cgroup_path, made for it alone; "": none */
};

struct fr_supervise {
    struct fr_str home, self; /* the node's home; the flownode program, for FR_ARGV_FLOWNODE */
    struct fr_str boot;
    uint64_t journal_at;    /* the attempt's records begin here or later */
    int64_t lease_from_ms;  /* boot_ms when prepare was taken */
    struct fr_strs environ; /* fr_environ_base */
    struct fr_prepare prepare;
};

/*
 * Starts a supervisor's process, detached; *sock is this side of its socket (the caller's to
 * close). The process takes an attempt by a HANDOVER message. When the attempt is over, it sends
 * STATE and takes the next one, or closes the socket if it takes no other. It ends when the socket
 * is closed and it has no attempt, and removes its cgroup.
 */
enum fr_rc fr_supervisor_start(const struct fr_supervisor_args *a, int *sock, struct fr_err *err);

/* The body of a process for one attempt alone: the shim's, in a container. Takes over sock. Returns
 * 0, or 1 if the attempt could not begin. */
int fr_supervise_run(const struct fr_supervise *s, int sock);

/* An attempt as the bytes of HANDOVER, and as the whole message. */
void fr_supervise_put(const struct fr_supervise *s, struct fr_buf *out);
enum fr_rc fr_supervise_message(const struct fr_supervise *s, struct fr_buf *out,
                                struct fr_err *err);
enum fr_rc fr_supervise_get(struct fr_str bytes, struct fr_arena *arena, struct fr_supervise *s,
                            struct fr_err *err);

#endif
