/*
 * The nodes of an inventory, and the allocations of Slurm that some of them are places of. Plain
 * data of a spec, in its arena.
 */
#ifndef FR_SPEC_INVENTORY_H
#define FR_SPEC_INVENTORY_H

#include "engine/spec/expr.h"

struct fr_kv {
    const char *name; /* NULL in lists */
    struct fr_text value;
};

enum fr_become { FR_BECOME_INHERIT /* a task: as its node */, FR_BECOME_NONE, FR_BECOME_SUDO };
enum fr_executor { FR_EXECUTOR_LOCAL, FR_EXECUTOR_SSH, FR_EXECUTOR_SLURM };
enum fr_via { FR_VIA_AUTO, FR_VIA_LIBSSH2, FR_VIA_OPENSSH };

struct fr_keep {
    int days;      /* ended attempts and unused shipped files stay so long on a node; 0: not */
    int64_t bytes; /* beyond it the oldest go; 0: no limit */
};

struct fr_connect {
    int64_t timeout_ms;   /* of one try: until flownode answers; default 60 s */
    int64_t retry_for_ms; /* a task whose node is not there for so long fails with the cause
                             unreachable; default 2 min; 0: it waits for ever */
};

/* What the keepers of an allocation, and so all of its tasks, run in. */
struct fr_slurm_container {
    struct fr_pos pos; /* of the image, or of the key */
    const char *pyxis,
        *apptainer;            /* the image of the one that starts it; both NULL: no container */
    const char *program;       /* apptainer: its name or absolute path; NULL where pyxis */
    const char *const *mounts; /* "/HERE", "/HERE:/THERE", "/HERE:/THERE:ro" */
    size_t n_mounts;
};

/*
 * One named allocation of a cluster under Slurm. A run takes it when a task needs one of its nodes,
 * and gives it back. Its nodes are places: NAME1 … NAMEn of fr_spec.nodes, in a row from first on,
 * with the label NAME. Which host is at a place is known while the allocation runs. With copies,
 * each place has an allocation of its own, of one node: an element of an array.
 */
struct fr_allocation_spec {
    const char *name;
    struct fr_pos pos;
    /* Of the keys' values; that of the name where the key is not there. */
    struct fr_pos partition_pos, time_pos, nodes_pos, gpus_pos;
    int first;             /* index of its first place in fr_spec.nodes */
    int nodes;             /* of one allocation, 1..4096; default 1 */
    int copies;            /* allocations, 1..100000, of one node each; 0: it is one allocation */
    const char *partition; /* a list is allowed; NULL, here and below: Slurm's default */
    const char *account, *qos, *reservation, *constraint;
    int64_t time_ms;      /* its limit, required; asked for in whole minutes, rounded up */
    int gpus;             /* of each node; 0: none */
    const char *gpu_type; /* "a100"; NULL: any */
    int cpus;             /* of each node; 0: Slurm's default */
    int64_t memory;       /* bytes of each node; 0: Slurm's default, all of it where exclusive */
    bool exclusive;       /* no other job on its nodes */
    int64_t idle_ms;      /* given back after so long without use; default 2 min */
    int64_t
        lease_ms; /* ends itself when nothing ran and no flowrun came for so long; default 30 min */
    int64_t queue_for_ms; /* given up when it has waited in the queue for so long; 0: never */
    int chain;            /* further ones for what its limit or a preemption ended, beside retry: */
    struct fr_slurm_container container;
    const char *const *options; /* further ones of sbatch, "--licenses=x" */
    size_t n_options;
};

/* How many places it has. */
static inline int fr_allocation_places(const struct fr_allocation_spec *a)
{
    return a->copies > 0 ? a->copies : a->nodes;
}

struct fr_node;

/* A cluster under Slurm. sbatch, squeue, srun, scancel and scontrol run on its login node, … */
struct fr_slurm_spec {
    struct fr_pos pos, work_pos, path_pos, rpc_pos;
    const struct fr_node *login; /* … named "login"; NULL: on this machine */
    const char *work;            /* absolute: a folder that it and the compute nodes share */
    const char *account;         /* of allocations that name none; NULL */
    const char *path;            /* a folder in front of PATH for Slurm's commands; NULL */
    int rpc;                     /* commands a minute that ask slurmctld, 1..60; default 12 */
    int max_jobs;                /* jobs of Slurm at once, 1..100000; default 500 */
    const struct fr_allocation_spec *allocations; /* at least 1, in the file's order */
    size_t n_allocations;
};

struct fr_node {
    const char *name;
    struct fr_pos pos;
    enum fr_executor executor;
    enum fr_via transport;
    const char *address;     /* host name or IP; "127.0.0.1" for a local node without one */
    const char *user;        /* NULL: ~/.ssh/config or the caller's name */
    int port;                /* 0: ~/.ssh/config or 22 */
    const char *key;         /* absolute path of a private key; NULL: agent and defaults */
    const char *known_hosts; /* absolute path; NULL: ~/.ssh/known_hosts */
    const char *ssh_config;  /* absolute path; NULL: ~/.ssh/config */
    const char *work; /* on it: "/x"; "~/x" and "x" are below its home; NULL: chosen there. Of a
                         place WORK/work/NAME, the same in each of its jobs */
    int allocation;   /* FR_EXECUTOR_SLURM: index of its allocation */
    int place;        /* likewise: 1, 2, … in it */
    int chain;        /* likewise: that of its allocation */
    int gpus;
    int slots; /* instances at once, weighted by their slots; default 8 */
    const char *const *labels;
    size_t n_labels;
    enum fr_become become; /* NONE or SUDO */
    struct fr_keep keep;
    struct fr_connect connect;
    const struct fr_kv *env; /* plain texts; weaker than the task's env */
    size_t n_env;
};

const char *fr_executor_name(const struct fr_node *node); /* "ssh"; NULL, control: "local" */

#endif
