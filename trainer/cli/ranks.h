/* The device and the transport of this rank, chosen in the same way for train and probe. */
#ifndef TR_CLI_RANKS_H
#define TR_CLI_RANKS_H

#include "trainer/comm/comm.h"
#include "trainer/config/args.h"

struct tr_ranks {
    enum tr_device device;
    enum tr_transport transport; /* between GPUs; ranks on CPUs have one */
    struct tr_backend *be; /* out: the caller destroys both, comm first, also after an error */
    struct tr_comm *comm;
};

/* FR_USAGE: NCCL was asked for and the ranks are on CPUs. */
enum fr_rc tr_ranks_join(struct tr_ranks *r, const struct tr_comm_opts *o, struct fr_err *err);

#endif
