/*
 * Allocations of clusters under Slurm (slurm/allocation.h): one row for each, which is written
 * before Slurm is asked for what it says. Of a run, name and copy the one
 * that is not over counts, else the one that ended last: a copy may go to another place.
 */
#ifndef FR_STORE_ALLOCATIONS_H
#define FR_STORE_ALLOCATIONS_H

#include "engine/store/store.h"

#define FR_ALLOCATION_COLUMNS(C, S, R)                                                             \
    C(R, INT, id, "id")             /* set by fr_store_allocation_add */                           \
    C(R, ID, run, NULL)             /* whose it is */                                              \
    C(R, TEXT, name, "name")        /* of the inventory */                                         \
    S(R, INT, copy, "copy")         /* with copies: 1, 2, …, which one; 0: it has none */        \
    S(R, INT, no, "no")             /* 1, 2, … of that run, name and copy */                     \
    S(R, TEXT, tag, "tag")          /* 32 digits: the job's name is fr-TAG (slurm/commands.h) */   \
    S(R, TEXT, folder, NULL)        /* WORK/alloc/TAG; "": removed */                              \
    C(R, TEXT, path, NULL)          /* of Slurm's commands; "": PATH */                            \
    C(R, TEXT, login, NULL)         /* the login node of these, as JSON; "": they run here */      \
    C(R, INT, rpc, NULL)            /* commands a minute */                                        \
    S(R, TEXT, program, NULL)       /* WORK/bin/flownode-HASH */                                   \
    S(R, TEXT, cluster, "cluster")  /* ClusterName, as Slurm says it; "": not known yet */         \
    C(R, INT, nodes, "nodes")       /* it asks for so many; 0: taken by an older flowrun */        \
    C(R, INT, time_ms, "time_ms")   /* its limit, as asked for */                                  \
    C(R, INT, lease_ms, "lease_ms") /* it ends itself after so long without use */                 \
    S(R, ALLOCATION_STATE, state, "state")                                                         \
    S(R, INT, job, "job")            /* Slurm's id, of the whole array; 0: not known */            \
    S(R, INT, element, "element")    /* 1 + its index in the array; 0: it is a job by itself */    \
    S(R, INT, submits, "submits")    /* how often sbatch was started */                            \
    S(R, TEXT, slurm, "slurm_state") /* Slurm's word: PENDING, RUNNING, … */                     \
    S(R, TEXT, reason, "reason")     /* Slurm's word for why it waits or has ended */              \
    S(R, TEXT, hosts, "hosts")       /* of its places, a word each */                              \
    S(R, INT, estimate_wall, "estimate_wall")   /* Slurm's guess of its start; 0: none */          \
    S(R, INT, submitted_wall, "submitted_wall") /* sbatch ended */                                 \
    S(R, INT, start_wall, "start_wall")         /* it began to run */                              \
    S(R, INT, end_wall, "end_wall")             /* its limit, as Slurm says it */                  \
    S(R, INT, ended_wall, "ended_wall")                                                            \
    S(R, CAUSE, cause, "cause")         /* of the attempts that lived in it, once it is over */    \
    S(R, BOOL, proven, NULL)            /* no process of it is left */                             \
    S(R, TEXT, note, "note")            /* why it is over, or what Slurm refused */                \
    S(R, INT, elapsed_ms, "elapsed_ms") /* it ran so long, as Slurm says; 0: not known */          \
    S(R, ACCOUNTING, accounting, "accounting") /* wanted, known, missing; "": there is none */     \
    S(R, TEXT, exit_state, "exit_state")       /* to accounting: CANCELLED by 1000 */              \
    S(R, INT, max_rss, "max_rss")              /* bytes, of its largest task; 0: not known */      \
    S(R, INT, energy_j, "energy_j")            /* joules; 0: not known */                          \
    S(R, TEXT, tres, "tres")                   /* what it had: cpu=2,gres/gpu=4,node=2 */
FR_ROWS(fr_allocation, FR_ALLOCATION_COLUMNS);

/* In a transaction of the caller. */
enum fr_rc fr_store_allocation_add(struct fr_store *st, struct fr_allocation_row *row,
                                   struct fr_err *err);
enum fr_rc fr_store_allocation_set(struct fr_store *st, const struct fr_allocation_row *row,
                                   struct fr_err *err);
/* Those of a run, the oldest first; and of all runs those that are not over, whose folder may be
 * there, or whose accounting is wanted. */
enum fr_rc fr_store_allocations(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                                struct fr_allocation_rows *out, struct fr_err *err);
enum fr_rc fr_store_allocations_open(struct fr_store *st, struct fr_arena *arena,
                                     struct fr_allocation_rows *out, struct fr_err *err);

#endif
