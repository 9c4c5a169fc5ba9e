/*
 * The environment contract of torchrun (docs.pytorch.org, "torchrun"): RANK, LOCAL_RANK,
 * WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RESTART_COUNT,
 * TORCHELASTIC_RUN_ID, TORCHELASTIC_USE_AGENT_STORE. The variables of other launchers count if
 * RANK is unset (launchers.h). Without any variable the process is a world of one rank.
 *
 * Without MASTER_ADDR the rendezvous is on this machine if it has all ranks, under srun on the
 * first node of its list. Without MASTER_PORT the port is derived from the job's number.
 *
 * When an agent holds MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE=True) the ranks meet at
 * MASTER_PORT + 1 + (restart count mod 8). FLOWTRAIN_GENERATION is the engine's try of the gang.
 * FLOWTRAIN_LOCAL_SOCKS ("3,-1,5") has the sockets to the local ranks, made by our launcher.
 * TORCH_DISTRIBUTED_DEBUG=DETAIL turns checking mode on (comm.h).
 */
#ifndef TR_COMM_LAUNCH_ENV_H
#define TR_COMM_LAUNCH_ENV_H

#include "trainer/comm/comm.h"

/* Fills o; FR_USAGE names the variable that is wrong. tr_comm_opts_finish() afterwards. */
enum fr_rc tr_launch_env(struct tr_comm_opts *o, struct fr_err *err);
void tr_comm_opts_finish(struct tr_comm_opts *o);

#endif
