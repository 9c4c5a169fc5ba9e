/*
 * Inside the CPU communicator: the calls for a transport that is built on top of it.
 */
#ifndef TR_COMM_COMM_CPU_H
#define TR_COMM_COMM_CPU_H

#include "trainer/comm/comm.h"
#include "trainer/comm/control.h"

/* The control plane of a communicator that tr_comm_cpu made; borrowed. */
struct tr_control *tr_comm_cpu_control(struct tr_comm *comm);

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
