/*
 * The control plane: rendezvous, heartbeats, host collectives and aborts. Rank 0 listens on
 * MASTER_ADDR:MASTER_PORT; every other rank connects and sends a hello. When all have joined, rank
 * 0 sends every rank the table of ranks. The connections stay open: a thread in each process sends
 * a heartbeat every second, carries small host collectives, and forwards an abort. A closed
 * connection ends all ranks within seconds. A silent rank is reported after 10 s and ends the run
 * at timeout_ms.
 *
 * The job hash (size, generation, run id) keeps ranks of an older try out.
 */
#ifndef TR_COMM_CONTROL_H
#define TR_COMM_CONTROL_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_CONTROL_HOST = 64, TR_CONTROL_WHAT = 64 };

/* One row of the table of ranks. */
struct tr_peer {
    struct sockaddr_in6 data; /* address for data connections; IPv4 is mapped */
    char host[TR_CONTROL_HOST];
    int node, local_rank;
};

struct tr_control_opts {
    int rank, size, node, local_rank;
    const char *addr;   /* MASTER_ADDR: name or address */
    int port;           /* MASTER_PORT */
    int data_port;      /* port of this rank for data connections */
    uint64_t job;       /* hash that all ranks must share */
    int64_t join_ms;    /* time limit of the rendezvous */
    const int *stop_fd; /* readable: the rendezvous ends with FR_STOPPED; NULL: none */
    int64_t timeout_ms; /* --ddp_timeout */
    int exit_code;      /* of a process whose main thread does not react to an abort in time */
};

struct tr_control;

/* Returns when all ranks have joined. FR_TIMEOUT names the missing ranks; FR_BUSY: the port is in
 * use; FR_PROTO: the reason why rank 0 refused this rank. */
enum fr_rc tr_control_join(const struct tr_control_opts *opts, struct tr_control **out,
                           struct fr_err *err);

/* Sends a goodbye and stops the thread. The others go on without this rank. NULL is fine. */
void tr_control_leave(struct tr_control *c);

/* The table of ranks, `size` rows, borrowed. */
const struct tr_peer *tr_control_peers(const struct tr_control *c);

/* all (size*bytes) = every rank's mine (bytes). Blocks; bytes are equal on all ranks. FR_OK when
 * all parts have arrived, even if a rank failed afterwards: the next call returns that error. */
enum fr_rc tr_control_all_gather(struct tr_control *c, void *all, const void *mine, size_t bytes,
                                 struct fr_err *err);

/* Checking mode: returns when every rank of the communicator that call (a tr_announced_call and its
 * numbers, collective_check.h) names is about to do the same, whatever became of others since.
 * FR_PROTO on all ranks when they are not. */
enum fr_rc tr_control_agree(struct tr_control *c, struct fr_str call, struct fr_err *err);

/* Sets the current collective of this rank, for messages of other ranks; what NULL: none. */
void tr_control_note(struct tr_control *c, int64_t seq, const char *what);

/* Ends all ranks with this reason. */
void tr_control_abort(struct tr_control *c, enum fr_rc rc, const char *why);

/* Appends to out the ranks whose last heartbeat has an earlier collective than this rank; returns
 * their number. Rank 0 receives the heartbeats of all ranks, other ranks that of rank 0. */
size_t tr_control_behind(struct tr_control *c, struct fr_buf *out);

/* FR_OK, or the error that ends the run. Cheap enough for every waiting loop. */
enum fr_rc tr_control_check(struct tr_control *c, struct fr_err *err);

#endif
