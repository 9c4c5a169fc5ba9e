/*
 * The rank and world size of this process, from the variables of its launcher.
 *
 * The first launcher whose rank or size is set counts, in this order:
 *
 *   torchrun    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
 *   Open MPI    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
 *   MVAPICH2    MV2_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
 *   MPICH, Intel MPI, PALS   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS or
 *               PMI_LOCAL_RANK, PMI_LOCAL_SIZE
 *   Slurm       a task of srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NODEID,
 *               SLURM_STEP_NUM_NODES, SLURM_STEP_TASKS_PER_NODE
 *
 * LOCAL_RANK and LOCAL_WORLD_SIZE count for every launcher. Values that the first launcher lacks
 * come from another one with the same rank and size. The script of a Slurm job and the shell of
 * salloc are one process, whatever the job's number of tasks. Sources: docs.open-mpi.org,
 * "Environment variables that Open MPI sets"; the manual pages sbatch(1) and srun(1), "OUTPUT
 * ENVIRONMENT VARIABLES"; what mpiexec of MPICH 4.0 and Slurm 22.05 set.
 */
#ifndef TR_COMM_LAUNCHERS_H
#define TR_COMM_LAUNCHERS_H

#include "engine/base/err.h"

struct tr_launched {
    const char *rank_name, *size_name; /* the variables of rank and size; NULL: no launcher */
    int rank, size, local_rank, local_size;
    int node, nodes;  /* -1: unknown */
    char addr[256];   /* the machine of rank 0; "": unknown */
    int port;         /* a port derived from the job, so that jobs rarely share one; 0: unknown */
    char job[64];     /* id of the launcher's job; "": unknown */
    int script_tasks; /* above 1: this process is the script of a Slurm job of so many tasks */
};

/* One number of the environment under several names; the first name that is set counts. */
struct tr_env_int {
    const char *names[3];
    int preset, low, high;
};

/* name: the variable that was set, NULL: none; may be NULL. FR_USAGE names the variable. */
enum fr_rc tr_env_int(const struct tr_env_int *e, int *out, const char **name, struct fr_err *err);

/* FR_USAGE: the variables are wrong, contradict each other or do not suffice; names what to set. */
enum fr_rc tr_launched(struct tr_launched *out, struct fr_err *err);

#endif
