/* nodes --check: what a cluster under Slurm says of itself, and whether its inventory fits it. */
#ifndef FR_CLI_CLUSTER_H
#define FR_CLI_CLUSTER_H

#include "engine/exec/exec.h"
#include "engine/slurm/partitions.h"

#include <jansson.h>

struct cluster_finding; /* one, with its place in the file */

struct cli_cluster {
    const struct fr_spec *spec; /* borrows; with slurm: */
    struct fr_arena *arena;     /* borrows */
    struct fr_slurm_config config;
    struct fr_partitions partitions;
    struct cluster_finding *first, **last;
    struct fr_pos at[FR_SLURM_KEY_RPC + 1]; /* of the keys that findings are about now */
    bool pyxis;                             /* its srun has the plugin's options */
    bool known;                             /* the cluster has said all of it */
    bool *fits;                             /* of each allocation */
    bool bad;                               /* it cannot be used as the inventory says */
    size_t left;                            /* commands that have not ended */
    struct fr_cluster *cluster;
};

/* Asks the cluster, on that loop, for a minute at most. What is wrong is a finding, no error.
 * nodes: for the connection to its login node. */
enum fr_rc cli_cluster_check(struct cli_cluster *k, struct fr_loop *loop, struct fr_nodes *nodes,
                             struct fr_err *err);
void cli_cluster_print(const struct cli_cluster *k);
/* "allocation train: 4 nodes" */
void cli_print_size(const struct fr_allocation_spec *a);
json_t *cli_cluster_json(const struct cli_cluster *k); /* NULL: no memory */

#endif
