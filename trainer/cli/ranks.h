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

/* What OMP_NUM_THREADS is for one of so many ranks of this machine: the user's word, else an equal
 * share of the processors this process may use. */
int64_t tr_rank_threads(int64_t ranks);

/* Appends a variable "NAME=VALUE", with the NUL after it. */
void tr_add_variable(struct fr_buf *own, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The environment of a process to start: ours, but for the variables in own, which come last. The
 * caller frees the array (fr_sys.free), whose texts are own's and ours. NULL: no memory. */
const char **tr_environment(const struct fr_buf *own);

/* Starts this program again, with the same arguments, where OMP_NUM_THREADS is not set: OpenMP
 * reads its variables when a program begins. Returns where it is set, or with an error. */
enum fr_rc tr_rank_like(int64_t ranks, const char *command, int argc, const char *const *argv,
                        struct fr_err *err);

/*
 * Likewise, and for all that this process starts, where nobody has said how threads wait. GNU's
 * OpenMP lets them spin for milliseconds, which takes the processor from the thread that is waited
 * for where there is other work; those that sleep at once (OMP_WAIT_POLICY=PASSIVE) have to be
 * woken for each small op. Here they spin for some 50 microseconds. argv: of this program. Where it
 * cannot be started again, a line says so and it goes on as it is.
 */
void tr_wait_briefly(char **argv);

#endif
