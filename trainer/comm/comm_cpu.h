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

/* Compares what every rank is about to call; FR_PROTO names those that differ. All ranks call. */
enum fr_rc tr_comm_cpu_check(struct tr_comm *comm, const char *call, size_t bytes, const char *what,
                             struct fr_err *err);

/* Compares what every rank is about to send each other one with what that one takes. */
enum fr_rc tr_comm_cpu_check_slices(struct tr_comm *comm, const struct tr_alltoallv *x,
                                    struct fr_err *err);

#endif
