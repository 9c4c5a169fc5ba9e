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

/* What OMP_NUM_THREADS and OMP_WAIT_POLICY are for one of so many ranks of this machine: the user's
 * word, else an equal share of the processors this process may use, and PASSIVE: ranks share
 * processors, so that a thread that waits must not spin. */
int64_t tr_rank_threads(int64_t ranks);
const char *tr_rank_waits(void);

/*
 * Starts this program again, with the same arguments, where OpenMP is not set up as for one of so
 * many ranks of this machine: it reads its variables when a program begins. Returns where it is, or
 * with an error.
 */
enum fr_rc tr_rank_like(int64_t ranks, const char *command, int argc, const char *const *argv,
                        struct fr_err *err);

#endif
