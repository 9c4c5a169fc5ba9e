/*
 * Calls of the CPU communicator for the transports built on top of it. Internal to trainer/comm.
 */
#ifndef TR_COMM_COMM_CPU_H
#define TR_COMM_COMM_CPU_H

#include "trainer/comm/comm.h"
#include "trainer/comm/control.h"

/* The control plane of a communicator that tr_comm_cpu made; borrowed. */
struct tr_control *tr_comm_cpu_control(struct tr_comm *comm);

/* A communicator of be's devices over host, that of the same ranks on the CPU: by NCCL, and through
 * the host's memory. It owns host; after a failure host is aborted and the caller's. */
enum fr_rc tr_comm_nccl_over(struct tr_backend *be, const struct tr_comm_opts *o,
                             struct tr_comm *host, struct tr_comm **out, struct fr_err *err);
enum fr_rc tr_comm_host_over(struct tr_backend *be, struct tr_comm *host, struct tr_comm **out,
                             struct fr_err *err);

/* A communicator of such a transport; self is `bytes` zeros. NULL: FR_NOMEM. */
struct tr_comm *tr_comm_over(struct tr_backend *be, const struct tr_comm_ops *ops,
                             struct tr_comm *host, size_t bytes, struct fr_err *err);
/* Ends the construction of comm with its result rc, which is returned. A failure aborts the host,
 * which stays the caller's, and destroys comm. */
enum fr_rc tr_comm_over_end(struct tr_comm *comm, enum fr_rc rc, struct tr_comm **out,
                            struct fr_err *err);

/* The number of the last data call over all communicators of this process. */
static inline int64_t tr_comm_seq(const struct tr_comm *comm)
{
    return comm->world != NULL ? comm->world->collectives : comm->collectives;
}

/* A data call, as checking mode compares it. */
struct tr_call {
    const char *name, *what;
    size_t bytes;
    const struct tr_alltoallv *slices; /* NULL: equal ones */
};

/* Checking mode: compares what the ranks of the communicator are about to call; first is the number
 * of its first rank in the world. FR_PROTO names those that differ. All its ranks call. */
enum fr_rc tr_comm_cpu_check(struct tr_control *control, const struct tr_comm *comm, int first,
                             const struct tr_call *call, struct fr_err *err);

#endif
