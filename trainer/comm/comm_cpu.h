/*
 * Calls of the CPU communicator for the transports built on top of it. Internal to trainer/comm.
 */
#ifndef TR_COMM_COMM_CPU_H
#define TR_COMM_COMM_CPU_H

#include "trainer/comm/comm.h"
#include "trainer/comm/control.h"

/* The control plane of a communicator that tr_comm_cpu made; borrowed. */
struct tr_control *tr_comm_cpu_control(struct tr_comm *comm);

/* Makes a communicator between the devices of be, by NCCL or by copies through host memory. host is
 * the CPU communicator of the same ranks; the new one owns it. After a failure host is aborted, and
 * the caller still owns it. */
enum fr_rc tr_comm_nccl_over(struct tr_backend *be, const struct tr_comm_opts *o,
                             struct tr_comm *host, struct tr_comm **out, struct fr_err *err);
enum fr_rc tr_comm_host_over(struct tr_backend *be, struct tr_comm *host, struct tr_comm **out,
                             struct fr_err *err);

/* Allocates the communicator of such a transport, with self a block of `bytes` zero bytes. NULL:
 * FR_NOMEM. */
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

/* Checking mode: compares the calls that the ranks of comm are about to make. All its ranks call.
 * first: the world's number of the first rank of comm. FR_PROTO names the ranks that differ. */
enum fr_rc tr_comm_cpu_check(struct tr_control *control, const struct tr_comm *comm, int first,
                             const struct tr_call *call, struct fr_err *err);

#endif
