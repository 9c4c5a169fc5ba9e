/* The device memory that NCCL allocates for itself. */
#ifndef TR_COMM_NCCL_OWN_H
#define TR_COMM_NCCL_OWN_H

#include "trainer/comm/comm.h"

/*
 * Fills in comm->own_bytes. room: tr_mem_room before the ranks met. NCCL has buffers for each
 * channel and peer (NCCL_BUFFSIZE, 4 MiB, is one kind of several) and makes those of a kind of call
 * when it is first made, so it runs an all-gather and an all-to-all: own_bytes is the free memory
 * that is gone afterwards, an estimate, since other processes may use the device as well. Source:
 * NVIDIA NCCL documentation, "Environment Variables". Errors: those of the collectives.
 */
enum fr_rc tr_nccl_own(struct tr_comm *comm, size_t room, struct fr_err *err);

#endif
