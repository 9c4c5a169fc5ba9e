/* The device memory that NCCL allocates for itself. */
#ifndef TR_COMM_NCCL_OWN_H
#define TR_COMM_NCCL_OWN_H

#include "trainer/comm/comm.h"

/*
 * Sets comm->own_bytes. room: tr_mem_room before the rendezvous. NCCL allocates buffers for each
 * channel and peer (NCCL_BUFFSIZE, 4 MiB, is one of several) at the first call of a kind. So this
 * function runs an all-gather and an all-to-all; own_bytes is the decrease of free memory. That is
 * an estimate: other processes may use the device as well. Source: NVIDIA NCCL documentation,
 * "Environment Variables". Errors: those of the collectives.
 */
enum fr_rc tr_nccl_own(struct tr_comm *comm, size_t room, struct fr_err *err);

#endif
