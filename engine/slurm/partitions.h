/*
 * Whether a cluster under Slurm fits what an inventory asks of it, before any job is submitted:
 * what scontrol says of the cluster, and sinfo of its partitions. Pure. Tried with Slurm 22.05; the
 * fields of sinfo are those that 20.11 and 24.11 print alike.
 */
#ifndef FR_SLURM_PARTITIONS_H
#define FR_SLURM_PARTITIONS_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/slurm/commands.h"
#include "engine/spec/spec.h"

/* A partition, and those of its nodes that have the same GPUs. */
struct fr_partition_line {
    const char *name;
    bool preset;           /* jobs that name none go there */
    const char *avail;     /* "up", "down", "drain", "inactive" */
    int64_t limit_ms;      /* of a job; INT64_MAX: none */
    int64_t most;          /* nodes of a job; INT64_MAX: no limit */
    int64_t nodes, usable; /* of them neither down nor drained */
    const char *gres;      /* of each node: "gpu:a100:8(S:0-1)" */
};
struct fr_partitions {
    struct fr_partition_line *lines; /* those of one partition are not always together */
    size_t n;
};

const char *const *fr_sinfo_args(struct fr_arena *arena);
/* Of a sinfo that ended with status 0; texts in arena. FR_CORRUPT: it is no such output. */
enum fr_rc fr_sinfo_read(struct fr_str out, struct fr_arena *arena, struct fr_partitions *to,
                         struct fr_err *err);
/* How many GPUs of that type (NULL: of any) a node with that gres has. */
int64_t fr_gres_gpus(const char *gres, const char *type);

/* What was found out about an inventory: bad: no job of an allocation will run as it is. */
enum fr_slurm_key {
    FR_SLURM_KEY_NONE,
    FR_SLURM_KEY_PARTITION,
    FR_SLURM_KEY_TIME,
    FR_SLURM_KEY_NODES,
    FR_SLURM_KEY_GPUS,
    FR_SLURM_KEY_CONTAINER,
    FR_SLURM_KEY_WORK,
    FR_SLURM_KEY_PATH,
    FR_SLURM_KEY_RPC /* the last one */
};
struct fr_slurm_finding {
    bool bad;
    enum fr_slurm_key key;
    char text[400];
};
struct fr_slurm_sink {
    void (*found)(void *arg, const struct fr_slurm_finding *f);
    void *arg;
};

enum { FR_SLURM_OLDEST = 2011 }; /* version 20.11: the first whose srun has --overlap */
bool fr_slurm_too_old(const struct fr_slurm_config *c);
void fr_slurm_check_config(const struct fr_slurm_config *c, int rpc, struct fr_slurm_sink sink);
void fr_slurm_check_allocation(const struct fr_partitions *p, const struct fr_allocation_spec *spec,
                               struct fr_slurm_sink sink);

#endif
